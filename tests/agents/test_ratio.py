"""Before any update the trainer agrees with the sampler, and the ratio is 1."""

import numpy as np
import pytest
import torch

from agents.engine import TorchEngine
from agents.policy import Policy
from agents.rollout import collect
from agents.sampling import Sampling, log_distribution
from agents.scoring import LogprobMismatchError, score_rollout, score_rows
from tests.agents.small import EOS, MODELS, gpt2, iterate, llama, make_agent, make_env, random_prefixes


def test_ratio_is_exactly_one_when_the_batch_is_composed_as_it_was_scored():
    agent = make_agent(recompute_logprobs=True, minibatches=1)
    batch = agent.score(agent.collect())
    rows = batch.rollout.lengths.argsort(stable=True)
    again = score_rows(agent.policy, batch.rollout, rows).logprobs.detach()
    assert len(set(batch.rollout.prompt_lengths.tolist())) > 3
    assert torch.equal(again[batch.mask[rows]], batch.old_logprobs[rows][batch.mask[rows]])
    assert agent.step(batch, torch.arange(8))["val/ratio"] == 1.0


@pytest.mark.parametrize("recompute", [True, False])
@pytest.mark.parametrize("micro_batch", [1, 2, 3, 64])
def test_ratio_is_one_within_1e_5_however_minibatches_are_composed(micro_batch, recompute):
    agent = make_agent(recompute_logprobs=recompute, micro_batch=64)
    batch = agent.score(agent.collect())
    object.__setattr__(agent.config, "micro_batch", micro_batch)
    for rows in torch.randperm(8, generator=torch.Generator().manual_seed(1)).split(3):
        for piece in rows.split(micro_batch):
            logprobs = score_rows(agent.policy, batch.rollout, piece).logprobs.detach()
            n = logprobs.shape[1]
            mask = batch.mask[piece, :n]
            difference = (logprobs - batch.old_logprobs[piece, :n]).masked_fill(~mask, 0.0).abs().max()
            assert float(difference) < 1e-5
    assert int(batch.mask.any(1).sum()) > 4
    stats = agent.step(batch, batch.mask.any(1).nonzero()[:3, 0])
    assert stats["val/ratio"] == pytest.approx(1.0, abs=1e-5)
    assert stats["policy/outside_fraction"] == 0.0


def test_ratio_stays_one_in_every_epoch_at_a_learning_rate_of_almost_zero():
    logged = []
    agent = make_agent(
        optimizer__learning_rate=1e-30, critic__learning_rate=1e-30, epochs=3, minibatches=4, micro_batch=2
    )
    agent.on_iteration = lambda agent, metrics, batch: logged.append(metrics)
    iterate(agent, 2)
    for metrics in logged:
        assert metrics["val/ratio"] == pytest.approx(1.0, abs=1e-5)
        assert metrics["val/ratio_first"] == pytest.approx(1.0, abs=1e-5)
        assert metrics["val/ratio_var"] < 1e-10
        assert metrics["policy/approxkl_avg"] == pytest.approx(0.0, abs=1e-10)


def test_ratio_leaves_one_after_an_update():
    agent = make_agent(optimizer__learning_rate=1e-2)
    batch = agent.score(agent.collect())
    agent.step(batch, torch.arange(8))
    assert abs(agent.step(batch, torch.arange(8))["val/ratio"] - 1) > 1e-3


@pytest.mark.parametrize("temperature", [0.5, 1.3])
@pytest.mark.parametrize("name", MODELS)
def test_sampler_agrees_with_full_forward(name, temperature):
    """KV cache, left padding and dropped rows (budgets of 1 to 20 tokens) against one forward pass per row."""
    policy, sampling = Policy(MODELS[name]()), Sampling(temperature)
    allowed = torch.ones(12, dtype=torch.bool)
    allowed[[2, 7]] = False
    prompts = random_prefixes([1, 3, 20, 4, 9, 2, 15, 6])
    budgets = np.array([20, 1, 5, 20, 2, 9, 3, 20])
    turns = TorchEngine(policy).generate(
        prompts, budgets, frozenset({EOS}), allowed, sampling, torch.Generator().manual_seed(0)
    )
    assert max(len(turn.ids) for turn in turns) > 5
    assert len({len(turn.ids) for turn in turns}) > 2
    for prompt, budget, turn in zip(prompts, budgets, turns, strict=True):
        assert not np.isin(turn.ids, [2, 7]).any()
        assert turn.stop_reason == ("stop" if turn.ids[-1] == EOS else "length")
        assert len(turn.ids) == budget or turn.ids[-1] == EOS
        assert EOS not in turn.ids[:-1]
        tokens = torch.from_numpy(np.concatenate([prompt, turn.ids]))[None]
        with torch.no_grad():
            logits = policy.model(tokens).logits[0, len(prompt) - 1 : -1]
        logits[:, ~allowed] = -torch.inf
        expected = torch.log_softmax(logits / temperature, -1).gather(1, tokens[0, len(prompt) :, None])[:, 0]
        torch.testing.assert_close(torch.from_numpy(turn.logprobs), expected, atol=1e-4, rtol=0)


def test_engine_in_chunks_gives_every_row_its_own_turn():
    policy, allowed = Policy(llama()), torch.ones(8, 12, dtype=torch.bool)
    allowed[3, :11] = False  # row 3 may only stop
    prompts, budgets = random_prefixes(range(1, 9)), np.full(8, 6)
    arguments = (prompts, budgets, frozenset({EOS}), allowed, Sampling(greedy=True), None)
    whole, chunks = TorchEngine(policy).generate(*arguments), TorchEngine(policy, max_rows=3).generate(*arguments)
    assert whole[3].ids.tolist() == chunks[3].ids.tolist() == [EOS]
    for a, b in zip(whole, chunks, strict=True):
        assert a.ids.tolist() == b.ids.tolist()
        assert a.logprobs is not None
        assert b.logprobs is not None
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 1.3])
@pytest.mark.parametrize("name", MODELS)
def test_trainer_agrees_with_sampler_through_an_environment(name, temperature):
    agent = make_agent(MODELS[name](), temperature=temperature)
    rollout = agent.collect()
    scores = score_rollout(agent.policy, rollout, 3)
    assert float((scores.logprobs - rollout.logprobs)[rollout.real].abs().max()) < 1e-4
    assert agent.score(rollout).comparison.max < 1e-4


def test_a_wrong_stored_log_prob_stops_training_and_names_its_place():
    agent = make_agent()
    rollout = agent.collect()
    row = int(rollout.n_actions.argmax())
    rollout.logprobs[row, 1] -= 0.02
    with pytest.raises(LogprobMismatchError, match=rf"2\.00e-02 nats .*row {row}, action 1, ratio .* to 1\.0202"):
        agent.score(rollout)


def test_a_nan_log_prob_stops_training():
    agent = make_agent()
    rollout = agent.collect()
    rollout.logprobs[2, 0] = float("nan")
    with pytest.raises(LogprobMismatchError, match="row 2, action 0"):
        agent.score(rollout)


def test_other_weights_than_the_sampler_had_are_noticed():
    agent = make_agent()
    rollout = agent.collect()
    with torch.no_grad():
        agent.policy.model.lm_head.weight.mul_(1.01)
    with pytest.raises(LogprobMismatchError, match="before any update"):
        agent.score(rollout)


@pytest.mark.parametrize("name", MODELS)
def test_left_padding_changes_no_next_token_log_prob(name):
    policy, allowed = Policy(MODELS[name]()), torch.ones(12, dtype=torch.bool)
    (prompt,) = random_prefixes([5])
    alone = TorchEngine(policy).generate([prompt], np.array([8]), frozenset(), allowed, Sampling(greedy=True), None)[0]
    for pads in (0, 3, 17):
        neighbour = random_prefixes([5 + pads], seed=1)[0]
        turn = TorchEngine(policy).generate(
            [prompt, neighbour], np.array([8, 8]), frozenset(), allowed, Sampling(greedy=True), None
        )[0]
        assert turn.ids.tolist() == alone.ids.tolist()
        assert turn.logprobs is not None
        assert alone.logprobs is not None
        np.testing.assert_allclose(turn.logprobs, alone.logprobs, atol=2e-5)


def test_dropout_never_acts():
    model = gpt2(dropout=0.5)
    model.train()
    agent = make_agent(model)
    rollout = agent.collect()
    first, second = (score_rollout(agent.policy, rollout, 8) for _ in range(2))
    assert torch.equal(first.logprobs, second.logprobs)
    assert agent.score(rollout).comparison.max < 1e-4  # the sampler had none either
    agent.step(agent.score(rollout), torch.arange(8))
    assert torch.equal(*(score_rollout(agent.reference, rollout, 8).logprobs for _ in range(2)))


def test_a_model_with_padded_logits_uses_the_first_of_them():
    agent = make_agent(llama(vocabulary=16))
    with torch.no_grad():
        agent.policy.model.lm_head.weight[12:] = 50.0  # would win or ruin every softmax
    rollout = agent.collect()
    assert int(rollout.tokens.max()) < 12
    batch = agent.score(rollout)
    assert batch.comparison.max < 1e-4
    assert float(batch.old_logprobs[batch.mask].mean()) > -20


def test_a_model_with_fewer_logits_than_actions_is_refused():
    with pytest.raises(ValueError, match="10.*12"):
        make_agent(gpt2(vocabulary=10))


def test_a_collected_rollout_is_scored_under_its_own_masks():
    env = make_env()
    allowed = np.ones((8, 12), dtype=bool)
    allowed[:, [0, 4]] = False
    env.action_masks = lambda: allowed
    agent = make_agent(env=env)
    rollout = collect(env, agent.engine, agent.sampling, torch.Generator().manual_seed(0))
    for row, n in enumerate(rollout.n_actions.tolist()):
        assert not np.isin(rollout.tokens[row, rollout.positions[row, :n]], [0, 4]).any()
    batch = agent.score(rollout)
    assert batch.comparison.max < 1e-4
    logits = agent.policy.model(rollout.tokens[:1, :3]).logits
    assert torch.isinf(log_distribution(logits, agent.sampling, rollout.allowed)[..., [0, 4]]).all()

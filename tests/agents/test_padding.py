"""Padding, micro-batches, the order of rows and rows without a verdict change no loss, gradient or metric."""

import copy
import math
from dataclasses import replace

import pytest
import torch

from agents.metrics import batch_metrics
from agents.ppo.agent import critic_metrics
from agents.scoring import score_rollout
from tests.agents.small import MODELS, assert_same_gradients, gradients, make_agent, make_env, scripted_batch, snapshot

PER_ROW = ("lengths", "prompt_lengths", "n_actions", "terminated", "truncated")


def moved(agent):
    """Make ratios other than 1, so that the clipping and the KL matter, too."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in agent.policy.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return agent


def make_batch(name="llama", **changes):
    changes = {"whiten_advantages": False, "entropy_coef": 0.1, "critic__trunk_gradient": 0.5, **changes}
    env = make_env()
    agent = make_agent(MODELS[name](), env, **changes)
    rollout = agent.collect()
    assert int(rollout.mask.any(1).sum()) > 4
    batch = agent.score(rollout)
    return moved(agent), batch


def select(rollout, rows):
    """Those rows alone, padded no wider than they need."""
    rows = torch.as_tensor(rows)
    width, n = int(rollout.lengths[rows].max()), int(rollout.n_actions[rows].max())
    return replace(
        rollout,
        tokens=rollout.tokens[rows, :width],
        positions=rollout.positions[rows, :n],
        logprobs=rollout.logprobs[rows, :n],
        rewards=rollout.rewards[rows, :n],
        infos=[rollout.infos[i] for i in rows.tolist()],
        **{key: getattr(rollout, key)[rows] for key in PER_ROW},
    )


def widen(rollout, tokens=9, actions=5):
    """The same rows with more padding, full of rubbish wherever nobody may look."""
    n = len(rollout.lengths)
    wide = replace(
        rollout,
        tokens=torch.cat([rollout.tokens, torch.full((n, tokens), 3)], 1),
        positions=torch.cat([rollout.positions, torch.ones(n, actions, dtype=torch.int64)], 1),
        logprobs=torch.cat([rollout.logprobs, torch.full((n, actions), -77.0)], 1),
        rewards=torch.cat([rollout.rewards, torch.zeros(n, actions)], 1),
    )
    wide.logprobs[~wide.real] = -77.0
    return wide


def assert_close_metrics(a, b, but=()):
    assert a.keys() == b.keys()
    for name in a:
        if not name.startswith(but or "\0"):
            assert a[name] == pytest.approx(b[name], abs=1e-5, nan_ok=True), name


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("whiten", [True, False])
def test_padding_columns_change_nothing(name, whiten):
    agent, batch = make_batch(name, whiten_advantages=whiten)
    agent = make_agent(MODELS[name](), agent.env, whiten_advantages=whiten, entropy_coef=0.1)
    narrow, wide = agent.score(batch.rollout), agent.score(widen(batch.rollout))
    assert wide.mask.shape[1] == narrow.mask.shape[1] + 5
    assert_close_metrics(*({**batch_metrics(x), **critic_metrics(x)} for x in (narrow, wide)))
    moved(agent)
    rows = narrow.mask.any(1).nonzero().squeeze(1)
    (a, grad_a), (b, grad_b) = (gradients(agent, x, [rows]) for x in (narrow, wide))
    assert a == pytest.approx(b, abs=1e-6)
    assert_same_gradients(grad_a, grad_b)
    before = snapshot(agent.policy), copy.deepcopy(agent.optimizer.state_dict())
    stats = agent.step(narrow, rows)
    agent.policy.load_state_dict(before[0])
    agent.optimizer.load_state_dict(before[1])
    assert_close_metrics(stats, agent.step(wide, rows))


@pytest.mark.parametrize("name", MODELS)
def test_longer_neighbours_change_nothing(name):
    agent, whole = make_batch(name)
    fresh = make_agent(MODELS[name](), agent.env, **{"whiten_advantages": False, "entropy_coef": 0.1})
    rows = whole.rollout.lengths.argsort()[:3]
    alone, whole = fresh.score(select(whole.rollout, rows)), fresh.score(whole.rollout)
    n = alone.mask.shape[1]
    assert whole.rollout.lengths.max() > alone.rollout.lengths.max()
    for field in ("mask", "old_logprobs", "ref_logprobs", "entropy", "values", "rewards", "advantages", "returns"):
        one, many = getattr(alone, field), getattr(whole, field)[rows, :n]
        torch.testing.assert_close(one, many, atol=1e-5, rtol=0)
        assert not getattr(whole, field)[rows, n:].any()
    longest = int(whole.rollout.lengths.argmax())
    moved(fresh)
    loss_alone, grad_alone = gradients(fresh, alone, [torch.arange(3)], torch.tensor(20))
    # The longest row is in the same micro-batch, but its own share of the loss is taken away again.
    loss_both, grad_both = gradients(fresh, whole, [torch.cat([rows, torch.tensor([longest])])], torch.tensor(20))
    loss_long, grad_long = gradients(fresh, whole, [torch.tensor([longest])], torch.tensor(20))
    assert loss_both - loss_long == pytest.approx(loss_alone, abs=1e-5)
    assert_same_gradients([a - b for a, b in zip(grad_both, grad_long, strict=True)], grad_alone, 1e-5)


@pytest.mark.parametrize("critic_only", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_micro_batches_give_the_gradients_of_the_whole(name, critic_only):
    agent, batch = make_batch(name)
    rows = torch.arange(8)
    whole = gradients(agent, batch, [rows], critic_only=critic_only)
    for size in (1, 2, 4):
        loss, grads = gradients(agent, batch, list(rows.split(size)), critic_only=critic_only)
        assert loss == pytest.approx(whole[0], abs=1e-6)
        assert_same_gradients(grads, whole[1])


def test_step_reports_the_same_numbers_for_any_micro_batch():
    found = {}
    for size in (1, 2, 4, 64):
        agent, batch = make_batch(micro_batch=size)
        found[size] = agent.step(batch, batch.mask.any(1).nonzero().squeeze(1)), snapshot(agent.policy)
    assert len({round(float(batch.mask[row].sum())) for row in range(8)}) > 2  # rows of unequal length
    for size in (1, 2, 4):
        assert_close_metrics(found[size][0], found[64][0])
        for name, tensor in found[size][1].items():
            torch.testing.assert_close(tensor, found[64][1][name], atol=2e-5, rtol=0)


def test_the_loss_is_a_mean_over_tokens_and_not_a_mean_of_means():
    agent, batch = make_batch(entropy_coef=0.0, critic__loss_coef=0.0)
    rows = torch.arange(8)
    scores = agent.policy.score(
        batch.rollout.tokens, batch.rollout.lengths, batch.rollout.positions, agent.sampling, batch.rollout.allowed
    )
    ratio = (scores.logprobs.detach() - batch.old_logprobs).exp()
    terms = torch.minimum(ratio * batch.advantages, ratio.clamp(0.8, 1.2) * batch.advantages)
    by_hand = -terms[batch.mask].sum() / batch.mask.sum()
    loss, _ = gradients(agent, batch, list(rows.split(1)))
    assert loss == pytest.approx(float(by_hand), abs=1e-5)
    row_means = [row[mask].mean() for row, mask in zip(terms, batch.mask, strict=True) if mask.any()]
    assert abs(loss + float(torch.stack(row_means).mean())) > 1e-3


def test_the_order_of_rows_changes_no_gradient():
    agent, batch = make_batch()
    order = torch.randperm(8, generator=torch.Generator().manual_seed(3))
    straight, shuffled = gradients(agent, batch, [torch.arange(8)]), gradients(agent, batch, [order])
    assert straight[0] == pytest.approx(shuffled[0], abs=1e-6)
    assert_same_gradients(straight[1], shuffled[1])


def unscored_everywhere_but(rollout, kept):
    infos = [{**info, "unscored": i not in kept} for i, info in enumerate(rollout.infos)]
    return replace(rollout, infos=infos)


def test_rows_without_a_verdict_change_no_loss_and_are_counted():
    agent, batch = make_batch()
    agent = make_agent(env=agent.env, whiten_advantages=True)
    kept = [0, 2, 5]
    rollout = batch.rollout
    alone = agent.score(unscored_everywhere_but(select(rollout, kept), range(3)))
    whole = agent.score(unscored_everywhere_but(rollout, kept))
    assert not whole.mask[[1, 3, 4, 6, 7]].any()
    metrics = batch_metrics(whole)
    assert metrics["objective/unscored"] == 5
    assert_close_metrics(metrics, batch_metrics(alone), but=("objective/unscored", "tokens/", "val/", "mismatch/"))
    (a, grad_a), (b, grad_b) = gradients(agent, alone, [torch.arange(3)]), gradients(agent, whole, [torch.arange(8)])
    assert a == pytest.approx(b, abs=1e-6)
    assert_same_gradients(grad_a, grad_b)


def test_a_broken_judge_masks_its_row_and_training_goes_on():
    # An h breaks the judge. Row 1 is the longest.
    agent, batch = scripted_batch([[0, 11], [0, 7, 0, 0, 0, 11], [0, 0, 11]])
    assert batch.rollout.unscored.tolist() == [False, True, False]
    assert batch.rollout.truncated.tolist() == [False, True, False]
    assert batch.mask.sum(1).tolist() == [2, 0, 3]
    seen = []

    def step(batch, rows):
        seen.extend(rows.tolist())
        return {"val/ratio": 1.0}

    agent.step = step
    agent.update(batch)
    assert set(seen) == {0, 2}


def test_a_batch_without_any_verdict_is_skipped_and_counted():
    agent, batch = scripted_batch([[7, 11], [0, 7, 11]])
    before = snapshot(agent.policy)
    metrics = {**batch_metrics(batch), **agent.update(batch)}
    assert metrics["objective/unscored"] == 2
    assert math.isnan(metrics["objective/scores"])
    assert all(torch.equal(before[name], tensor) for name, tensor in agent.policy.state_dict().items())


def test_scoring_leaves_zero_on_padding():
    agent, batch = make_batch()
    scores = score_rollout(agent.policy, widen(batch.rollout), 2)
    real = widen(batch.rollout).real
    assert not scores.logprobs[~real].any()
    assert not scores.entropy[~real].any()
    assert not scores.values[:, :-1][~real].any()
    assert scores.values[:, -1].all()

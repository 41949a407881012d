"""Top-k, top-p and min-p: what the sampler kept is stored, and everybody who scores a token later uses that set."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from agents.engine import TorchEngine
from agents.policy import Policy
from agents.sampling import Sampling, entropy, kept_tokens, log_distribution
from agents.scoring import score_rollout, score_rows
from tests.agents.small import EOS, MODELS, Scripted, iterate, llama, make_agent, make_env, random_prefixes

CUTS: dict[str, Any] = {
    "top_k": {"top_k": 2},
    "top_p": {"top_p": 0.6},
    "min_p": {"min_p": 0.3},
    "all": {"top_k": 6, "top_p": 0.9},
}
LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
ALL = torch.ones(1, 4, dtype=torch.bool)


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(top_k=2), [1, 1, 0, 0]),
        (Sampling(top_k=9), [1, 1, 1, 1]),
        (Sampling(top_p=0.64), [1, 0, 0, 0]),  # probabilities .644 .237 .087 .032
        (Sampling(top_p=0.65), [1, 1, 0, 0]),
        (Sampling(min_p=0.3), [1, 1, 0, 0]),  # .3 of .644 is .193
        (Sampling(min_p=0.1), [1, 1, 1, 0]),
        (Sampling(0.5, top_p=0.9), [1, 1, 0, 0]),  # .865 .117: the temperature comes first
        (Sampling(2.0, top_p=0.65), [1, 1, 0, 0]),
        (Sampling(0.25, min_p=0.3), [1, 0, 0, 0]),
        (Sampling(top_k=3, top_p=0.95), [1, 1, 1, 0]),  # of .665 .245 .090
        (Sampling(greedy=True, top_k=1), [1, 1, 1, 1]),  # nothing is drawn
    ],
)
def test_kept_tokens_by_hand(sampling, kept):
    assert kept_tokens(LOGITS, sampling, ALL).tolist() == [list(map(bool, kept))]


def test_forbidden_tokens_are_never_kept_and_do_not_count():
    allowed = torch.tensor([[False, True, True, True]])
    assert kept_tokens(LOGITS, Sampling(top_k=2), allowed).tolist() == [[False, True, True, False]]
    assert kept_tokens(LOGITS, Sampling(top_k=4), allowed).tolist() == allowed.tolist()
    assert kept_tokens(LOGITS, Sampling(top_p=0.1), allowed).tolist() == [[False, True, False, False]]
    padded = torch.cat([LOGITS, torch.full((1, 4), 50.0)], 1)
    assert kept_tokens(padded, Sampling(top_k=2), ALL).tolist() == [[True, True, False, False]]


def test_over_all_tokens_the_ratio_would_be_off_by_the_kept_mass():
    kept = kept_tokens(LOGITS, Sampling(top_k=2), ALL)
    drawn, all_of_them = (log_distribution(LOGITS, Sampling(), mask)[0, 0] for mask in (kept, ALL))
    assert float((all_of_them - drawn).exp()) == pytest.approx(0.8808, abs=5e-5)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", MODELS)
def test_stored_sets_are_those_of_the_logits_and_hold_what_was_drawn(name, cut):
    agent = make_agent(MODELS[name](), temperature=0.9, **CUTS[cut])
    rollout = agent.collect()
    sets = rollout.allowed_tokens(torch.arange(8), rollout.logprobs.shape[1])
    drawn = rollout.tokens.gather(1, rollout.positions)
    assert sets.gather(2, drawn[..., None])[..., 0][rollout.real].all()
    sizes = sets.sum(2)[rollout.real]
    assert int(sizes.min()) >= 1
    assert int(sizes.max()) < 12
    with torch.no_grad():
        logits = agent.policy.model(rollout.tokens).logits
    rows = torch.arange(8)[:, None]
    logits = logits[rows, rollout.positions - 1][rollout.real]
    everything = torch.ones(len(logits), 12, dtype=torch.bool)
    assert torch.equal(sets[rollout.real], kept_tokens(logits, agent.sampling, everything))


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", MODELS)
def test_the_trainer_agrees_with_the_sampler_on_the_stored_sets(name, cut):
    agent = make_agent(MODELS[name](), temperature=0.9, **CUTS[cut])
    rollout = agent.collect()
    scores = score_rollout(agent.policy, rollout, 3)
    assert float((scores.logprobs - rollout.logprobs)[rollout.real].abs().max()) < 1e-5
    everywhere = replace(rollout, allowed=torch.ones(12, dtype=torch.bool))
    whole = score_rollout(agent.policy, everywhere, 3)
    assert float((whole.logprobs - rollout.logprobs)[rollout.real].min()) < -0.1, "the cut tokens had some mass"


@pytest.mark.parametrize("cut", CUTS)
def test_the_ratio_is_exactly_one_before_the_update(cut):
    agent = make_agent(recompute_logprobs=True, minibatches=1, **CUTS[cut])
    batch = agent.score(agent.collect())
    rows = batch.rollout.lengths.argsort(stable=True)
    again = score_rows(agent.policy, batch.rollout, rows).logprobs.detach()
    assert torch.equal(again[batch.mask[rows]], batch.old_logprobs[rows][batch.mask[rows]])
    stats = agent.step(batch, torch.arange(8))
    assert stats["val/ratio"] == 1.0
    assert stats["grad_norm/policy"] > 1e-4
    assert agent.step(batch, torch.arange(8))["val/ratio"] != 1.0


def test_training_with_cuts_keeps_agreeing_after_updates():
    agent = make_agent(top_k=3, optimizer__learning_rate=1e-2)
    worst = []
    agent.on_iteration = lambda agent, metrics, batch: worst.append(metrics["mismatch/max"])
    iterate(agent, 3)
    assert max(worst) < 1e-4


def test_the_reference_is_scored_over_the_stored_set():
    """With a set of its own it would give tokens that it does not keep no probability: an infinite KL."""
    other = llama(seed=3)
    agent = make_agent(top_k=2, agent_options={"reference": other})
    batch = agent.score(agent.collect())
    rollout = batch.rollout
    sets = rollout.allowed_tokens(torch.arange(8), rollout.logprobs.shape[1])
    with torch.no_grad():
        logits = other(rollout.tokens).logits[torch.arange(8)[:, None], rollout.positions - 1]
    own = kept_tokens(logits[rollout.real], agent.sampling, torch.ones(int(rollout.real.sum()), 12, dtype=torch.bool))
    drawn = rollout.tokens.gather(1, rollout.positions)
    assert not own.gather(1, drawn[rollout.real][:, None]).all(), "it would not have kept some of them"
    expected = torch.log_softmax(logits.masked_fill(~sets, -torch.inf), -1).gather(2, drawn[..., None])[..., 0]
    torch.testing.assert_close(batch.ref_logprobs[rollout.real], expected[rollout.real], atol=1e-5, rtol=0)
    assert batch.ref_logprobs.isfinite().all()


@pytest.mark.parametrize("cut", CUTS)
def test_entropy_is_that_of_the_kept_tokens(cut):
    agent = make_agent(temperature=0.9, **CUTS[cut])
    batch = agent.score(agent.collect())
    rollout = batch.rollout
    sets = rollout.allowed_tokens(torch.arange(8), rollout.logprobs.shape[1])
    with torch.no_grad():
        logits = agent.policy.model(rollout.tokens).logits[torch.arange(8)[:, None], rollout.positions - 1] / 0.9
    found, sizes = batch.entropy[rollout.real], sets[rollout.real].sum(1)
    for value, row, kept in zip(found, logits[rollout.real], sets[rollout.real], strict=True):
        expected = torch.distributions.Categorical(logits=row[kept]).entropy()
        assert float(value) == pytest.approx(float(expected), abs=1e-5)
    assert (found <= sizes.log() + 1e-5).all()
    assert float((entropy(torch.log_softmax(logits, -1))[rollout.real] - found).max()) > 0.1


def test_an_engine_without_kept_sets_is_refused_only_where_tokens_are_cut():
    class Silent(Scripted):
        reports_kept_sets = False

    engine = Silent([[[0, EOS]]])
    for cut in CUTS.values():
        with pytest.raises(ValueError, match="Silent does not report which tokens top_k, top_p and min_p kept"):
            make_agent(agent_options={"engine": engine}, **cut)
    assert make_agent(agent_options={"engine": engine}).engine is engine
    make_agent(agent_options={"engine": Scripted([[[0, EOS]]])}, top_k=2)


def test_stored_sets_survive_rows_of_unequal_length_and_chunks():
    policy, sampling = Policy(llama()), Sampling(top_k=3)
    budgets, allowed = np.array([6, 1, 3, 6, 2]), torch.ones(12, dtype=torch.bool)
    turns = TorchEngine(policy, max_rows=2).generate(
        random_prefixes([3, 9, 1, 5, 2]), budgets, frozenset({EOS}), allowed, sampling, torch.Generator().manual_seed(0)
    )
    assert len({len(turn.ids) for turn in turns}) > 1
    for turn in turns:
        assert turn.allowed is not None
        assert turn.allowed.shape == (len(turn.ids), 12)
        assert turn.allowed.sum(1).tolist() == [3] * len(turn.ids)
        assert turn.allowed[np.arange(len(turn.ids)), turn.ids].all()


def test_sampling_from_one_token_is_greedy_and_has_no_kl():
    evaluation = make_agent(top_k=1).evaluate(make_env(), 8)
    assert evaluation.kl == 0.0
    assert evaluation.greedy_score == evaluation.sampled_score

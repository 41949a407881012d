"""Samplers that are not the trainer: without log-probs, with other ones, with other weights; and the remedies."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.engine import TorchEngine
from agents.kl import effective_sample_size, importance_weights
from agents.metrics import batch_metrics
from agents.rollout import StaleBatchError, collect
from agents.sampling import Sampling
from agents.scoring import LogprobMismatchError, compare_logprobs, score_rollout
from tests.agents.small import gradients, iterate, make_agent


class Mute(TorchEngine):
    """Cannot say with which probability it drew the tokens."""

    def generate(self, *arguments):
        return [turn._replace(logprobs=None) for turn in super().generate(*arguments)]


class Biased(TorchEngine):
    """Reports log-probs that are off."""

    shift = 0.3

    def generate(self, *arguments):
        return [turn._replace(logprobs=np.asarray(turn.logprobs) + self.shift) for turn in super().generate(*arguments)]


class Unscaled(TorchEngine):
    """Draws at the temperature and reports log-probs without it, as vLLM's raw ones are."""

    def generate(self, prefixes, budgets, stops, allowed, sampling, generator):
        turns = super().generate(prefixes, budgets, stops, allowed, sampling, generator)
        found = []
        for prefix, turn in zip(prefixes, turns, strict=True):
            tokens = torch.tensor([*prefix.tolist(), *turn.ids.tolist()])[None]
            with torch.no_grad():
                raw = torch.log_softmax(self.policy.model(tokens).logits[0, len(prefix) - 1 : -1], -1)
            found.append(turn._replace(logprobs=raw.gather(1, torch.from_numpy(turn.ids)[:, None])[:, 0].numpy()))
        return found


def with_engine(kind, **changes):
    agent = make_agent(**changes)
    agent.engine = kind(agent.policy)
    return agent


def test_an_engine_without_log_probs_has_them_recomputed_and_says_so():
    agent = with_engine(Mute)
    rollout = agent.collect()
    assert not rollout.has_logprobs
    batch = agent.score(rollout)
    own = score_rollout(agent.policy, rollout, 64).logprobs
    assert torch.equal(batch.old_logprobs, own)
    assert batch.comparison is None
    assert agent.ratio_denominator == "recomputed by the trainer: the engine gave none"
    assert not any(name.startswith("mismatch/") for name in batch_metrics(batch))
    assert agent.step(batch, torch.arange(8))["val/ratio"] == pytest.approx(1.0, abs=1e-6)
    iterate(with_engine(Mute), 2)


def test_one_row_without_log_probs_is_enough_to_recompute_all():
    class HalfMute(TorchEngine):
        def generate(self, *arguments):
            turns = super().generate(*arguments)
            return [turns[0]._replace(logprobs=None), *turns[1:]]

    agent = with_engine(HalfMute)
    rollout = agent.collect()
    assert not rollout.has_logprobs
    assert torch.equal(agent.score(rollout).old_logprobs, score_rollout(agent.policy, rollout, 64).logprobs)


@pytest.mark.parametrize("recompute", [False, True])
def test_whose_log_probs_the_ratio_divides_by_is_the_settings_choice_and_is_recorded(recompute):
    agent = with_engine(Biased, recompute_logprobs=recompute, mismatch_tolerance=1.0)
    rollout = agent.collect()
    batch = agent.score(rollout)
    own = score_rollout(agent.policy, rollout, 64).logprobs
    assert torch.equal(batch.old_logprobs, own if recompute else rollout.logprobs)
    assert agent.ratio_denominator == ("recomputed by the trainer" if recompute else "stored at sampling")
    assert batch_metrics(batch)["mismatch/max"] == pytest.approx(0.3, abs=1e-5)  # told in any case
    ratio = agent.step(batch, torch.arange(8))["val/ratio"]
    assert ratio == pytest.approx(1.0 if recompute else float(torch.tensor(-0.3).exp()), abs=1e-5)


def test_an_engine_that_forgets_the_temperature_is_found_out():
    agent = with_engine(Unscaled, temperature=0.7)
    with pytest.raises(LogprobMismatchError, match="before any update"):
        iterate(agent, 1)
    iterate(with_engine(Unscaled, temperature=1.0), 1)


def test_a_comparison_by_hand():
    stored = torch.tensor([[-1.0, -1.0, -5.0], [-2.0, -9.0, -9.0]])
    own = torch.tensor([[-1.0, -1.02, -4.0], [-1.5, 0.0, 0.0]])
    found = compare_logprobs(stored, own, torch.tensor([[True, True, True], [True, False, False]]))
    assert found.max == pytest.approx(1.0)
    assert (found.row, found.action) == (0, 2)
    assert found.p50 == pytest.approx(0.26)
    assert found.max_ratio == pytest.approx(2.71828, abs=1e-4)
    assert found.min_ratio == pytest.approx(0.98020, abs=1e-4)


def test_importance_weights_by_hand():
    own, sampler = torch.tensor([[0.0, -1.0, -3.0, 900.0]]), torch.tensor([[-3.0, -1.0, -1.0, -900.0]])
    found = importance_weights(own, sampler, 2.0)
    torch.testing.assert_close(found, torch.tensor([[2.0, 1.0, 0.135335, 2.0]]))
    assert importance_weights(own, sampler, 1e30).isfinite().all()


@pytest.mark.parametrize(
    ("weights", "size"), [([1.0, 1.0, 1.0, 1.0], 1.0), ([1.0, 0.0, 0.0, 0.0], 0.25), ([2.0, 1.0, 1.0], 16 / 18)]
)
def test_effective_sample_size_by_hand(weights, size):
    assert effective_sample_size(torch.tensor(weights)) == pytest.approx(size)


def test_importance_weights_correct_for_the_sampler():
    """On average over what the sampler draws, the weighted gradient is the one of the trainer's own draws."""
    sampler, own = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.3, 0.5])
    value = torch.tensor([1.0, -2.0, 4.0])
    weights = importance_weights(own.log(), sampler.log(), 10.0)
    assert float((sampler * weights * value).sum()) == pytest.approx(float((own * value).sum()))
    capped = importance_weights(own.log(), sampler.log(), 2.0)
    assert capped.tolist() == pytest.approx([0.4, 1.0, 2.0])


def test_importance_weights_weigh_the_surrogate_and_are_logged():
    changes = {"mismatch_tolerance": 9.0, "recompute_logprobs": True, "critic__loss_coef": 0.0, "importance_cap": 1.1}
    agent = make_agent(**changes)
    rollout = agent.collect()
    shift = torch.linspace(-0.5, 0.5, rollout.logprobs.shape[1])
    rollout.logprobs += shift * rollout.real
    batch = agent.score(rollout)
    expected = (-shift).exp().clamp(max=1.1).expand_as(batch.mask)
    torch.testing.assert_close(batch.importance[batch.mask], expected[batch.mask], atol=1e-5, rtol=0)
    metrics = batch_metrics(batch)
    assert metrics["mismatch/importance_mean"] == pytest.approx(float(expected[batch.mask].mean()), abs=1e-5)
    size = effective_sample_size(expected[batch.mask])
    assert metrics["mismatch/effective_sample_size"] == pytest.approx(size, abs=1e-5)
    assert size < 1
    loss, _ = gradients(agent, batch, [torch.arange(4), torch.arange(4, 8)])
    by_hand = -(batch.advantages * expected)[batch.mask].mean()
    assert loss == pytest.approx(float(by_hand), abs=1e-5)
    plain, _ = gradients(agent, replace(batch, importance=None), [torch.arange(8)])
    assert abs(plain - loss) > 1e-3


def test_a_sampler_that_agrees_has_weights_of_one():
    agent = make_agent(recompute_logprobs=True, importance_cap=2.0)
    batch = agent.score(agent.collect())
    metrics = batch_metrics(batch)
    assert metrics["mismatch/importance_mean"] == pytest.approx(1.0, abs=1e-5)
    assert metrics["mismatch/effective_sample_size"] == pytest.approx(1.0, abs=1e-5)
    assert make_agent().score(make_agent().collect()).importance is None


def test_importance_weights_without_the_samplers_log_probs_are_refused():
    agent = with_engine(Mute, recompute_logprobs=True, importance_cap=2.0)
    with pytest.raises(ValueError, match="importance_cap needs the sampler's log-probs, but the engine gives none"):
        agent.score(agent.collect())


def test_a_batch_is_updated_on_once():
    agent = make_agent()
    batch = agent.score(agent.collect())
    agent.update(batch)
    with pytest.raises(StaleBatchError, match=r"written by weights .* \(version 0\).* policy is now .* \(version 1\)"):
        agent.update(batch)


def test_a_batch_whose_weights_nobody_hashed_is_updated_on_once_all_the_same():
    agent = make_agent()
    rollout = collect(agent.env, agent.engine, agent.sampling, torch.Generator().manual_seed(0))
    assert rollout.fingerprint == ""
    batch = agent.score(rollout)
    agent.update(batch)
    with pytest.raises(StaleBatchError, match=r"written by weights \? \(version 0\)"):
        agent.update(batch)


def test_a_batch_of_other_weights_is_refused_though_nobody_counted():
    agent = make_agent()
    batch = agent.score(agent.collect())
    with torch.no_grad():
        agent.policy.model.lm_head.weight[0, 0] += 1e-3
    with pytest.raises(StaleBatchError, match="update on each batch once"):
        agent.update(batch)


def test_an_engine_whose_weights_change_within_a_batch_is_refused():
    class Restless(TorchEngine):
        def generate(self, *arguments):
            self.weight_version += 1
            return super().generate(*arguments)

    with pytest.raises(StaleBatchError, match="changed from version 0 to 1 .* several policies"):
        with_engine(Restless).collect()


def test_the_sampler_follows_the_weights_and_keeps_nothing_of_older_ones():
    agent = make_agent()
    rollout = agent.collect()
    iterate(agent, 1)
    old = [rollout.tokens[row, : int(n)].numpy() for row, n in enumerate(rollout.prompt_lengths)]  # seen before
    turns = agent.engine.generate(old, torch.full((8,), 5).numpy(), frozenset(), rollout.allowed, Sampling(), None)
    for prefix, turn in zip(old, turns, strict=True):
        tokens = torch.tensor([*prefix.tolist(), *turn.ids.tolist()])[None]
        with torch.no_grad():
            logits = agent.policy.model(tokens).logits[0, len(prefix) - 1 : -1]
        expected = torch.log_softmax(logits, -1).gather(1, torch.from_numpy(turn.ids)[:, None])[:, 0]
        torch.testing.assert_close(torch.from_numpy(turn.logprobs), expected, atol=1e-5, rtol=0)

"""Reward sensitivity: which part of the reward rules the advantages, by hand."""

import math

import pytest
import torch

from agents.perturbation import correlation, reward_parts, reward_sensitivity, score_components
from tests.agents.small import EOS, scripted_batch

TURNS = [[2, EOS], [0, EOS], [0, 0, 0, EOS], [3, 0, 1, 0, 0, 0]]
PARTS = [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0)]  # tests, style


def batch_with(scores, components, **changes):
    """An agent and a batch whose answers got these scores, made of these components."""
    agent, batch = scripted_batch(TURNS, **{"whiten_advantages": False, "kl__coef": 0.0, **changes})
    rollout = batch.rollout
    for row, (score, parts) in enumerate(zip(scores, components, strict=True)):
        rollout.rewards[row] = 0.0
        rollout.rewards[row, int(rollout.n_actions[row]) - 1] = score
        rollout.infos[row]["verdict"] = {"components": parts}
    return agent, agent.score(rollout)


def named(parts):
    return [{"tests.score": a, "style.score": b, "tests.passed_fraction": 0.5} for a, b in parts]


def weighted(tests=0.9, style=0.1, **changes):
    return batch_with([tests * a + style * b for a, b in PARTS], named(PARTS), **changes)


def test_what_each_component_adds_to_the_score():
    _, batch = weighted()
    parts = score_components(batch.rollout)
    assert set(parts) == {"tests.score", "style.score"}
    assert parts["tests.score"].tolist() == pytest.approx([0.9, 0.0, 0.9, 0.0], abs=1e-6)
    assert parts["style.score"].tolist() == pytest.approx([0.0, 0.1, 0.1, 0.0], abs=1e-6)


def test_a_score_that_is_no_weighted_sum_is_one_part():
    _, batch = batch_with([1.0, 0.0, 1.0, 0.5], named(PARTS))
    assert score_components(batch.rollout) == {}
    assert set(reward_parts(batch)) == {"kl", "score"}
    _, batch = batch_with([1.0, 0.0, 1.0, 0.0], [{"tests.score": a} for a, _ in PARTS])
    assert score_components(batch.rollout) == {}, "one component is the score"


def test_parts_of_normalised_scores_are_in_the_units_of_the_rewards(monkeypatch):
    agent, batch = weighted(reward__normalize=True)
    std = agent.score_moments.std
    assert abs(std - 1) > 0.1
    parts = reward_parts(batch, std)
    assert parts["tests.score"].sum(1).tolist() == pytest.approx([0.9 / std, 0.0, 0.9 / std, 0.0], abs=1e-6)
    seen: list[float] = []

    def watched(batch, unit):
        seen.append(unit)
        return parts

    monkeypatch.setattr("agents.perturbation.reward_parts", watched)
    reward_sensitivity(agent, batch)
    assert seen == [std]


def test_a_part_of_a_part_is_no_part_of_the_score():
    inner = [{"tests.score": a, "tests.fast.score": a, "tests.slow.score": 0.0, "style.score": b} for a, b in PARTS]
    _, batch = batch_with([0.9 * a + 0.1 * b for a, b in PARTS], inner)
    parts = score_components(batch.rollout)
    assert set(parts) == {"tests.score", "style.score"}
    assert parts["tests.score"].tolist() == pytest.approx([0.9, 0.0, 0.9, 0.0], abs=1e-6)


@pytest.mark.parametrize("changes", [{}, {"reward__normalize": True}, {"reward__clip": 0.5}])
def test_the_parts_add_up_to_the_shaped_rewards(changes):
    _, batch = weighted(kl__coef=0.2, **changes)
    parts = reward_parts(batch)
    assert ("score_processing" in parts) == bool(changes)
    torch.testing.assert_close(sum(parts.values()), batch.rewards, atol=1e-5, rtol=0)
    assert not any(part[~batch.mask].any() for part in parts.values())
    torch.testing.assert_close(parts["kl"], -0.2 * (batch.old_logprobs - batch.ref_logprobs) * batch.mask)


def test_change_and_correlation_by_hand():
    """lambda 1 and a value of 0.7 throughout: an action's advantage is its answer's total minus 0.7."""
    agent, batch = weighted(gae_lambda=1.0)
    lengths = torch.tensor([2.0, 2.0, 4.0, 6.0])
    before = torch.tensor([0.9, 0.1, 1.0, 0.0]) - 0.7
    tests = torch.tensor([0.9, 0.0, 0.9, 0.0])
    norm = float((lengths * before**2).sum().sqrt())
    change = float((lengths * tests**2).sum().sqrt()) / norm
    found = {(entry.component, entry.scale): entry for entry in reward_sensitivity(agent, batch)}
    assert found["tests.score", 0.0].change == pytest.approx(change, rel=1e-5)
    assert found["tests.score", 0.5].change == pytest.approx(change / 2, rel=1e-5)
    assert found["tests.score", 2.0].change == pytest.approx(change, rel=1e-5)
    mean = float((lengths * before).sum() / 14)
    after = torch.tensor([0.0, 0.1, 0.1, 0.0]) - 0.7
    centred, other = before - mean, after - float((lengths * after).sum() / 14)
    norms = (lengths * centred**2).sum().sqrt() * (lengths * other**2).sum().sqrt()
    expected = float((lengths * centred * other).sum() / norms)
    assert found["tests.score", 0.0].correlation == pytest.approx(expected, abs=1e-5)
    assert found["kl", 2.0].change == 0.0
    assert found["kl", 2.0].correlation == pytest.approx(1.0)


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize(
    ("tests", "style", "beta", "ruling"),
    [(0.9, 0.1, 0.0, "tests.score"), (0.1, 0.9, 0.0, "style.score"), (0.9, 0.1, 5.0, "kl")],
)
def test_the_ruling_part_comes_first(tests, style, beta, ruling, whiten):
    agent, batch = weighted(tests, style, kl__coef=beta, whiten_advantages=whiten)
    found = reward_sensitivity(agent, batch)
    assert found[0].component == ruling
    assert len(found) == 9
    strengths = [entry.change for entry in found if entry.scale == 0.0]
    assert strengths == sorted(strengths, reverse=True)


def test_scaling_everything_leaves_whitened_advantages_as_they_are():
    agent, batch = batch_with([1.0, 2.0, 3.0, 4.0], [{}] * 4, whiten_advantages=True)
    batch.values = torch.zeros_like(batch.values)
    (entry,) = [e for e in reward_sensitivity(agent, batch, scales=(10.0,)) if e.component == "score"]
    assert entry.change == pytest.approx(0.0, abs=1e-4)
    assert entry.correlation == pytest.approx(1.0)


def test_rows_without_a_verdict_have_no_say():
    agent, batch = weighted()
    batch.rollout.infos[3] = {"unscored": True}
    batch.rollout.rewards[3] = 0.0
    batch = agent.score(batch.rollout)
    assert set(score_components(batch.rollout)) == {"tests.score", "style.score"}
    assert not any(part[3].any() for part in reward_parts(batch).values())


def test_correlation_by_hand():
    a = torch.tensor([1.0, 2.0, 3.0])
    assert correlation(a, 2 * a + 5) == pytest.approx(1.0)
    assert correlation(a, -a) == pytest.approx(-1.0)
    assert correlation(a, torch.tensor([1.0, 0.0, 1.0])) == pytest.approx(0.0, abs=1e-12)
    assert math.isnan(correlation(a, torch.ones(3)))

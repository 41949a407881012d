"""The clipped surrogate and its variants, the value loss, and what each action weighs: fixed numbers and gradients."""

import pytest
import torch

from agents.losses import clipped, clipped_surrogate, loss_weights, outside, weighted_sum
from agents.ppo.objective import value_loss
from tests.agents.small import gradients, make_agent, scripted_batch


def surrogate(ratio, advantage, *clips, **more):
    """(term, its gradient in the log-prob) of one action."""
    logprob = torch.tensor(ratio, dtype=torch.float64).log().requires_grad_()
    term = clipped_surrogate(logprob, torch.tensor(0.0, dtype=torch.float64), torch.tensor(advantage), *clips, **more)
    (gradient,) = torch.autograd.grad(term, logprob)
    return pytest.approx(float(term.detach()), abs=1e-7), pytest.approx(float(gradient), abs=1e-7)


@pytest.mark.parametrize(
    ("ratio", "advantage", "term", "gradient"),
    [
        (1.1, 1.0, 1.1, 1.1),
        (1.3, 1.0, 1.2, 0.0),
        (0.7, 1.0, 0.7, 0.7),  # a good action that has become rare is brought back, however rare
        (0.7, -1.0, -0.8, 0.0),
        (1.3, -1.0, -1.3, -1.3),
    ],
)
def test_one_clip(ratio, advantage, term, gradient):
    assert surrogate(ratio, advantage, 0.2) == (term, gradient)


def test_a_wider_clip_above_one_leaves_the_one_below():
    assert surrogate(1.25, 1.0, 0.2, 0.28) == (1.25, 1.25)
    assert surrogate(1.25, 1.0, 0.2) == (1.2, 0.0)
    assert surrogate(1.3, 1.0, 0.2, 0.28) == (1.28, 0.0)
    assert surrogate(0.75, -1.0, 0.2, 0.28) == (-0.8, 0.0)
    ratio, ones = torch.tensor([1.25, 0.75, 1.3]), torch.ones(3)
    assert outside(ratio, 0.2, 0.28).tolist() == [0, 1, 1]
    assert clipped(ratio, ones, 0.2, 0.28).tolist() == [0, 0, 1]
    assert clipped(ratio, -ones, 0.2, 0.28).tolist() == [0, 1, 0]


def test_dual_clip_bounds_what_one_bad_action_can_do():
    assert surrogate(10.0, -1.0, 0.2) == (-10.0, -10.0)
    assert surrogate(10.0, -1.0, 0.2, dual_clip=3.0) == (-3.0, 0.0)
    assert surrogate(2.0, -1.0, 0.2, dual_clip=3.0) == (-2.0, -2.0)
    assert surrogate(0.5, -1.0, 0.2, dual_clip=3.0) == (-0.8, 0.0)
    assert surrogate(10.0, 1.0, 0.2, dual_clip=3.0) == (1.2, 0.0)  # positive advantages are bounded already


def test_actions_that_the_dual_clip_cuts_are_counted():
    ratio = torch.tensor([10.0, 2.0, 10.0, 0.5])
    advantages = torch.tensor([-1.0, -1.0, 1.0, -1.0])
    assert clipped(ratio, advantages, 0.2).tolist() == [0, 0, 1, 1]
    assert clipped(ratio, advantages, 0.2, dual_clip=3.0).tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("changes", [{}, {"clip_high": 0.9}, {"dual_clip": 1.3}])
def test_the_settings_of_the_clips_reach_the_loss(changes):
    agent, batch = scripted_batch([[2, 11], [0, 0, 11], [3, 4, 5, 11]], critic__loss_coef=0.0, **changes)
    log_ratio, rows = torch.tensor([[0.5], [-0.5], [1.0]]), torch.arange(3)
    batch.advantages = torch.tensor([[1.0], [-1.0], [-2.0]]) * batch.mask
    scores = agent.policy.score(
        batch.rollout.tokens, batch.rollout.lengths, batch.rollout.positions, agent.sampling, batch.rollout.allowed
    )
    batch.old_logprobs = scores.logprobs.detach() - log_ratio
    ratio, advantages = log_ratio.exp(), batch.advantages
    high, dual = changes.get("clip_high", 0.2), changes.get("dual_clip")
    terms = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1 + high) * advantages)
    if dual:
        terms = torch.where(advantages < 0, torch.maximum(terms, dual * advantages), terms)
    loss, _ = gradients(agent, batch, [rows])
    assert loss == pytest.approx(float(-terms[batch.mask].mean()), abs=1e-5)
    stats = agent.step(batch, rows)
    cut = {(): 2 + 3, ("clip_high",): 3, ("dual_clip",): 2 + 3 + 4}[tuple(changes)]
    assert stats["policy/clipfrac_avg"] == pytest.approx(cut / 9, abs=1e-6)


def test_a_value_that_drifted_away_is_brought_back():
    """The larger of both errors: the other choice has no gradient here, so that the value would stay where it is."""
    value = torch.tensor(-1.0, requires_grad=True)
    loss = value_loss(value, torch.tensor(2.0), torch.tensor(0.0), 0.2)
    (gradient,) = torch.autograd.grad(loss, value)
    assert float(loss.detach()) == pytest.approx(4.5)
    assert float(gradient) == pytest.approx(-3.0)
    held = value.detach().clamp(-0.2, 0.2).requires_grad_()
    assert float(((held - 2.0) ** 2).detach()) == pytest.approx(4.84)


def test_a_value_that_came_closer_than_the_width_allows_gets_no_more():
    value = torch.tensor(1.0, requires_grad=True)
    loss = value_loss(value, torch.tensor(2.0), torch.tensor(0.0), 0.2)
    (gradient,) = torch.autograd.grad(loss, value)
    assert float(loss.detach()) == pytest.approx(0.5 * 1.8**2)
    assert float(gradient) == 0.0


def test_a_value_within_the_width_or_without_one_is_not_clipped():
    for old, clip in ((0.9, 0.2), (-5.0, None)):
        value = torch.tensor(1.0, requires_grad=True)
        loss = value_loss(value, torch.tensor(2.0), torch.tensor(old), clip)
        (gradient,) = torch.autograd.grad(loss, value)
        assert (float(loss.detach()), float(gradient)) == (0.5, -1.0)


def test_the_value_clip_reaches_the_loss():
    def loss(**changes):
        agent, batch = scripted_batch([[2, 11], [0, 0, 11]], kl__coef=0.0, **changes)
        batch.returns = torch.full_like(batch.returns, 2.0)
        batch.values = torch.zeros_like(batch.values)  # the critic of this agent says 0.7
        return gradients(agent, batch, [torch.arange(2)], critic_only=True)[0] / agent.config.critic.loss_coef

    assert loss() == pytest.approx(0.5 * 1.3**2, abs=1e-5)
    assert loss(critic__clip=0.2) == pytest.approx(0.5 * 1.8**2, abs=1e-5)
    assert loss(critic__clip=1.0) == pytest.approx(0.5 * 1.3**2, abs=1e-5)


MASK = torch.tensor([[True] * 4, [True] + [False] * 3])
LOSSES = torch.tensor([[1.0] * 4, [3.0, 99.0, float("nan"), float("inf")]])


@pytest.mark.parametrize(
    ("aggregation", "constant", "expected"),
    [("token_mean", None, 1.4), ("sequence_mean", None, 2.0), ("constant", 4.0, 7 / 8), ("constant", 1.0, 3.5)],
)
def test_four_actions_of_loss_one_and_one_of_loss_three(aggregation, constant, expected):
    weights = loss_weights(MASK, aggregation, constant)
    assert float(weighted_sum(LOSSES, weights)) == pytest.approx(expected)
    assert not weights[~MASK].any()
    if constant is None:
        assert float(weights.sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean", "constant"])
def test_rows_without_actions_count_for_nothing(aggregation):
    constant = 4.0 if aggregation == "constant" else None
    padded = torch.cat([MASK, torch.zeros(3, 4, dtype=torch.bool)])
    assert torch.equal(loss_weights(padded, aggregation, constant)[:2], loss_weights(MASK, aggregation, constant))
    assert not loss_weights(torch.zeros(2, 3, dtype=torch.bool), aggregation, constant).any()


@pytest.mark.parametrize(
    ("aggregation", "constant"), [("token_mean", None), ("sequence_mean", None), ("constant", 6.0)]
)
def test_a_loss_is_the_same_in_micro_batches_of_any_size_and_equals_the_loss_by_hand(aggregation, constant):
    changes = {"aggregation": aggregation, "aggregation_constant": constant, "critic__loss_coef": 0.0}
    agent = make_agent(entropy_coef=0.2, kl__place="loss", kl__estimator="k2", kl__coef=0.3, **changes)
    batch = agent.score(agent.collect())
    batch.ref_logprobs -= 0.4 * batch.mask
    rows, n = torch.arange(8), batch.mask.sum(1, keepdim=True).clamp(min=1)
    assert len(set(n.flatten().tolist())) > 1
    terms = -batch.advantages - 0.2 * batch.entropy + 0.3 * 0.5 * (batch.old_logprobs - batch.ref_logprobs) ** 2
    trained = int(batch.mask.any(1).sum())
    share = {"token_mean": 1 / batch.mask.sum(), "sequence_mean": 1 / (trained * n), "constant": 1 / (trained * 6.0)}
    expected = float((terms * share[aggregation])[batch.mask].sum())
    for size in (1, 2, 4, 8):
        assert gradients(agent, batch, list(rows.split(size)))[0] == pytest.approx(expected, abs=2e-5)

"""The chapter's hand-checkable fixtures (tables 3.1-3.4, worked examples) and the numeric traps of GAE and means."""

import math

import pytest
import torch

from agents import losses
from agents import rewards as shaping
from agents.ppo import objective

BETA, GAMMA, LAMBDA, CLIP = 0.20, 1.0, 0.95, 0.20
OLD = torch.tensor([[-0.8, -1.0, -0.6, -1.2]], dtype=torch.float64)
REF = torch.tensor([[-0.9, -0.8, -0.7, -1.0]], dtype=torch.float64)
VALUES = torch.tensor([[1.0, 0.9, 0.3, 0.1]], dtype=torch.float64)
CURRENT = torch.tensor([[-1.156675, -1.0, -0.504690, -0.899895]], dtype=torch.float64)
MASK = torch.ones(1, 4, dtype=torch.bool)
SCORE = torch.tensor([[0.0, 0.0, 0.0, 1.0]], dtype=torch.float64)
ADVANTAGES = torch.tensor([[-0.0446175, 0.07935, 0.673, 0.94]], dtype=torch.float64)


def close(a, b, tolerance=1e-6):
    torch.testing.assert_close(a, torch.as_tensor(b, dtype=a.dtype).reshape(a.shape), atol=tolerance, rtol=0)


def test_shaped_rewards_of_table_3_2():
    close(shaping.shaped_rewards(SCORE, OLD, REF, BETA, MASK), [-0.02, 0.04, -0.02, 1.04])


def test_advantages_and_returns_of_table_3_2():
    rewards = shaping.shaped_rewards(SCORE, OLD, REF, BETA, MASK)
    residuals = objective.gae(rewards, VALUES, torch.zeros(1, dtype=torch.float64), MASK, GAMMA, 0.0)
    close(residuals, [-0.12, -0.56, -0.22, 0.94])
    advantages = objective.gae(rewards, VALUES, torch.zeros(1, dtype=torch.float64), MASK, GAMMA, LAMBDA)
    close(advantages, ADVANTAGES)
    close(advantages + VALUES, [0.9553825, 0.97935, 0.973, 1.04])


def test_value_loss_of_the_first_token():
    loss = objective.value_loss(torch.tensor(1.0, dtype=torch.float64), torch.tensor(0.9553825, dtype=torch.float64))
    assert float(loss) == pytest.approx(0.000995, abs=1e-6)


def test_clipped_terms_of_table_3_3():
    ratio = (CURRENT - OLD).exp()
    close(ratio, [0.70, 1.00, 1.10, 1.35])
    close(ratio * ADVANTAGES, [-0.031232, 0.07935, 0.7403, 1.269])
    terms = losses.clipped_surrogate(CURRENT, OLD, ADVANTAGES, CLIP)
    close(terms, [-0.035694, 0.07935, 0.7403, 1.128])
    assert float(losses.masked_mean(terms, MASK)) == pytest.approx(0.477989, abs=1e-6)


def test_two_clip_fractions_of_table_3_3():
    ratio = (CURRENT - OLD).exp()
    assert float(losses.outside(ratio, CLIP).mean()) == 0.5
    assert float(losses.clipped(ratio, ADVANTAGES, CLIP).mean()) == 0.5
    # The sign of the advantage decides which bound cuts: with all signs flipped nothing is cut, yet as much is outside.
    assert float(losses.clipped(ratio, -ADVANTAGES, CLIP).mean()) == 0.0
    assert float(losses.outside(ratio, CLIP).mean()) == 0.5


@pytest.mark.parametrize(("beta", "cost"), [(0.02, 0.016), (0.20, 0.160)])
def test_kl_coefficient_scale(beta, cost):
    one = torch.ones(1, 1, dtype=torch.bool)
    reward = shaping.shaped_rewards(torch.zeros(1, 1), torch.tensor([[-0.2]]), torch.tensor([[-1.0]]), beta, one)
    assert float(reward) == pytest.approx(-cost, abs=1e-6)


@pytest.mark.parametrize(("advantage", "probability"), [(0.60, 0.4087), (-0.60, 0.3914)])
def test_one_logit_policy_gradient_step(advantage, probability):
    q = torch.tensor(math.log(0.4 / 0.6), dtype=torch.float64, requires_grad=True)
    logprob = torch.nn.functional.logsigmoid(q)
    term = losses.clipped_surrogate(logprob, logprob.detach(), torch.tensor(advantage, dtype=torch.float64), CLIP)
    (gradient,) = torch.autograd.grad(term, q)
    assert float(gradient) == pytest.approx(0.6 * advantage, abs=1e-9)
    assert float(torch.sigmoid(q.detach() + 0.10 * gradient)) == pytest.approx(probability, abs=5e-5)


def test_log_prob_mismatch_of_two_hundredths():
    assert math.exp(0.02) == pytest.approx(1.0202, abs=1e-4)
    one = torch.ones(1, 1, dtype=torch.bool)
    ratio = losses.clipped_surrogate(torch.tensor([[-0.98]]), torch.tensor([[-1.0]]), torch.ones(1, 1), CLIP)
    assert float(losses.masked_mean(ratio, one)) == pytest.approx(1.0202, abs=1e-4)


def test_return_is_advantage_plus_value_in_table_3_4():
    for value, advantage, target in [(0.296, -0.165, 0.131), (0.233, -0.108, 0.125), (0.265, -0.147, 0.118)]:
        assert value + advantage == pytest.approx(target, abs=1e-9)
        values, one = torch.tensor([[value]]), torch.ones(1, 1, dtype=torch.bool)
        estimate = objective.gae(torch.tensor([[target]]), values, torch.zeros(1), one, GAMMA, LAMBDA)
        assert float(estimate) == pytest.approx(advantage, abs=1e-6)


def test_explained_variance():
    returns, mask = torch.tensor([[1.0, 2.0, 3.0]]), torch.ones(1, 3, dtype=torch.bool)
    assert objective.explained_variance(returns, returns, mask) == 1.0
    assert objective.explained_variance(torch.full((1, 3), 2.0), returns, mask) == pytest.approx(0.0)
    assert objective.explained_variance(-returns, returns, mask) < 0
    assert math.isnan(objective.explained_variance(returns, torch.ones(1, 3), mask))


def test_truncated_episode_bootstraps_and_terminated_does_not():
    rewards, values, mask = torch.zeros(1, 3), torch.tensor([[0.2, 0.5, 0.6]]), torch.ones(1, 3, dtype=torch.bool)
    close(objective.gae(rewards, values, torch.tensor([0.4]), mask, 1.0, 0.95), [0.2145, -0.09, -0.2])
    close(objective.gae(rewards, values, torch.zeros(1), mask, 1.0, 0.95), [-0.1465, -0.47, -0.6])


def test_padding_carries_nothing_into_gae():
    rewards, values = torch.tensor([[0.0, 1.0, 9.0]]), torch.tensor([[0.0, 0.0, 100.0]])
    mask = torch.tensor([[True, True, False]])
    close(objective.gae(rewards, values, torch.zeros(1), mask, 1.0, 0.95), [0.95, 1.0, 0.0])


def test_whitening_uses_real_actions_only():
    advantages = torch.tensor([[1.0, 2.0, 77.0, -5.0], [3.0, 4.0, 5.0, 99.0]])
    mask = torch.tensor([[True, True, False, False], [True, True, True, False]])
    assert float(losses.masked_mean(advantages, mask)) == 3.0
    close(objective.whiten(advantages, mask)[mask], (torch.arange(1.0, 6.0) - 3) / math.sqrt(2.0))


def test_whitening_constants_and_single_actions_gives_finite_zeros():
    for shape in [(1, 1), (2, 3)]:
        whitened = objective.whiten(torch.full(shape, 0.7), torch.ones(shape, dtype=torch.bool))
        assert torch.equal(whitened, torch.zeros(shape))


def test_nan_on_padding_poisons_nothing():
    x, mask = torch.tensor([[1.0, float("nan")]]), torch.tensor([[True, False]])
    assert float(losses.masked_mean(x, mask)) == 1.0
    rewards = shaping.shaped_rewards(x, x, x, 0.1, mask)
    assert torch.equal(rewards, torch.tensor([[1.0, 0.0]]))

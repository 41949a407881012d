"""PPO reaches the closed-form optimum of the KL-regularised bandit, and the wrong KL estimators do not."""

import pytest
import torch

from agents.kl import estimate
from agents.ppo import PPO, PPOConfig
from tests.agents.bandit import (
    BETA,
    REFERENCE,
    REWARDS,
    BanditVectorEnv,
    arm_probabilities,
    bandit_model,
    optimum,
    total_variation,
)  # fmt: skip
from tests.agents.small import configure

ROWS = 128
CONFIG = configure(
    PPOConfig(), optimizer__learning_rate=3e-3, critic__learning_rate=3e-2, optimizer__schedule="linear", epochs=4,
    minibatches=2, micro_batch=512, kl__coef=BETA, gae_lambda=1.0, eval_every=0,
)  # fmt: skip


def train(iterations=80, rewards=REWARDS, **changes):
    """(agent, probabilities of the arms before, and after)"""
    model = bandit_model()
    reference = arm_probabilities(model)
    agent = PPO(model, BanditVectorEnv(ROWS, rewards), configure(CONFIG, **changes))
    agent.learn(ROWS * iterations)
    return agent, reference, arm_probabilities(model)


def distance(**changes):
    """Total variation between what was learned and the optimum."""
    _, reference, learned = train(**changes)
    return total_variation(learned, optimum(reference)[0])


def test_closed_form_numbers():
    best, value = optimum(REFERENCE)
    torch.testing.assert_close(best, torch.tensor([0.1756, 0.1317, 0.4866, 0.0439, 0.1622]), atol=5e-5, rtol=0)
    assert value == pytest.approx(0.41161, abs=5e-6)
    assert float((best * (best / REFERENCE).log()).sum()) == pytest.approx(0.47436, abs=5e-6)
    assert total_variation(REFERENCE, best) > 0.3


@pytest.mark.parametrize("whiten", [True, False])
def test_ppo_reaches_the_optimum(whiten):
    agent, reference, learned = train(whiten_advantages=whiten)
    best, value = optimum(reference)
    assert total_variation(learned, best) < 0.02
    estimates = agent.score(agent.collect()).values
    assert float(estimates[0]) == pytest.approx(value, abs=0.02)


@pytest.mark.parametrize("changes", [{"kl__coef": 2 * BETA, "rewards": 2 * REWARDS}, {"rewards": REWARDS + 3}])
def test_twice_the_rewards_and_costs_or_a_constant_more_leave_the_optimum(changes):
    assert distance(**changes) < 0.02


def test_without_a_cost_the_best_arms_are_all_and_with_a_large_one_the_reference_is():
    _, _, free = train(kl__coef=0.0)
    assert float(free[REWARDS == 1].sum()) > 0.98
    _, reference, bound = train(kl__coef=50.0)
    best = optimum(reference, beta=50.0)[0]
    assert total_variation(bound, best) < 0.02
    assert total_variation(best, reference) < 0.01


def test_k2_in_the_loss_reaches_the_same_optimum():
    assert distance(iterations=120, kl__place="loss", kl__estimator="k2", whiten_advantages=False) < 0.02


def test_k1_in_the_loss_holds_nothing_back(monkeypatch):
    def k1(logprobs, old, ref, estimator):
        return (logprobs - old).exp().detach() * estimate(logprobs, ref, "k1")

    monkeypatch.setattr("agents.ppo.agent.kl_loss", k1)
    assert distance(kl__place="loss", kl__estimator="k2", whiten_advantages=False) > 0.2


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_other_estimators_in_the_reward_miss_the_optimum(monkeypatch, estimator):
    def wrong(rewards, old, ref, kl_coef, mask):
        return (rewards - kl_coef * estimate(old, ref, estimator)).masked_fill(~mask, 0.0)

    monkeypatch.setattr("agents.ppo.agent.shaped_rewards", wrong)
    assert distance() > 0.1


@pytest.mark.parametrize(("target", "higher"), [(0.05, True), (2.0, False)])
def test_the_adaptive_cost_moves_towards_its_target(target, higher):
    """KL of the optimum is 0.47 nats at the first coefficient, which the coefficient must correct."""
    agent, _, _ = train(iterations=40, kl__target=target, kl__horizon=1_000)
    assert (agent.kl.coef > 1.5 * BETA) if higher else (agent.kl.coef < BETA / 1.5)

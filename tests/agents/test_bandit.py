"""PPO reaches the closed-form optimum of the KL-regularised bandit, and the wrong KL estimators do not."""

import pytest
import torch

from agents.ppo import PPO, PPOConfig
from tests.agents.bandit import (
    BETA,
    REFERENCE,
    START,
    BanditVectorEnv,
    arm_probabilities,
    bandit_model,
    optimum,
    total_variation,
)  # fmt: skip
from tests.agents.small import configure

CONFIG = configure(
    PPOConfig(), optimizer__learning_rate=3e-3, critic__learning_rate=3e-2, optimizer__schedule="linear", epochs=4,
    minibatches=4, micro_batch=512, kl__coef=BETA, gae_lambda=1.0, eval_every=0,
)  # fmt: skip


def train(seed=0, iterations=150, **changes):
    model = bandit_model()
    reference = arm_probabilities(model)
    agent = PPO(model, BanditVectorEnv(512), configure(CONFIG, seed=seed, **changes))
    agent.learn(512 * iterations)
    return agent, reference, arm_probabilities(model)


def test_closed_form_numbers():
    best, value = optimum(REFERENCE)
    torch.testing.assert_close(best, torch.tensor([0.1756, 0.1317, 0.4866, 0.0439, 0.1622]), atol=5e-5, rtol=0)
    assert value == pytest.approx(0.41161, abs=5e-6)


@pytest.mark.parametrize("whiten", [True, False])
def test_ppo_reaches_the_optimum(whiten):
    agent, reference, learned = train(whiten_advantages=whiten)
    best, value = optimum(reference)
    assert total_variation(reference, best) > 0.3
    assert total_variation(learned, best) < 0.02
    estimate = agent.policy.score(
        torch.tensor([[START, 0]]),
        torch.tensor([2]),
        torch.tensor([[1]]),
        agent.sampling,
        torch.ones(5, dtype=torch.bool),
    ).values[0, 0]
    assert float(estimate) == pytest.approx(value, abs=0.02)


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_other_estimators_in_the_reward_miss_the_optimum(monkeypatch, estimator):
    def wrong(rewards, old, ref, kl_coef, mask):
        log_ratio = old - ref
        k = 0.5 * log_ratio**2 if estimator == "k2" else (-log_ratio).exp() - 1 + log_ratio
        return (rewards - kl_coef * k).masked_fill(~mask, 0.0)

    monkeypatch.setattr("agents.ppo.agent.shaped_rewards", wrong)
    _, reference, learned = train()
    assert total_variation(learned, optimum(reference)[0]) > 0.1

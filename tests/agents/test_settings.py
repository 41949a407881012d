"""Settings: what cannot work is refused by name and with its reason, and the defaults are the chapter's notebook."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from agents.grpo import GRPOConfig
from agents.ppo import PPOConfig
from agents.sampling import Sampling
from agents.settings import KLConfig, OptimizerConfig, RewardConfig
from tests.agents.small import configure, make_agent


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kl__estimator": "k2"}, r"'k2' must not stand in the reward.* moves the optimum .*0\.35 for k2"),
        ({"kl__estimator": "k3"}, r"'k3' must not stand in the reward.* use k1, or place='loss'"),
        ({"kl__place": "loss"}, "'k1' must not stand in the loss: its expected gradient there is zero.* use k2"),
        ({"kl__estimator": "k4"}, "estimator must be one of 'k1', 'k2', 'k3', got 'k4'"),
        ({"kl__place": "advantage"}, "place must be one of 'reward', 'loss'"),
        ({"kl__coef": -0.1}, "coef must be 0 or more, got -0.1"),
        ({"kl__coef": float("nan")}, "coef must be 0 or more"),
        ({"kl__target": 0.0}, "target must be > 0"),
        ({"kl__target": -6.0}, "target must be > 0"),
        ({"kl__horizon": 0}, "horizon must be > 0"),
        ({"kl__target": 6.0, "kl__coef": 0.0}, "must not start at 0"),
        ({"reward__clip": 0.0}, "clip must be > 0"),
        ({"reward__length_penalty": 0.1}, "length_penalty needs a length_budget"),
        ({"reward__length_budget": -1}, "length_budget must be 0 or more"),
        ({"reward__score_range": (1.0, 0.0)}, r"score_range must be \(low, high\)"),
        ({"reward__score_range": (1.0, 1.0)}, r"score_range must be \(low, high\)"),
        ({"optimizer__schedule": "step"}, "schedule must be one of"),
        ({"optimizer__warmup_iterations": -1}, "warmup_iterations must be 0 or more"),
        ({"optimizer__betas": (0.9, 1.0)}, r"betas must be in \[0, 1\)"),
        ({"optimizer__max_grad_norm": 0.0}, "max_grad_norm must be > 0"),
        ({"critic__kind": "shared"}, "kind must be one of 'head', 'separate'"),
        ({"critic__kind": "separate", "critic__trunk_gradient": 0.5}, "trunk_gradient is for a value head"),
        ({"critic__trunk_gradient": 1.5}, r"trunk_gradient must be in \[0, 1\]"),
        ({"critic__gae_lambda": 1.5}, r"gae_lambda must be in \[0, 1\]"),
        ({"critic__clip": 0.0}, "clip must be > 0"),
        ({"critic__settled": -0.1}, "settled must be 0 or more"),
        ({"dual_clip": 1.0}, "dual_clip must be > 1, got 1.0"),
        ({"clip_high": 0.0}, "clip_high must be > 0"),
        ({"gae_lambda": -0.1}, r"gae_lambda must be in \[0, 1\]"),
        ({"aggregation": "mean"}, "aggregation must be one of 'token_mean', 'sequence_mean', 'constant'"),
        ({"aggregation": "constant"}, "aggregation_constant belongs to aggregation='constant', which needs it"),
        ({"aggregation_constant": 6.0}, "aggregation_constant belongs to aggregation='constant'"),
        ({"aggregation": "constant", "aggregation_constant": 0.0}, "aggregation_constant must be > 0"),
        ({"importance_cap": 2.0}, "importance_cap .* needs recompute_logprobs=True"),
        ({"recompute_logprobs": True, "importance_cap": 0.0}, "importance_cap must be > 0"),
        ({"target_kl": 0.0}, "target_kl must be > 0"),
        ({"top_k": -1}, "top_k must be 0 or more"),
        ({"top_p": 1.5}, r"top_p must be in \[0, 1\]"),
        ({"min_p": -0.5}, r"min_p must be in \[0, 1\]"),
        ({"minibatches": 0}, "minibatches must be > 0"),
        ({"seed": -1}, "seed must be 0 or more"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_the_reason(changes, message):
    with pytest.raises(ValueError, match=message):
        configure(PPOConfig(), **changes)


def test_settings_that_work_together():
    configure(PPOConfig(), kl__place="loss", kl__estimator="k2", kl__target=6.0)
    configure(PPOConfig(), kl__place="loss", kl__estimator="k3", kl__coef=0.0)
    configure(PPOConfig(), reward__length_budget=0, reward__length_penalty=0.1, reward__score_range=(0.0, 1.0))
    configure(PPOConfig(), recompute_logprobs=True, importance_cap=2.0)
    configure(PPOConfig(), aggregation="constant", aggregation_constant=16.0)


def test_a_nucleus_of_nothing_is_refused():
    with pytest.raises(ValueError, match="top_p must be > 0"):
        Sampling(top_p=0.0)
    with pytest.raises(ValueError, match="top_p must be > 0"):
        make_agent(top_p=0.0)


def test_defaults_are_those_of_the_chapters_notebook():
    config = PPOConfig()
    found = (config.temperature, config.gamma, config.gae_lambda, config.kl.coef, config.clip, config.epochs)
    assert found == (1.0, 1.0, 0.95, 0.05, 0.2, 4)
    assert config.optimizer.learning_rate == 2e-5
    assert (config.kl.place, config.kl.estimator, config.kl.target) == ("reward", "k1", None)
    assert config.reward == RewardConfig(False, None, None, 0.0, None)
    assert (config.clip_high, config.dual_clip, config.critic.clip, config.importance_cap) == (None, None, None, None)
    assert not config.recompute_logprobs, "the denominator is what was stored when the token was drawn"
    assert config.critic.trunk_gradient == 0.0


def test_lambda_depends_on_no_length():
    """A lambda of 1 - 1 / (0.05 l) is 0 for answers of up to 20 tokens, so none is offered."""
    assert 1 - 1 / (0.05 * 20) == 0.0
    assert 1 - 1 / (0.05 * 40) == 0.5
    assert [f.name for f in dataclasses.fields(PPOConfig) if "lambda" in f.name] == ["gae_lambda"]
    assert isinstance(PPOConfig().gae_lambda, float)


def test_settings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        KLConfig().coef = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        (PPOConfig, {"temperature": "hot"}, "temperature must be float, got 'hot'"),
        (PPOConfig, {"epochs": 1.5}, "epochs must be int, got 1.5"),
        (PPOConfig, {"kl": 0.1}, "kl must be KLConfig, got 0.1"),
        (OptimizerConfig, {"learning_rate": True}, "learning_rate must be float, got True"),
        (GRPOConfig, {"clip_high": "0.3"}, "clip_high must be float or None, got '0.3'"),
    ],
)
def test_a_setting_of_another_type_is_refused_by_name(kind, values, said):
    with pytest.raises(ValueError, match=f"^{said}$"):
        kind(**values)


def test_numbers_of_numpy_are_numbers():
    values: dict[str, Any] = {"epochs": np.int64(2), "temperature": np.float32(0.5)}
    assert PPOConfig(**values).epochs == 2

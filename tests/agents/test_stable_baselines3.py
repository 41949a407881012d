"""Advantages, losses, gradients and statistics against those that Stable-Baselines3 computes from the same numbers."""

from functools import partial
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure as make_logger
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import DummyVecEnv

from agents import kl, losses
from agents.ppo import objective


def close(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, torch.as_tensor(b, dtype=a.dtype), atol=tolerance, rtol=1e-5)


# Advantages


def test_gae_of_whole_episodes():
    rng = torch.Generator().manual_seed(0)
    rewards, values = torch.rand(3, 5, generator=rng), torch.rand(3, 5, generator=rng)
    buffer = RolloutBuffer(5, spaces.Discrete(2), spaces.Discrete(2), gae_lambda=0.9, gamma=0.97, n_envs=3)
    buffer.rewards[:], buffer.values[:] = rewards.T.numpy(), values.T.numpy()
    buffer.compute_returns_and_advantage(torch.zeros(3), dones=torch.ones(3).numpy())
    ours = objective.gae(rewards, values, torch.zeros(3), torch.ones(3, 5, dtype=torch.bool), 0.97, 0.9)
    close(ours, buffer.advantages.T.copy())


class RandomEpisodes(gymnasium.Env):
    """Random rewards, and episodes that end or are cut off at random; keeps what really happened."""

    observation_space, action_space = spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2)

    def __init__(self, seed):
        self.rng, self.episodes = np.random.default_rng(seed), []

    def reset(self, *, seed=None, options=None):
        self.episodes.append({"rewards": [], "terminated": False, "truncated": False, "last": None})
        return self._observation(), {}

    def step(self, action):
        episode, observation = self.episodes[-1], self._observation()
        terminated, truncated = (bool(x) for x in self.rng.random(2) < (0.15, 0.2))
        episode["rewards"].append(float(self.rng.normal()))
        episode.update(terminated=terminated, truncated=truncated, last=observation)
        return observation, episode["rewards"][-1], terminated, truncated, {}

    def _observation(self):
        return self.rng.uniform(-1, 1, 3).astype(np.float32)


class Snapshot(BaseCallback):
    """What the rollout buffer holds before the first update, and what the critic thinks of where episodes stopped."""

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        model: Any = self.model
        buffer, envs = model.rollout_buffer, cast(DummyVecEnv, self.training_env).envs
        self.values, self.advantages = buffer.values.T.copy(), buffer.advantages.T.copy()
        self.returns = buffer.returns.T.copy()
        self.last_values = [
            [self.value_of(episode["last"]) for episode in env.unwrapped.episodes if episode["rewards"]]
            for env in cast(list[Any], envs)
        ]

    def value_of(self, observation):
        policy: Any = self.model.policy
        with torch.no_grad():
            return float(policy.predict_values(torch.as_tensor(observation)[None]))


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.97, 0.9), (0.9, 1.0), (1.0, 0.0)])
def test_gae_of_episodes_that_end_or_are_cut_off_at_random(gamma, lam):
    n_steps = 60
    env = DummyVecEnv([partial(RandomEpisodes, seed) for seed in range(3)])
    model = PPO("MlpPolicy", env, n_steps=n_steps, batch_size=n_steps * 3, n_epochs=1, gamma=gamma, gae_lambda=lam,
                seed=0, device="cpu")  # fmt: skip
    seen = Snapshot()
    model.learn(3 * n_steps, callback=seen)
    kinds = set()
    for row, inner in enumerate(cast(list[Any], env.envs)):
        start, episodes = 0, [episode for episode in inner.unwrapped.episodes if episode["rewards"]]
        n = [len(episode["rewards"]) for episode in episodes]
        assert sum(n) == n_steps
        rewards, values = torch.zeros(len(n), max(n)), torch.full((len(n), max(n)), 77.0)
        mask = torch.arange(max(n)) < torch.tensor(n)[:, None]
        for i, episode in enumerate(episodes):
            rewards[i, : n[i]] = torch.tensor(episode["rewards"])
            values[i, : n[i]] = torch.from_numpy(seen.values[row, start : start + n[i]])
            start += n[i]
            kinds.add((episode["terminated"], episode["truncated"]))
        ended = torch.tensor([episode["terminated"] for episode in episodes])
        last_values = torch.tensor(seen.last_values[row]) * ~ended
        advantages = objective.gae(rewards, values, last_values, mask, gamma, lam)
        close(advantages[mask], seen.advantages[row])
        close((advantages + values)[mask], seen.returns[row])
    assert {(True, False), (False, True), (False, False)} <= kinds


# Losses


class Update:
    """One full-batch update of Stable-Baselines3 on given numbers: what it logs, and the gradients it computes."""

    def __init__(self, clip=0.2, value_clip=None, entropy_coef=0.01, normalize=False, n=64):
        rng = np.random.default_rng(0)
        self.old_logprobs, self.old_values, self.advantages, self.returns = rng.normal(size=(4, n)).astype(np.float32)
        new_logprobs = self.old_logprobs + rng.normal(size=n).astype(np.float32) * 0.4
        new_values = self.old_values + rng.normal(size=n).astype(np.float32)
        self.logprobs, self.values, self.entropy = (
            torch.tensor(x, requires_grad=True) for x in (new_logprobs, new_values, np.abs(new_logprobs))
        )
        model = PPO(
            "MlpPolicy", DummyVecEnv([lambda: RandomEpisodes(0)]), n_steps=n, batch_size=n, n_epochs=1, clip_range=clip,
            clip_range_vf=value_clip, ent_coef=entropy_coef, vf_coef=0.5, normalize_advantage=normalize, device="cpu",
        )  # fmt: skip
        model.set_logger(make_logger(None, []))
        model.policy.evaluate_actions = self.evaluate  # type: ignore[method-assign]
        buffer = model.rollout_buffer
        buffer.observations[:, 0, 0] = np.arange(n)  # an observation is the index of its numbers
        buffer.log_probs[:, 0], buffer.values[:, 0] = self.old_logprobs, self.old_values
        buffer.advantages[:, 0], buffer.returns[:, 0] = self.advantages, self.returns
        buffer.full = True
        model.train()
        self.logged = {name.removeprefix("train/"): value for name, value in model.logger.name_to_value.items()}

    def evaluate(self, observations, actions):
        index = observations[:, 0].long()
        return self.values[index], self.logprobs[index], self.entropy[index]

    def arrays(self, *names):
        return [torch.as_tensor(getattr(self, name)).detach().clone()[None] for name in names]


@pytest.mark.parametrize("clip", [0.1, 0.2, 0.5])
def test_losses_gradients_and_statistics_of_an_update(clip):
    update = Update(clip)
    old, advantages, returns, old_values = update.arrays("old_logprobs", "advantages", "returns", "old_values")
    logprobs, values, entropy = (x.requires_grad_() for x in update.arrays("logprobs", "values", "entropy"))
    weights = losses.loss_weights(torch.ones_like(old, dtype=torch.bool), "token_mean")
    policy_loss = -losses.weighted_sum(losses.clipped_surrogate(logprobs, old, advantages, clip), weights)
    value_loss = losses.weighted_sum(objective.value_loss(values, returns), weights)
    loss = policy_loss + value_loss - 0.01 * losses.weighted_sum(entropy, weights)
    loss.backward()
    logged = update.logged
    assert float(policy_loss.detach()) == pytest.approx(logged["policy_gradient_loss"], abs=1e-6)
    assert float(value_loss.detach()) == pytest.approx(
        0.5 * logged["value_loss"], abs=1e-6
    )  # half the squared error is ours
    assert float(loss.detach()) == pytest.approx(logged["loss"], abs=1e-6)
    for ours, theirs in ((logprobs, update.logprobs), (values, update.values), (entropy, update.entropy)):
        assert theirs.grad is not None
        assert theirs.grad.any()
        close(ours.grad[0], theirs.grad, 1e-8)
    ratio = (logprobs - old).exp().detach()
    outside = losses.weighted_sum(losses.outside(ratio, clip), weights)
    assert 0 < float(outside) == pytest.approx(logged["clip_fraction"], abs=1e-6)
    approx_kl = losses.weighted_sum(kl.approx_kl(logprobs.detach(), old), weights)
    assert float(approx_kl) == pytest.approx(float(logged["approx_kl"]), abs=1e-6)
    found = objective.explained_variance(old_values, returns, torch.ones_like(old, dtype=torch.bool))
    assert found == pytest.approx(logged["explained_variance"], abs=1e-5)


def test_whitened_advantages_differ_by_the_degrees_of_freedom_alone():
    """Stable-Baselines3 divides by the sample's standard deviation, and again for each minibatch."""
    n = 64
    update = Update(normalize=True, n=n)
    old, advantages, logprobs = update.arrays("old_logprobs", "advantages", "logprobs")
    mask = torch.ones_like(old, dtype=torch.bool)
    whitened = objective.whiten(advantages, mask) * ((n - 1) / n) ** 0.5
    loss = -losses.masked_mean(losses.clipped_surrogate(logprobs, old, whitened, 0.2), mask)
    assert float(loss) == pytest.approx(update.logged["policy_gradient_loss"], abs=1e-6)


def test_clipped_values_agree_where_they_moved_away_from_the_return_and_nowhere_else():
    """Stable-Baselines3 has no maximum: a value beyond the width has no gradient, wherever the return lies."""
    update = Update(value_clip=0.3)
    old_values, returns = update.arrays("old_values", "returns")
    (values,) = (x.requires_grad_() for x in update.arrays("values"))
    objective.value_loss(values, returns, old_values, 0.3).mean().backward()
    assert values.grad is not None
    assert update.values.grad is not None
    ours, theirs = values.grad[0], update.values.grad
    move, needed = (values - old_values).detach()[0], (returns - old_values)[0]
    within, towards = move.abs() <= 0.3, move * needed > 0
    close(ours[within], theirs[within], 1e-8)
    assert not theirs[~within].any()
    assert ours[~within & ~towards].all()  # ours brings them back
    assert min(within.sum(), (~within & ~towards).sum(), (~within & towards).sum()) > 5


@pytest.mark.parametrize("seed", range(4))
def test_explained_variance(seed):
    rng = np.random.default_rng(seed)
    values, returns = rng.normal(size=(2, 50)).astype(np.float32)
    returns = seed * values + returns
    mask = torch.ones(1, 60, dtype=torch.bool)
    mask[:, 50:] = False
    wide_values, wide_returns = (
        torch.cat([torch.from_numpy(x), torch.full((10,), 99.0)])[None] for x in (values, returns)
    )
    found = objective.explained_variance(wide_values, wide_returns, mask)
    assert found == pytest.approx(explained_variance(values, returns), abs=1e-5)
    assert np.isnan(explained_variance(values, np.ones_like(values)))
    assert np.isnan(objective.explained_variance(wide_values, torch.ones_like(wide_returns), mask))

"""A small agent that keeps the contract, and others that break it, each in its own way."""

import random
import shutil
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from agents.base import AgentError, Episode
from agents.random_agent import RandomAgent
from agents.two_arms import ARMS, VOCABULARY


class Learner(RandomAgent):
    """Learns by being told: a small agent that keeps the contract, for the broken ones to break."""

    name, learns = "learner", True

    def __init__(self, n_actions, seed=0):
        super().__init__(n_actions, seed)
        self.weights = np.ones(n_actions)
        self.env: Any = None

    @classmethod
    def make(cls, env, **options):
        agent = cls(VOCABULARY, **options)
        agent.env = env()
        return agent

    def learn(self, total_timesteps):
        while self.num_timesteps < total_timesteps:
            self.env.reset(seed=self.num_timesteps)
            arm = ARMS[self.num_timesteps % 2]
            self.weights[arm] += self.env.step(arm)[1]
            self.num_timesteps += 1
        return self

    def predict(self, observation, state=None, episode_start=None, deterministic=False, action_masks=None):
        batch = observation["length"].shape[:-1]
        scores = self.weights * np.broadcast_to(
            True if action_masks is None else action_masks, (*batch, self.n_actions)
        )
        if not deterministic:  # Gumbel's trick draws with probabilities in proportion to the scores
            scores = scores / -np.log(self.rng.random(scores.shape))
        return scores.argmax(-1), state

    def save(self, folder):
        super().save(folder)
        np.savez(Path(folder) / "learner.npz", weights=self.weights, num_timesteps=self.num_timesteps)

    @classmethod
    def load(cls, folder, env, **options):
        if not (Path(folder) / "learner.npz").exists():
            raise AgentError(f"{folder} is no checkpoint of a learner")
        agent: Any = super().load(folder, env, **options)
        saved = np.load(Path(folder) / "learner.npz")
        agent.weights, agent.num_timesteps = saved["weights"], int(saved["num_timesteps"])
        return agent


class IgnoresMasks(Learner):
    def predict(self, observation, *args, action_masks=None, **options):
        return super().predict(observation, *args, action_masks=None, **options)  # type: ignore[misc]


class Forgets(Learner):
    @classmethod
    def load(cls, folder, env, **options):
        agent: Any = super().load(folder, env, **options)
        agent.weights[:] = 1
        return agent


class Undecided(Learner):
    def predict(self, observation, *args, deterministic=False, **options):
        return super().predict(observation, *args, deterministic=False, **options)  # type: ignore[misc]


class Mutates(Learner):
    def predict(self, observation, *args, **options):
        observation["tokens"] *= 0
        return super().predict(observation, *args, **options)


class MutatesMasks(Learner):
    def predict(self, observation, *args, action_masks=None, **options):
        actions, state = super().predict(observation, *args, action_masks=action_masks, **options)  # type: ignore[misc]
        if action_masks is not None:
            action_masks[...] = True
        return actions, state


class NeverLearns(Learner):
    def learn(self, total_timesteps):
        self.num_timesteps = total_timesteps
        return self


class MiscountsAndReturnsNothing(Learner):
    def learn(self, total_timesteps):
        super().learn(total_timesteps)
        self.num_timesteps = 7


class ReadsPadding(Learner):
    def predict(self, observation, state=None, episode_start=None, deterministic=False, action_masks=None):
        if not deterministic:
            return super().predict(observation, action_masks=action_masks)
        liked = (np.arange(self.n_actions) + observation["tokens"].sum(-1, keepdims=True)) % self.n_actions
        return (np.where(True if action_masks is None else action_masks, liked, -1)).argmax(-1), state


class OneOfAFew(Learner):
    def predict(self, observation, *args, **options):
        actions, state = super().predict(observation, *args, **options)
        return (actions[0] if actions.shape == (4,) else actions), state


class StepsTheEnvironment(Learner):
    def predict(self, observation, *args, **options):
        self.env.reset()
        return super().predict(observation, *args, **options)


class Reseeds(Learner):
    @classmethod
    def make(cls, env, **options):
        torch.manual_seed(0)
        return super().make(env, **options)

    def learn(self, total_timesteps):
        random.seed(0)
        return super().learn(total_timesteps)

    def predict(self, *args, **options):
        np.random.seed(0)
        return super().predict(*args, **options)


class LoadsAnything(Learner):
    @classmethod
    def load(cls, folder, env, **options):
        return super().load(folder, env, **options) if (Path(folder) / "learner.npz").exists() else cls.make(env)


class Floats(Learner):
    def predict(self, *args, **options):
        actions, state = super().predict(*args, **options)
        return actions * 1.0, state


class NeedsMasks(Learner):
    def predict(self, observation, *args, action_masks=None, **options):
        return super().predict(observation, *args, action_masks=action_masks & True, **options)  # type: ignore[misc]


class PassesOnlyArms(Learner):
    def predict(self, observation, *args, action_masks=None, **options):
        masks = np.isin(np.arange(VOCABULARY), ARMS) if action_masks is None else action_masks
        return super().predict(observation, *args, action_masks=masks, **options)  # type: ignore[misc]


class TakesTheLeastProbable(Learner):
    def predict(self, observation, state=None, episode_start=None, deterministic=False, action_masks=None):
        if not deterministic:
            return super().predict(observation, action_masks=action_masks)
        allowed = np.broadcast_to(
            True if action_masks is None else action_masks, (*observation["length"].shape[:-1], 8)
        )
        return np.where(allowed, -self.weights, -np.inf).argmax(-1), state


class TakesTheFirst(Learner):
    def predict(self, observation, state=None, episode_start=None, deterministic=False, action_masks=None):
        if deterministic:
            return RandomAgent.predict(self, observation, deterministic=True, action_masks=action_masks)
        return super().predict(observation, action_masks=action_masks)


class CannotBeSeeded(Learner):
    def seed(self, seed):
        self.rng = np.random.default_rng()


class HasOneSeed(Learner):
    def seed(self, seed):
        super().seed(0)


class LearnsAsManyMore(Learner):
    def learn(self, total_timesteps):
        return super().learn(self.num_timesteps + total_timesteps)


class StartsCountingAgain(Learner):  # as Stable-Baselines3 does unless told otherwise
    def learn(self, total_timesteps):
        self.num_timesteps = 0
        return super().learn(total_timesteps)


class LoadsWithoutEnvironment(Learner):
    @classmethod
    def load(cls, folder, env, **options):
        agent: Any = super().load(folder, env, **options)
        agent.env = None
        return agent


class LearnsNothingOnceLoaded(Learner):
    @classmethod
    def load(cls, folder, env, **options):
        return NeverLearns.load(folder, env, **options)


class ForgetsHowFarItWas(Learner):
    @classmethod
    def load(cls, folder, env, **options):
        agent: Any = super().load(folder, env, **options)
        agent.num_timesteps = 0
        return agent


class SavesAfterAReset(Learner):
    def save(self, folder):
        self.weights[:] = 1
        super().save(folder)


class SavesIntoItsClass(Learner):
    kept: ClassVar[Any] = None

    def save(self, folder):
        super().save(folder)
        type(self).kept = self.weights.copy()

    @classmethod
    def load(cls, folder, env, **options):
        agent: Any = super().load(folder, env, **options)
        agent.weights = cls.kept.copy()
        return agent


class SavesAPath(Learner):
    kept: ClassVar[dict[Path, Any]] = {}

    def save(self, folder):
        super().save(folder)
        self.kept[Path(folder)] = self.weights.copy()

    @classmethod
    def load(cls, folder, env, **options):
        agent: Any = super().load(folder, env, **options)
        agent.weights = cls.kept.get(Path(folder), np.ones(VOCABULARY)).copy()
        return agent


class SharesItsWeights(Learner):
    shared = np.ones(VOCABULARY)

    def __init__(self, n_actions, seed=0):
        super().__init__(n_actions, seed)
        self.weights = self.shared
        self.weights[:] = 1

    @classmethod
    def load(cls, folder, env, **options):
        agent: Any = super().load(folder, env, **options)
        cls.shared[:] = agent.weights
        agent.weights = cls.shared
        return agent


class Overwrites(Learner):
    def save(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        super().save(folder)


class PlaysNothing(Learner):
    def play(self, env, indices, **options):
        return (Episode(number, {}, 2.0) for number, _ in enumerate(indices))


class PlaysOthers(Learner):
    def play(self, env, indices, **options):
        return super().play(env, range(len(list(indices))), **options)


class SwitchesGradientsOff(Learner):
    def learn(self, total_timesteps):
        torch.set_grad_enabled(False)
        return super().learn(total_timesteps)


class HasNoName(Learner):
    name: ClassVar[Any] = None

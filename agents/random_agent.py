"""An agent that draws each token evenly from the allowed ones: the floor of every table of learners."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from agents.base import Agent, AgentError, EnvSource
from agents.environment import vocabulary_size
from agents.files import whole_folder
from agents.play import make_vec

FILE = "random.json"


class RandomAgent(Agent):
    """Evenly random allowed tokens.

    Args:
        n_actions: V, size of the action space.
        seed: of its draws.
    """

    name, learns = "random", False

    def __init__(self, n_actions: int, seed: int = 0) -> None:
        self.n_actions = n_actions
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """A generator of its own."""
        self.rng = np.random.default_rng(seed)

    @classmethod
    def make(cls, env: EnvSource, *, env_options: Mapping[str, Any] | None = None, seed: int = 0) -> RandomAgent:
        """Build it for a token-level environment."""
        made = make_vec(env, 1, dict(env_options or {}))
        try:
            return cls(vocabulary_size(made), seed)
        finally:
            made.close()

    def learn(self, total_timesteps: int) -> RandomAgent:
        """Nothing to learn."""
        return self

    def predict(self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False,
                action_masks: np.ndarray | None = None) -> tuple[Any, Any]:  # fmt: skip
        """Evenly drawn; deterministic takes the first allowed token."""
        single = np.ndim(observation["tokens"]) == 1
        n = 1 if single else len(observation["tokens"])
        masks = np.ones(self.n_actions, dtype=bool) if action_masks is None else np.asarray(action_masks)
        ranks = 1.0 if deterministic else 1.0 + self.rng.random((n, self.n_actions))
        actions = (np.broadcast_to(masks, (n, self.n_actions)) * ranks).argmax(1)
        return (actions[0] if single else actions), state

    def save(self, folder: str | Path) -> None:
        """Write the state of its generator."""
        state = {"n_actions": self.n_actions, "rng": self.rng.bit_generator.state}
        with whole_folder(folder) as unfinished:
            (unfinished / FILE).write_text(json.dumps(state))

    @classmethod
    def load(cls, folder: str | Path, env: EnvSource, **options: Any) -> RandomAgent:
        """Read it back."""
        agent = cls.make(env, **options)
        try:
            state = json.loads((Path(folder) / FILE).read_text())
            n_actions, agent.rng.bit_generator.state = state["n_actions"], state["rng"]
        except (OSError, ValueError, TypeError, KeyError):
            raise AgentError(f"{folder} is no checkpoint of a random agent: {FILE} is missing or damaged") from None
        if n_actions != agent.n_actions:
            raise AgentError(f"{folder} has {n_actions} actions, the environment {agent.n_actions}")
        return agent

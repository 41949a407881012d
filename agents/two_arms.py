"""The environment of `agents.testing`, a two-armed bandit written in tokens, and how an agent acts in it."""

from __future__ import annotations

import copy
import inspect
import random
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete

PAD, EOS, ARMS, VOCABULARY, LENGTH = 0, 1, (2, 3), 8, 6
DRAWS = 400
"""Actions drawn to measure a probability."""
SURE = 4.0
"""Standard errors by which probabilities must differ: an agent that learns nothing passes once in 30,000 times."""
Behaviour = tuple[np.ndarray, float]
"""Greedy actions, and how often the better arm is drawn."""


class TwoArms(gym.Env):
    """After a prompt of 1 to 3 tokens, 1 or 2 pulls; the better arm pays 1.

    `reset(options={"index": i})` gives example i: its prompt, and a pull more when i is odd.

    Args:
        better: the token that pays.
        calls: counts resets and steps, of all environments that share it.
    """

    eos_token_id, pad_token_id, stop_token_ids, max_length = EOS, PAD, (EOS,), LENGTH
    num_examples = 100

    def __init__(self, better: int, calls: list[int]) -> None:
        self.observation_space = Dict(
            tokens=Box(0, VOCABULARY - 1, (LENGTH,), np.int64),
            length=Box(0, LENGTH, (1,), np.int64),
            remaining=Box(0, 2, (1,), np.int64),
        )
        self.action_space = Discrete(VOCABULARY)
        self.better, self.calls = better, calls
        self.prefix: list[int] = []
        self.remaining = 0

    def action_masks(self) -> np.ndarray:
        """The arms."""
        return np.isin(np.arange(VOCABULARY), ARMS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A new prompt, or an example's."""
        super().reset(seed=seed)
        self.calls[0] += 1
        index = (options or {}).get("index")
        draws = self.np_random if index is None else np.random.default_rng(index)
        self.prefix = draws.integers(max(ARMS) + 1, VOCABULARY, draws.integers(1, 4)).tolist()
        self.remaining = int(draws.integers(1, 3)) if index is None else 1 + index % 2
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pull an arm; any other token ends the episode."""
        if self.remaining == 0:
            raise RuntimeError("step called before reset or after the episode ended; call reset first")
        self.calls[0] += 1
        self.prefix.append(int(action))
        self.remaining = self.remaining - 1 if action in ARMS else 0
        ended = self.remaining == 0
        info = {"stop_reason": "length" if action in ARMS else "invalid_action"} if ended else {}
        return self._observation(), float(action == self.better), ended, False, info

    def _observation(self) -> dict[str, np.ndarray]:
        tokens = np.full(LENGTH, PAD, dtype=np.int64)
        tokens[: len(self.prefix)] = self.prefix
        return {"tokens": tokens, "length": np.array([len(self.prefix)]), "remaining": np.array([self.remaining])}


class Bench:
    """Makes agents of a class for `TwoArms` and measures how they act; collects what is wrong with it.

    Args:
        agent_class: of the agents.
        options: of `make` and `load`; see `agents.testing.check_agent`.
    """

    def __init__(self, agent_class: Any, options: dict[str, Any]) -> None:
        self.agent_class, self.options = agent_class, options
        self.found: dict[str, None] = {}  # in order, each once
        self.calls = [0]
        self.better = ARMS[1]  # not the first: that one an agent takes to which both are the same
        self.rng = np.random.default_rng(0)
        env = self.env()
        rows = [env.reset(seed=seed)[0] for seed in range(DRAWS)]
        self.observations = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
        self.masks = self.rng.random((DRAWS, VOCABULARY)) < 0.4
        self.masks[np.arange(DRAWS), self.rng.integers(VOCABULARY, size=DRAWS)] = True

    def note(self, sentence: str) -> None:
        """Keep a sentence on what is wrong."""
        self.found[sentence] = None

    def env(self) -> TwoArms:
        """One environment."""
        return TwoArms(self.better, self.calls)

    def resolved(self) -> dict[str, Any]:
        """The options, with those that are made for this environment."""
        return {
            name: value(vocabulary=VOCABULARY, length=LENGTH) if _is_recipe(value) else value
            for name, value in self.options.items()
        }

    def make(self, folder: Path | None = None) -> Any:
        """A new agent, or one from a folder; always from the same global generators, so that recipes repeat."""
        seed_everything(0)
        if folder is None:
            return self.agent_class.make(self.env, **self.resolved())
        return self.agent_class.load(folder, self.env, **self.resolved())

    def act(self, agent: Any, observation: Any, masks: np.ndarray | None, deterministic: bool) -> np.ndarray:
        """`predict`, with all that must hold of every call."""
        before, calls = copy.deepcopy(observation), self.calls[0]
        masks_before = None if masks is None else masks.copy()
        actions, _ = agent.predict(observation, deterministic=deterministic, action_masks=masks)
        if any(not np.array_equal(before[key], observation[key]) for key in before):
            self.note("predict changes the observation it is given")
        if masks is not None and masks_before is not None and not np.array_equal(masks_before, masks):
            self.note("predict changes the masks it is given")
        if calls != self.calls[0]:
            self.note("predict resets or steps an environment")
        actions, shape = np.asarray(actions), observation["length"].shape[:-1]
        if actions.shape != shape or actions.dtype.kind not in "iu":
            expected = f"expected integers of shape {shape}"
            raise TypeError(f"predict returns actions of shape {actions.shape} and type {actions.dtype}, {expected}")
        if actions.min() < 0 or actions.max() >= VOCABULARY:
            raise ValueError(f"predict returns {actions.min()} to {actions.max()}, outside Discrete({VOCABULARY})")
        allowed = np.broadcast_to(True if masks is None else masks, (*shape, VOCABULARY))
        if not np.take_along_axis(allowed, actions[..., None], -1).all():
            self.note("predict chooses a masked action")
        return actions

    def greedy(self, agent: Any) -> np.ndarray:
        """Actions under masks of all kinds."""
        return self.act(agent, self.observations, self.masks, True)

    def share(self, agent: Any) -> float:
        """How often the better arm is drawn."""
        drawn = self.act(agent, self.observations, self.env().action_masks(), False)
        return float((drawn == self.better).mean())

    def behaviour(self, agent: Any) -> Behaviour:
        """How it acts now."""
        agent.seed(3)
        return self.greedy(agent), self.share(agent)

    def acts_as(self, agent: Any, behaviour: Behaviour) -> bool:
        """Whether it acts like that now; draws may differ by chance."""
        greedy, share = self.behaviour(agent)
        return np.array_equal(greedy, behaviour[0]) and abs(standard_errors(share, behaviour[1])) <= SURE

    def score(self, agent: Any, index: int) -> float:
        """Of one example, played greedily by `predict`."""
        env, score, ended = self.env(), 0.0, False
        observation, _ = env.reset(options={"index": index})
        while not ended:
            action = self.act(agent, observation, env.action_masks(), True)
            observation, reward, ended, *_ = env.step(int(action))
            score += reward
        return score


def _is_recipe(option: Any) -> bool:
    """Whether an option is a function of `vocabulary` and `length`."""
    try:
        return callable(option) and set(inspect.signature(option).parameters) == {"vocabulary", "length"}
    except (TypeError, ValueError):
        return False


def seed_everything(seed: int) -> None:
    """The global generators of Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def standard_errors(before: float, after: float) -> float:
    """By how many standard errors a share of `DRAWS` draws rose."""
    mean = (before + after) / 2
    return 0.0 if before == after else (after - before) / (2 * mean * (1 - mean) / DRAWS) ** 0.5

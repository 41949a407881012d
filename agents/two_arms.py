"""The environment of `agents.testing`: a two-armed bandit written in tokens."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

PAD, EOS, ARMS, VOCABULARY, LENGTH = 0, 1, (2, 3), 8, 6


class TwoArms(gym.Env):
    """After a prompt of 1 to 3 tokens, 1 or 2 pulls; the better arm pays 1.

    Args:
        better: the token that pays.
        calls: counts resets and steps, of all environments that share it.
    """

    eos_token_id, pad_token_id, stop_token_ids, max_length = EOS, PAD, (EOS,), LENGTH

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
        """A new prompt."""
        super().reset(seed=seed)
        self.calls[0] += 1
        self.prefix = self.np_random.integers(max(ARMS) + 1, VOCABULARY, self.np_random.integers(1, 4)).tolist()
        self.remaining = int(self.np_random.integers(1, 3))
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

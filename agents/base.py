"""What every agent offers, in Stable-Baselines3's vocabulary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np


class Agent(ABC):
    """Learns from a token-level Gymnasium environment and acts in it."""

    num_timesteps: int = 0
    """Tokens sampled for training so far."""

    @abstractmethod
    def learn(self, total_timesteps: int) -> Agent:
        """Train until that many tokens have been sampled; returns itself."""

    @abstractmethod
    def predict(self, prefixes: Sequence[np.ndarray], deterministic: bool = True) -> np.ndarray:
        """The next token of each prefix: (B,) int64."""

    @abstractmethod
    def save(self, folder: str | Path) -> None:
        """Write everything needed to go on into a folder, whole or not at all."""

"""PPO's settings: small dataclasses, one line per field, with where its value comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agents.settings import TrainingConfig, check_choice, check_ranges


@dataclass(frozen=True)
class CriticConfig:
    """The value model and how it learns."""

    kind: Literal["head", "separate"] = "head"
    """A value head on the policy's trunk, or a second model with a trunk of its own."""
    learning_rate: float = 1e-4
    """Of everything that is the critic's alone; 5-10 times the policy's is usual (VC-PPO, ORZ)."""
    trunk_gradient: float = 0.0
    """Share of a value head's gradient that enters the policy's trunk: with 0 the critic cannot move the policy."""
    loss_coef: float = 0.5
    """Weight of the value loss beside the policy loss (only matters where its gradient enters the policy's trunk)."""
    clip: float | None = None
    """Width by which a value may leave its old one before the loss stops rewarding it; None for no value clipping."""
    gae_lambda: float | None = None
    """lambda of the return targets (VC-PPO's decoupled GAE takes 1); the policy's when None."""
    warmup: int = 0
    """First iterations that train the critic alone, on Monte-Carlo returns; the policy gets no gradient and stays."""
    settled: float | None = None
    """Ends the warm-up early: explained variance rose by less than this in each of two iterations."""

    def __post_init__(self) -> None:
        check_choice(self, "kind", ("head", "separate"))
        check_ranges(self, positive=("learning_rate", "clip"), non_negative=("loss_coef", "warmup", "settled"))
        check_ranges(self, unit=("trunk_gradient", "gae_lambda"))
        if self.kind == "separate" and self.trunk_gradient:
            raise ValueError("trunk_gradient is for a value head on the policy's trunk: a separate critic has its own")


@dataclass(frozen=True)
class PPOConfig(TrainingConfig):
    """Settings of PPO. Defaults are the chapter's notebook (GPT-2, short continuations), where it names them."""

    critic: CriticConfig = CriticConfig()
    epochs: int = 4
    """Passes over each stored batch (chapter)."""
    clip: float = 0.2
    """Clip width eps of Eq. 3.9 (chapter)."""
    clip_high: float | None = None
    """Another width above 1 (DAPO: 0.28); eps when None."""
    dual_clip: float | None = None
    """Bound c on a negative advantage's ratio (Ye et al. 2020: 3); None for none."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus; 0 keeps the KL-regularised optimum."""
    gamma: float = 1.0
    """Discount per action (chapter)."""
    gae_lambda: float = 0.95
    """lambda of Eq. 3.3 (chapter); 1 for 0/1 verifiers (Open-Reasoner-Zero)."""
    whiten_advantages: bool = True
    """Normalise advantages over all actions of the batch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, positive=("clip", "clip_high"), non_negative=("entropy_coef",))
        check_ranges(self, unit=("gamma", "gae_lambda"))
        if self.dual_clip is not None and self.dual_clip <= 1:
            raise ValueError(f"dual_clip must be > 1, got {self.dual_clip}")

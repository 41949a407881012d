"""PPO's settings: one small dataclass, one line per field, with where its value comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PPOConfig:
    """Settings of PPO. Defaults are the chapter's notebook (GPT-2, short continuations), where it names them."""

    learning_rate: float = 2e-5
    """Of the policy's weights (chapter)."""
    critic_learning_rate: float = 1e-4
    """Of the value head; 5-10 times the policy's is usual (VC-PPO, ORZ)."""
    lr_schedule: str = "constant"
    """`constant`, or `linear` decay to 0 at `total_timesteps`."""
    epochs: int = 4
    """Passes over each stored batch (chapter)."""
    minibatches: int = 1
    """Optimiser steps per pass; the batch is shuffled and cut into this many."""
    micro_batch: int = 64
    """Rows per forward pass: bounds memory, changes no gradient."""
    clip: float = 0.2
    """Clip width eps of Eq. 3.9 (chapter)."""
    value_coef: float = 0.5
    """Weight of the value loss beside the policy loss (only matters when the critic's gradient enters the trunk)."""
    value_trunk_gradient: float = 0.0
    """Share of the critic's gradient that enters the trunk: with 0 the critic cannot move the policy."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus; 0 keeps the KL-regularised optimum."""
    kl_coef: float = 0.05
    """beta of Eq. 3.1, reward per nat (chapter)."""
    gamma: float = 1.0
    """Discount per action (chapter)."""
    gae_lambda: float = 0.95
    """lambda of Eq. 3.3 (chapter); 1 for 0/1 verifiers (Open-Reasoner-Zero)."""
    whiten_advantages: bool = True
    """Normalise advantages over all actions of the batch."""
    max_grad_norm: float = 1.0
    """Gradient norm is clipped to it, policy and critic apart."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's decay rates."""
    adam_eps: float = 1e-5
    """AdamW's epsilon (CleanRL, LM-human-preferences)."""
    weight_decay: float = 0.0
    """AdamW's decoupled weight decay."""
    critic_warmup: int = 0
    """First iterations that train only the value head; the policy gets no gradient at all, so it cannot move."""
    temperature: float = 1.0
    """Sampling temperature; old, current and reference log-probs are all taken at it (chapter)."""
    recompute_logprobs: bool = False
    """Use the trainer's own log-probs as the ratio's denominator instead of those stored at sampling."""
    mismatch_tolerance: float | None = None
    """Nats by which a stored log-prob may differ from the trainer's own before an update, above which training stops;
    None: 1e-4 in float32, 0.5 in mixed precision."""
    eval_every: int = 10
    """Iterations between held-out evaluations; 0 for only the last."""
    eval_episodes: int = 256
    """Problems per held-out evaluation."""
    checkpoint_every: int = 0
    """Iterations between checkpoints; 0 for only the last."""
    seed: int = 0
    """Seeds sampling, minibatches and the environment's resets."""

    def __post_init__(self) -> None:
        positive = (
            "learning_rate",
            "critic_learning_rate",
            "epochs",
            "minibatches",
            "micro_batch",
            "clip",
            "max_grad_norm",
        )
        for name in (*positive, "temperature"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be > 0, got {getattr(self, name)}")
        for name in ("kl_coef", "entropy_coef", "critic_warmup", "eval_every", "checkpoint_every", "seed"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if not all(0 <= beta < 1 for beta in self.adam_betas):
            raise ValueError(f"adam_betas must be in [0, 1), got {self.adam_betas}")
        for name in ("gamma", "gae_lambda", "value_trunk_gradient"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in [0, 1], got {getattr(self, name)}")
        if self.lr_schedule not in ("constant", "linear"):
            raise ValueError(f"lr_schedule must be 'constant' or 'linear', got {self.lr_schedule!r}")

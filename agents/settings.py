"""Settings that all agents which learn from their own rollouts share: small dataclasses, one line per field."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def check_ranges(
    settings: Any, positive: tuple[str, ...] = (), non_negative: tuple[str, ...] = (), unit: tuple[str, ...] = ()
) -> None:
    """Raises ValueError with the name of a field that is not > 0, not >= 0 or not in [0, 1]; None is no value.

    Types are looked at first, see `check_types`.
    """
    check_types(settings)
    for names, holds, expected in (
        (positive, lambda x: x > 0, "> 0"),
        (non_negative, lambda x: x >= 0, "0 or more"),
        (unit, lambda x: 0 <= x <= 1, "in [0, 1]"),
    ):
        for name in names:
            value = getattr(settings, name)
            if value is not None and not holds(value):
                raise ValueError(f"{name} must be {expected}, got {value}")


def check_types(settings: Any) -> None:
    """Raises ValueError with the name of a field whose value is not of its declared type; True is no number.

    What a container holds is not looked at, and `check_choice` is for a choice.
    """

    wider: dict[Any, Any] = {int: Integral, float: Real, tuple: (tuple, list)}

    def fits(value: Any, declared: Any) -> bool:
        kind = get_origin(declared) or declared
        if kind in (Any, Literal):
            return True
        if kind in (Union, UnionType):
            return any(fits(value, one) for one in get_args(declared))
        if isinstance(value, bool):
            return kind is bool
        return isinstance(value, wider.get(kind, kind))

    kind_of_settings: Any = type(settings)
    declared = declared_types(kind_of_settings)
    for field in dataclasses.fields(settings):
        value, kind = getattr(settings, field.name), declared[field.name]
        if not fits(value, kind):
            kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
            expected = " or ".join("None" if one is type(None) else one.__name__ for one in kinds)
            raise ValueError(f"{field.name} must be {expected}, got {value!r}")


declared_types = functools.cache(get_type_hints)  # a sampler's settings are checked for every token


def check_choice(settings: Any, name: str, choices: tuple[str, ...]) -> None:
    """Raises ValueError when a field is none of its choices."""
    value = getattr(settings, name)
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def from_plain(kind: type, content: dict[str, Any]) -> Any:
    """Settings from what `jsonable` made of them; nested dataclasses and tuples are built again."""
    types, values = get_type_hints(kind), {}
    for name, value in content.items():
        if name not in types:
            raise ValueError(f"{kind.__name__} has no setting {name!r} (another version's?), only {', '.join(types)}")
        if dataclasses.is_dataclass(types[name]) and isinstance(value, dict):
            value = from_plain(types[name], value)  # type: ignore[arg-type]
        values[name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW and its schedule."""

    learning_rate: float = 2e-5
    """Of the policy's weights (chapter)."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """After the warm-up: constant, or a decay to 0 at `total_timesteps`."""
    warmup_iterations: int = 0
    """First iterations during which the rate rises linearly to its full value."""
    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's decay rates."""
    eps: float = 1e-5
    """AdamW's epsilon (CleanRL, LM-human-preferences)."""
    weight_decay: float = 0.0
    """AdamW's decoupled weight decay."""
    max_grad_norm: float | None = 1.0
    """Gradient norm is clipped to it, policy and critic apart."""
    eight_bit: bool = False
    """Keep AdamW's moments in 8 bits (needs `bitsandbytes`): 2 bytes per parameter instead of 8."""

    def __post_init__(self) -> None:
        check_ranges(self, positive=("learning_rate", "eps", "max_grad_norm"))
        check_ranges(self, non_negative=("warmup_iterations", "weight_decay"))
        check_choice(self, "schedule", ("constant", "linear", "cosine"))
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be in [0, 1), got {self.betas}")


@dataclass(frozen=True)
class KLConfig:
    """The cost of leaving the reference; its unit is reward per nat."""

    coef: float = 0.05
    """beta of Eq. 3.1 (chapter); the first value when it adapts."""
    place: Literal["reward", "loss"] = "reward"
    """In the reward of each action (the closed-form optimum is that of this one), or as a term of the loss."""
    estimator: Literal["k1", "k2", "k3"] = "k1"
    """In the reward k1, the sampled log-ratio; in the loss k2 or k3."""
    target: float | None = None
    """Nats per *answer* that an adaptive coefficient aims at (Ziegler et al. 2019); None keeps it fixed."""
    horizon: int = 10_000
    """Episodes over which the adaptive coefficient moves; larger is slower."""

    def __post_init__(self) -> None:
        check_ranges(self, non_negative=("coef",), positive=("target", "horizon"))
        check_choice(self, "place", ("reward", "loss"))
        check_choice(self, "estimator", ("k1", "k2", "k3"))
        if self.place == "reward" and self.estimator != "k1":
            raise ValueError(
                f"estimator {self.estimator!r} must not stand in the reward: its expected gradient there is not that "
                "of the KL and moves the optimum (measured on a bandit: total variation 0.35 for k2, 0.51 for k3); use "
                "k1, or place='loss'"
            )
        if self.place == "loss" and self.estimator == "k1":
            raise ValueError(
                "estimator 'k1' must not stand in the loss: its expected gradient there is zero, so that nothing holds "
                "the policy back; use k2 (or k3, the gradient of the other direction), or place='reward'"
            )
        if self.target is not None and self.coef == 0:
            raise ValueError("an adaptive KL coefficient (target) must not start at 0: it changes by factors")


@dataclass(frozen=True)
class RewardConfig:
    """What happens to raw scores before they become rewards; raw scores are always logged."""

    normalize: bool = False
    """Subtract the running mean of all scores so far and divide by their standard deviation."""
    clip: float | None = None
    """Scores are cut to [-clip, clip], after normalisation."""
    length_budget: int | None = None
    """Actions of an episode that are free."""
    length_penalty: float = 0.0
    """Reward taken for each action beyond the budget."""
    score_range: tuple[float, float] | None = None
    """Where raw scores must lie; one outside is an error, since the environment is then not the one declared."""

    def __post_init__(self) -> None:
        check_ranges(self, positive=("clip",), non_negative=("length_budget", "length_penalty"))
        if self.length_penalty > 0 and self.length_budget is None:
            raise ValueError("length_penalty needs a length_budget: the number of actions that are free")
        if self.score_range is not None and not self.score_range[0] < self.score_range[1]:
            raise ValueError(f"score_range must be (low, high) with low < high, got {self.score_range}")


@dataclass(frozen=True)
class TrainingConfig:
    """What every agent needs that samples a batch, scores it and updates on it."""

    optimizer: OptimizerConfig = OptimizerConfig()
    kl: KLConfig = KLConfig()
    reward: RewardConfig = RewardConfig()
    temperature: float = 1.0
    """Sampling temperature; old, current and reference log-probs are all taken at it (chapter)."""
    top_k: int = 0
    """Sample from the k most probable tokens; 0 for all. With this or the next two, kept sets are stored."""
    top_p: float = 1.0
    """Sample from the most probable tokens that together have this probability."""
    min_p: float = 0.0
    """Sample from tokens with this share of the best one's probability."""
    epochs: int = 1
    """Passes over each stored batch."""
    minibatches: int = 1
    """Optimiser steps per pass; the batch is shuffled and cut into this many."""
    micro_batch: int = 64
    """Rows per forward pass: bounds memory, changes no gradient."""
    aggregation: Literal["token_mean", "sequence_mean", "constant"] = "token_mean"
    """How the terms of a minibatch's actions become a loss; see `agents.losses.loss_weights`."""
    aggregation_constant: float | None = None
    """Actions per answer that `constant` divides by."""
    gradient_checkpointing: bool = False
    """Keep few activations and compute the others again in the backward pass: less memory, a third more time."""
    target_kl: float | None = None
    """Nats per token from the sampling policy at which a batch's remaining steps are skipped; None never skips."""
    recompute_logprobs: bool = False
    """Use the trainer's own log-probs as the ratio's denominator instead of those stored at sampling."""
    importance_cap: float | None = None
    """Correct for a sampler that is not the trainer: each action's loss is weighted by min(cap, trainer / sampler), the
    probabilities of both before any update (truncated importance sampling); needs `recompute_logprobs`."""
    mismatch_tolerance: float | None = None
    """Nats by which a stored log-prob may differ from the trainer's own before an update, above which training stops;
    None: 1e-4 in float32, 0.5 in mixed precision."""
    eval_every: int = 10
    """Iterations between held-out evaluations; 0 for only the last."""
    eval_episodes: int = 256
    """Problems per held-out evaluation."""
    checkpoint_every: int = 0
    """Iterations between checkpoints of a run folder; 0 for only the last."""
    keep_checkpoints: int = 3
    """Newest checkpoints that are kept, beside the best one."""
    seed: int = 0
    """Seeds sampling, minibatches and the environment's resets."""

    def __post_init__(self) -> None:
        check_ranges(
            self, positive=("temperature", "epochs", "minibatches", "micro_batch", "target_kl", "importance_cap")
        )
        check_ranges(self, non_negative=("top_k", "eval_every", "checkpoint_every", "seed"), unit=("top_p", "min_p"))
        check_ranges(self, positive=("eval_episodes", "keep_checkpoints"))
        check_choice(self, "aggregation", ("token_mean", "sequence_mean", "constant"))
        check_ranges(self, positive=("aggregation_constant",))
        if (self.aggregation == "constant") != (self.aggregation_constant is not None):
            raise ValueError("aggregation_constant belongs to aggregation='constant', which needs it")
        if self.importance_cap is not None and not self.recompute_logprobs:
            raise ValueError(
                "importance_cap compares the trainer's log-probs with the sampler's: it needs recompute_logprobs=True"
            )

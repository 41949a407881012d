"""The optimiser: AdamW with a rate per group, its schedule, and steps that refuse to go on with NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from agents.settings import OptimizerConfig


class NonFiniteError(FloatingPointError):
    """A loss or gradient is NaN or infinite; raised before the optimiser's step, so the weights are those before it."""


def build_optimizer(groups: dict[str, tuple[Sequence[torch.nn.Parameter], float]], config: OptimizerConfig) -> Any:
    """AdamW over named groups of parameters.

    Args:
        groups: name -> (parameters, learning rate before the schedule).
        config: everything else.

    Raises:
        ImportError: 8-bit moments asked for without `bitsandbytes`.
    """
    parameters = [{"params": list(p), "lr": rate, "base_lr": rate, "name": name} for name, (p, rate) in groups.items()]
    settings: dict[str, Any] = {"betas": config.betas, "eps": config.eps, "weight_decay": config.weight_decay}
    if not config.eight_bit:
        return torch.optim.AdamW(parameters, **settings)
    try:
        from bitsandbytes.optim import AdamW8bit
    except ImportError as error:
        raise ImportError("eight_bit=True needs bitsandbytes: pip install 'llm-envs[eight-bit]'") from error
    return AdamW8bit(parameters, **settings)


def schedule_factor(config: OptimizerConfig, iteration: int, progress: float) -> float:
    """What the learning rates are multiplied by in an iteration.

    Args:
        config: schedule and warm-up.
        iteration: number of the iteration, from 0.
        progress: share of `total_timesteps` already sampled, from 0.
    """
    decay = {"constant": 1.0, "linear": 1.0 - progress, "cosine": 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))}
    warmup = min(1.0, (iteration + 1) / config.warmup_iterations) if config.warmup_iterations else 1.0
    return warmup * max(0.0, decay[config.schedule])


def clip_gradients(parameters: Sequence[torch.nn.Parameter], max_norm: float | None, what: str) -> float:
    """Scale gradients so that their norm is at most `max_norm`, if there is one; returns the norm before.

    Raises:
        NonFiniteError: the norm is NaN or infinite.
    """
    norm = float(torch.nn.utils.clip_grad_norm_(parameters, math.inf if max_norm is None else max_norm))
    if not math.isfinite(norm):
        raise NonFiniteError(f"the gradient norm of the {what} is {norm}")
    return norm


def drop_gradients(parameters: Sequence[torch.nn.Parameter]) -> None:
    """Gradients become None, so that AdamW skips the parameters: zero gradients would still move them."""
    for parameter in parameters:
        parameter.grad = None

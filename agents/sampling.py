"""How logits become the distribution that draws tokens: one function, used when sampling and when re-scoring.

Legend: B rows, T actions, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """How the behaviour policy draws a token."""

    temperature: float = 1.0
    """Logits are divided by it; > 0."""
    greedy: bool = False
    """Take the most probable token instead of drawing one (evaluation only; log-probs are those of the softmax)."""

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature must be > 0 (use greedy=True for argmax), got {self.temperature}")


def log_distribution(logits: Tensor, sampling: Sampling, allowed: Tensor) -> Tensor:
    """Log-probabilities of the distribution that draws tokens, always in float32.

    The chapter's "behaviour policy" is the distribution *after* every transformation of the logits, so old, current and
    reference log-probs must all come from here: dividing by the temperature happens before the softmax (dividing
    log-probs afterwards is another distribution), and forbidden tokens get probability exactly 0.

    Args:
        logits: (..., V') any float type, V' >= V: a model may pad its vocabulary; the first V are used.
        sampling: the transformations.
        allowed: (V,) or (..., V) bool, tokens that may be drawn.

    Returns:
        (..., V) float32; -inf where not allowed.
    """
    logits = logits[..., : allowed.shape[-1]].float()
    if sampling.temperature != 1.0:
        logits = logits / sampling.temperature
    return torch.log_softmax(logits.masked_fill(~allowed, float("-inf")), dim=-1)


def entropy(log_probs: Tensor) -> Tensor:
    """Entropy in nats of each distribution, `-sum_a p(a) log p(a)`, with 0 log 0 = 0.

    Args:
        log_probs: (..., V), -inf allowed.

    Returns:
        (...)
    """
    # -inf * 0 is NaN, and a masked NaN still poisons the gradient, so the -inf is replaced before the product.
    finite = log_probs.masked_fill(log_probs == float("-inf"), 0.0)
    return -(log_probs.exp() * finite).sum(-1)


def draw(log_probs: Tensor, sampling: Sampling, generator: torch.Generator | None) -> Tensor:
    """One token id per row: (B, V) log-probs -> (B,) int64."""
    if sampling.greedy:
        return log_probs.argmax(-1)
    return torch.multinomial(log_probs.exp(), 1, generator=generator).squeeze(-1)

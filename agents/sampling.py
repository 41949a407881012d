"""How logits become the distribution that draws tokens: the same functions when sampling and when re-scoring.

Legend: B rows, T actions, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from agents.settings import check_ranges


@dataclass(frozen=True)
class Sampling:
    """How the behaviour policy draws a token."""

    temperature: float = 1.0
    """Logits are divided by it; > 0."""
    top_k: int = 0
    """Only the k most probable tokens may be drawn; 0 for all."""
    top_p: float = 1.0
    """Only the most probable tokens that together have this probability may be drawn; 1 for all."""
    min_p: float = 0.0
    """Only tokens with at least this share of the most probable token's probability may be drawn; 0 for all."""
    greedy: bool = False
    """Take the most probable token instead of drawing one (evaluation only; log-probs are those of the softmax)."""

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature must be > 0 (use greedy=True for argmax), got {self.temperature}")
        check_ranges(self, non_negative=("top_k",), unit=("top_p", "min_p"))
        if self.top_p == 0:
            raise ValueError("top_p must be > 0 (use greedy=True for argmax), got 0")

    @property
    def cuts(self) -> bool:
        """Whether the tokens that may be drawn depend on the logits; the kept sets are then part of the rollout."""
        return not self.greedy and (self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0)


def kept_tokens(logits: Tensor, sampling: Sampling, allowed: Tensor) -> Tensor:
    """The set that top-k, top-p and min-p keep, in this order, after temperature and token mask.

    Asked only while sampling. The set is stored with the token, and whoever scores that token later (trainer,
    reference) renormalises over the *stored* set: with a set of its own it would score another distribution, or give
    the drawn token no probability.

    Args:
        logits: (B, V') any float type, V' >= V.
        sampling: the transformations.
        allowed: (B, V) bool, tokens that may be drawn.

    Returns:
        (B, V) bool, a subset of `allowed` with at least one token of each row.
    """
    if not sampling.cuts:
        return allowed
    scores: Any = logits[..., : allowed.shape[-1]].float() / sampling.temperature
    scores = scores.masked_fill(~allowed, float("-inf"))
    unread: Any = None  # the interface has token ids, too
    if sampling.top_k > 0:
        scores = TopKLogitsWarper(sampling.top_k)(unread, scores)
    if sampling.top_p < 1.0:
        scores = TopPLogitsWarper(sampling.top_p)(unread, scores)
    if sampling.min_p > 0.0:
        scores = MinPLogitsWarper(sampling.min_p)(unread, scores)
    return scores > float("-inf")


def log_distribution(logits: Tensor, sampling: Sampling, kept: Tensor) -> Tensor:
    """Log-probabilities of the distribution that draws tokens, always in float32.

    The chapter's "behaviour policy" is the distribution *after* every transformation of the logits, so old, current and
    reference log-probs must all come from here: dividing by the temperature happens before the softmax (dividing
    log-probs afterwards is another distribution), and other tokens than the kept ones get probability exactly 0.

    Args:
        logits: (..., V') any float type, V' >= V: a model may pad its vocabulary; the first V are used.
        sampling: for its temperature.
        kept: (V,) or (..., V) bool, tokens that may be drawn: the token mask, cut by top-k, top-p and min-p.

    Returns:
        (..., V) float32; -inf where not kept.
    """
    logits = logits[..., : kept.shape[-1]].float()
    if sampling.temperature != 1.0:
        logits = logits / sampling.temperature
    return torch.log_softmax(logits.masked_fill(~kept, float("-inf")), dim=-1)


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
    """One token id per row: (B, V) log-probs -> (B,) int64.

    Raises:
        FloatingPointError: the policy's logits were NaN or infinite.
    """
    if bool(log_probs.isnan().any()):
        raise FloatingPointError(
            "the policy's logits are NaN or infinite: its weights are, or half precision overflowed"
        )
    if sampling.greedy:
        return log_probs.argmax(-1)
    return torch.multinomial(log_probs.exp(), 1, generator=generator).squeeze(-1)

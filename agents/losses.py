"""What the losses of all agents are made of: the clipped surrogate, weights of actions, and masked means.

Equation numbers are those of the PPO chapter this library is built from; papers are named where it has none.
Legend: B rows (answers), T actions of the longest row. Every (B, T) array holds actions only (see `agents.rollout`),
padded on the right, with a bool `mask` that is True on real actions. Log-probs are in nats.
"""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_surrogate(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    clip: float,
    clip_high: float | None = None,
    dual_clip: float | None = None,
) -> Tensor:
    """Each action's term of the clipped objective, to be maximised (Eq. 3.8 and 3.9; Schulman et al. 2017, Eq. 7).

        rho_t = pi(a_t|s_t) / pi_old(a_t|s_t)
        min(rho_t A_t, clip(rho_t, 1 - eps, 1 + eps_high) A_t)

    With a dual clip c, a negative advantage's term is at least c A_t, so that one action whose probability has grown
    many times cannot rule the gradient (Ye et al. 2020, Eq. 4).

    Args:
        logprobs: (B, T) of the current policy; the gradient flows through these only.
        old_logprobs: (B, T) denominators, constant.
        advantages: (B, T), constant.
        clip: eps.
        clip_high: eps_high of the upper bound (DAPO's "clip higher"); eps when None.
        dual_clip: c > 1; None leaves negative advantages unbounded, as PPO does.

    Returns:
        (B, T); reduce it with weights of the whole minibatch, not a mean per micro-batch.
    """
    ratio = (logprobs - old_logprobs).exp()
    high = clip if clip_high is None else clip_high
    terms = torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + high) * advantages)
    if dual_clip is not None:
        terms = torch.where(advantages < 0, torch.maximum(terms, dual_clip * advantages), terms)
    return terms


def loss_weights(mask: Tensor, aggregation: str, constant: float | None = None) -> Tensor:
    """What each action's term weighs in the loss of a minibatch; 0 on padding. Summing weighted terms needs no mean.

        token_mean      1 / N           every action counts the same; N actions in the minibatch
        sequence_mean   1 / (B n_i)     every answer counts the same; n_i actions in answer i
        constant        1 / (B C)       a token of a long answer weighs what one of a short answer does, and the
                                        weight does not depend on what was sampled (Liu et al. 2025)

    Args:
        mask: (B, T) bool of the *whole* minibatch; rows without actions count for nothing.
        aggregation: one of the above.
        constant: C, actions per answer.

    Returns:
        (B, T)
    """
    real = mask.float()
    rows = mask.any(1).sum().clamp(min=1)
    if aggregation == "token_mean":
        return real / mask.sum().clamp(min=1)
    if aggregation == "sequence_mean":
        return real / (rows * mask.sum(1, keepdim=True).clamp(min=1))
    assert constant is not None
    return real / (rows * constant)


def weighted_sum(x: Tensor, weights: Tensor) -> Tensor:
    """Sum of x w over real entries. `where` before the product, since NaN * 0 is NaN."""
    return torch.where(weights > 0, x * weights, 0.0).sum()


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of the real entries; 0 when there are none. `where` before the sum, since NaN * 0 is NaN."""
    return torch.where(mask, x, 0.0).sum() / mask.sum().clamp(min=1)


def outside(ratio: Tensor, clip: float, clip_high: float | None = None) -> Tensor:
    """The chapter's clip fraction counts these: 1.0 where a ratio lies outside [1 - eps, 1 + eps_high]."""
    high = clip if clip_high is None else clip_high
    return ((ratio < 1 - clip) | (ratio > 1 + high)).float()


def clipped(
    ratio: Tensor, advantages: Tensor, clip: float, clip_high: float | None = None, dual_clip: float | None = None
) -> Tensor:
    """1.0 where an action's gradient is cut: its ratio is beyond the bound that its advantage's sign makes binding."""
    high = clip if clip_high is None else clip_high
    cut = ((ratio > 1 + high) & (advantages > 0)) | ((ratio < 1 - clip) & (advantages < 0))
    if dual_clip is not None:
        cut = cut | ((ratio > dual_clip) & (advantages < 0))
    return cut.float()

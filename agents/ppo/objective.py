"""The mathematics that is PPO's own, as small pure functions: advantages and values. For the rest see `agents.losses`.

Equation numbers are those of the PPO chapter this library is built from; papers are named where it has none.
Legend: B rows (answers), T actions of the longest row. Every (B, T) array holds actions only (see `agents.rollout`),
padded on the right, with a bool `mask` that is True on real actions. Log-probs and KL are in nats.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agents.losses import masked_mean


def gae(rewards: Tensor, values: Tensor, last_value: Tensor, mask: Tensor, gamma: float, lam: float) -> Tensor:
    """Generalised advantage estimates (Eq. 3.2 and 3.3; Schulman et al. 2016, Eq. 11 and 16), computed backwards.

        delta_t = r_t + gamma V(s_{t+1}) - V(s_t)
        A_t     = delta_t + gamma lam A_{t+1}

    Args:
        rewards: (B, T) shaped rewards.
        values: (B, T) V(s_t), before action t.
        last_value: (B,) V(s_T): 0 where the episode terminated, the critic's estimate where it was truncated.
        mask: (B, T) bool, right-padded.
        gamma: discount per action, in [0, 1].
        lam: weight of later residuals, in [0, 1].

    Returns:
        (B, T) advantages, 0 on padding. Return targets are advantages + values.
    """
    advantages = torch.zeros_like(values)
    next_value, next_advantage = last_value, torch.zeros_like(last_value)
    for t in reversed(range(rewards.shape[1])):
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        advantage = delta + gamma * lam * next_advantage
        advantages[:, t] = torch.where(mask[:, t], advantage, 0.0)
        next_advantage = torch.where(mask[:, t], advantage, next_advantage)
        next_value = torch.where(mask[:, t], values[:, t], next_value)
    return advantages


def whiten(advantages: Tensor, mask: Tensor, eps: float = 1e-8) -> Tensor:
    """Advantages with mean 0 and standard deviation 1 over all real actions of the batch; constants become zeros.

    Population variance, so that a single action gives 0 and not NaN.
    """
    mean = masked_mean(advantages, mask)
    variance = masked_mean((advantages - mean) ** 2, mask)
    return ((advantages - mean) / (variance + eps).sqrt()).masked_fill(~mask, 0.0)


def value_loss(values: Tensor, returns: Tensor, old_values: Tensor | None = None, clip: float | None = None) -> Tensor:
    """Half squared error of each value (Eq. 3.4): (B, T), unreduced.

    With a clip width, the *larger* of the error of V and of V held within `clip` of its old value. The larger: the
    other choice has no gradient once a value has drifted away, and never brings it back.
    """
    loss = (values - returns) ** 2
    if clip is not None:
        assert old_values is not None
        held = old_values + (values - old_values).clamp(-clip, clip)
        loss = torch.maximum(loss, (held - returns) ** 2)
    return 0.5 * loss


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor) -> float:
    """1 - Var(return - V) / Var(return) over real actions; NaN (undefined) when all returns are equal."""
    error, target = (returns - values)[mask].double(), returns[mask].double()
    if target.numel() < 2 or bool((target == target[0]).all()):
        return float("nan")
    return float(1 - error.var(correction=0) / target.var(correction=0))

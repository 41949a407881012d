"""The mathematics of PPO for language models, as small pure functions.

Equation numbers are those of the PPO chapter this library is built from; papers are named where it has none.
Legend: B rows (answers), T actions of the longest row. Every (B, T) array holds actions only (see `agents.rollout`),
padded on the right, with a bool `mask` that is True on real actions. Log-probs and KL are in nats.
"""

from __future__ import annotations

import torch
from torch import Tensor


def shaped_rewards(rewards: Tensor, old_logprobs: Tensor, ref_logprobs: Tensor, kl_coef: float, mask: Tensor) -> Tensor:
    """Environment reward minus the sampled cost of leaving the reference (Eq. 3.1).

        r_t = R_t - beta (log pi_old(a_t|s_t) - log pi_ref(a_t|s_t))

    The log-ratio itself ("k1") is the only estimator that belongs in the reward: k2 and k3 have another expected
    gradient there and move the optimum.

    Args:
        rewards: (B, T) reward of the environment; the score of an answer lands on its last action.
        old_logprobs: (B, T) of the behaviour policy, stored when the tokens were drawn.
        ref_logprobs: (B, T) of the frozen reference, same tokens.
        kl_coef: beta, reward per nat.
        mask: (B, T) bool.

    Returns:
        (B, T), 0 on padding.
    """
    return (rewards - kl_coef * (old_logprobs - ref_logprobs)).masked_fill(~mask, 0.0)


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


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of the real entries; 0 when there are none. `where` before the sum, since NaN * 0 is NaN."""
    return torch.where(mask, x, 0.0).sum() / mask.sum().clamp(min=1)


def whiten(advantages: Tensor, mask: Tensor, eps: float = 1e-8) -> Tensor:
    """Advantages with mean 0 and standard deviation 1 over all real actions of the batch; constants become zeros.

    Population variance, so that a single action gives 0 and not NaN.
    """
    mean = masked_mean(advantages, mask)
    variance = masked_mean((advantages - mean) ** 2, mask)
    return ((advantages - mean) / (variance + eps).sqrt()).masked_fill(~mask, 0.0)


def clipped_surrogate(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """Each action's term of the clipped objective, to be maximised (Eq. 3.8 and 3.9; Schulman et al. 2017, Eq. 7).

        rho_t = pi(a_t|s_t) / pi_old(a_t|s_t)
        min(rho_t A_t, clip(rho_t, 1 - eps, 1 + eps) A_t)

    Args:
        logprobs: (B, T) of the current policy; the gradient flows through these only.
        old_logprobs: (B, T) denominators, constant.
        advantages: (B, T), constant.
        clip: eps.

    Returns:
        (B, T); reduce it with a *global* denominator, not a mean per micro-batch.
    """
    ratio = (logprobs - old_logprobs).exp()
    return torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)


def value_loss(values: Tensor, returns: Tensor) -> Tensor:
    """Half squared error of each value (Eq. 3.4): (B, T), unreduced."""
    return 0.5 * (values - returns) ** 2


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor) -> float:
    """1 - Var(return - V) / Var(return) over real actions; NaN (undefined) when all returns are equal."""
    error, target = (returns - values)[mask].double(), returns[mask].double()
    if target.numel() < 2 or bool((target == target[0]).all()):
        return float("nan")
    return float(1 - error.var(correction=0) / target.var(correction=0))


def outside_fraction(ratio: Tensor, mask: Tensor, clip: float) -> Tensor:
    """The chapter's clip fraction: share of actions whose ratio lies outside [1 - eps, 1 + eps]."""
    return masked_mean(((ratio - 1).abs() > clip).float(), mask)


def clipped_fraction(ratio: Tensor, advantages: Tensor, mask: Tensor, clip: float) -> Tensor:
    """Share of actions whose gradient is cut: ratio beyond the bound that its advantage's sign makes binding."""
    cut = ((ratio > 1 + clip) & (advantages > 0)) | ((ratio < 1 - clip) & (advantages < 0))
    return masked_mean(cut.float(), mask)


def approx_kl(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """Unbiased, non-negative estimate of KL(old || current) from actions drawn by old: mean of (rho - 1) - log rho."""
    log_ratio = (logprobs - old_logprobs).masked_fill(~mask, 0.0)
    return masked_mean(log_ratio.expm1() - log_ratio, mask)  # exp(x) - 1 has lost x by rounding where x is small

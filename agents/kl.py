"""KL divergence from sampled tokens: estimators, and the controller of an adaptive coefficient.

Legend: B rows, T actions of the longest row. Log-probs and KL in nats.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agents.settings import KLConfig

LIMIT = 20.0
"""Log-ratios are cut to it before `exp`: beyond, the estimate is lost anyway, and inf * 0 would poison the gradient."""


def estimate(logprobs: Tensor, ref_logprobs: Tensor, estimator: str) -> Tensor:
    """Estimates of KL(pi || ref) per action drawn from pi (Schulman 2020, "Approximating KL divergence").

        x = log pi(a) - log ref(a)
        k1 = x                    unbiased
        k2 = x^2 / 2              biased, small variance; its gradient as a loss is that of KL(pi || ref)
        k3 = exp(-x) - 1 + x      unbiased, never negative; its gradient as a loss is that of KL(ref || pi)

    Args:
        logprobs: (B, T) of the policy.
        ref_logprobs: (B, T) of the reference, constant.
        estimator: k1, k2 or k3.

    Returns:
        (B, T) nats.
    """
    x = logprobs - ref_logprobs
    if estimator == "k1":
        return x
    if estimator == "k2":
        return 0.5 * x**2
    return (-x).clamp(max=LIMIT).expm1() + x


def kl_loss(logprobs: Tensor, old_logprobs: Tensor, ref_logprobs: Tensor, estimator: str) -> Tensor:
    """The KL as a term of the loss: k2 or k3 of each action, weighted by pi / pi_old since pi_old drew the action.

    The weight is a constant, so that the gradient is the on-policy one: that of KL(pi || ref) for k2 and of
    KL(ref || pi) for k3. It counts each action by itself, not what it leads to: on answers of several tokens the
    optimum is not quite that of the KL in the reward.

    Args:
        logprobs: (B, T) of the current policy; the gradient flows through these.
        old_logprobs: (B, T) of the policy that drew the actions.
        ref_logprobs: (B, T) of the reference.
        estimator: k2 or k3.

    Returns:
        (B, T), unreduced.
    """
    weight = (logprobs - old_logprobs).clamp(max=LIMIT).exp().detach()
    return weight * estimate(logprobs, ref_logprobs, estimator)


@dataclass
class KLController:
    """The coefficient beta: fixed, or pulled so that an answer's KL comes to its target (Ziegler et al. 2019, 2.2).

    beta <- beta (1 + clip(KL / target - 1, -0.2, 0.2) n / horizon)
    """

    config: KLConfig
    coef: float = 0.0

    def __post_init__(self) -> None:
        self.coef = self.config.coef

    def update(self, kl: float, episodes: int) -> None:
        """Move the coefficient after a batch of `episodes` answers with a mean KL of `kl` nats per answer."""
        if self.config.target is not None and kl == kl:  # a batch without a verdict has no KL (NaN) and teaches nothing
            error = min(max(kl / self.config.target - 1, -0.2), 0.2)
            self.coef *= max(0.0, 1 + error * episodes / self.config.horizon)


def effective_sample_size(weights: Tensor) -> float:
    """(sum w)^2 / (n sum w^2) of importance weights (n,): 1 when all are equal, 1/n when one has everything."""
    if not len(weights):
        return float("nan")
    weights = weights.double()
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))


def importance_weights(old_logprobs: Tensor, sampler_logprobs: Tensor, cap: float) -> Tensor:
    """min(cap, pi_old / pi_sampler) of each action (B, T): what a sample of the sampler counts for the trainer."""
    return (old_logprobs - sampler_logprobs).clamp(max=LIMIT).exp().clamp(max=cap)


def approx_kl(logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
    """k3 for KL(old || current) of each action drawn by old, (B, T): (rho - 1) - log rho, never negative."""
    log_ratio = logprobs - old_logprobs
    return torch.expm1(log_ratio) - log_ratio  # exp(x) - 1 has lost x by rounding where x is small

"""GRPO: group-relative policy optimisation (Shao et al. 2024), PPO's clipped update with no critic.

    A_i = (R_i - mean of the group) / standard deviation of the group
    loss = -clipped surrogate (Eq. 3.9) with the answer's A_i for each of its actions, plus beta KL

`normalize=False` leaves out the division, which favours problems that are nearly always or nearly never solved (Liu et
al. 2025). Groups whose answers all score the same have no advantage; `groups/without_variance` counts them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agents.batch import Batch
from agents.groups import GroupAgent, GroupConfig, group_moments
from agents.kl import approx_kl, kl_loss
from agents.losses import clipped, clipped_surrogate, outside, weighted_sum
from agents.scoring import score_rows
from agents.settings import KLConfig, check_ranges


@dataclass(frozen=True)
class GRPOConfig(GroupConfig):
    """Settings of GRPO."""

    kl: KLConfig = KLConfig(coef=0.04, place="loss", estimator="k3")
    """The paper's: k3 in the loss."""
    normalize: bool = True
    """Divide by the group's standard deviation."""
    clip: float = 0.2
    """Clip width eps of Eq. 3.9."""
    clip_high: float | None = None
    """Another width above 1 (DAPO: 0.28); eps when None."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, positive=("clip", "clip_high"))


class GRPO(GroupAgent):
    """GRPO; arguments as for PPO, see `OnPolicyAgent`."""

    name, Config = "grpo", GRPOConfig

    def compare(self, totals: Tensor, counted: Tensor) -> Tensor:
        """How many standard deviations above the group's mean; 0 where all answers are alike."""
        mean, std = group_moments(totals, counted)
        if not self.config.normalize:
            return (totals - mean).to(totals.dtype)
        differ = std > 1e-6 * (1 + mean.abs())  # more than two scorings of one answer may
        return torch.where(differ, (totals - mean) / torch.where(differ, std, 1.0), 0.0).to(totals.dtype)

    def loss(
        self, batch: Batch, rows: Tensor, weights: Tensor, mean_weights: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The clipped surrogate, and the KL if it stands in the loss."""
        config = self.config
        scores = score_rows(self.policy, batch.rollout, rows)
        n, device = weights.shape[1], self.policy.device
        mask, old, ref, advantages = (
            x[rows, :n].to(device) for x in (batch.mask, batch.old_logprobs, batch.ref_logprobs, batch.advantages)
        )
        weights, mean_weights = weights.to(device), mean_weights.to(device)
        logprobs = torch.where(mask, scores.logprobs, old)
        surrogate = clipped_surrogate(logprobs, old, advantages, config.clip, config.clip_high)
        if batch.importance is not None:
            surrogate = surrogate * batch.importance[rows, :n].to(device)
        loss = -weighted_sum(surrogate, weights)
        if config.kl.place == "loss":
            loss = loss + batch.kl_coef * weighted_sum(kl_loss(logprobs, old, ref, config.kl.estimator), weights)
        with torch.no_grad():
            ratio = (logprobs - old).exp()
            stats = {
                "loss/policy_avg": loss,
                "policy/entropy_avg": weighted_sum(scores.entropy, mean_weights),
                "policy/approxkl_avg": weighted_sum(approx_kl(logprobs, old), mean_weights),
                "policy/clipfrac_avg": weighted_sum(
                    clipped(ratio, advantages, config.clip, config.clip_high), mean_weights
                ),
                "policy/outside_fraction": weighted_sum(outside(ratio, config.clip, config.clip_high), mean_weights),
                "val/ratio": weighted_sum(ratio, mean_weights),
            }
        return loss, stats

"""REINFORCE with a leave-one-out baseline (RLOO; Kool et al. 2019, Ahmadian et al. 2024), KL in the reward.

    A_i = R_i - mean of R_j over the other answers to the same problem
    loss = -A_i log pi(answer i)

Against PPO: no critic, no ratio, no clip; one step per batch, since the gradient is right for the sampling policy only.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agents.batch import Batch
from agents.groups import GroupAgent, GroupConfig, others_mean
from agents.kl import approx_kl
from agents.losses import weighted_sum
from agents.scoring import score_rows


@dataclass(frozen=True)
class ReinforceConfig(GroupConfig):
    """Settings of REINFORCE."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs != 1 or self.minibatches != 1:
            raise ValueError("REINFORCE takes one step per batch (epochs=1, minibatches=1): it has no ratio to correct")
        if self.kl.place != "reward":
            raise ValueError("REINFORCE has its KL in the reward: kl.place must be 'reward'")


class Reinforce(GroupAgent):
    """REINFORCE; arguments as for PPO, see `OnPolicyAgent`."""

    name, Config = "reinforce", ReinforceConfig

    def compare(self, totals: Tensor, counted: Tensor) -> Tensor:
        """Total reward minus the mean of the others': independent of the answer itself, so the gradient is unbiased."""
        return totals - others_mean(totals, counted)

    def loss(
        self, batch: Batch, rows: Tensor, weights: Tensor, mean_weights: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """-A log pi of each action."""
        scores = score_rows(self.policy, batch.rollout, rows)
        n, device = weights.shape[1], self.policy.device
        mask, old, advantages = (x[rows, :n].to(device) for x in (batch.mask, batch.old_logprobs, batch.advantages))
        weights, mean_weights = weights.to(device), mean_weights.to(device)
        logprobs = torch.where(mask, scores.logprobs, old)
        terms = advantages * logprobs
        if batch.importance is not None:
            terms = terms * batch.importance[rows, :n].to(device)
        loss = -weighted_sum(terms, weights)
        with torch.no_grad():
            stats = {
                "loss/policy_avg": loss,
                "policy/entropy_avg": weighted_sum(scores.entropy, mean_weights),
                "policy/approxkl_avg": weighted_sum(approx_kl(logprobs, old), mean_weights),
                "val/ratio": weighted_sum((logprobs - old).exp(), mean_weights),
            }
        return loss, stats

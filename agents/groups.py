"""What agents without a critic share: several answers to each problem, and advantages from comparing them.

Legend: B rows, T actions of the longest row, K answers per problem; rows of one problem stand together.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from agents.batch import Batch
from agents.metrics import answer_kls, batch_metrics
from agents.on_policy import OnPolicyAgent
from agents.rewards import processed_rewards, shaped_rewards
from agents.rollout import Rollout
from agents.scoring import score_rollout
from agents.settings import TrainingConfig, check_ranges


@dataclass(frozen=True)
class GroupConfig(TrainingConfig):
    """Settings of an agent that compares answers."""

    group_size: int = 8
    """Answers to each problem, K; the environment's rows must be a multiple."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, positive=("group_size",))
        if self.group_size < 2:
            raise ValueError(f"group_size must be 2 or more, since answers are compared, got {self.group_size}")


class GroupAgent(OnPolicyAgent):
    """An agent whose advantages compare an answer's total reward with the other answers to the same problem."""

    def __init__(self, model: Any, env: VectorEnv, config: Any = None, **options: Any) -> None:
        config = self.settings(config)
        if env.num_envs % config.group_size:
            raise ValueError(
                f"the environment has {env.num_envs} rows, which is no multiple of group_size {config.group_size}"
            )
        super().__init__(model, env, config, **options)

    @abstractmethod
    def compare(self, totals: Tensor, counted: Tensor) -> Tensor:
        """Advantages of answers: (groups, K) total rewards and which of them count -> (groups, K)."""

    def iterate(self) -> tuple[Batch, dict[str, float]]:
        """Collect, score, update."""
        rollout = self.collect()
        with self.timed("scoring"):
            batch = self.score(rollout)
        metrics = batch_metrics(batch) | self.group_metrics(batch)
        with self.timed("update"):
            metrics |= self.update(batch)
        self.kl.update(float(answer_kls(batch).mean()), len(rollout.infos))
        return batch, metrics

    def rows_per_problem(self) -> int:
        """K."""
        return self.config.group_size

    @torch.no_grad()
    def score(self, rollout: Rollout) -> Batch:
        """Reference log-probs, shaped rewards (Eq. 3.1) and advantages."""
        mask = rollout.mask
        scores = score_rollout(self.policy, rollout, self.config.micro_batch)
        ref_logprobs = score_rollout(self.reference, rollout, self.config.micro_batch).logprobs
        old_logprobs, comparison, importance = self.behaviour(rollout, scores.logprobs)
        score_rewards = processed_rewards(rollout, self.config.reward, self.score_moments)
        kl_coef = self.kl.coef if self.config.kl.place == "reward" else 0.0
        rewards = shaped_rewards(score_rewards, old_logprobs, ref_logprobs, kl_coef, mask)
        batch = Batch(
            rollout, mask, old_logprobs, ref_logprobs, scores.entropy, score_rewards, rewards,
            torch.zeros_like(rewards), importance, self.kl.coef, comparison,
        )  # fmt: skip
        batch.advantages = self.advantages(batch, rewards)
        return batch

    def advantages(self, batch: Batch, rewards: Tensor) -> Tensor:
        """(B, T): every action of an answer gets the answer's own advantage."""
        totals = rewards.masked_fill(~batch.mask, 0.0).sum(1)
        per_answer = self.compare(*(self.grouped(x) for x in (totals, batch.rollout.judged))).flatten()
        return torch.where(batch.mask & batch.rollout.judged[:, None], per_answer[:, None], 0.0)

    def grouped(self, per_row: Tensor) -> Tensor:
        """(B,) -> (groups, K)"""
        return per_row.view(-1, self.config.group_size)

    def group_metrics(self, batch: Batch) -> dict[str, float]:
        """How many groups teach something: with all answers alike, nothing tells them apart."""
        scores, judged = self.grouped(batch.rollout.scores), self.grouped(batch.rollout.judged)
        low = scores.masked_fill(~judged, float("inf")).min(1).values
        high = scores.masked_fill(~judged, float("-inf")).max(1).values
        return {"groups/without_variance": float((high <= low).float().mean())}


def others_mean(totals: Tensor, counted: Tensor) -> Tensor:
    """Mean of the *other* counted answers of a group, (groups, K); an answer that stands alone gets its own total."""
    kept = torch.where(counted, totals, 0.0)
    others = counted.sum(1, keepdim=True) - counted.long()
    mean = (kept.sum(1, keepdim=True) - kept) / others.clamp(min=1)
    return torch.where(others > 0, mean, totals)


def group_moments(totals: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and population standard deviation of each group's counted answers, (groups, 1) each.

    In double precision: rounded to single, equal totals of 100 have a standard deviation.
    """
    totals = totals.double()
    n = counted.sum(1, keepdim=True).clamp(min=1)
    mean = torch.where(counted, totals, 0.0).sum(1, keepdim=True) / n
    variance = torch.where(counted, (totals - mean) ** 2, 0.0).sum(1, keepdim=True) / n
    return mean, variance.sqrt()

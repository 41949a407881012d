"""From raw scores to shaped rewards: normalise, cut, charge for length, charge for leaving the reference.

Legend: B rows, T actions of the longest row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from agents.rollout import Rollout
from agents.settings import RewardConfig


@dataclass
class Moments:
    """Count, mean and summed squared deviation of all scores so far (Welford; Chan et al. 1979 for batches)."""

    count: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    def update(self, x: Tensor) -> None:
        """Add a batch of numbers (n,)."""
        if not len(x):
            return
        x = x.double()
        n, mean, squares = len(x), float(x.mean()), float(((x - x.mean()) ** 2).sum())
        total, delta = self.count + n, mean - self.mean
        self.squares += squares + delta**2 * self.count * n / total
        self.mean += delta * n / total
        self.count = total

    @property
    def std(self) -> float:
        """Population standard deviation; 1 before it is known or when all were equal, since it divides."""
        return math.sqrt(self.squares / self.count) if self.count and self.squares > 0 else 1.0


def processed_rewards(rollout: Rollout, config: RewardConfig, moments: Moments) -> Tensor:
    """The environment's rewards with each episode's *score* normalised, cut and charged for its length: (B, T).

    What the score changes by lands on the episode's last action, so that its rewards sum to the processed score. Rows
    that got no verdict have no score to process. Updates `moments`.

    Raises:
        ValueError: a reward that is not finite, or a score outside the declared range; names the row.
    """
    rewards, judged = rollout.rewards, rollout.judged
    require_rewards(rollout, config.score_range)
    scores = rollout.scores
    processed = scores.clone()
    if config.normalize:
        moments.update(scores[judged])
        processed = (processed - moments.mean) / moments.std
    if config.clip is not None:
        processed = processed.clamp(-config.clip, config.clip)
    if config.length_penalty > 0:
        assert config.length_budget is not None
        processed = processed - config.length_penalty * (rollout.n_actions - config.length_budget).clamp(min=0)
    change = torch.where(judged, processed - scores, 0.0)
    last = (rollout.n_actions - 1)[:, None]
    return rewards.scatter_add(1, last, change[:, None])


def require_rewards(rollout: Rollout, score_range: tuple[float, float] | None) -> None:
    """Raises ValueError for a reward that is not finite or a score that lies outside the declared range."""
    finite = rollout.rewards.isfinite().all(1)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0])
        raise ValueError(f"the environment gave row {row} a reward that is not finite: {rollout.rewards[row].tolist()}")
    if score_range is None:
        return
    low, high = score_range
    outside = rollout.judged & ((rollout.scores < low) | (rollout.scores > high))
    if bool(outside.any()):
        row = int(outside.nonzero()[0])
        raise ValueError(
            f"the score of row {row} is {float(rollout.scores[row]):g}, outside the declared range [{low:g}, {high:g}]"
        )


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

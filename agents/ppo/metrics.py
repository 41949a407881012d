"""What is logged of one iteration; names as TRL's where it has them, so that dashboards carry over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from agents.evaluate import pass_rate
from agents.ppo.config import PPOConfig
from agents.ppo.objective import explained_variance, masked_mean

if TYPE_CHECKING:
    from agents.ppo.agent import Batch


def batch_metrics(batch: Batch, config: PPOConfig) -> dict[str, float]:
    """Scores, KL cost, critic and length statistics of a stored batch; raw score and KL cost apart.

    Rows without a verdict are left out (NaN when there is no other row), except where tokens and stops are counted.
    """
    rollout, mask = batch.rollout, batch.mask
    counted = ~rollout.unscored
    log_ratio = (batch.old_logprobs - batch.ref_logprobs).masked_fill(~mask, 0.0)  # (B, T)
    answer_kl = log_ratio.sum(1)[counted]
    scores = rollout.scores[counted]
    returns, advantages = batch.returns[mask], batch.advantages[mask]
    lengths = rollout.n_actions.float()
    reasons = [info.get("stop_reason") for info in rollout.infos]
    comparison = batch.comparison
    return {
        "objective/scores": float(scores.mean()),
        "objective/pass_rate": pass_rate([info for info, keep in zip(rollout.infos, counted, strict=True) if keep]),
        "objective/non_score_reward": float(-config.kl_coef * answer_kl.mean()),
        "objective/rlhf_reward": float(scores.mean() - config.kl_coef * answer_kl.mean()),
        "objective/kl": float(answer_kl.mean()),
        "objective/kl_per_token": float(masked_mean(log_ratio, mask)),
        "objective/kl_answer_min": _minimum(answer_kl),
        "objective/kl_answer_max": _maximum(answer_kl),
        "objective/kl_coef": config.kl_coef,
        "objective/entropy": float(masked_mean(batch.entropy, mask)),
        "objective/unscored": float(rollout.unscored.sum()),
        "ppo/val/var_explained": explained_variance(batch.values, batch.returns, mask),
        "ppo/val/value_mean": float(masked_mean(batch.values, mask)),
        "ppo/returns/mean": float(returns.mean()),
        "ppo/returns/var": _variance(returns),
        "ppo/advantages/mean": float(advantages.mean()),
        "ppo/advantages/std": _variance(advantages) ** 0.5,
        "ppo/advantages/min": _minimum(advantages),
        "ppo/advantages/max": _maximum(advantages),
        "tokens/responses_len_mean": float(lengths.mean()),
        "tokens/sampled": float(lengths.sum()),
        # Of last turns; had text been encoded again, these answers would have been trained on tokens nobody sampled.
        "tokens/reencoding_differs": sum(bool(info.get("reencoding_differs")) for info in rollout.infos) / len(reasons),
        "policy/weight_version": rollout.weight_version,
        "val/num_eos_tokens": float(reasons.count("stop")),
        "val/length_rate": reasons.count("length") / len(reasons),
        "mismatch/max": comparison.max,
        "mismatch/row": comparison.row,
        "mismatch/action": comparison.action,
        "mismatch/p50": comparison.p50,
        "mismatch/p99": comparison.p99,
        "mismatch/max_ratio": comparison.max_ratio,
        "mismatch/min_ratio": comparison.min_ratio,
        **reward_components(rollout.infos),
    }


def reward_components(infos: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Mean of each named part of the verdicts' scores."""
    parts: dict[str, list[float]] = {}
    for info in infos:
        for name, value in info.get("verdict", {}).get("components", {}).items():
            parts.setdefault(name, []).append(value)
    return {f"components/{name}": sum(values) / len(values) for name, values in parts.items()}


def _variance(x: Tensor) -> float:
    return float(x.var(correction=0)) if len(x) else float("nan")


def _minimum(x: Tensor) -> float:
    return float(x.min()) if len(x) else float("nan")


def _maximum(x: Tensor) -> float:
    return float(x.max()) if len(x) else float("nan")


def mean_metrics(stats: Sequence[dict[str, float]]) -> dict[str, float]:
    """Mean of each statistic over the steps that have it, and how far the ratio wandered."""
    names = dict.fromkeys(name for step in stats for name in step)
    means = {name: float(torch.tensor([step[name] for step in stats if name in step]).mean()) for name in names}
    if stats:
        means["val/ratio_var"] = float(torch.tensor([step["val/ratio"] for step in stats]).var(correction=0))
        means["val/ratio_first"] = stats[0]["val/ratio"]
    return means

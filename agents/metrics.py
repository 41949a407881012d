"""What is logged of one iteration; names as TRL's where it has them, so that dashboards carry over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from agents.batch import Batch
from agents.evaluate import pass_rate
from agents.kl import effective_sample_size, estimate
from agents.losses import masked_mean


def batch_metrics(batch: Batch) -> dict[str, float]:
    """Scores, KL, advantages and lengths of a stored batch; raw score and KL cost apart.

    Rows without a verdict are left out (NaN when there is no other row), except where tokens and stops are counted.
    """
    rollout, mask = batch.rollout, batch.mask
    counted = ~rollout.unscored
    answer_kl = answer_kls(batch)
    kl_cost = (batch.rewards - batch.score_rewards).masked_fill(~mask, 0.0)  # 0 where the KL is in the loss
    scores, advantages = rollout.scores[counted], batch.advantages[mask]
    lengths = rollout.n_actions.float()
    reasons = [info.get("stop_reason") for info in rollout.infos]
    k3 = estimate(batch.old_logprobs, batch.ref_logprobs, "k3")
    log_ratio = batch.old_logprobs - batch.ref_logprobs
    return {
        "objective/scores": float(scores.mean()),
        "objective/pass_rate": pass_rate([info for info, keep in zip(rollout.infos, counted, strict=True) if keep]),
        "objective/non_score_reward": float(kl_cost.sum(1)[counted].mean()),
        "objective/rlhf_reward": float(batch.rewards.sum(1)[counted].mean()),
        "objective/kl": float(answer_kl.mean()),
        "objective/kl_per_token": float(masked_mean(log_ratio, mask)),
        "objective/kl_k3_per_token": float(masked_mean(k3, mask)),
        "objective/kl_answer_min": _minimum(answer_kl),
        "objective/kl_answer_max": _maximum(answer_kl),
        "objective/kl_coef": batch.kl_coef,
        "objective/entropy": float(masked_mean(batch.entropy, mask)),
        "objective/unscored": float(rollout.unscored.sum()),
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
        **mismatch_metrics(batch),
        **reward_components(rollout.infos),
    }


def answer_kls(batch: Batch) -> Tensor:
    """(rows with a verdict,) sampled KL of each answer to the reference, nats."""
    log_ratio = (batch.old_logprobs - batch.ref_logprobs).masked_fill(~batch.mask, 0.0)
    return log_ratio.sum(1)[~batch.rollout.unscored]


def mismatch_metrics(batch: Batch) -> dict[str, float]:
    """Sampler against trainer before the update; nothing when the engine gave no log-probs."""
    metrics: dict[str, float] = {}
    if batch.comparison is not None:
        metrics = {f"mismatch/{name}": float(value) for name, value in batch.comparison._asdict().items()}
    if batch.importance is not None:
        weights = batch.importance[batch.mask]
        metrics["mismatch/importance_mean"] = float(weights.mean())
        metrics["mismatch/effective_sample_size"] = effective_sample_size(weights)
    return metrics


def reward_components(infos: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Mean of each named part of the verdicts' scores."""
    parts: dict[str, list[float]] = {}
    for info in infos:
        for name, value in info.get("verdict", {}).get("components", {}).items():
            parts.setdefault(name, []).append(value)
    return {f"components/{name}": sum(values) / len(values) for name, values in parts.items()}


def mean_metrics(stats: Sequence[dict[str, float]]) -> dict[str, float]:
    """Mean of each statistic over the steps that have it, and how far the ratio wandered."""
    names = dict.fromkeys(name for step in stats for name in step)
    means = {name: float(torch.tensor([step[name] for step in stats if name in step]).mean()) for name in names}
    if stats:
        means["val/ratio_var"] = float(torch.tensor([step["val/ratio"] for step in stats]).var(correction=0))
        means["val/ratio_first"] = stats[0]["val/ratio"]
    return means


def _variance(x: Tensor) -> float:
    return float(x.var(correction=0)) if len(x) else float("nan")


def _minimum(x: Tensor) -> float:
    return float(x.min()) if len(x) else float("nan")


def _maximum(x: Tensor) -> float:
    return float(x.max()) if len(x) else float("nan")

"""Which part of the reward rules the advantages: scale one part at a time, and see how far they move (chapter, 3.9).

Legend: B rows, T actions of the longest row, C components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from agents.on_policy import OnPolicyAgent


@dataclass(frozen=True)
class Sensitivity:
    """What becomes of the advantages when one part of the reward is scaled."""

    component: str
    scale: float
    """What the part was multiplied by; 0 takes it away."""
    change: float
    """Norm of the advantages' change relative to their own norm; with 0 for `scale`, the largest is the ruling part."""
    correlation: float
    """Of the advantages after and before; NaN when either is constant."""


def reward_sensitivity(
    agent: OnPolicyAgent, batch: Any, scales: Sequence[float] = (0.0, 0.5, 2.0)
) -> list[Sensitivity]:
    """Recompute a batch's advantages, whitening included, with one part of the reward scaled at a time.

    Scaling *everything* leaves whitened advantages as they are, so what counts is a part's size beside the others.

    Args:
        agent: computes advantages from rewards.
        batch: from its `score`.
        scales: factors.

    Returns:
        One entry per part and factor, the part whose absence changes most first.
    """
    before = agent.advantages(batch, batch.rewards)[batch.mask]
    unit = agent.score_moments.std if agent.config.reward.normalize else 1.0  # what raw scores were divided by
    found = []
    for name, part in reward_parts(batch, unit).items():
        for scale in scales:
            after = agent.advantages(batch, batch.rewards + (scale - 1) * part)[batch.mask]
            change = float((after - before).norm() / before.norm().clamp(min=1e-12))
            found.append(Sensitivity(name, scale, change, correlation(before, after)))
    strength = {entry.component: entry.change for entry in found if entry.scale == min(scales)}
    return sorted(found, key=lambda entry: -strength[entry.component])


def reward_parts(batch: Any, unit: float = 1.0) -> dict[str, Tensor]:
    """Name -> (B, T) what the part adds to the shaped rewards: KL cost, components of the score, and what is left.

    Args:
        batch: scored.
        unit: what its raw scores were divided by.
    """
    rollout, mask = batch.rollout, batch.mask
    parts = {"kl": (batch.rewards - batch.score_rewards).masked_fill(~mask, 0.0)}
    last = torch.nn.functional.one_hot(rollout.n_actions - 1, mask.shape[1]).float()
    rest = batch.score_rewards.masked_fill(~mask, 0.0)
    for name, contribution in score_components(rollout).items():
        parts[name] = (contribution[:, None] / unit * last).masked_fill(~mask, 0.0)
        rest = rest - parts[name]
    if float(rest.abs().max()) > 1e-5:
        parts["score" if len(parts) == 1 else "score_processing"] = rest
    return parts


def score_components(rollout: Any) -> dict[str, Tensor]:
    """Name -> (B,) what each named part of the verdict adds to the score, weights found by least squares.

    Empty where the scores are not a weighted sum of the parts' scores (a gate, a grade): then the score is one part.
    """
    verdicts = [info.get("verdict", {}).get("components", {}) for info in rollout.infos]
    # `tests.score` is a part of the score; `tests.fast.score` is a part of that part, and in it already.
    given = {name for components in verdicts for name in components}
    names = sorted(name for name in given if name.endswith(".score") and name.count(".") == 1)
    judged = rollout.judged.numpy()
    if len(names) < 2 or judged.sum() <= len(names):
        return {}
    table = np.array([[components.get(name, 0.0) for name in names] for components in verdicts])  # (B, C)
    scores = rollout.scores.double().numpy()
    weights, *_ = np.linalg.lstsq(table[judged], scores[judged], rcond=None)
    if np.abs(table[judged] @ weights - scores[judged]).max() > 1e-4:
        return {}
    columns = torch.from_numpy(table * weights * judged[:, None]).float()
    return {name: columns[:, i] for i, name in enumerate(names)}


def correlation(a: Tensor, b: Tensor) -> float:
    """Pearson's correlation; NaN when either is constant."""
    a, b = a.double() - a.double().mean(), b.double() - b.double().mean()
    norm = float(a.norm() * b.norm())
    return float(a @ b) / norm if norm > 1e-12 else float("nan")

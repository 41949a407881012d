"""Scoring stored rollouts with a policy or a reference, and comparing the sampler's log-probs with the trainer's.

Legend: B rows, T actions of the longest row, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from agents.kl import importance_weights
from agents.policy import Critic, Policy, Scores
from agents.reference import Reference
from agents.rollout import Rollout
from agents.settings import TrainingConfig


class LogprobMismatchError(RuntimeError):
    """The trainer gives the sampled tokens other log-probs than the sampler did, before any update."""


def micro_batches(rollout: Rollout, rows: Tensor, size: int) -> Iterator[Tensor]:
    """Cuts row indices (n,) into pieces of `size` rows of similar length, so that little padding is computed."""
    yield from rows[rollout.lengths[rows].argsort(stable=True)].split(size)


def score_rows(policy: Policy | Reference, rollout: Rollout, rows: Tensor) -> Scores:
    """Scores of some rows, trimmed to the longest of them: (n, T') log-probs and entropies, (n, T' + 1) values."""
    width, n_actions = int(rollout.lengths[rows].max()), int(rollout.n_actions[rows].max())
    return policy.score(
        rollout.tokens[rows, :width], rollout.lengths[rows], rollout.positions[rows, :n_actions],
        rollout.sampling, rollout.allowed_tokens(rows, n_actions),
    )  # fmt: skip


def value_rows(critic: Critic, rollout: Rollout, rows: Tensor) -> Tensor:
    """(n, T' + 1) values of some rows by a critic of its own, trimmed as in `score_rows`."""
    width, n_actions = int(rollout.lengths[rows].max()), int(rollout.n_actions[rows].max())
    return critic.values(rollout.tokens[rows, :width], rollout.lengths[rows], rollout.positions[rows, :n_actions])


@torch.no_grad()
def value_rollout(critic: Critic, rollout: Rollout, micro_batch: int) -> Tensor:
    """Values of a whole rollout on the CPU: (B, T + 1), the last column V(s_T); 0 on padding."""
    values = torch.zeros(rollout.positions.shape[0], rollout.positions.shape[1] + 1)
    for rows in micro_batches(rollout, torch.arange(len(values)), micro_batch):
        found = value_rows(critic, rollout, rows).cpu()
        values[rows, : found.shape[1] - 1], values[rows, -1] = found[:, :-1], found[:, -1]
    values[:, :-1] = values[:, :-1].masked_fill(~rollout.real, 0.0)
    return values


@torch.no_grad()
def score_rollout(policy: Policy | Reference, rollout: Rollout, micro_batch: int) -> Scores:
    """Scores of a whole rollout on the CPU: (B, T) log-probs and entropies, (B, T + 1) values or none; 0 on padding."""
    n_rows, n_actions = rollout.positions.shape
    logprobs, entropies = torch.zeros(n_rows, n_actions), torch.zeros(n_rows, n_actions)
    values = torch.zeros(n_rows, n_actions + 1 if policy.value_head is not None else 0)
    for rows in micro_batches(rollout, torch.arange(n_rows), micro_batch):
        scores = score_rows(policy, rollout, rows)
        n = scores.logprobs.shape[1]
        logprobs[rows, :n], entropies[rows, :n] = scores.logprobs.cpu(), scores.entropy.cpu()
        if policy.value_head is not None:
            values[rows, :n], values[rows, -1] = scores.values[:, :-1].cpu(), scores.values[:, -1].cpu()
    real = rollout.real
    if policy.value_head is not None:
        values[:, :-1] = values[:, :-1].masked_fill(~real, 0.0)
    return Scores(logprobs.masked_fill(~real, 0.0), entropies.masked_fill(~real, 0.0), values)


class LogprobComparison(NamedTuple):
    """Stored (sampler) against recomputed (trainer) log-probs of the same tokens, before the first update."""

    max: float
    """Largest absolute difference, nats."""
    p50: float
    p99: float
    row: int
    """Where the largest difference is: row of the batch,"""
    action: int
    """and action within the row."""
    max_ratio: float
    """Largest implied ratio exp(trainer - sampler); 1 when they agree."""
    min_ratio: float


def compare_logprobs(stored: Tensor, recomputed: Tensor, real: Tensor) -> LogprobComparison:
    """The first-step consistency check (chapter, section 3.6). All arguments (B, T)."""
    difference = (recomputed - stored).masked_fill(~real, 0.0)
    absolute = difference.abs()
    quantiles = torch.quantile(absolute[real][:1_000_000], torch.tensor([0.5, 0.99]))
    where = int(absolute.argmax())
    ratio = difference[real].exp()
    return LogprobComparison(
        max=float(absolute.max()),
        p50=float(quantiles[0]),
        p99=float(quantiles[1]),
        row=where // stored.shape[1],
        action=where % stored.shape[1],
        max_ratio=float(ratio.max()),
        min_ratio=float(ratio.min()),
    )


def require_match(comparison: LogprobComparison, tolerance: float) -> None:
    """Raises `LogprobMismatchError` above the tolerance: the ratios would compare two different policies."""
    if not comparison.max <= tolerance:
        raise LogprobMismatchError(
            f"log-probs stored at sampling differ from the trainer's own by up to {comparison.max:.2e} nats before "
            f"any update (row {comparison.row}, action {comparison.action}, ratio {comparison.min_ratio:.4f} to "
            f"{comparison.max_ratio:.4f}); expected at most {tolerance:.0e}: compare weights, tokens and sampling "
            "first, or raise mismatch_tolerance if the precision explains it"
        )


class Behaviour(NamedTuple):
    """What an update needs to know of the policy that drew a batch."""

    old_logprobs: Tensor
    """(B, T) denominators of the ratio."""
    comparison: LogprobComparison | None
    """Sampler against trainer; None when the engine gave no log-probs."""
    importance: Tensor | None
    """(B, T) truncated importance weights; None when nothing is corrected."""


def behaviour(rollout: Rollout, own: Tensor, config: TrainingConfig, tolerance: float) -> Behaviour:
    """The ratio's denominators: what was stored when the tokens were drawn, unless recomputed ones are asked for.

    Args:
        rollout: with the sampler's log-probs, or without.
        own: (B, T) the trainer's log-probs of the same tokens, before any update.
        config: `recompute_logprobs` and `importance_cap`.
        tolerance: nats by which both may differ.

    Raises:
        LogprobMismatchError: they differ by more.
        ValueError: importance weights are asked for, and the sampler's log-probs are unknown.
    """
    if not rollout.has_logprobs:
        if config.importance_cap is not None:
            raise ValueError("importance_cap needs the sampler's log-probs, but the engine gives none")
        return Behaviour(own, None, None)
    comparison = compare_logprobs(rollout.logprobs, own, rollout.real)
    require_match(comparison, tolerance)
    if not config.recompute_logprobs:
        return Behaviour(rollout.logprobs, comparison, None)
    cap = config.importance_cap
    return Behaviour(own, comparison, None if cap is None else importance_weights(own, rollout.logprobs, cap))

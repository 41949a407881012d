"""The glass box: everything an update knew about each token of an answer, in one table (chapter, table 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from rich.table import Table

from agents.losses import clipped
from agents.scoring import score_rows


class TokenRow(NamedTuple):
    """One action of one answer. Log-probs and KL in nats, under the sampling distribution."""

    position: int
    """Index of the action within the answer."""
    token: int
    text: str
    old: float
    """log-prob stored when the token was drawn (or recomputed, if the settings say so),"""
    reference: float
    """of the frozen reference,"""
    current: float
    """and of the policy as it is now."""
    kl: float
    """Sampled KL to the reference: old - reference."""
    value: float | None
    """V(s_t); None for an agent without a critic."""
    reward: float
    """Shaped reward."""
    advantage: float
    """As the loss uses it: whitened, if the settings say so."""
    returns: float | None
    """What the critic learns; None without one."""
    ratio: float
    """exp(current - old)."""
    clipped: bool
    """Whether the clip cuts the gradient of this action."""


@torch.no_grad()
def glass_box(agent: Any, batch: Any, row: int, decode: Callable[[Sequence[int]], str]) -> list[TokenRow]:
    """The table of one answer.

    Args:
        agent: whose policy gives the current log-probs; right after `score` they equal the old ones.
        batch: from the agent's `score`, or `load_batch`.
        row: of the batch.
        decode: token ids -> text, such as `env.unwrapped.decode`.

    Returns:
        One entry per action; tokens that the environment inserted are none.

    Raises:
        IndexError: no such row.
    """
    n_rows = len(batch.rollout.n_actions)
    if not 0 <= row < n_rows:
        raise IndexError(f"row must be from 0 to {n_rows - 1}, got {row}")
    n = int(batch.rollout.n_actions[row])
    current = score_rows(agent.policy, batch.rollout, torch.tensor([row])).logprobs[0, :n].cpu()
    old, reference = batch.old_logprobs[row, :n], batch.ref_logprobs[row, :n]
    ratio, advantage = (current - old).exp(), batch.advantages[row, :n]
    width = getattr(agent.config, "clip", float("inf"))
    high, dual = (getattr(agent.config, name, None) for name in ("clip_high", "dual_clip"))
    cut = clipped(ratio, advantage, width, high, dual).bool()
    tokens = batch.rollout.tokens[row, batch.rollout.positions[row, :n]].tolist()
    values, returns = (getattr(batch, name, None) for name in ("values", "returns"))
    return [
        TokenRow(
            position=t, token=token, text=decode([token]), old=float(old[t]), reference=float(reference[t]),
            current=float(current[t]), kl=float(old[t] - reference[t]),
            value=None if values is None else float(values[row, t]), reward=float(batch.rewards[row, t]),
            advantage=float(advantage[t]), returns=None if returns is None else float(returns[row, t]),
            ratio=float(ratio[t]), clipped=bool(cut[t]),
        )
        for t, token in enumerate(tokens)
    ]  # fmt: skip


def glass_table(rows: Sequence[TokenRow], title: str = "") -> Table:
    """The same for a terminal; print it with `rich.print`."""
    table = Table(title=title, title_justify="left")
    for name in TokenRow._fields:
        table.add_column(name, justify="left" if name == "text" else "right")
    for row in rows:
        table.add_row(*(_cell(name, value) for name, value in row._asdict().items()))
    return table


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.4f}"
    return repr(value)[1:-1].replace("[", r"\[") if name == "text" else str(value)

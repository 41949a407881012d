"""Generation: token prefixes in, whole turns out, with the log-prob of every token as it was drawn.

Legend: B rows, S tokens of the longest prefix, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from agents.policy import Policy
from agents.sampling import Sampling, draw, kept_tokens, log_distribution

TurnMask = Callable[[Sequence[Sequence[int]]], np.ndarray]
"""What n turns have written so far -> bool (n, V), the tokens that may come next."""


class Turn(NamedTuple):
    """What the policy wrote until it stopped."""

    ids: np.ndarray
    """(n,) int64 sampled tokens, the stop token included."""
    logprobs: np.ndarray | None
    """(n,) float32 log-prob of each token under the distribution that drew it; None from an engine that cannot say."""
    stop_reason: str
    """`stop` (a stop token was drawn) or `length` (the budget ran out)."""
    allowed: np.ndarray | None = None
    """(n, V) bool tokens that each could be drawn from, cut by top-k, top-p and min-p; None when all of a turn had the
    mask the engine was given."""


class Engine(Protocol):
    """What a rollout needs of a generator; ours runs the trained model itself.

    One that needs more than tokens has `observe(observation)`, called before `generate` with what the rows observe.
    """

    weight_version: int
    """Counts the updates of the weights it generates with."""
    reports_kept_sets: bool
    """Whether its turns say which tokens top-k, top-p and min-p kept."""

    def generate(
        self,
        prefixes: Sequence[np.ndarray],
        budgets: np.ndarray,
        stop_token_ids: frozenset[int],
        allowed: Tensor | TurnMask,
        sampling: Sampling,
        generator: torch.Generator | None,
    ) -> list[Turn]:
        """Continue each prefix until a stop token or its budget."""
        ...


class TorchEngine:
    """Samples from a `Policy` with a key-value cache.

    Prefixes are left-padded with explicit position ids, so that a learned-position model (GPT-2) gives a token the same
    log-prob whatever it is padded with. When a quarter of the rows have stopped, the others go on in a smaller cache.

    Args:
        policy: the policy to sample from.
        max_rows: rows generated at once; bounds the memory of the cache.
    """

    reports_kept_sets = True

    def __init__(self, policy: Policy, max_rows: int = 512) -> None:
        self.policy = policy
        self.max_rows = max_rows
        self.weight_version = 0

    @torch.no_grad()
    def generate(
        self,
        prefixes: Sequence[np.ndarray],
        budgets: np.ndarray,
        stop_token_ids: frozenset[int],
        allowed: Tensor | TurnMask,
        sampling: Sampling,
        generator: torch.Generator | None,
    ) -> list[Turn]:
        """Continue each prefix until it draws a stop token or has used its budget.

        Args:
            prefixes: B arrays of token ids, each at least one token long.
            budgets: (B,) most tokens each row may write, >= 1.
            stop_token_ids: tokens that end a turn.
            allowed: (V,) or (B, V) bool, tokens that may be drawn; or a function that is asked before every token.
            sampling: how.
            generator: source of randomness; None when greedy.
        """
        turns: list[Turn] = []
        for start in range(0, len(prefixes), self.max_rows):
            rows = slice(start, start + self.max_rows)
            chunk_allowed = allowed[rows] if isinstance(allowed, Tensor) and allowed.ndim == 2 else allowed
            turns += self._generate(prefixes[rows], budgets[rows], stop_token_ids, chunk_allowed, sampling, generator)
        return turns

    def _generate(self, prefixes, budgets, stop_token_ids, allowed, sampling, generator) -> list[Turn]:
        device = self.policy.device
        tokens, attention = left_pad(prefixes, device)
        masks = _Masks(allowed, len(prefixes), device)
        budget = torch.as_tensor(budgets, device=device)
        stops = torch.tensor(sorted(stop_token_ids), device=device)
        rows = torch.arange(len(prefixes), device=device)  # original index of each row in the cache
        alive = torch.ones_like(rows, dtype=torch.bool)  # rows that have not stopped; the others are not recorded
        position_ids = (attention.cumsum(1) - 1).clamp(min=0)
        cache = DynamicCache(config=self.policy.model.config)
        steps: list[Step] = []
        for step in range(int(budget.max())):
            logits = self._next_logits(tokens, attention, position_ids, cache)
            mask = kept_tokens(logits, sampling, masks.next(rows))
            log_probs = log_distribution(logits, sampling, mask)
            token = draw(log_probs, sampling, generator)
            drawn = log_probs.gather(1, token[:, None]).squeeze(1)
            vary = masks.vary or sampling.cuts
            steps.append(Step(rows[alive], token[alive], drawn[alive], mask[alive] if vary else None))
            masks.written(steps[-1])
            alive = alive & ~torch.isin(token, stops) & (budget[rows] > step + 1)
            n_alive = int(alive.sum())
            if n_alive == 0:
                break
            tokens, position_ids = token[:, None], position_ids[:, -1:] + 1
            attention = torch.cat([attention, attention.new_ones(len(rows), 1)], 1)
            if n_alive <= 0.75 * len(rows):  # a stopped row costs as much as a living one, a cut copies the cache once
                cache.batch_select_indices(alive.nonzero().squeeze(1))
                rows, tokens, attention, position_ids = (x[alive] for x in (rows, tokens, attention, position_ids))
                alive = alive[alive]
        return collect_turns(steps, len(prefixes), stop_token_ids)

    def _next_logits(self, tokens: Tensor, attention: Tensor, position_ids: Tensor, cache: DynamicCache) -> Tensor:
        """Logits (B, V') after the newest token; extends the cache by `tokens`."""
        self.policy.set_mode()
        with self.policy.autocast():
            output = self.policy.model(
                input_ids=tokens, attention_mask=attention, position_ids=position_ids, past_key_values=cache,
                use_cache=True, logits_to_keep=1,
            )  # fmt: skip
        return output.logits[:, -1]


class Step(NamedTuple):
    """What one forward pass added to the rows that were alive."""

    rows: Tensor
    tokens: Tensor
    logprobs: Tensor
    allowed: Tensor | None


class _Masks:
    """Which tokens each row may draw next: the same throughout, or asked for what it has written."""

    def __init__(self, allowed: Tensor | TurnMask, n: int, device: torch.device) -> None:
        self.vary = not isinstance(allowed, Tensor)
        self._ask, self._device = allowed, device
        self._turns: list[list[int]] = [[] for _ in range(n)]
        self._fixed = allowed.to(device).expand(n, -1) if isinstance(allowed, Tensor) else None

    def next(self, rows: Tensor) -> Tensor:
        """(len(rows), V) bool."""
        if self._fixed is not None:
            return self._fixed[rows]
        return torch.from_numpy(self._ask([self._turns[row] for row in rows.tolist()])).to(self._device)  # type: ignore[operator]

    def written(self, step: Step) -> None:
        """Note what was drawn."""
        if self.vary:
            for row, token in zip(step.rows.tolist(), step.tokens.tolist(), strict=True):
                self._turns[row].append(token)


def left_pad(prefixes: Sequence[np.ndarray], device: torch.device) -> tuple[Tensor, Tensor]:
    """(B, S) token ids and (B, S) attention mask (int64), the last token of every prefix in the last column."""
    width = max(len(prefix) for prefix in prefixes)
    tokens = np.zeros((len(prefixes), width), dtype=np.int64)
    attention = np.zeros((len(prefixes), width), dtype=np.int64)
    for row, prefix in enumerate(prefixes):
        tokens[row, width - len(prefix) :] = prefix
        attention[row, width - len(prefix) :] = 1
    return torch.from_numpy(tokens).to(device), torch.from_numpy(attention).to(device)


def collect_turns(steps: list[Step], n: int, stop_token_ids: frozenset[int]) -> list[Turn]:
    """What every step added -> one `Turn` per row."""
    ids: list[list[int]] = [[] for _ in range(n)]
    logprobs: list[list[float]] = [[] for _ in range(n)]
    allowed: list[list[np.ndarray]] = [[] for _ in range(n)]
    for rows, tokens, values, masks in steps:
        for row, token, value in zip(rows.tolist(), tokens.tolist(), values.tolist(), strict=True):
            ids[row].append(token)
            logprobs[row].append(value)
        for row, mask in zip(rows.tolist(), masks.cpu().numpy() if masks is not None else (), strict=False):
            allowed[row].append(mask)
    return [
        Turn(
            np.array(row_ids, dtype=np.int64),
            np.array(row_logprobs, dtype=np.float32),
            "stop" if row_ids[-1] in stop_token_ids else "length",
            np.stack(row_allowed) if row_allowed else None,
        )
        for row_ids, row_logprobs, row_allowed in zip(ids, logprobs, allowed, strict=True)
    ]

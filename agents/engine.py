"""Generation: token prefixes in, whole turns out, with the log-prob of every token as it was drawn.

Legend: B rows, S tokens of the longest prefix, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from agents.policy import Policy
from agents.sampling import Sampling, draw, log_distribution


class Turn(NamedTuple):
    """What the policy wrote until it stopped."""

    ids: np.ndarray
    """(n,) int64 sampled tokens, the stop token included."""
    logprobs: np.ndarray
    """(n,) float32 log-prob of each token under the distribution that drew it."""
    stop_reason: str
    """`stop` (a stop token was drawn) or `length` (the budget ran out)."""


class Engine(Protocol):
    """What a rollout needs of a generator; ours runs the trained model itself."""

    weight_version: int

    def generate(
        self,
        prefixes: Sequence[np.ndarray],
        budgets: np.ndarray,
        stop_token_ids: frozenset[int],
        allowed: Tensor,
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
        allowed: Tensor,
        sampling: Sampling,
        generator: torch.Generator | None,
    ) -> list[Turn]:
        """Continue each prefix until it draws a stop token or has used its budget.

        Args:
            prefixes: B arrays of token ids, each at least one token long.
            budgets: (B,) most tokens each row may write, >= 1.
            stop_token_ids: tokens that end a turn.
            allowed: (V,) or (B, V) bool, tokens that may be drawn.
            sampling: how.
            generator: source of randomness; None when greedy.
        """
        turns: list[Turn] = []
        for start in range(0, len(prefixes), self.max_rows):
            rows = slice(start, start + self.max_rows)
            chunk_allowed = allowed if allowed.ndim == 1 else allowed[rows]
            turns += self._generate(prefixes[rows], budgets[rows], stop_token_ids, chunk_allowed, sampling, generator)
        return turns

    def _generate(self, prefixes, budgets, stop_token_ids, allowed, sampling, generator) -> list[Turn]:
        device = self.policy.device
        tokens, attention = left_pad(prefixes, device)
        allowed = allowed.to(device).expand(len(prefixes), -1)
        budget = torch.as_tensor(budgets, device=device)
        stops = torch.tensor(sorted(stop_token_ids), device=device)
        rows = torch.arange(len(prefixes), device=device)  # original index of each row in the cache
        alive = torch.ones_like(rows, dtype=torch.bool)  # rows that have not stopped; the others are not recorded
        position_ids = (attention.cumsum(1) - 1).clamp(min=0)
        cache = DynamicCache(config=self.policy.model.config)
        steps: list[tuple[Tensor, Tensor, Tensor]] = []  # (rows, token, log-prob) of every step
        for step in range(int(budget.max())):
            logits = self._next_logits(tokens, attention, position_ids, cache)
            log_probs = log_distribution(logits, sampling, allowed[rows])
            token = draw(log_probs, sampling, generator)
            steps.append((rows[alive], token[alive], log_probs.gather(1, token[:, None]).squeeze(1)[alive]))
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
        with self.policy.autocast():
            output = self.policy.model(
                tokens, attention_mask=attention, position_ids=position_ids, past_key_values=cache, use_cache=True,
                logits_to_keep=1,
            )  # fmt: skip
        return output.logits[:, -1]


def left_pad(prefixes: Sequence[np.ndarray], device: torch.device) -> tuple[Tensor, Tensor]:
    """(B, S) token ids and (B, S) attention mask (int64), the last token of every prefix in the last column."""
    width = max(len(prefix) for prefix in prefixes)
    tokens = np.zeros((len(prefixes), width), dtype=np.int64)
    attention = np.zeros((len(prefixes), width), dtype=np.int64)
    for row, prefix in enumerate(prefixes):
        tokens[row, width - len(prefix) :] = prefix
        attention[row, width - len(prefix) :] = 1
    return torch.from_numpy(tokens).to(device), torch.from_numpy(attention).to(device)


def collect_turns(steps: list[tuple[Tensor, Tensor, Tensor]], n: int, stop_token_ids: frozenset[int]) -> list[Turn]:
    """Per-step (rows, tokens, log-probs) -> one `Turn` per row."""
    ids: list[list[int]] = [[] for _ in range(n)]
    logprobs: list[list[float]] = [[] for _ in range(n)]
    for rows, tokens, values in steps:
        for row, token, value in zip(rows.tolist(), tokens.tolist(), values.tolist(), strict=True):
            ids[row].append(token)
            logprobs[row].append(value)
    return [
        Turn(
            np.array(row_ids, dtype=np.int64),
            np.array(row_logprobs, dtype=np.float32),
            "stop" if row_ids[-1] in stop_token_ids else "length",
        )
        for row_ids, row_logprobs in zip(ids, logprobs, strict=True)
    ]

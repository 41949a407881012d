"""The state of many token-level episodes in NumPy.

Shapes: B rows, L = `max_length` positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from llm_envs import validate
from llm_envs.error import EpisodeError, TokenError
from llm_envs.token_format import Observation, TokenFormat


class TokenRows:
    """Prefixes, budgets and clocks of B rows.

    Attributes:
        tokens: (B, L) prefixes, padded.
        length: (B,) tokens in the prefix.
        budget: (B,) tokens the policy may still write, were the prefix long enough.
        turn_start: (B,) where the tokens of the current turn begin.
        elapsed: (B,) tokens the policy wrote in this episode.
        begun: bool (B,) whether the row was ever reset.
        ended: bool (B,) whether the row must be reset before it takes a token.
        max_steps: `elapsed` at which an episode is truncated; None for never.
    """

    def __init__(self, format: TokenFormat, num_rows: int, max_steps: int | None) -> None:
        self.format = format
        self.max_steps = max_steps
        self.tokens = np.full((num_rows, format.max_length), format.pad_token_id, dtype=np.int64)
        self.length, self.budget, self.turn_start, self.elapsed = np.zeros((4, num_rows), dtype=np.int64)
        self.begun = np.zeros(num_rows, dtype=np.bool_)
        self.ended = np.ones(num_rows, dtype=np.bool_)

    def begin(self, row: int, prompt: np.ndarray) -> None:
        """Start a new episode."""
        self.tokens[row] = self.format.pad_token_id
        self.length[row] = self.elapsed[row] = 0
        self.budget[row] = self.format.max_new_tokens
        self.insert(row, prompt)
        self.begun[row], self.ended[row] = True, False

    def insert(self, row: int, ids: np.ndarray) -> None:
        """Append tokens that the policy did not choose; its next turn starts after them."""
        self.tokens[row, self.length[row] : self.length[row] + len(ids)] = ids
        self.length[row] += len(ids)
        self.turn_start[row] = self.length[row]

    def append(self, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Append one token the policy chose to each of `rows`; returns those in which a turn or the time is over.

        Nothing is appended if one of them is refused, as `TokenFormat` says.
        """
        self.format.check_all(tokens)
        closing = self._closing(rows, tokens)
        self.tokens[rows, self.length[rows]] = tokens
        self._count(rows, 1)
        return rows[closing | (self.remaining()[rows] == 0) | self.out_of_time()[rows]]

    def _closing(self, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Which of the tokens end their row's turn, rightly or not."""
        masks = self.format.masks
        if masks.fixed and not self.format.strict:
            return masks.closing[tokens]
        chosen = zip(rows.tolist(), tokens.tolist(), strict=True)
        allowed = np.array([masks.allowed(row, self.turn(row))[token] for row, token in chosen], dtype=np.bool_)
        self._check_allowed(tokens, allowed)
        return ~allowed | masks.stops[tokens]

    def append_turn(self, row: int, turn: np.ndarray) -> None:
        """Append several tokens the policy chose."""
        self.tokens[row, self.length[row] : self.length[row] + len(turn)] = turn
        self._count(row, len(turn))

    def _count(self, rows: Any, written: int) -> None:
        self.length[rows] += written
        self.budget[rows] -= written
        self.elapsed[rows] += written

    def prefix(self, row: int) -> np.ndarray:
        """All real tokens of a row."""
        return self.tokens[row, : self.length[row]]

    def turn(self, row: int) -> np.ndarray:
        """What the policy wrote since its turn began."""
        return self.tokens[row, self.turn_start[row] : self.length[row]]

    def masks(self) -> np.ndarray:
        """Which tokens each row may write next, bool (B, V); where the episode has ended, as in a turn to come."""
        if self.format.masks.fixed:
            return np.repeat(self.format.masks.vocabulary[None], len(self.ended), axis=0)
        ended = self.ended.tolist()
        return self.format.masks.batch([() if over else self.turn(row) for row, over in enumerate(ended)])

    def remaining(self) -> np.ndarray:
        """Tokens the policy may still write, (B,)."""
        return np.minimum(self.budget, self.format.max_length - self.length)

    def out_of_time(self) -> np.ndarray:
        """Rows that `max_steps` truncates, bool (B,)."""
        return self.elapsed >= (np.inf if self.max_steps is None else self.max_steps)

    def observation(self, rows: Any) -> Observation:
        """A copy of what `rows` (a slice or indices) show."""
        return {
            "tokens": self.tokens[rows].copy(),
            "length": self.length[rows, None].copy(),
            "remaining": self.remaining()[rows, None].copy(),
        }

    def check_begun(self, row: int) -> None:
        """Raise unless there is such a row and it was reset before."""
        if not 0 <= row < len(self.begun):
            raise TokenError(f"there is no row {row}; rows are 0 to {len(self.begun) - 1}")
        if not self.begun[row]:
            raise EpisodeError(f"row {row} was never reset; call reset first")

    def _check_allowed(self, tokens: np.ndarray, allowed: np.ndarray) -> None:
        for token in tokens[~allowed][:1]:
            self.format.refuse_if_strict(int(token))

    def check_turn(self, row: int, turn: Any, ignored: bool) -> np.ndarray:
        """Raise unless every token of the turn would be a step of one and the same turn.

        Args:
            row: the row.
            turn: the tokens.
            ignored: whether the row's next action is ignored, since it resets the row; then it must be the only one.
        """
        turn = validate.integer_array(f"the turn of row {row}", turn)
        if not len(turn):
            raise TokenError(f"the turn of row {row} must be a non-empty 1-D integer array, got an empty one")
        if ignored:
            room = 1
        else:
            self.format.check_all(turn)
            allowed = self.format.masks.fits(row, self.turn(row), turn)
            self._check_allowed(turn, allowed)
            closing = np.flatnonzero(~allowed | self.format.masks.stops[turn])[:1] + 1
            time = [] if self.max_steps is None else [self.max_steps - self.elapsed[row]]
            room = int(min([self.remaining()[row], *closing, *time]))
        if len(turn) > room:
            raise TokenError(
                f"the turn of row {row} has {len(turn)} tokens and goes on after the end of the turn or of the "
                f"episode, which comes with token {room}"
            )
        return turn

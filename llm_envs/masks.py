"""Which tokens may come next in a turn.

Legend: V tokens in the vocabulary, n tokens written in the turn so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from llm_envs import validate
from llm_envs.constraints import Constraint, NextTokens
from llm_envs.error import OptionError
from llm_envs.tokenizer import Tokenizer


class TurnMasks:
    """Masks as a function of what is written in the turn; what it keeps per row only saves reading it again.

        allowed = vocabulary
                  and (not a stop token, while n < min_new_tokens)
                  and constraint(written)
        or, should that be nothing at all, the stop tokens

    Args:
        tokenizer: the tokenizer.
        stop_token_ids: ids that end a turn.
        vocabulary: bool (V,), the tokens a policy may ever write.
        min_new_tokens: tokens in a turn before a stop token.
        constraint: what else a turn must look like.

    Attributes:
        stops: bool (V,), the stop tokens.
        fixed: whether the mask is always `vocabulary`; then callers that are in a hurry read it without asking.
        closing: bool (V,), the tokens that end a turn, rightly or not, if it is.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop_token_ids: Sequence[int],
        vocabulary: np.ndarray,
        min_new_tokens: int = 0,
        constraint: Constraint | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.stops = np.zeros(len(vocabulary), dtype=np.bool_)
        self.stops[list(stop_token_ids)] = True
        self.fixed = constraint is None and not min_new_tokens
        self.closing = self.stops | ~vocabulary
        self._tokenizer, self._stop_token_ids = tokenizer, stop_token_ids
        self._min_new_tokens, self._constraint = min_new_tokens, constraint
        self._early = self._satisfiable(vocabulary & ~self.stops)
        self._started: dict[int, NextTokens] = {}
        self._last: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        if constraint is not None:
            self.allowed(0, np.empty(0, dtype=np.int64))  # an impossible one is refused here and not in an episode

    def allowed(self, row: int, written: np.ndarray) -> np.ndarray:
        """The mask after `written`, bool (V,), not to be changed.

        Args:
            row: any number; asking in the order of writing is fast under the same one.
            written: ids (n,) of this turn, without a stop token.
        """
        mask = self._early if len(written) < self._min_new_tokens else self.vocabulary
        if self._constraint is None:
            return mask
        last = self._last.get(row)
        if last is None or not np.array_equal(last[0], written):
            if row not in self._started:
                started = self._constraint.start(self._tokenizer, self._stop_token_ids)
                self._started[row] = validate.function("what start of a constraint returns", started)
            last = written.copy(), self._satisfiable(mask & self._checked(self._started[row](written)))
            self._last[row] = last  # an agent asks for a mask, then the environment checks against it
        return last[1]

    def batch(self, turns: Sequence[Any]) -> np.ndarray:
        """The masks after each of several turns, bool (len(turns), V)."""
        masks = [self.allowed(row, np.asarray(turn, dtype=np.int64)) for row, turn in enumerate(turns)]
        return np.array(masks, dtype=np.bool_).reshape(len(turns), len(self.vocabulary))

    def fits(self, row: int, written: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Whether each of `tokens` is allowed after those before it; True for those after the end of the turn."""
        if self.fixed:
            return self.vocabulary[tokens]
        whole, fits = np.concatenate([written, tokens]), np.ones(len(tokens), dtype=np.bool_)
        for position, token in enumerate(tokens.tolist(), start=len(written)):
            fits[position - len(written)] = allowed = self.allowed(row, whole[:position])[token]
            if not allowed or self.stops[token]:
                break
        return fits

    def _satisfiable(self, mask: np.ndarray) -> np.ndarray:
        return mask if mask.any() else self.stops

    def _checked(self, allowed: Any) -> np.ndarray:
        if not isinstance(allowed, np.ndarray) or allowed.shape != self.stops.shape or allowed.dtype != np.bool_:
            got = f"{allowed.dtype} {allowed.shape}" if isinstance(allowed, np.ndarray) else type(allowed).__name__
            raise OptionError(f"a constraint must return a bool array of shape {self.stops.shape}, got {got}")
        return allowed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_started": {}, "_last": {}}

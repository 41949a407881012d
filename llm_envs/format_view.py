"""What an agent may read of a token-level environment.

Shapes: V tokens in the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from llm_envs.token_format import TokenFormat


class FormatView:
    """What an agent may read of a token-level environment, besides what depends on its rows."""

    format: TokenFormat

    @property
    def eos_token_id(self) -> int | None:
        """The tokenizer's end-of-sequence token."""
        return self.format.eos_token_id

    @property
    def pad_token_id(self) -> int:
        """What fills `tokens` beyond `length`."""
        return self.format.pad_token_id

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """The tokens that end a turn."""
        return self.format.stop_token_ids

    @property
    def max_length(self) -> int:
        """How many tokens a prefix can hold."""
        return self.format.max_length

    @property
    def num_examples(self) -> int | None:
        """How many examples `options={"index": i}` can choose from; None when the text level does not say."""
        return self.format.num_examples

    def next_token_mask(self, prefixes: Sequence[Any]) -> np.ndarray | None:
        """Masks for engines that write whole turns; None when `action_masks` holds for every token of a turn.

        Args:
            prefixes: n integer arrays, what each has written in its turn so far, without a stop token; faster for those
                that keep their place from call to call.

        Returns:
            bool (n, V).
        """
        if self.format.masks.fixed:
            return None
        return self.format.masks.batch([self.format.token_array("a prefix", prefix) for prefix in prefixes])

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens skipped."""
        return self.format.tokenizer.decode(ids)

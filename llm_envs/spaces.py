"""The space of messages and observations at the text level."""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Text
from gymnasium.vector.utils import create_shared_memory

from llm_envs.error import OptionError

MAX_CHARACTERS = 1_000_000
"""Default length limit of a message: a bound must be named, and this one is far above any prompt or answer."""

_SAMPLED_CHARACTERS = 32
_SURROGATES = range(0xD800, 0xE000)
_CODE_POINTS = 0x110000


class UnicodeText(Text):
    """Any Unicode string of 0 to `max_length` characters.

    Gymnasium's `Text` lists its characters one by one; with all of Unicode that costs 46 MB and seconds. Membership
    here is a length check, and a sample is a short string (at most 32 characters) of arbitrary code points, surrogates
    excluded because they cannot be encoded. The inherited `characters` hold the ASCII letters and digits only, so the
    space cannot be flattened.

    Example:
        >>> space = UnicodeText(10)
        >>> "" in space, "naïve 🙂" in space, "more than ten" in space
        (True, True, False)
    """

    def __init__(self, max_length: int = MAX_CHARACTERS, *, seed: Any = None) -> None:
        """Create the space of strings of at most `max_length` characters."""
        super().__init__(max_length, min_length=0, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a string (or an instance of a subclass of it) that is short enough."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw a short string; masks are not supported, since there is no list of characters to mask."""
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText.sample takes neither a mask nor probabilities")
        length = self.np_random.integers(min(self.max_length, _SAMPLED_CHARACTERS), endpoint=True)
        points = self.np_random.integers(_CODE_POINTS - len(_SURROGATES), size=length)
        points += len(_SURROGATES) * (points >= _SURROGATES.start)
        return "".join(map(chr, points))

    @property
    def is_np_flattenable(self) -> bool:
        """Never: a one-hot of all of Unicode helps nobody."""
        return False

    def __eq__(self, other: object, /) -> bool:
        return isinstance(other, UnicodeText) and self.max_length == other.max_length

    __hash__ = None  # type: ignore[assignment]  # as every Gymnasium space that compares by value

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"


@create_shared_memory.register(UnicodeText)
def _refuse_shared_memory(space: UnicodeText, n: int = 1, ctx: Any = None) -> Any:
    """Gymnasium would reserve four bytes per possible character and hand out strings of zeros as observations."""
    raise OptionError(
        "AsyncVectorEnv cannot keep messages in shared memory, got an observation space "
        f"{space}; give shared_memory=False (gymnasium.make_vec: vector_kwargs={{'shared_memory': False}})"
    )

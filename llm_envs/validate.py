"""Options and arguments, checked: every mistake becomes one sentence with what was expected and what was given."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from llm_envs.error import OptionError, TokenError, unknown


def is_integer(value: Any) -> bool:
    """Whether a value is an integer of Python or NumPy; truth values are not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def integer(name: str, value: Any, low: int, high: float = math.inf) -> int:
    """An integer from `low` to `high`, both included."""
    if not is_integer(value) or not low <= value <= high:
        span = f"from {low} to {high}" if high < math.inf else f"of at least {low}"
        raise OptionError(f"{name} must be an integer {span}, got {value!r:.80}")
    return int(value)


def positive(name: str, value: Any) -> int:
    """An integer above zero."""
    if not is_integer(value) or value < 1:
        raise OptionError(f"{name} must be a positive integer, got {value!r:.80}")
    return int(value)


def ids(name: str, values: Any, vocab_size: int) -> list[int]:
    """A list, tuple, set, range or array of token ids."""
    listed = list(values) if isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping)) else None
    if listed is None or not all(is_integer(value) and 0 <= value < vocab_size for value in listed):
        raise OptionError(f"{name} must be ids from 0 to {vocab_size - 1}, in a list, got {values!r:.80}")
    return [int(value) for value in listed]


def integer_array(name: str, values: Any) -> np.ndarray:
    """Token ids as an array int64 (n,), possibly empty; raises `TokenError` for anything else."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # nested lists of unequal lengths
        array = np.asarray(None)
    if array.ndim != 1 or len(array) and not np.issubdtype(array.dtype, np.integer):
        raise TokenError(f"{name} must be a 1-D integer array, got {array.dtype} {array.shape}")
    return array.astype(np.int64, copy=False)


def flag(name: str, value: Any) -> bool:
    """A truth value; "no" and 1 are none."""
    if not isinstance(value, (bool, np.bool_)):
        raise OptionError(f"{name} must be True or False, got {value!r:.80}")
    return bool(value)


def text(name: str, value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise OptionError(f"{name} must be a string (str), got {value!r:.80}")
    return value


def function(name: str, value: Any) -> Callable[..., Any]:
    """A function, or anything else that can be called."""
    if not callable(value):
        raise OptionError(f"{name} must be a function, got {value!r:.80}")
    return value


def mapping(name: str, value: Any, *, optional: bool = False) -> dict[str, Any]:
    """A dict whose keys are strings; where it is `optional`, None stands for an empty one."""
    if optional and value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise OptionError(f"{name} must be a dict with names for keys, got {value!r:.80}")
    return dict(value)


def choice(name: str, value: Any, known: Collection[str]) -> str:
    """One of a few strings."""
    if not isinstance(value, str) or value not in known:
        raise OptionError(unknown(name, value, known))
    return value


def sizes(value: Any, defaults: Mapping[str, int]) -> dict[str, int]:
    """The option `sizes`, a dict split -> number of examples; splits it does not name keep their default."""
    given = mapping("sizes", value, optional=True)
    for split, size in given.items():
        if split not in defaults:
            raise OptionError(unknown("split in sizes", split, defaults))
        positive(f"sizes[{split!r}]", size)
    return {**defaults, **given}

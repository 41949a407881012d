"""Inputs for the families: small values, short in print, dense around the constants that matter.

Every helper takes the values `near` which the program's behaviour changes, and draws them and their neighbours often,
so that off-by-one bugs show.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from random import Random
from typing import Any

Inputs = list[tuple[Any, ...]]
Comparison = tuple[str, str, Callable[[Any, Any], bool]]

# word in the function's name, operator in its text, operator for the oracle
COMPARISONS: tuple[Comparison, ...] = (
    ("above", ">", operator.gt),
    ("below", "<", operator.lt),
    ("at_least", ">=", operator.ge),
    ("at_most", "<=", operator.le),
    ("equal_to", "==", operator.eq),
    ("other_than", "!=", operator.ne),
)
ORDERINGS = COMPARISONS[:4]

_COUNT = 20  # drawn; duplicates fall away and `Family.draw` keeps the first MAX_INPUTS


def integers(rng: Random, *near: int, low: int = -9, high: int = 20) -> Inputs:
    """One integer each: everything within 1 of `near`, then random ones."""
    values = [value + step for value in near for step in (0, -1, 1) if low <= value + step <= high]
    values += [low, high, max(0, low)]
    return [(value,) for value in values + [rng.randint(low, high) for _ in range(_COUNT)]]


def number_list(rng: Random, near: tuple[int, ...], low: int, high: int, length: int) -> list[int]:
    """A list whose elements are often within 1 of `near`."""
    close = [value + step for value in near for step in (0, -1, 1) if low <= value + step <= high]
    return [rng.choice(close) if close and rng.random() < 0.5 else rng.randint(low, high) for _ in range(length)]


def lists(rng: Random, *near: int, low: int = -3, high: int = 9, shortest: int = 0, longest: int = 6) -> Inputs:
    """One list of integers each: every length from `shortest` on, then mostly short ones."""
    high = max([high, *(value + 1 for value in near)])
    lengths = [*range(shortest, longest + 1), *(min(longest, shortest + 1 + rng.randrange(4)) for _ in range(_COUNT))]
    return [(number_list(rng, near, low, high, length),) for length in lengths]


def distinct_lists(rng: Random, *near: int, low: int = -3, high: int = 9, ordered: bool = False) -> Inputs:
    """Like `lists`, but without repeated elements, sorted on request."""
    found = [(list(dict.fromkeys(xs)),) for (xs,) in lists(rng, *near, low=low, high=high)]
    return [(sorted(xs),) for (xs,) in found] if ordered else found


def words(rng: Random, letters: str = "", shortest: int = 0, longest: int = 7, alphabet: str = "abcdefgxyz") -> Inputs:
    """One lowercase string each; every second letter comes from `letters`."""
    lengths = [*range(shortest, longest + 1), *(min(longest, shortest + 1 + rng.randrange(5)) for _ in range(_COUNT))]
    return [
        ("".join(rng.choice(letters if letters and rng.random() < 0.5 else alphabet) for _ in range(length)),)
        for length in lengths
    ]


def tables(rng: Random, *near: int, low: int = -3, high: int = 9) -> Inputs:
    """One dict from letters to integers each."""
    high = max([high, *(value + 1 for value in near)])
    lengths = [*range(5), *(1 + rng.randrange(4) for _ in range(_COUNT))]
    return [
        (dict(zip(rng.sample("abcde", length), number_list(rng, near, low, high, length), strict=True)),)
        for length in lengths
    ]


def grids(rng: Random, *near: int, low: int = 0, high: int = 9, width: int = 2) -> Inputs:
    """One small matrix (list of equally long rows) each."""
    high = max([high, *(value + 1 for value in near)])
    sizes = [
        (1, width),
        (2, width),
        (3, width),
        *((rng.randint(1, 3), width + rng.randrange(2)) for _ in range(_COUNT)),
    ]
    return [([number_list(rng, near, low, high, columns) for _ in range(rows)],) for rows, columns in sizes]

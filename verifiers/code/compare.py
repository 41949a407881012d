"""When a decoded value is the expected one: exact types at every level, never a foreign `__eq__`."""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import Any

from verifiers.sandbox.codec import encode


def same_value(got: Any, expected: Any, tolerance: float = 0.0) -> bool:
    """Whether two decoded values are equal with exact types at every level.

    `1`, `1.0` and `True` differ; NaN equals nothing; set order and dict order do not matter. Floats that are neither
    set elements nor dict keys may differ by `tolerance * max(1, |expected|)`.
    """
    kind = type(expected)
    if type(got) is not kind:
        return False
    if kind is float:
        return got == expected or (
            tolerance > 0
            and math.isfinite(got)
            and math.isfinite(expected)
            and abs(got - expected) <= tolerance * max(1.0, abs(expected))
        )
    if kind is list or kind is tuple:
        return len(got) == len(expected) and all(map(same_value, got, expected, [tolerance] * len(expected)))
    if kind is dict:
        if len(got) != len(expected):
            return False
        by_key = {_typed(key): value for key, value in got.items()}
        missing = object()
        return all(same_value(by_key.get(_typed(key), missing), value, tolerance) for key, value in expected.items())
    if kind is set or kind is frozenset:
        return len(got) == len(expected) and _typed(frozenset(got)) == _typed(frozenset(expected))
    return got == expected


def equal_value(got: Any, expected: Any, tolerance: float = 0.0) -> bool:
    """Whether Python's `==` calls two decoded values equal: 1, 1.0 and True, a set and a frozenset.

    Both are plain, so no foreign `__eq__` runs. The tolerance is not applied.
    """
    return bool(got == expected)


def _typed(key: Any) -> tuple[type, Any]:
    """A hashable value with its types written out, so that equality is exact: 1, 1.0 and True become three keys."""
    kind = type(key)
    if kind is tuple:
        return kind, tuple(map(_typed, key))
    if kind is frozenset:
        return kind, frozenset(map(_typed, key))
    if kind is float and key != key:
        return kind, object()  # NaN equals nothing
    return kind, key


def same_items(got: Any, expected: Any, tolerance: float = 0.0) -> bool:
    """Whether two lists or two tuples hold equal items in any order; other values are compared by `same_value`.

    Only the outermost order is free. A tolerance is allowed for lists of ints and floats alone, see `has_free_order`.
    """
    if type(got) is not type(expected) or type(expected) not in (list, tuple):
        return same_value(got, expected, tolerance)
    if len(got) != len(expected):
        return False
    if tolerance > 0:
        if not set(map(type, got)) <= {int, float} or any(item != item for item in got):
            return False
        # The exact type breaks ties, so that 1 and 1.0 are paired with their like.
        ours, theirs = (sorted(items, key=lambda item: (item, type(item) is int)) for items in (got, expected))
        return same_value(ours, theirs, tolerance)
    try:
        return Counter(map(_fingerprint, got)) == Counter(map(_fingerprint, expected))
    except _NotANumber:
        return False


def has_free_order(expected: Any, tolerance: float) -> bool:
    """Whether `same_items` can compare with this value: with a tolerance, only numbers can be paired in any order."""
    return tolerance == 0 or type(expected) not in (list, tuple) or set(map(type, expected)) <= {int, float}


class _NotANumber(Exception):  # noqa: N818 - not an error: the value equals nothing
    """The value contains NaN."""


def _fingerprint(value: Any) -> bytes:
    """Equal bytes for values that `same_value` calls equal.

    Bytes and not hashes of the values: their hash is seeded, so a submission cannot make them collide.
    """
    kind = type(value)
    if kind is float:
        if value != value:
            raise _NotANumber
        return encode(value + 0.0, sys.maxsize)  # -0.0 becomes 0.0
    if kind in (list, tuple):
        items = [_fingerprint(item) for item in value]
    elif kind in (set, frozenset):
        items = sorted(map(_fingerprint, value))
    elif kind is dict:
        items = sorted(_fingerprint((key, item)) for key, item in value.items())
    else:
        return encode(value, sys.maxsize)
    return b"%s%d[%s]" % (kind.__name__.encode(), len(items), b"".join(b"%d:%s" % (len(item), item) for item in items))

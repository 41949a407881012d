"""Hypothesis strategies for everything that may cross the sandbox's border."""

from __future__ import annotations

import math

from hypothesis import strategies as st

text = st.text(st.characters(exclude_categories=[]))  # lone surrogates included
scalars = st.none() | st.booleans() | st.integers() | st.floats() | text | st.binary()
keys = st.recursive(scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.sets(keys, max_size=4)
        | st.frozensets(keys, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)


def has_nan(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(has_nan, value)) or any(map(has_nan, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(has_nan, value))
    return isinstance(value, float) and math.isnan(value)

from __future__ import annotations

import math
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_values import has_nan, values

from verifiers.code.compare import _fingerprint, _NotANumber, has_free_order, same_items, same_value


class EqualToAll(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize(
    ("got", "expected"),
    [(1, True), (True, 1), (1.0, 1), (0, False), ("1", 1), (b"a", "a"), ([1], (1,)), ({1}, frozenset({1})), (None, 0)]
    + [({1}, {True}), ({1: "a"}, {True: "a"}), ({1.0: "a"}, {1: "a"}), ({(1, 2)}, {(1.0, 2)}), ([1, 2], [1]), ({}, [])]
    + [
        (math.nan, math.nan),
        ([math.nan], [math.nan]),
        ({math.nan}, {math.nan}),
        ({"a": 1}, {"b": 1}),
        (math.inf, 1e308),
    ]
    + [(EqualToAll(1), 1), (-math.inf, math.inf), ({frozenset({1})}, {frozenset({True})})],
)
def test_values_that_differ(got, expected):
    assert not same_value(got, expected)
    assert not same_value(got, expected, tolerance=1e-6)


@pytest.mark.parametrize(
    ("got", "expected"),
    [({2, 1}, {1, 2}), ({"b": 1, "a": [2]}, {"a": [2], "b": 1}), (0.0, -0.0), (math.inf, math.inf), ((), ())],
)
def test_values_that_are_the_same(got, expected):
    assert same_value(got, expected)


def test_tolerance_is_absolute_below_one_and_relative_above():
    assert same_value(1e-7, 0.0, tolerance=1e-6)
    assert same_value(1e6 + 0.5, 1e6, tolerance=1e-6)
    assert not same_value(1e6 + 2.0, 1e6, tolerance=1e-6)
    assert same_value([{"a": (1.0 + 1e-9,)}], [{"a": (1.0,)}], tolerance=1e-6)
    assert not same_value(1.0 + 1e-9, 1.0)
    assert not same_value(2, 1, tolerance=5.0), "tolerance is for floats"


@given(st.lists(values, max_size=6), st.randoms(use_true_random=False))
def test_order_is_free_on_the_outside_only(items, shuffler: random.Random):
    shuffled = items[:]
    shuffler.shuffle(shuffled)
    assert same_items(shuffled, items) == (not has_nan(items))
    assert same_items(tuple(shuffled), tuple(items)) == (not has_nan(items))
    assert not same_items([*shuffled, None], items)


@given(values, values)
def test_fingerprints_are_equal_when_the_values_are(one, other):
    if not has_nan([one, other]):
        assert (_fingerprint(one) == _fingerprint(other)) == same_value(one, other)
        assert _fingerprint(one) == _fingerprint(one)


def test_free_order_keeps_types_and_counts():
    assert same_items([[2], {"b": 1, "a": 2}, -0.0], [{"a": 2, "b": 1}, 0.0, [2]])
    assert not same_items([1, 1, 2], [1, 2, 2])
    assert not same_items([1, True], [1, 1])
    assert not same_items([(1, 2)], [(2, 1)])
    assert not same_items([1, 2], (1, 2))
    assert not same_items([EqualToAll(1)][:0], [1])
    assert same_items({1, 2}, {2, 1}), "other values are compared as ever"
    with pytest.raises(_NotANumber):
        _fingerprint([math.nan])


def test_free_order_with_a_tolerance():
    assert same_items([2.0000001, 1], [1, 2.0], tolerance=1e-6)
    assert same_items([1.0, 1], [1, 1.0], tolerance=1e-6)
    assert not same_items([2.1, 1], [1, 2.0], tolerance=1e-6)
    assert not same_items([1.0, 2.0], [1, 2.0], tolerance=1e-6), "tolerance is for floats"
    assert not same_items(["a"], [1.0], tolerance=1e-6)
    assert not same_items([math.nan], [1.0], tolerance=1e-6)
    assert has_free_order(["a"], 0.0)
    assert not has_free_order(["a"], 1e-6)
    assert has_free_order([1, 2.0], 1e-6)
    assert has_free_order("text", 1e-6)


def test_colliding_items_cannot_keep_the_host_busy():
    colliding = [index * (2**61 - 1) for index in range(1, 15_000)]
    began = time.process_time()
    assert same_items(colliding[::-1], colliding)
    assert time.process_time() - began < 2.0

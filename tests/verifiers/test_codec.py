from __future__ import annotations

import time
from collections import Counter, OrderedDict, namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_values import has_nan, values

from verifiers.code.compare import same_value
from verifiers.sandbox.codec import MAX_DEPTH, MAX_INT_BITS, BadFrame, TooLarge, Unserialisable, decode, encode


@given(values)
def test_round_trip_keeps_values_and_exact_types(value):
    back = decode(encode(value))
    assert same_value(back, value) == (not has_nan(value))
    assert repr(type(back)) == repr(type(value))


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_a_plain_value_or_a_bad_frame(data):
    try:
        value = decode(data)
    except BadFrame:
        return
    encode(value)  # raises if anything outside the closed set came out


@given(values, st.data())
def test_damaged_frames_are_a_plain_value_or_a_bad_frame(value, data):
    frame = bytearray(encode(value))
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        encode(decode(bytes(frame)))
    except BadFrame:
        assert frame


class EqualToAll(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


cyclic: list[object] = []
cyclic.append(cyclic)
Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [object(), EqualToAll(3), Counter("aab"), OrderedDict(a=1), Point(1, 2), 1j, range(3), iter(()), len, int]
    + [bytearray(b"x"), ..., [1, object()], {"a": {1: EqualToAll(2)}}, cyclic],
    ids=repr,
)
def test_values_outside_the_closed_set_are_refused(value):
    with pytest.raises(Unserialisable):
        encode(value)


def test_nesting_is_capped_on_both_sides():
    nested: list[object] = []
    for _ in range(MAX_DEPTH - 1):
        nested = [nested]
    assert decode(encode(nested)) == nested
    with pytest.raises(Unserialisable):
        encode([nested])
    with pytest.raises(BadFrame):
        decode(b"l1:" + encode(nested))


@pytest.mark.parametrize(
    ("value", "max_bytes"),
    [("x" * 100, 50), (b"x" * 100, 50), (["abc"] * 20, 50), ({i: i for i in range(20)}, 50), ("\u20ac" * 30, 60)]
    + [(1 << MAX_INT_BITS, 1 << 20), ([None] * 10**6, 1 << 10)],
    ids=["str", "bytes", "list", "dict", "utf8", "int", "long list"],
)
def test_too_large_values_are_refused(value, max_bytes):
    with pytest.raises(TooLarge):
        encode(value, max_bytes)


@pytest.mark.parametrize(
    "frame",
    [b"", b"x", b"i5", b"i;", b"izz;", b"d123", b"s3:ab", b"s-1:", b"s+1:a", b"s:a", b"s99999999999:a", b"l2:N", b"NN"]
    + [b"e1:l0:", b"m1:l0:N", b"m1:N", b"e1:e0:", b"q1:N", b"s1:\xff", b"l1:" * 200 + b"N", b"i" + b"1" * 20000 + b";"],
)
def test_bad_frames_are_refused(frame):
    with pytest.raises(BadFrame):
        decode(frame)


def test_colliding_keys_cannot_keep_the_host_busy():
    collide = [i * ((1 << 61) - 1) for i in range(1, 12000)]  # all hash to 0
    frame = b"e%d:" % len(collide) + b"".join(map(encode, collide))
    began = time.process_time()
    with pytest.raises(BadFrame, match="colliding"):
        decode(frame)
    assert time.process_time() - began < 2.0
    grid = {(x, y) for x in range(-20, 20) for y in range(-20, 20)}  # hash(-1) == hash(-2)
    assert decode(encode(grid)) == grid

"""How values cross the sandbox's border: a closed set of types, written to bytes and read back.

    N T F                 None, True, False
    i<hex>;               int
    d<8 bytes>            float, big-endian IEEE 754
    s<n>:<n bytes>        str, UTF-8 (lone surrogates kept)
    b<n>:<n bytes>        bytes
    l<n>: t<n>: e<n>: z<n>:   list, tuple, set, frozenset, followed by n values
    m<n>:                 dict, followed by n keys, each with its value

Types are exact: an instance of a subclass is refused when writing, and cannot be expressed when reading, so nothing
with an `__eq__` of its own ever reaches the comparison (`compare.py`). Never pickle or marshal: reading runs no code.

Both sides of the border use this file; the sandbox loads it with builtins of its own (see `boot.py`), so a submission
that patches `builtins` does not change how results are written. A submission that hunts the functions down can change
what is sent, which is no more than it may do anyway: name a value.

Not covered: NumPy scalars and arrays, Decimal, dataclasses, and subclasses such as Counter or namedtuple.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

MAX_BYTES = 1 << 20
"""Default cap on the size of one encoded value, in bytes."""
MAX_DEPTH = 64
"""Cap on the nesting of containers."""
MAX_INT_BITS = 1 << 16
"""Cap on the size of an int, in bits (about 19 700 decimal digits)."""

_COUNT_DIGITS = 10
_MAX_COLLISIONS = 64
_SEQUENCE_TAGS: dict[type, bytes] = {list: b"l", tuple: b"t", set: b"e", frozenset: b"z"}
_SEQUENCE_TYPES = {b"l": list, b"t": tuple, b"e": set, b"z": frozenset}
_CONSTANTS = {b"N": None, b"T": True, b"F": False}
_FLOAT = struct.Struct(">d")


class Unserialisable(ValueError):  # noqa: N818 - named as the verdict it leads to
    """The value, or one inside it, has a type outside the closed set or is nested too deeply."""


class TooLarge(Unserialisable):
    """The value would need more bytes, or an int more bits, than allowed."""


class BadFrame(ValueError):
    """The bytes are not the encoding of one value."""


def encode(value: Any, max_bytes: int = MAX_BYTES) -> bytes:
    """Write one value; raises `Unserialisable` or `TooLarge`."""
    parts: list[bytes] = []
    _write(value, parts, max_bytes, MAX_DEPTH)
    return b"".join(parts)


def _write(value: Any, parts: list[bytes], room: int, depth: int) -> int:
    """Append the encoding of `value` to `parts`; returns how many of the `room` bytes are left."""
    kind = type(value)
    if value is None or kind is bool:
        part = b"N" if value is None else b"T" if value else b"F"
    elif kind is int:
        if value.bit_length() > MAX_INT_BITS:
            raise TooLarge("int")
        part = b"i%x;" % value
    elif kind is float:
        part = b"d" + _FLOAT.pack(value)
    elif kind is str or kind is bytes:
        if len(value) > room:  # before copying it
            raise TooLarge(kind.__name__)
        data = value.encode("utf-8", "surrogatepass") if kind is str else value
        part = b"%s%d:%s" % (b"s" if kind is str else b"b", len(data), data)
    elif kind is dict or kind in _SEQUENCE_TAGS:
        return _write_container(value, kind, parts, room, depth)
    else:
        raise Unserialisable("unsupported type")  # without its name: a metaclass could run code to make one up
    room -= len(part)
    if room < 0:
        raise TooLarge(kind.__name__)
    parts.append(part)
    return room


def _write_container(value: Any, kind: type, parts: list[bytes], room: int, depth: int) -> int:
    if depth == 0:
        raise Unserialisable("nested too deeply")
    head = b"%s%d:" % (b"m" if kind is dict else _SEQUENCE_TAGS[kind], len(value))
    room -= len(head)
    if room < len(value):  # every item needs a byte at least
        raise TooLarge(kind.__name__)
    parts.append(head)
    if kind is dict:
        for key, item in value.items():
            room = _write(key, parts, room, depth - 1)
            room = _write(item, parts, room, depth - 1)
    else:
        for item in value:
            room = _write(item, parts, room, depth - 1)
    return room


def decode(data: bytes) -> Any:
    """Read one value back as plain builtins; raises `BadFrame` for anything else. The caller caps `len(data)`."""
    value, end = _read(data, 0, MAX_DEPTH)
    if end != len(data):
        raise BadFrame("bytes after the value")
    return value


def _read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """The value that starts at `at`, and where it ends."""
    tag = data[at : at + 1]
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at + 1
    try:
        if tag == b"i":
            end = data.index(b";", at, at + 3 + MAX_INT_BITS // 4)
            number = int(data[at + 1 : end], 16)
            if number.bit_length() > MAX_INT_BITS:
                raise BadFrame("int too large")
            return number, end + 1
        if tag == b"d":
            return _FLOAT.unpack_from(data, at + 1)[0], at + 9
        count, at = _read_count(data, at + 1)
        if tag in (b"s", b"b"):
            end = at + count
            if end > len(data):
                raise BadFrame("cut short")
            return (data[at:end].decode("utf-8", "surrogatepass") if tag == b"s" else data[at:end]), end
        return _read_container(data, tag, count, at, depth)
    except BadFrame:
        raise
    except (ValueError, struct.error) as error:
        raise BadFrame(type(error).__name__) from None


def _read_count(data: bytes, at: int) -> tuple[int, int]:
    end = data.index(b":", at, at + _COUNT_DIGITS + 1)
    digits = data[at:end]
    if not digits.isdigit():
        raise BadFrame("not a count")
    return int(digits), end + 1


def _read_container(data: bytes, tag: bytes, count: int, at: int, depth: int) -> tuple[Any, int]:
    if depth == 0 or (tag != b"m" and tag not in _SEQUENCE_TYPES):
        raise BadFrame("unknown tag, or nested too deeply")
    items, values = [], []
    for _ in range(count):
        item, at = _read(data, at, depth - 1)
        items.append(item)
        if tag == b"m":
            value, at = _read(data, at, depth - 1)
            values.append(value)
    if tag in (b"l", b"t"):
        return _SEQUENCE_TYPES[tag](items), at
    _refuse_bad_keys(items)
    return (dict(zip(items, values, strict=True)) if tag == b"m" else _SEQUENCE_TYPES[tag](items)), at


def _refuse_bad_keys(items: list[Any]) -> None:
    """Refuse unhashable keys, and keys made to collide: building a table of n colliding keys takes n**2 steps."""
    try:
        counts = Counter(map(hash, items))
    except TypeError:
        raise BadFrame("unhashable key") from None
    # Not 1: hash(-1) == hash(-2), so honest sets of points collide in pairs and fours.
    if counts and max(counts.values()) > _MAX_COLLISIONS:
        raise BadFrame("colliding keys")

"""Values of trusted scripts: whether other plain values equal them, and what they hold. Used by `assert_scripts.py`."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Any

from verifiers.sandbox.codec import Unserialisable, decode, encode


class Inexact(Exception):  # noqa: N818 - no error: the script needs another judge
    """Why a script cannot be converted."""


def plain_copy(value: Any) -> Any:
    """A copy in plain types, so that nothing the script does later changes it."""
    try:
        return decode(encode(value))
    except Unserialisable as error:
        raise Inexact(f"{value!r:.60}: {error} is not a plain value") from None


def has_twin(value: Any) -> bool:
    """Whether `==` calls some plain value of another type, at any level, equal to this one."""
    kind = type(value)
    if kind in (list, tuple):
        return any(map(has_twin, value))
    if kind is dict:
        return any(has_twin(part) for item in value.items() for part in item)
    if kind is float:
        return value.is_integer()
    if kind is int:
        try:
            return float(value) == value
        except OverflowError:
            return False
    return kind in (bool, set, frozenset)


def parts(value: Any) -> Iterator[Any]:
    """The value and all that plain containers in it hold."""
    yield value
    if isinstance(value, dict):
        for item in value.items():
            yield from parts(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from parts(part)


def mutable_parts(values: Iterable[Any]) -> list[Any]:
    """The lists, dicts and sets in some values, one as often as it can be reached."""
    return [part for value in values for part in parts(value) if isinstance(part, list | dict | set)]


def is_function_of(names: dict[str, Any], value: Any) -> bool:
    """Whether the value is a function whose global variables are `names`."""
    return isinstance(value, types.FunctionType) and value.__globals__ is names


def is_known(part: Any, names: dict[str, Any]) -> bool:
    """Whether `parts` sees all that this part refers to, or the part was there before the script ran with `names`."""
    if is_function_of(names, part):  # refers to `names`, and to these
        return not (part.__closure__ or part.__defaults__ or part.__kwdefaults__)
    before = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
    plain = (int, float, complex, str, bytes, list, tuple, set, frozenset, dict)
    return part is None or isinstance(part, (*before, *plain))


def holds_float(value: Any) -> bool:
    """Whether the value is or holds a float."""
    return any(type(part) is float for part in parts(value))

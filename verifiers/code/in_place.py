"""Plain values that crossed to another process and back: making the caller's own objects equal to what returned.

Not covered: which nested object is which, where several changed places and changed; a nested object that was replaced
by an equal one counts as the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from verifiers.sandbox.codec import encode


def containers(value: Any) -> list[Any]:
    """Every list, dict and set that can be reached, one that is reached twice two times."""
    found: list[Any] = []
    waiting = [value]
    while waiting and len(found) < 1 << 16:  # a list that contains itself is refused when it is encoded
        item = waiting.pop()
        if type(item) in (list, dict, set):
            found.append(item)
        if type(item) in (list, tuple):
            waiting += item
        elif type(item) is dict:
            waiting += item.values()
    return found


def shares_a_container(value: Any) -> bool:
    """Whether a list, dict or set can be reached in two ways."""
    found = containers(value)
    return len({id(item) for item in found}) < len(found)


def has_foreign_type(value: Any, ignore: Callable[[Any], bool]) -> bool:
    """Whether a type outside the codec's is inside, other than complex, which arithmetic makes of plain values."""
    plain = (type(None), bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict)
    waiting, seen = [value], 0
    while waiting and seen < 1 << 20:
        item, seen = waiting.pop(), seen + 1
        if type(item) not in plain and not ignore(item):
            return True
        if type(item) is dict:
            waiting += [*item, *item.values()]
        elif type(item) in (list, tuple, set, frozenset):
            waiting += item
    return False


def update(old: Any, new: Any) -> Any:
    """`old`, made equal to `new` in place if both are containers of one type; otherwise `new`."""
    kind = type(old)
    if kind is not type(new):
        return new
    if kind is list:
        old[:] = _update_items(old, new)
    elif kind is dict:
        items = {key: update(old[key], item) if key in old else item for key, item in new.items()}
        old.clear()
        old.update(items)
    elif kind is set:
        old.clear()
        old.update(new)
    elif kind is tuple and len(old) == len(new):
        for one, other in zip(old, new, strict=True):
            update(one, other)
    else:
        return new
    return old


def _update_items(old: list[Any], new: list[Any]) -> list[Any]:
    """What is unchanged stays the same object, also at another place; what changed at its place is changed in place."""
    if not any(type(item) in (list, dict, set, tuple) for item in old):
        return new
    before, after = ([encode(item, sys.maxsize) for item in items] for items in (old, new))
    unchanged: dict[bytes, list[Any]] = {}
    for code, item in zip(reversed(before), reversed(old), strict=True):
        unchanged.setdefault(code, []).append(item)
    kept, items = set(after), []
    for place, (code, item) in enumerate(zip(after, new, strict=True)):
        if unchanged.get(code):
            items.append(unchanged[code].pop())
        elif place < len(old) and before[place] not in kept:
            items.append(update(old[place], item))
        else:
            items.append(item)
    return items

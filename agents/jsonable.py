"""Values as plain JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any


def jsonable(value: Any, other: Callable[[Any], Any] = str) -> Any:
    """Dataclasses, mappings and tuples as plain JSON; NaN (undefined) as null, since JSON has no NaN.

    Args:
        value: anything.
        other: makes JSON of what has no form of its own.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return jsonable({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, other)
    if isinstance(value, Mapping):
        return {str(key): jsonable(item, other) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item, other) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    if getattr(value, "shape", None) == ():  # NumPy's and torch's numbers
        return jsonable(value.item())
    return other(value)

"""Verifiers by name, so that swapping one is one argument."""

from __future__ import annotations

import difflib
import importlib
import threading
from typing import Any

from verifiers.base import Verifier

BUILT_IN = {
    "exact_match": "verifiers.exact_match:ExactMatch",
    "function_tests": "verifiers.function_tests:FunctionTests",
}

_instances: list[tuple[str, dict[str, Any], Verifier]] = []
_lock = threading.RLock()


def get_verifier(spec: str | Verifier, **options: Any) -> Verifier:
    """The verifier that `spec` names.

    Args:
        spec: a built-in name ("function_tests", "exact_match"), "module:Class", or a `Verifier`, returned as it is.
        options: keyword arguments of the class. Equal names with equal options share one instance.

    Raises:
        ValueError: unknown name, or no such class.
        TypeError: options for a finished verifier, or something that is no verifier.
    """
    if not isinstance(spec, str):
        if not isinstance(spec, Verifier):
            raise TypeError(f"expected a verifier's name or a Verifier, got {spec!r}")
        if options:
            raise TypeError(f"options {sorted(options)} need a verifier's name, not a finished {type(spec).__name__}")
        return spec
    with _lock:
        for name, known_options, verifier in _instances:
            if name == spec and known_options == options:
                return verifier
        verifier = _find_class(spec)(**options)
        _instances.append((spec, options, verifier))
        return verifier


def _find_class(spec: str) -> type[Verifier]:
    module_name, separator, class_name = BUILT_IN.get(spec, spec).partition(":")
    if not separator:
        close = difflib.get_close_matches(spec, BUILT_IN, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f'unknown verifier {spec!r}.{hint} Known: {", ".join(BUILT_IN)}, or "module:Class".')
    found = getattr(importlib.import_module(module_name), class_name, None)
    if not isinstance(found, type) or not issubclass(found, Verifier):
        raise ValueError(f"{spec!r} names no Verifier class")
    return found

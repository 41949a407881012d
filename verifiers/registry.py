"""Verifiers by name, so that swapping one is one argument."""

from __future__ import annotations

import difflib
import importlib
import inspect
import threading
from collections.abc import Iterable
from typing import Any

from verifiers.base import Verifier
from verifiers.function_verifier import FunctionVerifier, Judge

BUILT_IN = {
    "exact_match": "verifiers.text.exact_match:ExactMatch",
    "contains": "verifiers.text.text_judges:Contains",
    "regex": "verifiers.text.text_judges:RegularExpression",
    "numeric": "verifiers.text.numeric:Numeric",
    "json_schema": "verifiers.text.json_schema:JsonSchema",
    "json_fields": "verifiers.text.json_fields:JsonFields",
    "constraints": "verifiers.text.writing:Constraints",
    "word_list": "verifiers.text.word_list:WordList",
    "math_equal": "verifiers.text.math_equal:MathEqual",
    "function_tests": "verifiers.code.function_tests:FunctionTests",
    "program_tests": "verifiers.code.program_tests:ProgramTests",
    "pytest_files": "verifiers.code.pytest_files:PytestFiles",
    "reward_model": "verifiers.reward_model:RewardModel",
    "weighted_sum": "verifiers.composition:WeightedSum",
    "gate": "verifiers.composition:Gate",
    "per_example": "verifiers.composition:PerExample",
    "cached": "verifiers.cached:Cached",
}

_instances: list[tuple[str, dict[str, Any], Verifier]] = []
_lock = threading.RLock()


def get_verifier(spec: str | Verifier | Judge, **options: Any) -> Verifier:
    """The verifier that `spec` names.

    Args:
        spec: a built-in name ("function_tests", "numeric", ...), "module:Class", "module:function", a `Verifier`,
            returned as it is, or a function `(example, answer) -> bool | float | Verdict`, see `FunctionVerifier`.
        options: keyword arguments of the class. Equal names with equal options share one instance.

    Raises:
        ValueError: unknown name, no such module, or no such class or function in it.
        TypeError: options for what is already made, or something that is no verifier.
        ImportError: the module is there, and something that it imports is not.
    """
    if not isinstance(spec, str):
        if isinstance(spec, type) or not (isinstance(spec, Verifier) or callable(spec)):
            raise TypeError(f"expected a verifier's name, a Verifier or a function, got {spec!r}")
        if options:
            raise TypeError(f"options {sorted(options)} need a verifier's name, not a finished {type(spec).__name__}")
        return spec if isinstance(spec, Verifier) else FunctionVerifier(spec)
    with _lock:
        for name, known_options, verifier in _instances:
            if name == spec and known_options == options:
                return verifier
        found = _find(spec)
        if isinstance(found, type):
            verifier = found(**options)
        elif options:
            raise TypeError(f"options {sorted(options)} need a verifier's class, and {spec!r} is a function")
        else:
            verifier = FunctionVerifier(found)
        _instances.append((spec, options, verifier))
        return verifier


def _find(spec: str) -> type[Verifier] | Judge:
    module_name, separator, name = BUILT_IN.get(spec, spec).partition(":")
    if not separator:
        known = f'Known: {", ".join(BUILT_IN)}, or "module:Class" or "module:function".'
        raise ValueError(f"unknown verifier {spec!r}.{_hint(spec, BUILT_IN)} {known}")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # Something that an existing module imports is another matter: its own message says more.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ValueError(f"verifier {spec!r}: there is no module {error.name!r}") from None
    except (ValueError, TypeError) as error:  # an empty or a relative name
        raise ValueError(f"verifier {spec!r}: {module_name!r} is no module's name ({error})") from None
    found = getattr(module, name, None)
    if isinstance(found, type) and issubclass(found, Verifier):
        return found
    if inspect.isfunction(found):
        return found
    if hasattr(module, name):
        raise ValueError(f"verifier {spec!r}: {name} is neither a Verifier class nor a function, but {found!r}")
    raise ValueError(f"verifier {spec!r}: module {module_name!r} has no {name!r}.{_hint(name, vars(module))}")


def _hint(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""

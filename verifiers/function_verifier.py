"""A plain function as a judge.

def short_enough(example, answer):
    return len(answer.text) < 100

llm_envs.make(id, verifier=short_enough)        # or verifier="my_module:short_enough"
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from typing import Any

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError

Judge = Callable[[Example, Answer], "bool | float | Verdict"]


class FunctionVerifier(Verifier):
    """Asks `function(example, answer)`: a bool, a number or a `Verdict`.

    True is score 1, False is score 0. A number is the score, and 1 or more passes. Kinds: passed, wrong, and partial
    for a positive number below 1. The function may be called from several threads at once.

    Raises:
        TypeError: the function does not take (example, answer).
    """

    def __init__(self, function: Judge):
        self.function = function
        self.name = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', repr(function))}"
        try:
            inspect.signature(function).bind(None, None)
        except TypeError as error:
            raise TypeError(f"a judge is called as {self.name}(example, answer): {error}") from error

    def configuration(self) -> dict[str, Any]:
        """Name of the function and hash of its module.

        Raises:
            VerifierError: the function has no name under which it could be found again, or closes over values.
        """
        # Imported here: the module knows `Verifier` only, and is needed by few.
        from verifiers.fingerprint import source_hash

        module, _, name = self.name.partition(":")
        if getattr(sys.modules.get(module), name, None) is not self.function:
            raise VerifierError(
                f"{self.name} has no fingerprint, since it is no function at the top level of a module: "
                "what it depends on cannot be seen"
            )
        return {"function": self.name, "source": source_hash(module)}

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Ask the function; raises `VerifierError` if it raises, or returns something else."""
        try:
            result = self.function(example, answer)
        except VerifierError:
            raise
        except Exception as error:
            raise VerifierError(
                f"example {example.id!r}: the judge {self.name} raised {type(error).__name__}: {error}"
            ) from error
        if isinstance(result, Verdict):
            return result
        if hasattr(result, "item") and getattr(result, "ndim", None) == 0:
            result = result.item()  # a scalar of NumPy or torch
        if isinstance(result, bool):
            return Verdict(float(result), result, "passed" if result else "wrong")
        score = _finite(result)
        if score is None:
            raise VerifierError(
                f"example {example.id!r}: the judge {self.name} must return a bool, a finite number or a Verdict, "
                f"got {_shown(result)}"
            )
        kind = "passed" if score >= 1 else "partial" if score > 0 else "wrong"
        return Verdict(score, score >= 1, kind)


def _finite(value: Any) -> float | None:
    """The number as a float; None for what is no number, is not finite, or lies beyond the floats."""
    if not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _shown(value: Any) -> str:
    """What a message says of a value; Python writes no integer of more than 4300 digits in decimal."""
    if isinstance(value, int) and value.bit_length() > 1024:
        return f"an integer of {value.bit_length()} bits, which no float can hold"
    try:
        return f"{value!r:.80}"
    except Exception:  # of somebody's own class, or such an integer in a list
        return f"a {type(value).__name__}"

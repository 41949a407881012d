"""Judges a function by calling it: arguments go into a sandbox, values come out, the comparison stays outside.

    example.hidden = {
        "entry": "add",                                    # name of the function
        "tests": [{"args": [1, 2], "expected": 3}, ...],   # any values of `codec`
        "scoring": "all",                                  # or "fraction"
        "tolerance": 0.0,                                  # for floats, see `codec.same_value`
    }
    answer.text = "def add(a, b): return a + b"

The submission runs in one process from load to last call, so module state persists from call to call within a verdict.

Not covered: methods, keyword arguments, callbacks, generators, results outside the closed set of types, third-party
packages (only the standard library is there); an answer that recognises the arguments and returns remembered values.
"""

from __future__ import annotations

import builtins
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError
from verifiers.channel import Execution, Reply
from verifiers.codec import Unserialisable, encode, same_value
from verifiers.limits import Limits
from verifiers.sandbox import shared_pool

SCORINGS = ("all", "fraction")

_ENDS_EXECUTION = frozenset({"timeout", "died", "bad_frame"})
_FEEDBACK = {
    "wrong": "returned a wrong value",
    "exception": "raised an exception",
    "timeout": "ran out of time",
    "memory": "ran out of memory",
    "died": "ended the process",
    "unserialisable": "returned something other than plain values",
    "too_large": "returned too large a value",
    "bad_frame": "wrote into the judge's channel",
    "load": "the code could not be loaded",
    "syntax_error": "the code is not valid Python",
}


@dataclass(frozen=True)
class _FunctionSpec:
    """`example.hidden`, checked."""

    entry: str
    tests: tuple[tuple[Sequence[Any], Any], ...]
    scoring: str
    tolerance: float


class FunctionTests(Verifier):
    """Score 1 if every call returns the expected value (or the share of calls that do).

    Args:
        limits: of one submission, all its calls together; a mapping of field names is accepted.
        sandbox: "auto" for bubblewrap, "process" for the unsafe rung without containment.
        workers: submissions judged at one time; None for two per core. Shared by all instances with equal settings.

    Raises:
        SandboxUnavailable: the sandbox does not work on this machine (found out here, not at the first verdict).
    """

    def __init__(
        self,
        limits: Limits | Mapping[str, Any] = Limits(),  # noqa: B008 - frozen
        sandbox: str = "auto",
        workers: int | None = None,
    ):
        limits = limits if isinstance(limits, Limits) else Limits(**limits)
        self._settings = (limits, sandbox, workers)
        shared_pool(*self._settings)

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one submission.

        Verdict kinds: passed; wrong, exception, memory, unserialisable, too_large (first failing call); timeout, died,
        bad_frame (ended the execution); syntax_error, load, bad_source. Component `passed_fraction`: the share of
        tests known to pass; with scoring "all" nothing is known beyond the first failure.

        Raises:
            VerifierError: the example's hidden data are malformed, or the sandbox failed twice.
        """
        began = time.perf_counter()
        spec = _read_spec(example)
        source = answer.text.removeprefix("\ufeff")
        complaint = _source_complaint(source, self._settings[0].source_bytes)
        if complaint:
            return _verdict(spec, 0, "bad_source", complaint, began)
        # Looked up each time: after a fork, the child has a pool of its own.
        pool = shared_pool(*self._settings)
        passed, kind, feedback = pool.run(lambda execution: _judge(execution, spec, source))
        return _verdict(spec, passed, kind, feedback, began)

    def verify_batch(self, pairs: Sequence[tuple[Example, Answer]]) -> list[Verdict]:
        """Judge several submissions, in order, on all workers."""
        return shared_pool(*self._settings).map(lambda pair: self.verify(*pair), pairs)

    def close(self) -> None:
        """Stop idle workers; judging again starts new ones."""
        shared_pool(*self._settings).close()


def _judge(execution: Execution, spec: _FunctionSpec, source: str) -> tuple[int, str, str]:
    """Number of passed tests, the kind of the first failure or "passed", and feedback."""
    loaded = execution.load(source, spec.entry)
    if loaded.kind != "loaded":
        return 0, loaded.kind, _load_feedback(loaded, spec.entry)
    passed, kind, feedback = 0, "passed", f"all {len(spec.tests)} tests passed"
    for number, (arguments, expected) in enumerate(spec.tests, start=1):
        reply = execution.call(arguments)
        if reply.kind == "value" and same_value(reply.value, expected, spec.tolerance):
            passed += 1
            continue
        if kind == "passed":
            kind = "wrong" if reply.kind == "value" else reply.kind
            feedback = f"test {number} of {len(spec.tests)}: {spec.entry} {_FEEDBACK[kind]}{_exception_name(reply)}"
        if spec.scoring == "all" or reply.kind in _ENDS_EXECUTION:
            break
    return passed, kind, feedback


def _load_feedback(reply: Reply, entry: str) -> str:
    if reply.kind == "load" and reply.value == "KeyError":
        return f"{_FEEDBACK['load']}, or has no function {entry}"
    if reply.kind == "syntax_error" and type(reply.value) is tuple and reply.value[1:]:
        line = reply.value[1]
        return f"{_FEEDBACK['syntax_error']}" + (f" (line {line})" if type(line) is int and 0 < line < 1 << 20 else "")
    return f"{_FEEDBACK[reply.kind]}{_exception_name(reply)}"


def _exception_name(reply: Reply) -> str:
    """ " (NameError)" for a builtin exception; any other name was written by the submission and could carry a test."""
    name = reply.value
    if reply.kind not in ("exception", "load") or type(name) is not str:
        return ""
    known = getattr(builtins, name, None)
    return f" ({name})" if isinstance(known, type) and issubclass(known, BaseException) else ""


def _verdict(spec: _FunctionSpec, passed: int, kind: str, feedback: str, began: float) -> Verdict:
    fraction = passed / len(spec.tests)
    all_passed = passed == len(spec.tests)
    return Verdict(
        score=fraction if spec.scoring == "fraction" else float(all_passed),
        passed=all_passed,
        kind=kind,
        components={"passed_fraction": fraction},
        feedback=feedback,
        seconds=time.perf_counter() - began,
    )


def _source_complaint(source: str, max_bytes: int) -> str:
    """Why a source cannot be sent to the compiler, "" if it can."""
    if "\0" in source:
        return "the code contains a NUL character"
    if len(source) > max_bytes:
        return "the code is too long"
    try:
        data = source.encode()
    except UnicodeEncodeError:
        return "the code contains a lone surrogate"
    return "the code is too long" if len(data) > max_bytes else ""


def _read_spec(example: Example) -> _FunctionSpec:
    """Check `example.hidden`; raises `VerifierError` that names the example and the field."""
    hidden = example.hidden

    def complain(field: str, problem: str) -> VerifierError:
        return VerifierError(f"example {example.id!r}: hidden[{field!r}] {problem}")

    unknown = set(hidden) - {"entry", "tests", "scoring", "tolerance"}
    if unknown:
        raise complain(sorted(map(str, unknown))[0], "is not a field of function tests")
    entry, tests = hidden.get("entry"), hidden.get("tests")
    scoring, tolerance = hidden.get("scoring", "all"), hidden.get("tolerance", 0.0)
    if not isinstance(entry, str) or not entry.isidentifier():
        raise complain("entry", f"must be the name of a function, got {entry!r}")
    if scoring not in SCORINGS:
        raise complain("scoring", f"must be one of {', '.join(SCORINGS)}; got {scoring!r}")
    if type(tolerance) not in (int, float) or not 0 <= tolerance < math.inf:
        raise complain("tolerance", f"must be a finite number of at least 0, got {tolerance!r}")
    if not isinstance(tests, list | tuple) or not tests:
        raise complain("tests", "must be a non-empty list")
    for index, test in enumerate(tests):
        if not isinstance(test, Mapping) or set(test) != {"args", "expected"}:
            raise complain("tests", f"item {index} must have exactly the fields args and expected")
        if not isinstance(test["args"], list | tuple):
            raise complain("tests", f"item {index}: args must be a list")
        try:
            encode(tuple(test["args"]))
            encode(test["expected"])
        except Unserialisable as error:
            raise complain("tests", f"item {index}: {error} is not a plain value") from None
    return _FunctionSpec(entry, tuple((test["args"], test["expected"]) for test in tests), scoring, tolerance)

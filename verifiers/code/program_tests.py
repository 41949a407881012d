"""Judges whole programs: standard input goes into a sandbox, standard output comes out, the comparison stays outside.

    example.hidden = {
        "tests": [{"stdin": "1 2\\n", "stdout": "3\\n"}, ...],   # "exit_status": 0 when left out
        "scoring": "all",                                      # or "fraction"
        "whitespace": "lines",                                 # or "tokens", "exact"
        "tolerance": 0.0,                                      # with "tokens": for numbers
    }
    answer.text = "a, b = map(int, input().split())\\nprint(a + b)"

White space, as judges of programming contests do it: "lines" ignores white space at the end of every line and empty
lines at the end; "tokens" compares what lies between white space; "exact" compares everything. Line ends may be CRLF
except in "exact". With a tolerance, tokens that are both finite decimal numbers may differ by
`tolerance * max(1, |expected|)`.

Every test is an execution of its own, with the limits of one. Standard error is thrown away.

Not covered: files and arguments of a program, interaction (all input is there from the start), checkers that accept
several outputs, other languages than Python.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verifiers.base import Answer, Example, Verdict, VerifierError, hidden_of
from verifiers.code.function_spec import SCORINGS
from verifiers.code.function_tests import load_feedback
from verifiers.code.sandboxed import FEEDBACK, SandboxedVerifier, clean_source, source_complaint
from verifiers.sandbox.channel import Reply

WHITESPACE = ("lines", "tokens", "exact")

_NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,4})?", re.ASCII)
_FEEDBACK = FEEDBACK | {
    "wrong": "wrong output",
    "exception": "ended with the wrong exit status",
    "too_large": "wrote too much",
}


@dataclass(frozen=True)
class _Test:
    stdin: bytes
    stdout: str
    exit_status: int


@dataclass(frozen=True)
class _Spec:
    """`example.hidden`, checked."""

    tests: tuple[_Test, ...]
    scoring: str
    whitespace: str
    tolerance: float


class ProgramTests(SandboxedVerifier):
    """Score 1 if every run prints what is expected (or the share of runs that do); arguments as in `SandboxedVerifier`.

    `Limits.result_bytes` caps the output of one run.
    """

    def validate(self, example: Example) -> None:
        """Check `example.hidden`, and that a program can print it; raises `VerifierError` naming example and field."""
        for index, test in enumerate(_read_spec(example).tests):
            where = f"example {example.id!r}: hidden['tests'] item {index}: stdout"
            try:
                size = len(test.stdout.encode())
            except UnicodeEncodeError:
                raise VerifierError(f"{where} holds a lone surrogate, which no output can") from None
            if size > self.limits.result_bytes:
                raise VerifierError(f"{where} is larger than an output may be (Limits.result_bytes)")

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one program.

        Verdict kinds: passed; wrong, exception (exit status), memory, timeout, died (a signal), too_large (first
        failing run); syntax_error, bad_source. Component `passed_fraction`: the share of tests known to pass; with
        scoring "all" nothing is known beyond the first failure.

        Raises:
            VerifierError: the example's hidden data are malformed, or the sandbox failed twice.
        """
        began = time.perf_counter()
        spec = _read_spec(example)
        source = clean_source(answer.text)
        complaint = source_complaint(source, self.limits.source_bytes)
        passed, kind, feedback = (0, "bad_source", complaint) if complaint else self._run_tests(spec, source)
        fraction = passed / len(spec.tests)
        return Verdict(
            score=fraction if spec.scoring == "fraction" else float(fraction == 1),
            passed=fraction == 1,
            kind=kind,
            components={"passed_fraction": fraction},
            feedback=feedback,
            seconds=time.perf_counter() - began,
        )

    def _run_tests(self, spec: _Spec, source: str) -> tuple[int, str, str]:
        passed, kind, feedback = 0, "passed", f"all {len(spec.tests)} tests passed"
        for number, test in enumerate(spec.tests, start=1):
            reply = self._pool().run(lambda execution, test=test: execution.program(source, test.stdin))  # type: ignore[misc]
            outcome = _outcome(reply, test, spec)
            if outcome == "passed":
                passed += 1
                continue
            if kind == "passed":
                kind, feedback = outcome, f"test {number} of {len(spec.tests)}: {_FEEDBACK[outcome]}"
            if outcome == "syntax_error":
                return 0, outcome, load_feedback(reply, "")
            if spec.scoring == "all":
                break
        return passed, kind, feedback


def _outcome(reply: Reply, test: _Test, spec: _Spec) -> str:
    if reply.kind != "output":
        return reply.kind
    output, status = reply.value
    if status != test.exit_status:
        return "exception"
    try:
        text = output.decode()
    except UnicodeDecodeError:
        return "wrong"
    return "passed" if same_output(text, test.stdout, spec.whitespace, spec.tolerance) else "wrong"


def same_output(got: str, expected: str, whitespace: str = "lines", tolerance: float = 0.0) -> bool:
    """Whether two outputs are equal under one of `WHITESPACE` and a tolerance for numbers."""
    if whitespace == "exact":
        return got == expected
    if whitespace == "lines":
        return _lines(got) == _lines(expected)
    ours, theirs = got.split(), expected.split()
    return len(ours) == len(theirs) and all(map(_same_token, ours, theirs, [tolerance] * len(theirs)))


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _same_token(got: str, expected: str, tolerance: float) -> bool:
    if got == expected:
        return True
    if not tolerance or not _NUMBER.fullmatch(got) or not _NUMBER.fullmatch(expected):
        return False
    ours, theirs = float(got), float(expected)
    return math.isfinite(ours) and math.isfinite(theirs) and abs(ours - theirs) <= tolerance * max(1.0, abs(theirs))


def _read_spec(example: Example) -> _Spec:
    """Check `example.hidden`; raises `VerifierError` that names the example and the field."""
    hidden = hidden_of(example)

    def complain(field: str, problem: str) -> VerifierError:
        return VerifierError(f"example {example.id!r}: hidden[{field!r}] {problem}")

    unknown = sorted(map(str, set(hidden) - {"tests", "scoring", "whitespace", "tolerance"}))
    if unknown:
        raise complain(unknown[0], "is not a field of program tests; known are tests, scoring, whitespace, tolerance")
    tests, tolerance = hidden.get("tests"), hidden.get("tolerance", 0.0)
    scoring, whitespace = hidden.get("scoring", "all"), hidden.get("whitespace", "lines")
    if scoring not in SCORINGS:
        raise complain("scoring", f"must be one of {', '.join(SCORINGS)}; got {scoring!r}")
    if whitespace not in WHITESPACE:
        raise complain("whitespace", f"must be one of {', '.join(WHITESPACE)}; got {whitespace!r}")
    if type(tolerance) not in (int, float) or not 0 <= tolerance < math.inf:
        raise complain("tolerance", f"must be a finite number of at least 0, got {tolerance!r}")
    if tolerance and whitespace != "tokens":
        raise complain("tolerance", f'needs whitespace "tokens", got {whitespace!r}')
    if not isinstance(tests, list | tuple) or not tests:
        raise complain("tests", f"must be a non-empty list, got {tests!r}")
    return _Spec(tuple(_read_tests(tests, complain)), scoring, whitespace, tolerance)


def _read_tests(tests: Sequence[Any], complain: Any) -> list[_Test]:
    read = []
    for index, test in enumerate(tests):
        fields = {"stdin", "stdout"}
        if not isinstance(test, Mapping) or not fields <= set(test) <= fields | {"exit_status"}:
            raise complain(
                "tests", f"item {index} must have the fields stdin and stdout, and may have exit_status; got {test!r}"
            )
        status = test.get("exit_status", 0)
        if not isinstance(test["stdin"], str) or not isinstance(test["stdout"], str):
            raise complain("tests", f"item {index}: stdin and stdout must be strings")
        if type(status) is not int or not 0 <= status < 256:
            raise complain("tests", f"item {index}: exit_status must be between 0 and 255, got {status!r}")
        read.append(_Test(test["stdin"].encode("utf-8", "surrogatepass"), test["stdout"], status))
    return read

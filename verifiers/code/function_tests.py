"""Judges Python by calling it: arguments go into a sandbox, values come out, the comparison stays outside.

    example.hidden = {"entry": "add", "tests": [{"args": [1, 2], "expected": 3}, {"args": [1], "raises": "TypeError"}]}
    answer.text = "def add(a, b): return a + b"

`function_spec.py` describes everything that `hidden` may say: methods, calls on one object, exceptions, tolerance,
results in any order, arguments that must or must not be changed.

The submission runs in one process from load to last call, so module state persists from call to call within a verdict.

Not covered: arguments that are functions, generators, results outside the closed set of types, which exceptions change
arguments; an answer that recognises the arguments and returns remembered values.
"""

from __future__ import annotations

import builtins
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from verifiers.base import Answer, Example, Verdict, VerifierError
from verifiers.code.compare import equal_value, same_items, same_value
from verifiers.code.function_spec import FunctionSpec, Step, read_spec
from verifiers.code.sandboxed import FEEDBACK, SandboxedVerifier, clean_source, source_complaint
from verifiers.sandbox.channel import Execution, Reply
from verifiers.sandbox.codec import encode

_MAX_FILES = 100
_FILE_NAME = re.compile(r"[A-Za-z_]\w{0,60}\.py", re.ASCII)
_ENDS_EXECUTION = frozenset({"timeout", "died", "bad_frame"})
_MEANT_TO_RAISE = {"wrong": "did not raise the expected exception", "exception": "raised the wrong exception"}


class FunctionTests(SandboxedVerifier):
    """Score 1 if every test passes (or the share of tests that do); arguments as in `SandboxedVerifier`.

    One execution is one submission: loading it and all its calls together.
    """

    def validate(self, example: Example) -> None:
        """Check `example.hidden`, and that an answer could meet it; raises `VerifierError` naming example and field."""
        spec = read_spec(example)
        for index, steps in enumerate(spec.tests):
            for step in steps:
                where = (
                    f"example {example.id!r}: hidden['tests'] item {index}: {'equals' if step.equals else 'expected'}"
                )
                if len(encode(step.expected, sys.maxsize)) > self.limits.result_bytes:
                    raise VerifierError(f"{where} is larger than a result may be (Limits.result_bytes)")
                if not same_value(step.expected, step.expected):
                    raise VerifierError(f"{where} holds NaN, which equals nothing")

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one submission.

        Verdict kinds: passed; wrong, exception, memory, unserialisable, too_large (first failing call); timeout, died,
        bad_frame (ended the execution); syntax_error, load, bad_source. Component `passed_fraction`: the share of
        tests known to pass; with scoring "all" nothing is known beyond the first failure.

        Raises:
            VerifierError: the example's hidden data are malformed, or the sandbox failed twice.
        """
        began = time.perf_counter()
        spec = read_spec(example)
        source, others, complaint = self._sources(answer, spec.file)
        if complaint:
            return _verdict(spec, 0, "bad_source", complaint, began)
        passed, kind, feedback = self._pool().run(lambda execution: _judge(execution, spec, source, others))
        return _verdict(spec, passed, kind, feedback, began)

    def try_calls(
        self, answer: Answer, entry: str, calls: Sequence[Sequence[Any]], file: str = "main.py"
    ) -> list[Reply]:
        """What a submission answers to calls of `entry`; for tools that show a policy what its code does.

        Returns:
            One reply per call, of any kind that `Execution.ask` gives; when the submission could not be loaded or has
            ended, the reply that said so for it and all later calls.
        """
        source, others, complaint = self._sources(answer, file)
        if complaint:
            return [Reply("bad_source", complaint)] * len(calls)

        def job(execution: Execution) -> list[Reply]:
            reply = execution.load(source, entry, others)
            if reply.kind != "loaded":
                return [reply] * len(calls)
            replies = []
            for call in calls:
                if reply.kind not in _ENDS_EXECUTION:
                    reply = execution.ask("call", entry, call)
                replies.append(reply)
            return replies

        return self._pool().run(job)

    def _sources(self, answer: Answer, file: str) -> tuple[str, dict[str, str], str]:
        """The source that holds the entry, the other files, and what is wrong with them."""
        others = {name: clean_source(text) for name, text in answer.files.items() if name != file}
        source = clean_source(answer.files.get(file, "") if answer.files else answer.text)
        limit = self.limits.source_bytes
        everything = "".join(part for item in others.items() for part in item)
        complaints = [source_complaint(text, limit) for text in (source, *others.values(), everything)]
        complaints += ["the code has too many files"] * (len(others) > _MAX_FILES)
        complaints += [f"{name!r:.40} is no name of a module" for name in others if not _FILE_NAME.fullmatch(name)]
        return source, others, next(filter(None, complaints), "")


def _judge(execution: Execution, spec: FunctionSpec, source: str, others: Mapping[str, str]) -> tuple[int, str, str]:
    """Number of passed tests, the kind of the first failure or "passed", and feedback."""
    loaded = execution.load(source, spec.entry, others)
    if loaded.kind != "loaded":
        return 0, loaded.kind, load_feedback(loaded, spec.entry)
    passed, kind, feedback = 0, "passed", f"all {len(spec.tests)} tests passed"
    for number, steps in enumerate(spec.tests, start=1):
        failure = _first_failure(execution, spec, steps)
        if failure is None:
            passed += 1
            continue
        failed_kind, step, reply = failure
        if kind == "passed":
            kind, called = failed_kind, spec.entry if step.verb in ("call", "new") else f"{spec.entry}.{step.name}"
            what = FEEDBACK | (_MEANT_TO_RAISE if step.raises else {})
            feedback = f"test {number} of {len(spec.tests)}: {called} {what[kind]}{exception_name(reply)}"
        if spec.scoring == "all" or reply.kind in _ENDS_EXECUTION:
            break
    return passed, kind, feedback


def _first_failure(execution: Execution, spec: FunctionSpec, steps: tuple[Step, ...]) -> tuple[str, Step, Reply] | None:
    for step in steps:
        after = step.args if step.args_after is None and spec.keep_arguments else step.args_after
        want_after = after is not None and step.verb != "attribute"
        reply = execution.ask(step.verb, step.name, step.args, step.kwargs, want_after)
        if step.raises:
            if reply.kind in ("exception", "memory") and step.raises in (reply.value or ()):
                continue
        elif reply.kind == "value":
            value, *left = reply.value if want_after else (reply.value,)
            same = equal_value if step.equals else same_items if spec.unordered else same_value
            if _as_left(left, spec, step) and same(value, step.expected, spec.tolerance):
                continue
        return ("wrong" if reply.kind == "value" else reply.kind), step, reply
    return None


def _as_left(left: Sequence[Any], spec: FunctionSpec, step: Step) -> bool:
    """Whether a call left its arguments and keywords (none, if nobody asked) as it should."""
    if not left:
        return True
    arguments, keywords = left
    if spec.keep_arguments and not _unchanged(keywords, step.kwargs):
        return False
    if step.args_after is None:
        return _unchanged(arguments, tuple(step.args))
    return same_value(arguments, tuple(step.args_after), spec.tolerance)


def _unchanged(left: Any, given: Any) -> bool:
    return same_value(left, given) or encode(left, sys.maxsize) == encode(given, sys.maxsize)  # NaN is equal to nothing


def load_feedback(reply: Reply, entry: str) -> str:
    """Why the code could not be loaded, for a person; `reply` is of kind load, syntax_error or one that ended it."""
    if reply.kind == "load" and reply.value[:1] in (("KeyError",), ("AttributeError",)):
        return f"{FEEDBACK['load']}, or has no function {entry}"
    if reply.kind == "syntax_error" and type(reply.value) is tuple and reply.value[1:]:
        line = reply.value[1]
        return f"{FEEDBACK['syntax_error']}" + (f" (line {line})" if type(line) is int and 0 < line < 1 << 20 else "")
    return f"{FEEDBACK[reply.kind]}{exception_name(reply)}"


def exception_name(reply: Reply) -> str:
    """ " (NameError)" for a builtin exception; any other name was written by the submission and could carry a test."""
    if reply.kind not in ("exception", "load") or not reply.value:
        return ""
    known = getattr(builtins, reply.value[0], None)
    return f" ({reply.value[0]})" if isinstance(known, type) and issubclass(known, BaseException) else ""


def _verdict(spec: FunctionSpec, passed: int, kind: str, feedback: str, began: float) -> Verdict:
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

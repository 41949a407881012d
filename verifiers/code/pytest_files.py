"""Judges Python by pytest files.

    example.hidden = {
        "files": {"test_add.py": "from solution import add\\ndef test_add():\\n    assert add(1, 2) == 3\\n"},
        "module": "solution",      # the name under which the tests import the answer
        "scoring": "all",          # or "fraction": the share of tests that pass
        "tests": [],               # ids that must be among the tests, such as "test_add.py::test_add"
    }
    answer.text = "def add(a, b): return a + b"

The files are trusted. They should not do with a result what they would not do with a stranger's text.

Mode "proxy", the default: pytest runs outside the sandbox, and what it imports as `solution` is a proxy: calls go into
the sandbox, plain values come back. A submission cannot do more than return values, so it cannot forge a verdict, and
never sees the tests. The price: tests may use functions with plain values and constants, not classes, callbacks,
generators, patches, captured output or the text of exceptions. Such tests are refused with a `VerifierError`, never
guessed at; `pytest_refusals.py`, `pytest_proxy.py` and `pytest_runner.py` say exactly what. Try the right answer once:
a test that expects an object from a function can only be told from a wrong answer by a person.

Mode "in_process": pytest runs inside the sandbox, beside the submission. Everything works, and a hostile submission can
pass whatever it does: every verdict is marked `forgeable`. See `pytest_inside.py`.

Not covered: conftest.py, configuration, plugins, files other than Python; tests made from what the submission returns
(give `tests`, else it decides how many there are); two tests that run at one time.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from verifiers.base import Answer, Example, Verdict, VerifierError
from verifiers.code.function_tests import load_feedback
from verifiers.code.pytest_inside import PACKAGES, read_report, write_program
from verifiers.code.pytest_refusals import called_names
from verifiers.code.pytest_spec import MODES, PytestSpec, read_spec
from verifiers.code.sandboxed import FEEDBACK, SandboxedVerifier, clean_source, source_complaint
from verifiers.sandbox.channel import Execution, Reply, WorkerLost
from verifiers.sandbox.codec import decode, encode
from verifiers.sandbox.limits import Limits
from verifiers.trusted.process import CallDied, CallTimeout, HelperLost, TrustedProcess

_ENDS_EXECUTION = frozenset({"timeout", "died", "bad_frame"})
_FEEDBACK = FEEDBACK | {"wrong": "failed", "load": "the module lacks a name, or could not be loaded"}
_TRUSTED_MEMORY_MB = 1024
_MARGIN_S = 1.0  # of CPU time for pytest itself


class _Outcome(NamedTuple):
    passed: int
    total: int
    kind: str
    feedback: str


class PytestFiles(SandboxedVerifier):
    """Score 1 if every test passes (or the share of tests that do); other arguments as in `SandboxedVerifier`.

    The trusted side of a verdict may use `limits.cpu_s`, plus one second for pytest, and `limits.wall_s`.

    Args:
        mode: "proxy", or "in_process" for tests that need the real module; its verdicts are forgeable.
    """

    def __init__(
        self,
        limits: Limits | Mapping[str, Any] = Limits(),  # noqa: B008 - frozen
        sandbox: str = "auto",
        workers: int | None = None,
        packages: Sequence[str] = (),
        mode: str = "proxy",
    ):
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
        self.mode = mode
        super().__init__(limits, sandbox, workers, (*packages, *PACKAGES) if mode == "in_process" else packages)
        self._tests = TrustedProcess(
            "verifiers.code.pytest_runner:run",
            cpu_s=self.limits.cpu_s + _MARGIN_S,
            wall_s=self.limits.wall_s,
            memory_mb=_TRUSTED_MEMORY_MB,
            jobs=self._pool().workers,
            warm_up="verifiers.code.pytest_runner:warm_up",
        )

    def validate(self, example: Example) -> None:
        """Check `example.hidden`, in mode "proxy" also what the files do; raises `VerifierError` naming the file."""
        read_spec(example, self.mode)

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one submission.

        Verdict kinds: passed; wrong (an assertion, a skip), exception, memory, unserialisable, too_large (first failing
        test); load (also a name that the tests import); timeout, died, bad_frame (ended the execution); syntax_error,
        bad_source. Component `passed_fraction`: the share of tests known to pass; with scoring "all" nothing is known
        beyond the first failure. Feedback gives a test's number, not its name: names of parametrised tests hold values.

        Raises:
            VerifierError: the tests are broken, or need what a proxy cannot do; or the sandbox failed twice.
        """
        began = time.perf_counter()
        spec = read_spec(example, self.mode)
        source = clean_source(answer.text)
        complaint = source_complaint(source, self.limits.source_bytes)
        if complaint:
            outcome = _Outcome(0, 1, "bad_source", complaint)
        elif self.mode == "proxy":
            outcome = self._pool().run(lambda execution: self._judge(execution, spec, source))
            if not outcome.kind:
                raise VerifierError(f"example {example.id!r}: {outcome.feedback}")
        else:
            program, stdin, secret = write_program(spec, source)
            reply = self._pool().run(lambda execution: execution.program(program, stdin))
            report = read_report(reply, spec, secret)
            outcome = _Outcome(report["passed"], report["total"], report["kind"], _feedback(report))
        fraction = outcome.passed / outcome.total
        return Verdict(
            score=fraction if spec.scoring == "fraction" else float(fraction == 1),
            passed=fraction == 1,
            kind=outcome.kind,
            components={"passed_fraction": fraction},
            feedback=outcome.feedback,
            seconds=time.perf_counter() - began,
            forgeable=self.mode == "in_process",
        )

    def configuration(self) -> dict[str, Any]:
        """The mode and pytest's version, beside what every sandboxed judge has."""
        from importlib.metadata import version

        return {**super().configuration(), "mode": self.mode, "pytest": version("pytest")}

    def close(self) -> None:
        """Stop idle workers and the trusted helper; judging again starts new ones."""
        super().close()
        self._tests.close()

    def _judge(self, execution: Execution, spec: PytestSpec, source: str) -> _Outcome:
        """Kind "" and what to complain of, if the tests are at fault."""
        loaded = execution.load(source, "")
        if loaded.kind != "loaded":
            return _Outcome(0, 1, loaded.kind, load_feedback(loaded, "").removesuffix(", or has no function "))
        functions = frozenset[str]().union(*(called_names(text, spec.module) for text in spec.files.values()))
        relay = _Relay(execution, self.limits.result_bytes, functions)
        with tempfile.TemporaryDirectory(prefix="pytest-files-", ignore_cleanup_errors=True) as folder:
            payload: dict[str, Any] = {
                "files": dict(spec.files),
                "folder": folder,
                "module": spec.module,
                "tests": spec.tests,
            }
            payload |= {"functions": sorted(functions), "keep_going": spec.scoring == "fraction"}
            try:
                report = self._tests.call(payload, relay.serve)
            except HelperLost as error:
                raise WorkerLost(f"the trusted helper: {error}") from error
            except (CallTimeout, CallDied) as error:
                execution.wall_expired |= isinstance(error, CallTimeout) and error.wall
                kind = relay.ended or ("timeout" if isinstance(error, CallTimeout) else "died")
                if not relay.heard:
                    return _Outcome(0, 1, "", f"before the tests asked anything: {error}")
                return _Outcome(0, 1, kind, FEEDBACK[kind])
        if report["complaint"]:
            advice = 'Change the test, or use mode="in_process", whose verdicts are forgeable'
            return _Outcome(0, 1, "", f"{report['complaint']}. {advice}")
        return _Outcome(report["passed"], report["total"], report["kind"], _feedback(report))


class _Relay:
    """Carries the tests' requests into the sandbox.

    Attributes:
        ended: the kind that ended the execution, "" while it goes on.
        heard: whether the submission has said anything that could change what the tests do.
    """

    def __init__(self, execution: Execution, result_bytes: int, functions: frozenset[str]):
        self._execution, self._result_bytes, self._functions = execution, result_bytes, functions
        self.ended, self.heard = "", False

    def serve(self, channel: socket.socket, deadline: float) -> None:
        """Until the trusted process closes its end; raises `TimeoutError` at the deadline."""
        while True:
            size = _receive(channel, 4, deadline)
            if not size:
                return
            request = _receive(channel, int.from_bytes(size, "big"), deadline)
            if not request:
                return
            verb, name, arguments, keywords, want_after = decode(request)
            reply = self._execution.ask(verb, name, arguments, keywords, want_after) if not self.ended else None
            answer = reply or Reply(self.ended)
            self.ended = answer.kind if answer.kind in _ENDS_EXECUTION else ""
            self.heard |= answer.kind != "function" or name not in self._functions
            data = encode(tuple(answer), self._result_bytes + len(request) + 64)
            channel.settimeout(max(1e-3, deadline - time.monotonic()))
            try:
                channel.sendall(len(data).to_bytes(4, "big") + data)
            except (BrokenPipeError, ConnectionResetError):
                return


def _receive(channel: socket.socket, size: int, deadline: float) -> bytes:
    """Exactly so many bytes; b"" if the other end is closed."""
    data = bytearray()
    while len(data) < size:
        channel.settimeout(max(1e-3, deadline - time.monotonic()))
        try:
            chunk = channel.recv(size - len(data))
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            return b""
        data += chunk
    return bytes(data)


def _feedback(report: Mapping[str, Any]) -> str:
    kind, number, total = report["kind"], report["number"], report["total"]
    if kind == "passed":
        return f"all {total} tests passed"
    return f"test {number} of {total}: {_FEEDBACK[kind]}" if number else f"before the tests: {_FEEDBACK[kind]}"

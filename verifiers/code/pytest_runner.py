"""Runs in the trusted process (see `trusted_process.py`): one pytest session over files that we trust.

pytest finds nothing but these files: no configuration, no conftest, no plugins. Asserts are not rewritten, since nobody
reads their messages.

A test has passed if each of its phases has: one that is skipped, or is expected to fail, has not. Whatever goes wrong
before the submission has said anything is the fault of the tests.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

from verifiers.code.pytest_proxy import Failed, RemoteModule, Submission

_REFUSED_FIXTURES = {
    **dict.fromkeys(("capsys", "capsysbinary", "capteesys", "capfd", "capfdbinary"), "its output is not carried"),
    **dict.fromkeys(("caplog", "recwarn"), "what it logs or warns of is not carried"),
    **dict.fromkeys(("tmp_path", "tmp_path_factory", "tmpdir", "tmpdir_factory"), "it cannot open files of the tests"),
    **dict.fromkeys(("monkeypatch", "mocker"), "it would not notice"),
    **dict.fromkeys(("pytester", "testdir"), "it runs in another process"),
    **dict.fromkeys(("doctest_namespace", "cache"), "nothing is kept from run to run"),
}
"""Of pytest, or often installed with it; tests may define their own of the same name. "It" is the submission."""

_REFUSED_MARKS = {
    **dict.fromkeys(("skip", "skipif", "xfail"), "a test that may be skipped or fail cannot count; leave it out"),
    "filterwarnings": "warnings are not carried",
}
_BLOCKED_PLUGINS = (
    *("cacheprovider", "pastebin", "junitxml", "doctest", "stepwise", "setuponly", "setupplan", "logging", "warnings"),
    *("faulthandler", "unraisableexception", "threadexception", "recwarn", "legacypath", "tmpdir", "monkeypatch"),
    *("terminalprogress", "pytester"),
)
_PHASES = ("setup", "call", "teardown")


def warm_up() -> None:
    """In the helper, once: import pytest, and all that a session imports only when it runs."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.dont_write_bytecode = True
    import unittest.case  # noqa: F401

    import pytest

    pytest.main(["--version", "-p", "no:cacheprovider", "-c", os.devnull])


def run(payload: dict[str, Any], channel: int) -> dict[str, Any]:
    """Run the files against the submission behind a socket.

    Args:
        payload: files (path -> source), folder (empty, to be filled), module, functions (names in it that the tests
            call), keep_going (whether to go on after the first failure), tests (ids that must be there).
        channel: descriptor of the socket.

    Returns:
        complaint: why the tests cannot be judged, "" if they can; passed, total: numbers of tests; kind: of the first
        failure, or "passed"; number: of the first failing test, 0 if it is not a test.
    """
    folder = payload["folder"]
    if payload["module"] in sys.modules:
        return {"complaint": f"module {payload['module']!r} would hide another of that name"}
    for path, source in payload["files"].items():
        target = Path(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source, encoding="utf-8", errors="surrogatepass")
        if path.partition("/")[0].removesuffix(".py") in sys.modules:
            return {"complaint": f"{path}: would hide a module of that name"}
    os.chdir(folder)
    with contextlib.suppress(OSError):
        _remove_afterwards(folder)
    sys.path.insert(0, folder)
    with socket.socket(fileno=channel) as connection:
        return _run_session(payload, Submission(connection, frozenset(payload["functions"])))


def _remove_afterwards(folder: str) -> None:
    """Leave a process behind that removes the folder when this one has ended: the judge may be killed before it can."""
    gone, alive = os.pipe()
    if os.fork():
        os.close(gone)  # `alive` stays open until this process ends
        return
    try:
        os.setsid()  # not of the group that is killed
        os.chdir("/")
        os.dup2(gone, 0)
        os.closerange(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])  # others wait for the end of these streams
        os.read(0, 1)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(0)


def _run_session(payload: dict[str, Any], submission: Submission) -> dict[str, Any]:
    import pytest

    sys.modules[payload["module"]] = RemoteModule(submission, payload["module"])
    folder = payload["folder"]
    arguments = ["-c", os.devnull, "--rootdir", folder, "--noconftest", "--assert=plain", "-s"]
    arguments += ["--confcutdir", folder]  # else pytest lists all folders above
    if payload["keep_going"] and payload["tests"]:
        arguments.append("--continue-on-collection-errors")  # else how many tests are missing is not known
    arguments += [word for name in _BLOCKED_PLUGINS for word in ("-p", f"no:{name}")]
    recorder = Recorder(submission, payload["keep_going"])
    try:
        status = pytest.main([*arguments, folder], plugins=[recorder])
        if status in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR):
            recorder.break_off(f"pytest ended with {pytest.ExitCode(status).name}")
    except BaseException as error:
        recorder.break_off(f"{type(error).__name__}: {error}")
    return recorder.summary(payload["tests"])


class Recorder:
    """A pytest plugin that collects outcomes and decides whose fault a failure is.

    Args:
        submission: what the tests talk to.
        keep_going: whether to go on after the first failure.
    """

    def __init__(self, submission: Submission, keep_going: bool) -> None:
        self._submission, self._keep_going = submission, keep_going
        self.complaint, self.kind, self.number = "", "passed", 0
        self.outcomes: dict[str, dict[str, bool]] = {}  # id of a test -> phase -> whether it passed
        self.collected = True
        self._kind = ""  # of the failure in the phase that has just ended
        self._session: Any = None

    def break_off(self, what: str) -> None:
        """Something failed that is no test."""
        self.collected = False
        self._note_failure(what, 0, "wrong")

    def _note_failure(self, what: str, number: int, kind: str) -> None:
        if self._submission.refusal or not self._submission.heard:
            self.complaint = self.complaint or f"{what}: {self._submission.refusal}".removesuffix(": ")
        if self.kind == "passed":
            self.kind, self.number = kind, number

    def _failure_kind(self, error: BaseException | None) -> str:
        """What the phase that has just ended failed with, "" if the submission and the test say nothing."""
        hard, raised = self._submission.failures[:1], self._submission.raised[:]
        self._submission.failures.clear()
        self._submission.raised.clear()
        if hard:
            return hard[0]
        while error is not None:
            for ours, kind in raised:
                if error is ours or isinstance(error, ImportError):  # it does not name its cause
                    return kind
            error = error.__cause__ or error.__context__
        return ""

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """A file that could not be collected (failed tests come here, too, and are dealt with elsewhere)."""
        import pytest

        if isinstance(report, pytest.CollectReport):
            error = call.excinfo.value
            self.collected = False
            kind = self._failure_kind(error) or "wrong"
            self._note_failure(f"{node.nodeid}: {_describe(error.__cause__ or error)}", 0, kind)

    def pytest_collectreport(self, report: Any) -> None:
        """A file that skips itself."""
        if report.skipped:
            self.collected = False
            self._note_failure(f"{report.nodeid}: skipped", 0, self._failure_kind(None) or "wrong")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """All tests are known, and none has run."""
        self._submission.failures.clear()
        self._submission.raised.clear()
        for item in items:
            self.outcomes[item.nodeid] = {}
            problem = _item_complaint(item)
            if problem and not self.complaint:
                self.complaint = f"{item.nodeid}: {problem}"
        if self.complaint:
            items.clear()

    def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
        """In place of pytest's own, which would write tracebacks; a failure of the submission cannot be caught.

        Not `tryfirst`: pytest must first fetch the errors of unittest's tests, which never leave them.
        """
        import pytest

        error = call.excinfo.value if call.excinfo else None
        if call.when == "call" and not self._submission.refusal:
            try:
                self._submission.check_constants()
            except Failed as failed:
                error = failed
        kind = self._failure_kind(error)
        self._kind, self._session = kind, item.session
        outcome: Any = "failed" if error is not None or kind else "passed"
        if isinstance(error, pytest.skip.Exception):
            outcome = "skipped"
        where: Any = ("", 0, "") if outcome == "skipped" else None
        text = "" if error is None else _describe(error)
        return pytest.TestReport(
            item.nodeid, item.location, {}, outcome, where, call.when, [("error", text)], user_properties=[]
        )

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One phase of a test, or of a part of it, is over."""
        passed = report.outcome == "passed" and not hasattr(report, "wasxfail")
        phases = self.outcomes.setdefault(report.nodeid, {})
        phases[report.when] = phases.get(report.when, True) and passed
        if not passed:
            text = dict(report.sections).get("error") or report.outcome
            number = list(self.outcomes).index(report.nodeid) + 1
            self._note_failure(f"{report.nodeid}: {text}", number, self._kind or "wrong")
            if self.complaint or not self._keep_going:
                self._session.shouldstop = "enough is known"

    def summary(self, expected: list[str]) -> dict[str, Any]:
        """What `run` returns."""
        passed = {name for name, phases in self.outcomes.items() if [*phases.values()] == [True] * len(_PHASES)}
        total = set(self.outcomes) | set(expected)
        missing = [name for name in expected if name not in self.outcomes]
        if missing or not total:
            self._note_failure(f"{missing[0]}: no such test" if missing else "no tests were collected", 0, "wrong")
        if self._submission.refusal or (self.kind == "passed" and len(passed) < len(total)):
            self._note_failure("the session", 0, "wrong")
        if not self.collected and not expected:
            passed.clear()  # how many tests are missing is not known
        return {
            "complaint": self.complaint,
            "passed": len(passed),
            "total": max(1, len(total)),
            "kind": self.kind,
            "number": self.number,
        }


def _item_complaint(item: Any) -> str:
    """Why a test cannot be judged, found before it runs."""
    import inspect

    function = getattr(item, "obj", None)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "async tests are not supported: coroutines cannot cross"
    for mark in item.iter_markers():
        if mark.name in _REFUSED_MARKS and not str(mark.args[:1]).startswith("('ignore"):
            return f"mark {mark.name}: {_REFUSED_MARKS[mark.name]}"
    parameters = item.callspec.params if hasattr(item, "callspec") else ()
    known = item._fixtureinfo.name2fixturedefs if hasattr(item, "_fixtureinfo") else {}
    for name in getattr(item, "fixturenames", ()):
        own = name in known and not known[name][-1].func.__module__.startswith("_pytest.")
        if name in _REFUSED_FIXTURES and not own:
            return f"fixture {name}: the submission runs elsewhere, {_REFUSED_FIXTURES[name]}"
        if name not in known and name != "request" and name not in parameters:
            return f"there is no fixture {name!r}"
    return ""


def _describe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {str(error)[:300]}".removesuffix(": ")
    except Exception:  # such as an int of too many digits
        return type(error).__name__

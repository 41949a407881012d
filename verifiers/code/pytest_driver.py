"""Runs inside the sandbox as a program (see `pytest_inside.py`): pytest, its files and the submission in one process.

Standard input is a job in JSON: files, module, source, secret. Standard output becomes the secret, a line end, and the
report in JSON: kind ("" if the submission could be imported), outcomes (id -> kind), broken (files not collected).
The submission can read and write all of this.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Read the job, run it, write the report, and end at once: what the submission left running does not matter."""
    job = json.load(sys.stdin)
    output, null = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    report = run(job)
    data = f"{job['secret']}\n{json.dumps(report)}".encode()
    while data:
        data = data[os.write(output, data) :]
    os._exit(0)


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Import the submission, then run the tests in a folder of their own."""
    import pytest

    sys.dont_write_bytecode = True
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    source = _write("submission", f"{job['module']}.py", job["source"])
    for path, text in job["files"].items():
        _write("tests", path, text)
    sys.path[:0] = [str(Path("tests").resolve()), str(source.parent)]
    try:
        compile(job["source"], str(source), "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {"kind": "syntax_error", "outcomes": {}, "broken": []}
    try:
        __import__(job["module"])
    except MemoryError:
        return {"kind": "memory", "outcomes": {}, "broken": []}
    except BaseException:
        return {"kind": "load", "outcomes": {}, "broken": []}
    recorder = Recorder()
    folder = str(Path("tests").resolve())
    options = ["-c", os.devnull, "--rootdir", folder, "--noconftest", "--tb=no", "--assert=plain", "-q", "--no-header"]
    options += [
        "--confcutdir",
        folder,
        "--continue-on-collection-errors",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:faulthandler",
    ]
    pytest.main([*options, folder], plugins=[recorder])
    return {"kind": "", "outcomes": recorder.outcomes, "broken": recorder.broken}


def _write(folder: str, path: str, text: str) -> Path:
    target = Path(folder, path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
    return target


class Recorder:
    """A pytest plugin: "passed", "wrong" or "exception" for every test."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.broken: list[str] = []
        self._finished: set[str] = set()

    def pytest_collectreport(self, report: Any) -> None:
        """Files that could not be collected, or skip themselves."""
        if report.outcome != "passed":
            self.broken.append(report.nodeid)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Nothing has passed yet."""
        self.outcomes = dict.fromkeys((item.nodeid for item in items), "wrong")

    def pytest_exception_interact(self, node: Any, call: Any) -> None:
        """An error other than a failed assertion."""
        if node.nodeid in self.outcomes and not isinstance(call.excinfo.value, AssertionError):
            name = type(call.excinfo.value).__name__
            self.outcomes[node.nodeid] = "wrong" if name in ("Failed", "Skipped") else "exception"

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test passes with its last phase, unless something went wrong before."""
        passed = report.outcome == "passed" and not hasattr(report, "wasxfail")
        if not passed:
            self._finished.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid not in self._finished:
            self.outcomes[report.nodeid] = "passed"


if __name__ == "__main__":
    main()

"""The judge's side of pytest files in mode "in_process": writes the job for `pytest_driver.py` and reads its report.

Forgeable: the submission runs in the process that writes the report, and needs only the will to change it. What is
checked stops accidents and the cheaper tricks: the report must carry the secret of this verdict, a test of random name
that must fail must have failed, and the tests that `hidden` lists must all be there. The submission can also read the
tests. The sandbox still holds, and its folder is fresh for every verdict.

Broken test files cannot be told from broken submissions here, since everything read is in the submission's hand: both
are a verdict with score 0. Judge a right answer before you trust a zero.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from verifiers.code.pytest_spec import PytestSpec
from verifiers.sandbox.channel import Reply

PACKAGES = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")
"""What the sandbox must show, imported before the first execution."""

_KINDS = ("passed", "wrong", "exception")
_LOAD_KINDS = ("load", "syntax_error", "memory")


def write_program(spec: PytestSpec, source: str) -> tuple[str, bytes, str]:
    """A program, its standard input, and the secret that its report must carry."""
    secret = secrets.token_hex(16)
    canary = _canary(secret)
    files = {**spec.files, canary: "def test_canary():\n    assert False\n"}
    job = {"files": files, "module": spec.module, "source": source, "secret": secret}
    return Path(__file__).with_name("pytest_driver.py").read_text(), json.dumps(job).encode(), secret


def read_report(reply: Reply, spec: PytestSpec, secret: str) -> dict[str, Any]:
    """passed, total: numbers of tests; kind: of the first failure; number: of the first failing test, or 0."""
    if reply.kind != "output":
        return _failed(reply.kind)
    output, status = reply.value
    if status or not output:
        return _failed("died")
    try:
        head, _, body = output.decode().partition("\n")
        report = json.loads(body)
        kind, outcomes, broken = report["kind"], dict(report["outcomes"]), list(report["broken"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return _failed("bad_frame")
    if kind in _LOAD_KINDS:
        return _failed(kind)
    canary = outcomes.pop(f"{_canary(secret)}::test_canary", None)
    if head != secret or canary != "wrong" or not all(found in _KINDS for found in outcomes.values()):
        return _failed("bad_frame")
    passed = {name for name, found in outcomes.items() if found == "passed"}
    total = list(dict.fromkeys([*outcomes, *spec.tests]))
    if broken and not spec.tests:
        return {**_failed("load"), "total": max(1, len(total))}
    failed = [name for name in total if name not in passed]
    if not total or failed:
        kind = outcomes.get(failed[0], "load") if failed else "load"
        number = total.index(failed[0]) + 1 if failed else 0
        return {"passed": len(passed), "total": max(1, len(total)), "kind": kind, "number": number}
    return {"passed": len(passed), "total": len(total), "kind": "passed", "number": 0}


def _failed(kind: str) -> dict[str, Any]:
    return {"passed": 0, "total": 1, "kind": kind, "number": 0}


def _canary(secret: str) -> str:
    return f"test_{secret[:12]}.py"

"""What judging may leave on the machine: processes below this one, and files that a submission could have written."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.hostile.program import MARK

_NAMES = {"reward.txt", "junit.xml", "report.json", "sitecustomize.py", "usercustomize.py", "numbers.txt", "json.py"}
_NAMES |= {".pdbrc", ".pythonrc.py", "tox.ini", "setup.cfg", "pytest.ini", "conftest.py"}
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37


@contextlib.contextmanager
def adopt_orphans() -> Iterator[None]:
    """Meanwhile, orphaned descendants become children of this process, so `descendants` sees them."""
    libc = ctypes.CDLL(None)
    before = ctypes.c_int()
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def descendants(patience_s: float = 3.0) -> set[str]:
    """Living processes below this one, as "pid name"; waits a moment for those that are just ending."""
    deadline = time.monotonic() + patience_s
    while (found := _descendants()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _descendants() -> set[str]:
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            head, _, tail = (folder / "stat").read_text(errors="replace").rpartition(")")
        except OSError:
            continue  # it has just ended
        state, parent = tail.split()[:2]
        if state != "Z":
            parents[int(folder.name)], names[int(folder.name)] = int(parent), head
    found = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return {names[pid] for pid in found - {os.getpid()}}


def files() -> set[str]:
    """Files in the usual places that bear a name from the suite."""
    found = set()
    places = {"/tmp", "/dev/shm", "/var/tmp", "/", "/run", "/dev/mqueue", str(Path.home()), os.getcwd(), os.pardir}
    places |= {tempfile.gettempdir(), *(str(folder) for folder in _project_folders())}
    for place in places:
        try:
            names = os.listdir(place)
        except OSError:
            continue
        found |= {os.path.join(place, name) for name in names if MARK in name or name in _NAMES}
    return found


def _project_folders() -> Iterator[Path]:
    root = Path(__file__).parents[2]
    yield root
    for folder in ("verifiers", "llm_envs", "agents", "tests"):
        yield from (path for path in (root / folder).rglob("*") if path.is_dir() and path.name != "__pycache__")

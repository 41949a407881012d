"""Runs scripts with an interpreter that every user can read, as root or as an ordinary user."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from verifiers.sandbox.bubblewrap import find_bubblewrap

NOBODY = 65534
REPOSITORY = Path(__file__).parents[2]


def run_python(*arguments: str, user: int, **options: Any) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS` as this user, with `verifiers` and bubblewrap importable."""
    command = [_readable_python(), "-B", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, **_settings(user), **options)


def start_python(*arguments: str, user: int, **options: Any) -> subprocess.Popen[bytes]:
    """The same, without waiting."""
    return subprocess.Popen([_readable_python(), "-B", *arguments], **_settings(user), **options)


def _settings(user: int) -> dict[str, Any]:
    paths = [str(REPOSITORY), str(Path(find_bubblewrap()).parents[2])]
    settings: dict[str, Any] = {"cwd": "/", "env": {"PYTHONPATH": os.pathsep.join(paths)}}
    return settings if user == os.geteuid() else settings | {"user": user, "group": user, "extra_groups": []}


@functools.cache
def _readable_python() -> str:
    """An interpreter and a checkout that an ordinary user can read; skips the test where there is none."""
    if os.geteuid() != 0:
        return sys.executable
    for python in filter(None, [sys.executable, shutil.which("python3.11", path="/usr/bin"), "/usr/bin/python3"]):
        try:
            check = subprocess.run([python, "-B", "-c", "import verifiers"], capture_output=True, **_settings(NOBODY))
        except PermissionError:
            continue
        if check.returncode == 0:
            return python
    pytest.skip("no interpreter and checkout that an ordinary user can read")


def users() -> list[Any]:
    """Parameters of a test: this user, and as root an ordinary one, too."""
    return [os.geteuid(), NOBODY] if os.geteuid() == 0 else [os.geteuid()]

"""The second rung: the container of `container.py` without bubblewrap, built by a small Python program.

For machines on which no bubblewrap is installed or the installed one does not run. It needs the same rights: user
namespaces.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

from verifiers.sandbox.container import ENVIRONMENT, INSIDE_UID, OUTSIDE_UID, plan_container
from verifiers.sandbox.limits import Limits
from verifiers.sandbox.zygote_worker import ZygoteWorker, start_process

LAUNCHER = Path(__file__).with_name("launch_namespaces.py")


def start_namespaces(limits: Limits, packages: tuple[str, ...]) -> ZygoteWorker:
    """A worker in a container; raises `SandboxUnavailable`."""
    return ZygoteWorker(limits, functools.partial(_launch, limits, packages))


def _launch(limits: Limits, packages: tuple[str, ...], control_fd: int, errors_fd: int) -> subprocess.Popen[bytes]:
    plan = plan_container(control_fd, limits, packages)._asdict()
    plan |= {"environment": ENVIRONMENT, "uids": (INSIDE_UID, OUTSIDE_UID), "control_fd": control_fd}
    python = os.path.realpath(sys.executable)
    return start_process([python, "-I", "-S", "-B", str(LAUNCHER), json.dumps(plan)], {}, errors_fd, control_fd)

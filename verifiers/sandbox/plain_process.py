"""The two weak rungs: a zygote without a container. Chosen only when they are asked for by name.

rlimits: needs root. Every worker's submissions run as a user of their own, in a folder of their own, without groups
and without a way to privileges. They cannot touch files, processes or memory of other users; processes, memory, CPU
time and file sizes are limited; whatever they leave behind (processes anywhere, files in the shared folders) is killed
and deleted after each execution. Not contained: they read every file that is readable for all, use the network, see all
processes, and fill the disk file by file (there is no cap on the folder as a whole, nor on the number of files).

process: marked unsafe, for machines without any of this (macOS). Nothing is contained: a submission can read and write
every file of the user, use the network, and kill the trainer; there is no cap on processes. On Linux a process that
leaves its group is still found and killed, and none outlives the trainer for long, unless the submission kills its
zygote first.

On both, verdicts still cannot be forged by what a submission returns or prints, and `seccomp.py` applies.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from verifiers.sandbox.container import INTERPRETER_OPTIONS
from verifiers.sandbox.limits import Limits, SandboxUnavailable
from verifiers.sandbox.packages import find_packages
from verifiers.sandbox.zygote_worker import ZygoteWorker, start_process


def start_rlimits(limits: Limits, packages: tuple[str, ...]) -> ZygoteWorker:
    """A worker whose submissions run as a user of their own; raises `SandboxUnavailable`."""
    if not sys.platform.startswith("linux"):
        raise SandboxUnavailable("needs Linux")
    if os.geteuid() != 0:
        raise SandboxUnavailable(f"becoming another user: needs root, and this is user {os.geteuid()}")
    return _start("rlimits", limits, packages)


def start_process_group(limits: Limits, packages: tuple[str, ...]) -> ZygoteWorker:
    """A worker that contains nothing; raises `SandboxUnavailable`."""
    return _start("process", limits, packages)


def _start(kind: str, limits: Limits, packages: tuple[str, ...]) -> ZygoteWorker:
    found = {path.name.partition(".")[0]: str(path) for path in find_packages(packages) if path.suffix != ".libs"}
    settings = {"kind": kind, "limits": asdict(limits), "uid": None, "packages": packages, "package_paths": found}
    return ZygoteWorker(limits, functools.partial(_launch, json.dumps(settings)))


def _launch(settings: str, control_fd: int, errors_fd: int) -> subprocess.Popen[bytes]:
    here = Path(__file__).parent
    command = [sys.executable, *INTERPRETER_OPTIONS, str(here / "boot.py"), str(here), "zygote", str(control_fd)]
    environment = {"PATH": os.defpath, "PYTHONHASHSEED": "0"}
    return start_process([*command, settings], environment, errors_fd, control_fd)

"""The unsafe rung: a plain child process with rlimits and a process group, for machines without namespaces (macOS).

Verdicts still cannot be forged by what the submission returns or prints, but nothing is contained: it can read every
file of the user, write them, use the network, kill or trace the trainer, and leave the process group behind. There is
no cap on processes, and none on the scratch folder as a whole. Never chosen automatically.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from verifiers.channel import Execution, Report
from verifiers.limits import Limits


class ProcessWorker:
    """Starts a new interpreter for every execution."""

    alive = True

    def __init__(self, limits: Limits):
        self._limits = limits

    def start(self) -> Execution:
        """Begin one execution in a fresh folder."""
        here = Path(__file__).parent
        requests_theirs, requests = os.pipe()
        results, results_theirs = os.pipe()
        folder = tempfile.mkdtemp(prefix="submission-")
        arguments = [str(requests_theirs), str(results_theirs), json.dumps(asdict(self._limits))]
        try:
            process = subprocess.Popen(
                [sys.executable, "-s", "-S", "-B", "-P", "-X", "utf8", str(here / "boot.py"), str(here), "worker"]
                + arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={"HOME": folder, "TMPDIR": folder, "PATH": os.defpath, "PYTHONHASHSEED": "0"},
                pass_fds=(requests_theirs, results_theirs),
                start_new_session=True,
            )
        finally:
            os.close(requests_theirs)
            os.close(results_theirs)
        return Execution(requests, results, self._limits, lambda: self._end(process, folder))

    def _end(self, process: subprocess.Popen[bytes], folder: str) -> Report:
        with contextlib.suppress(ProcessLookupError):  # every member has ended
            os.killpg(process.pid, signal.SIGKILL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        shutil.rmtree(folder, ignore_errors=True)
        cpu_s = used.ru_utime + used.ru_stime
        # The kernel counts whole ticks and may be early; a program that was killed for anything else used much less.
        killed_by_limit = os.WIFSIGNALED(status) and cpu_s >= 0.75 * math.ceil(self._limits.cpu_s)
        return Report("cpu" if killed_by_limit else "", cpu_s)

    def close(self) -> None:
        """Nothing is kept between executions."""

    def abandon(self) -> None:
        """Nothing is kept between executions."""

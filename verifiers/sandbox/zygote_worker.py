"""The host's end of one zygote, whatever surrounds it: starting it, beginning and ending executions, closing it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from verifiers.sandbox.channel import START_S, Execution, Report, WorkerLost
from verifiers.sandbox.limits import Limits, SandboxUnavailable

_GUARD = Path(__file__).with_name("guard.py")
_CLOSE_S = 5.0
"""How long a zygote may take to kill its execution and clean up before it is killed itself, seconds."""

Launch = Callable[[int, int], subprocess.Popen[bytes]]
"""(control_fd, errors_fd) -> the process that runs the zygote or waits for it; it keeps a copy of both descriptors."""


class ZygoteWorker:
    """One warm zygote; runs one execution at a time.

    Must be started from a thread that outlives it: the kernel ties the death of a child to the thread that started it.

    Args:
        limits: of each execution.
        launch: starts the process; see `Launch`.

    Raises:
        SandboxUnavailable: it did not start; the message names the step.
    """

    def __init__(self, limits: Limits, launch: Launch):
        self._limits, self._unread, self._executing = limits, b"", False
        self._control, theirs = socket.socketpair()
        self._control.settimeout(START_S)
        errors, errors_theirs = os.pipe()
        with os.fdopen(errors, "rb") as error_stream:
            try:
                self._process = launch(theirs.fileno(), errors_theirs)
            except BaseException as error:
                self._control.close()
                if isinstance(error, OSError):
                    raise SandboxUnavailable(f"starting it: {error}") from error
                raise
            finally:
                os.close(errors_theirs)
                theirs.close()  # now only the zygote holds it: its death is seen as the end of the stream
            greeting = self._greeting()
            if greeting != "ready":
                self.close()
                raise SandboxUnavailable(greeting or _last_line(error_stream.read()))
            self._say_to_guard(b"started\n")

    def _say_to_guard(self, word: bytes) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(OSError):  # it has ended
                self._process.stdin.write(word)
                self._process.stdin.close()

    def _greeting(self) -> str:
        """ "ready", the step at which the zygote failed, or "" if there is none."""
        try:
            return self._read_line().decode(errors="replace")
        except OSError:
            return ""

    @property
    def alive(self) -> bool:
        """Whether the zygote still runs."""
        return self._process.poll() is None

    @property
    def idle(self) -> bool:
        """Whether the running execution does nothing but wait: the one thing that a zygote says unasked."""
        descriptor = self._control.fileno()
        if descriptor < 0 or not self._executing:
            return False
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        return bool(poller.poll(0))

    def start(self) -> Execution:
        """Begin one execution; raises `WorkerLost`."""
        requests_theirs, requests = os.pipe()
        results, results_theirs = os.pipe()
        try:
            socket.send_fds(self._control, [b"r"], [requests_theirs, results_theirs])
        except OSError as error:
            os.close(requests)
            os.close(results)
            raise WorkerLost(f"the sandbox is gone: {error}") from error
        finally:
            os.close(requests_theirs)
            os.close(results_theirs)
        self._executing = True
        return Execution(requests, results, self._limits, self._end)

    def _end(self) -> Report:
        self._executing = False
        try:
            self._control.sendall(b"s")
            line = self._read_line()
            if line == b"idle":
                line = self._read_line()
            return Report(**json.loads(line))
        except BaseException as error:
            self.close()  # interrupted in the middle of the exchange, the next one would read this report
            if isinstance(error, OSError | ValueError):
                raise WorkerLost(f"the sandbox is gone: {error}") from error
            raise

    def _read_line(self) -> bytes:
        while b"\n" not in self._unread:
            chunk = self._control.recv(4096)
            if not chunk:
                raise ConnectionError("the zygote has ended")
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def close(self) -> None:
        """End the zygote and everything in it; may be called twice."""
        self._say_to_guard(b"")
        with contextlib.suppress(OSError):  # not connected any more
            self._control.shutdown(socket.SHUT_RDWR)  # the zygote ends by itself, and its ancestors collect it
        self._control.close()
        try:
            self._process.wait(timeout=_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's worker without touching it."""
        self._control.close()
        self._process.returncode = 0  # ours to forget, not ours to wait for


def start_process(
    command: list[str], environment: dict[str, str], errors_fd: int, *fds: int
) -> subprocess.Popen[bytes]:
    """Start a launcher or a zygote; a session of its own keeps the terminal's Ctrl-C away from it.

    Its standard input is the guard's, see `guard.py`: whoever holds it must write a line when all is well.
    """
    guard = [sys.executable, "-I", "-S", "-B", str(_GUARD)] if hasattr(os, "pidfd_open") else []
    return subprocess.Popen(
        [*guard, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=errors_fd,
        env=environment,
        pass_fds=fds,
        start_new_session=True,
    )


def _last_line(errors: bytes) -> str:
    """What a launcher that did not start its zygote said at the end."""
    lines = errors.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no answer"

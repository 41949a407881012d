"""Runs one of our own functions where it can be killed: a warm helper process, and a fork of it for every call.

    process = TrustedProcess("some_package.some_module:function", cpu_s=5, memory_mb=1024)
    value = process.call({"any": "JSON"})       # function({"any": "JSON"}), in a process of its own
    process.close()

For code that we trust and whose running time we do not (a computer algebra system, a test runner). The helper imports
the module once; a call then costs one fork. A call that runs too long, eats memory or crashes ends alone, with every
process it started; the helper and the other calls go on. Calls share no state, so equal payloads give equal values.

The helper ends when its parent ends, also by `kill -9`: it sees the end of the socket between them. It is a fresh
interpreter, never a fork of the caller, which may hold threads and locks.

Not covered: this is no sandbox. The function can read, write and connect as the user can. Processes of a call that
start a session of their own are not killed with it. Without prctl (outside Linux) calls outlive a killed helper.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from verifiers.base import VerifierError

START_S = 120.0
"""How long the helper may take to start or to report, wall-clock seconds: for starved machines, not a limit."""

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from verifiers.trusted.helper import main; main()"


Talk = Callable[[socket.socket, float], None]


class CallTimeout(Exception):  # noqa: N818 - says something about the payload, not about the judge
    """The call used up its CPU time, or with `wall` True met the wall-clock backstop (perhaps a busy machine)."""

    def __init__(self, message: str, wall: bool):
        super().__init__(message)
        self.wall = wall


class CallDied(Exception):  # noqa: N818
    """The call ended without a value: out of memory, a crash in native code, or `os._exit`."""


class HelperLost(Exception):  # noqa: N818
    """The helper is gone; a call with `talk` was not repeated."""


class TrustedProcess:
    """Calls `function` in forks of a warm helper; thread-safe; works again after `close` and after a fork.

    Args:
        function: "module:name" of a module-level function that takes and returns JSON values.
        cpu_s: CPU time of one call; the kernel counts whole seconds, rounded up, for each process of the call.
        wall_s: wall-clock time of one call, a distant backstop.
        memory_mb: address space of each process of a call, beyond the warm helper's own, MiB.
        jobs: calls at one time; None for one per core. Further calls wait, and their time does not run.
        warm_up: "module:name" of a function without arguments, called once in the helper: what it imports and what it
            leaves in memory is there in every call.

    Attributes:
        limits: those of one call, by name.
    """

    def __init__(
        self,
        function: str,
        cpu_s: float = 5.0,
        wall_s: float = 60.0,
        memory_mb: int = 1024,
        jobs: int | None = None,
        warm_up: str | None = None,
    ):
        if not (cpu_s > 0 and wall_s > 0 and memory_mb > 0 and (jobs is None or jobs > 0)):
            raise ValueError(f"limits must be positive, got {cpu_s=}, {wall_s=}, {memory_mb=}, {jobs=}")
        self.function, self.jobs = function, jobs or _cores()
        self.limits = {"cpu_s": math.ceil(cpu_s), "wall_s": wall_s, "memory_mb": memory_mb}
        self._settings = {"function": function, "warm_up": warm_up, **self.limits}
        self._reset()
        _processes.add(self)

    def __getstate__(self) -> dict[str, Any]:
        """The settings: a copy in another process starts a helper of its own."""
        return {name: vars(self)[name] for name in ("function", "jobs", "limits", "_settings")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()
        _processes.add(self)

    def _reset(self) -> None:
        self._helper: _Helper | None = None
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(self.jobs)

    def call(self, payload: Any, talk: Talk | None = None) -> Any:
        """`function(payload)`; both are JSON values.

        Args:
            talk: called with one end of a socket and the call's deadline (`time.monotonic`); the other end's descriptor
                is the function's second argument. A value is awaited when `talk` returns or raises TimeoutError.

        Raises:
            HelperLost: the helper was lost, and a call that talks is not repeated.
            CallTimeout: out of CPU or wall-clock time.
            CallDied: out of memory, or crashed.
            VerifierError: the function raised, cannot be found, or two helpers were lost in a row.
        """
        data = json.dumps(payload).encode()
        with self._slots:
            for last_try in (False, True):
                helper = self._started()
                try:
                    reply = helper.run(data, self.limits["wall_s"], talk)
                    break
                except HelperLost as error:
                    self._drop(helper)
                    if talk is not None:
                        raise
                    if last_try:
                        raise VerifierError(f"the helper for {self.function} was lost twice: {error}") from error
        if reply.get("memory"):
            raise CallDied(f"{self.function} ran out of memory")
        if "error" in reply:
            raise VerifierError(f"{self.function} raised {reply['error']}")
        return reply["value"]

    def close(self) -> None:
        """End the helper; may be called twice. Further calls, and those that run, get a new one."""
        with self._lock:
            helper, self._helper = self._helper, None
        if helper is not None:
            helper.close()

    def _started(self) -> _Helper:
        with self._lock:
            if self._helper is None:
                self._helper = _Helper(self._settings)
                weakref.finalize(self, self._helper.close)  # also at exit
            return self._helper

    def _drop(self, helper: _Helper) -> None:
        with self._lock:
            if self._helper is helper:
                self._helper = None
        helper.close()

    def _forget(self) -> None:
        """In a forked child: let go of the parent's helper without touching it; locks may have been held."""
        if self._helper is not None:
            self._helper.abandon()
        self._reset()


class _Helper:
    """The host's end of one helper process."""

    def __init__(self, settings: dict[str, Any]):
        self._control, theirs = socket.socketpair()
        self._control.settimeout(START_S)
        self._closed = False
        with theirs, tempfile.TemporaryFile() as errors:
            command = [sys.executable, "-c", _START, json.dumps(sys.path), json.dumps(settings), str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                # One order of sets for all helpers, and no threads before a fork.
                env={**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # keeps the terminal's Ctrl-C away from it
            )
            theirs.close()  # now only the helper holds it: its death is seen as the end of the stream
            try:
                complaint = self._read_greeting()
                if complaint is None:
                    errors.seek(0)
                    last_words = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
                    complaint = last_words or "it ended before it was ready"
                if complaint:
                    raise VerifierError(f"starting the helper for {settings['function']}: {complaint}")
            except BaseException:
                self.close()
                raise

    def _read_greeting(self) -> str | None:
        """ "" or what went wrong; None if the helper ended without a word."""
        try:
            greeting = self._control.makefile("rb", buffering=0).readline()
        except OSError as error:
            return f"no sign of life ({error})"
        return json.loads(greeting) if greeting else None

    def run(self, data: bytes, wall_s: float, talk: Talk | None) -> dict[str, Any]:
        """One call's reply; raises `CallTimeout`, `CallDied` or `HelperLost`. Then the call's processes are dead."""
        results, results_theirs = os.pipe()
        life, life_theirs = socket.socketpair()
        ours, theirs = socket.socketpair()
        life.settimeout(START_S)
        with life, ours, os.fdopen(results, "rb"):
            try:
                with tempfile.TemporaryFile() as request:
                    request.write(data)
                    request.flush()
                    talking = [theirs.fileno()] if talk is not None else []
                    descriptors = [request.fileno(), results_theirs, life_theirs.fileno(), *talking]
                    socket.send_fds(self._control, [b"j"], descriptors)
            except OSError as error:
                raise HelperLost(str(error)) from error
            finally:
                os.close(results_theirs)
                life_theirs.close()
                theirs.close()
            deadline = time.monotonic() + wall_s
            if talk is not None:
                with contextlib.suppress(TimeoutError):
                    talk(ours, deadline)
            reply = _read_reply(results, deadline)
            report = _end(life)
        if reply is None:
            raise CallTimeout(f"no value within {wall_s} s of wall-clock time", wall=True)
        if reply:
            return json.loads(reply)
        if report["cpu"]:
            raise CallTimeout("out of CPU time", wall=False)
        raise CallDied(f"the call ended with {report['status']}")

    def close(self) -> None:
        """End the helper and its calls; may be called twice."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):  # not connected any more
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        try:
            self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:  # still importing
            self._process.kill()
            self._process.wait()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's helper without touching it."""
        self._closed = True
        self._control.close()
        self._process.returncode = 0  # ours to forget, not ours to wait for


def _read_reply(results: int, deadline: float) -> bytes | None:
    """One line of JSON; b"" if the call ended without it, None at the deadline."""
    poller = select.poll()
    poller.register(results, select.POLLIN)
    reply = bytearray()
    while not reply.endswith(b"\n"):
        if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return None
        chunk = os.read(results, 1 << 16)
        if not chunk:
            return b""
        reply += chunk
    return bytes(reply)


def _end(life: socket.socket) -> dict[str, Any]:
    """Have the helper kill the call; returns its report once everything is dead. Raises `HelperLost`."""
    try:
        life.shutdown(socket.SHUT_WR)
        report = life.recv(1024)
    except OSError as error:
        raise HelperLost(str(error)) from error
    if not report:
        raise HelperLost("it ended during a call")
    return json.loads(report)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _forget_after_fork() -> None:
    for process in list(_processes):
        process._forget()


_processes: weakref.WeakSet[TrustedProcess] = weakref.WeakSet()
os.register_at_fork(after_in_child=_forget_after_fork)

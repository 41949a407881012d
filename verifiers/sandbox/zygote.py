"""The warm process inside a sandbox: one new process per execution, killed with everything that it started.

Starting an interpreter costs ten milliseconds, forking this one costs one. `confinement.py` says what a new process
is kept from, `launch_namespaces.py` and `bubblewrap.py` what surrounds the zygote itself.

One execution at a time, over a stream socket:

    host:    "r" with two descriptors (requests, results)
    zygote:  "idle" and a line end, at most once: the execution does nothing but wait
    host:    "s"
    zygote:  a line of JSON, the fields of `channel.Report`, once everything is dead

The first line is "ready", or the step that failed. When the host closes the socket, or dies, everything ends.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from typing import Any, NoReturn

from verifiers.sandbox.codec import encode
from verifiers.sandbox.confinement import Namespaces
from verifiers.sandbox.plain_confinement import ProcessGroup, SeparateUser
from verifiers.sandbox.worker import send, serve

Kind = Namespaces | ProcessGroup
KINDS: dict[str, type[Namespaces] | type[ProcessGroup]] = {
    "namespaces": Namespaces,
    "rlimits": SeparateUser,
    "process": ProcessGroup,
}

PRELOADED = (
    "abc bisect collections contextlib copy dataclasses datetime decimal enum fractions functools heapq io itertools "
    "math operator random re statistics string sys time typing"
)
"""Imported once, before the first execution, so that a submission's own imports are free."""

TICK_S = 0.05
"""How often the memory and CPU time of a long execution are summed, seconds."""

IDLE_S, IDLE_SHARE = 0.5, 0.1
"""An execution is idle when, after so many seconds, it has run or waited for a core in less than this share of them."""

_REQUESTS, _RESULTS, _CONTROL = 3, 4, 5
_ticks_per_s = os.sysconf("SC_CLK_TCK")
_page_bytes = os.sysconf("SC_PAGE_SIZE")


class _Usage:
    """What all living processes of an execution have used together."""

    def __init__(self, pids: Iterator[int], shared_bytes: int):
        self.cpu_s, self.memory, self.asleep, self._delay_s = 0.0, 0, True, 0.0
        for pid in pids:
            try:
                fields = _stat(f"/proc/{pid}/stat")
                self._delay_s += _delay_s(pid)
                if fields[0] == b"Z":  # its first thread has ended; the others may hold memory
                    others = [_stat(f"/proc/{pid}/task/{thread}/stat") for thread in os.listdir(f"/proc/{pid}/task")]
                    fields[21] = max((other[21] for other in others), key=int)
            except (OSError, ValueError):
                continue  # it has just ended
            self.cpu_s += sum(map(int, fields[11:15])) / _ticks_per_s  # user, system, and both of its reaped children
            self.memory += max(0, int(fields[21]) * _page_bytes - shared_bytes)
            self.asleep &= fields[0] in (b"S", b"Z")

    def idle(self, elapsed_s: float) -> bool:
        """Whether it has done nothing but wait for something else than a core."""
        return elapsed_s >= IDLE_S and self.asleep and self.cpu_s + self._delay_s < IDLE_SHARE * elapsed_s


def _stat(path: str) -> list[bytes]:
    """Fields of a stat file after the name, which may hold anything."""
    with open(path, "rb") as file:
        return file.read().rpartition(b")")[2].split()


def _delay_s(pid: int) -> float:
    """How long the threads of a process were ready to run and got no core, seconds; endless if unknown."""
    waited = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
            ran, waiting, _ = map(int, file.read().split())
        waited += waiting
        if ran == 0:
            return float("inf")
    return waited / 1e9


class _PackageFinder:
    """Finds top-level packages where they are, so that no other of their neighbours is found."""

    def __init__(self, paths: dict[str, str]):
        self._paths = paths

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """As the import system wants it."""
        found = self._paths.get(name)
        if found is None:
            return None
        if os.path.isdir(found):
            return spec_from_file_location(name, f"{found}/__init__.py", submodule_search_locations=[found])
        return spec_from_file_location(name, found)


def _import_packages(names: list[str], settings: dict[str, Any]) -> None:
    if "packages_folder" in settings:
        sys.path.append(settings["packages_folder"])
    else:
        sys.meta_path.append(_PackageFinder(settings["package_paths"]))
    # Threads would not survive the fork, and each would need address space.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    for name in names:
        try:
            __import__(name)
        except BaseException as error:
            raise OSError(f"importing {name}: {type(error).__name__}: {error}") from error


def _become_worker(kind: Kind, descriptors: list[int], result_bytes: int) -> NoReturn:
    """In the new process: never falls back into the zygote's loop."""
    try:
        requests, results = descriptors
        try:
            kind.confine()
        except OSError as error:
            send(results, encode(("setup_failed", str(error))))
            os._exit(1)
        requests, results = os.dup(requests), os.dup(results)  # out of the way: dup2 could overwrite one of them
        os.dup2(requests, _REQUESTS)
        os.dup2(results, _RESULTS)
        os.closerange(_RESULTS + 1, 64)
        serve(_REQUESTS, _RESULTS, result_bytes)
    except SystemExit:
        raise  # a program that has ended; the interpreter finishes what it left open
    except BaseException:
        os._exit(1)


def _supervise(kind: Kind, control: socket.socket, pid: int, limits: dict[str, float]) -> dict[str, Any] | None:
    """Wait for the host's word, summing usage meanwhile; then kill the execution. None when the host is gone."""
    began, shared_bytes, reason = time.monotonic(), _resident_bytes(), ""
    idle = told = over = False
    poller = select.poll()
    poller.register(control, select.POLLIN)
    while not poller.poll(None if reason else 1000 * TICK_S):
        usage = _Usage(kind.members(), shared_bytes)
        if usage.cpu_s > limits["cpu_s"] or usage.memory > int(limits["memory_mb"]) << 20:
            reason = "cpu" if usage.cpu_s > limits["cpu_s"] else "memory"
            kind.kill(pid)
        elif not over and _has_ended(pid):
            over = True
            kind.kill(pid)  # those it left behind keep the pipe to the host open
        idle = usage.idle(time.monotonic() - began)
        if idle and not told:
            told = True
            with contextlib.suppress(OSError):
                control.sendall(b"idle\n")
    try:
        host_is_there = control.recv(1) == b"s"
    except OSError:
        host_is_there = False
    status, cpu_s = kind.end(pid)
    if not reason and status == -signal.SIGKILL and cpu_s > limits["cpu_s"]:
        reason = "cpu"  # RLIMIT_CPU was faster
    return {"reason": reason, "cpu_s": cpu_s, "status": status, "idle": idle} if host_is_there else None


def _has_ended(pid: int) -> bool:
    """Whether a child waits to be reaped; macOS cannot tell before Python 3.13."""
    return hasattr(os, "waitid") and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _page_bytes
    except OSError:
        return 0  # macOS


def _prepare(kind: Kind, settings: dict[str, Any]) -> None:
    """Once, before the first execution."""
    kind.prepare()
    for name in PRELOADED.split():
        __import__(name)
    if settings["packages"]:
        _import_packages(settings["packages"], settings)
    gc.collect()
    gc.freeze()
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)


def main(control_fd: str, settings_json: str) -> NoReturn:
    """Serve executions until the host closes the socket.

    Args:
        control_fd: number of the inherited socket.
        settings_json: {"kind": key of `KINDS`, "limits": fields of `Limits`, "uid": user to become or null,
            "packages": modules to import, "packages_folder": what holds them and nothing else, or "package_paths": file
            or folder of each}.
    """
    settings = json.loads(settings_json)
    limits = settings["limits"]
    # A low number, and nothing above it: every descriptor of an execution is then below 64, and can be closed.
    os.dup2(int(control_fd), _CONTROL)
    os.closerange(_CONTROL + 1, os.sysconf("SC_OPEN_MAX"))
    control = socket.socket(fileno=_CONTROL)
    try:
        kind = KINDS[settings["kind"]](limits, settings["uid"])
        _prepare(kind, settings)
    except OSError as error:
        control.sendall(" ".join(str(error).split()).encode()[:1000] + b"\n")
        os._exit(1)
    control.sendall(b"ready\n")
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if message != b"r":
            os._exit(0)
        pid = kind.spawn()
        if pid == 0:
            _become_worker(kind, descriptors, limits["result_bytes"])
        for descriptor in descriptors:
            os.close(descriptor)
        report = _supervise(kind, control, pid, limits)
        if report is None:
            os._exit(0)
        control.sendall(json.dumps(report).encode() + b"\n")

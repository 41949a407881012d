"""The helper's side of `trusted_process.py`: imports one function, then forks for every call.

Over the control socket: one line of JSON when the module is imported ("" or what went wrong); then, per call, one byte
with three descriptors: a file with the payload, a pipe for one line of JSON, and a socket that is the call's life. When
the host shuts that down, the call is killed, and the report {"cpu": whether CPU time ended it, "status": words} sent. A
fourth descriptor, if any, becomes the function's second argument.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1


def main() -> NoReturn:
    """Serve calls until the host closes the control socket or dies."""
    settings, control = json.loads(sys.argv[2]), socket.socket(fileno=int(sys.argv[3]))
    try:
        function = _find(settings["function"])
        if settings["warm_up"]:
            _find(settings["warm_up"])()
    except BaseException as error:
        control.sendall(json.dumps(f"{type(error).__name__}: {error}").encode() + b"\n")
        os._exit(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # until here, the host reads it
    control.sendall(b'""\n')
    gc.collect()
    gc.freeze()
    calls: dict[int, tuple[int, socket.socket]] = {}
    poller = select.poll()
    poller.register(control, select.POLLIN)
    while True:
        for descriptor, _ in poller.poll():
            if descriptor != control.fileno():
                poller.unregister(descriptor)
                _end(*calls.pop(descriptor), settings["cpu_s"])
                continue
            message, descriptors, _, _ = socket.recv_fds(control, 1, 4)
            if not message:
                for pid, life in calls.values():
                    _end(pid, life, settings["cpu_s"])
                os._exit(0)
            request, results, life_fd, *talk = descriptors
            life = socket.socket(fileno=life_fd)
            pid = os.fork()
            if pid == 0:
                for other in (control, life, *(other for _, other in calls.values())):
                    other.close()
                _run(function, request, results, talk, settings)
            for descriptor in (request, *talk):
                os.close(descriptor)
            os.close(results)  # the call's process alone holds it: its death is seen as the end of the stream
            calls[life_fd] = pid, life
            poller.register(life_fd, select.POLLIN)


def _find(spec: str) -> Callable[..., Any]:
    module, _, name = spec.partition(":")
    return getattr(importlib.import_module(module), name)


def _run(
    function: Callable[..., Any], request: int, results: int, talk: list[int], settings: dict[str, Any]
) -> NoReturn:
    """In the fork: call the function and write its value; never returns into the helper's loop."""
    try:
        parent = os.getppid()
        os.setsid()  # a group of its own, which is killed as one
        with contextlib.suppress(AttributeError):  # no prctl on this system
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # the helper died before that
        _set_limits(settings["cpu_s"], settings["memory_mb"])
        os.lseek(request, 0, os.SEEK_SET)
        with os.fdopen(request, "rb") as file:
            payload = json.load(file)
        reply = _reply(function, payload, *talk)
        while reply:
            reply = reply[os.write(results, reply) :]
    finally:
        os._exit(0)


def _reply(function: Callable[..., Any], *arguments: Any) -> bytes:
    try:
        return json.dumps({"value": function(*arguments)}).encode() + b"\n"
    except MemoryError:
        return b'{"memory": true}\n'
    except BaseException as error:
        return json.dumps({"error": f"{type(error).__name__}: {str(error)[:2000]}"}).encode() + b"\n"


def _set_limits(cpu_s: int, memory_mb: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # the kernel of macOS refuses RLIMIT_AS
        with open("/proc/self/statm") as file:
            own = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (own + (memory_mb << 20),) * 2)


def _end(pid: int, life: socket.socket, cpu_s: int) -> None:
    """Kill the call and all of its group, and report how it had ended."""
    for kill in (os.killpg, os.kill):  # the group does not exist before the fork has made it
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    out_of_time = code == -signal.SIGXCPU or (code == -signal.SIGKILL and used.ru_utime + used.ru_stime >= cpu_s)
    words = f"signal {-code}" if code < 0 else f"exit code {code}"
    with life, contextlib.suppress(OSError):
        life.sendall(json.dumps({"cpu": out_of_time, "status": words}).encode())

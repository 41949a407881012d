"""The warm process inside bubblewrap: one clone into fresh namespaces per execution.

Starting an interpreter costs ten milliseconds, cloning this one costs one. Each clone gets PID, mount and IPC
namespaces of its own, so that it can neither see nor signal anything else, and an empty scratch folder that vanishes
with it. It is PID 1 of its namespace: killing it takes every process it started.

One execution at a time, over a SOCK_SEQPACKET socket:

    host:    b"run" with two descriptors (requests, results)
    host:    b"stop"
    zygote:  JSON {"reason": "" | "cpu" | "memory", "cpu_s": x}, once everything is dead

Not covered: there is no seccomp filter, so the whole system-call interface of the kernel is exposed, and a kernel
exploit escapes. Executions share one network namespace (without any interface but loopback) and the kernel keyring of
their user. Memory in memfds counts only while it is mapped: at worst processes * open_files * file_mb beside the limit.
"""

from __future__ import annotations

import array
import ctypes
import gc
import json
import os
import platform
import select
import signal
import socket
from typing import Any, NoReturn

from verifiers.codec import encode
from verifiers.worker import send, serve, set_limits

PRELOADED = (
    "abc bisect collections contextlib copy dataclasses datetime decimal enum fractions functools heapq io itertools "
    "math operator random re statistics string sys time typing"
)
"""Imported once, before the first clone, so that a submission's own imports are free."""

TICK_S = 0.05
"""How often the memory and CPU time of a long execution are summed, seconds."""

# Not in the standard library before Python 3.12.
_CLONE_SYSCALL = {"x86_64": 56, "aarch64": 220, "riscv64": 220}
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWPID = 0x00020000, 0x08000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 24, 38
_CAPABILITY_VERSION_3 = 0x20080522
_REQUESTS, _RESULTS, _CONTROL = 3, 4, 5

# PyDLL keeps the interpreter lock: between a raw clone and PyOS_AfterFork_* no other thread state may run.
_libc = ctypes.PyDLL(None, use_errno=True)
_ticks_per_s = os.sysconf("SC_CLK_TCK")
_page_bytes = os.sysconf("SC_PAGE_SIZE")


def _check(step: str, result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{step}: {os.strerror(error)}")
    return result


def _mount(source: bytes | None, target: str, kind: bytes | None, flags: int, data: str = "") -> None:
    _check(f"mount {target}", _libc.mount(source, target.encode(), kind, ctypes.c_ulong(flags), data.encode() or None))


def _clone() -> int:
    """Fork into new PID, mount and IPC namespaces; returns the child's pid, 0 in the child."""
    flags = _CLONE_NEWPID | _CLONE_NEWNS | _CLONE_NEWIPC | signal.SIGCHLD
    number = _CLONE_SYSCALL[platform.machine()]
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = _libc.syscall(ctypes.c_long(number), ctypes.c_ulong(flags), None, None, None, None)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    return _check("clone into new namespaces", pid)


def _prepare() -> None:
    """Once, before the first execution: what every clone inherits."""
    if platform.machine() not in _CLONE_SYSCALL:
        raise OSError(f"clone: system-call number unknown on {platform.machine()}")
    # A process without capabilities could otherwise regain all of them in a user namespace of its own.
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # one past the last capability of this kernel
    _check("no_new_privs", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    for name in PRELOADED.split():
        __import__(name)
    gc.collect()
    gc.freeze()


def _isolate(limits: dict[str, float], uid: int | None, own_processes: int) -> None:
    """In the clone: private file systems, limits, then give up every privilege, in the order this needs."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # when memory runs out, the submission goes first
    os.setsid()  # else kill(0) reaches the zygote through the shared process group
    size = f"size={limits['file_mb']}m,nr_inodes={limits['files']},mode=1777"
    _mount(b"tmpfs", "/tmp", b"tmpfs", _MS_NOSUID | _MS_NODEV, size)
    _mount(b"tmpfs", "/dev/shm", b"tmpfs", _MS_NOSUID | _MS_NODEV, size)
    _mount(None, "/dev", None, _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID)
    _mount(b"proc", "/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    os.chdir("/tmp")
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self belongs to root
        own_processes = 0
    # One second beyond what `_supervise` allows: the kernel counts whole ticks and, on a busy machine, is 10 % early.
    set_limits({**limits, "cpu_s": limits["cpu_s"] + 1, "processes": limits["processes"] + own_processes})
    header, nothing = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    _check("drop capabilities", _libc.capset(header, nothing))


def _become_worker(descriptors: list[int], settings: dict[str, Any], own_processes: int) -> NoReturn:
    """In the clone: never returns, and never falls back into the zygote's loop."""
    try:
        requests, results = descriptors
        try:
            _isolate(settings["limits"], settings["uid"], own_processes)
        except OSError as error:
            send(results, encode(("setup_failed", str(error))))
            os._exit(1)
        requests, results = os.dup(requests), os.dup(results)  # out of the way: dup2 could overwrite one of them
        os.dup2(requests, _REQUESTS)
        os.dup2(results, _RESULTS)
        os.closerange(_RESULTS + 1, 64)
        serve(_REQUESTS, _RESULTS, settings["limits"]["result_bytes"])
    finally:
        os._exit(1)


def _usage(own_rss: int) -> tuple[float, int]:
    """CPU seconds and resident bytes of all living processes of the execution, together."""
    cpu, memory = 0.0, 0
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in (1, os.getpid()):
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()  # the name before it may hold anything
        except OSError:
            continue  # it has just ended
        cpu += sum(map(int, fields[11:15])) / _ticks_per_s  # user, system, and both of its reaped children
        memory += max(0, int(fields[21]) * _page_bytes - own_rss)  # what it does not share with the zygote
    return cpu, memory


def _supervise(control: socket.socket, pid: int, limits: dict[str, float]) -> dict[str, Any]:
    """Wait for the host's word, summing usage meanwhile; then kill the namespace and report how it went."""
    with open("/proc/self/statm", "rb") as file:
        own_rss = int(file.read().split()[1]) * _page_bytes
    poller = select.poll()
    poller.register(control, select.POLLIN)
    reason = ""
    while not poller.poll(None if reason else 1000 * TICK_S):
        cpu, memory = _usage(own_rss)
        if cpu > limits["cpu_s"] or memory > int(limits["memory_mb"]) << 20:
            reason = "cpu" if cpu > limits["cpu_s"] else "memory"
            os.kill(pid, signal.SIGKILL)
    if control.recv(16) != b"stop":
        os._exit(0)  # the host is gone; the end of this process ends the namespace
    os.kill(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    cpu = used.ru_utime + used.ru_stime
    if not reason and os.WIFSIGNALED(status) and cpu > limits["cpu_s"]:
        reason = "cpu"  # RLIMIT_CPU was faster
    return {"reason": reason, "cpu_s": cpu}


def main(control_fd: str, settings_json: str) -> NoReturn:
    """Serve executions until the host closes the socket.

    Args:
        control_fd: number of the inherited socket.
        settings_json: {"limits": fields of Limits, "uid": user to become inside the sandbox, or null}.
    """
    settings = json.loads(settings_json)
    # A low number, and nothing above it: every descriptor of an execution is then below 64, and can be closed.
    os.dup2(int(control_fd), _CONTROL)
    os.closerange(_CONTROL + 1, os.sysconf("SC_OPEN_MAX"))
    control = socket.socket(fileno=_CONTROL)
    _prepare()
    own_processes = sum(name.isdigit() for name in os.listdir("/proc"))
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    control.send(b"ready")
    while True:
        message, ancillary, _, _ = control.recvmsg(16, socket.CMSG_SPACE(2 * 4))
        if message != b"run":
            os._exit(0)
        descriptors = list(array.array("i", ancillary[0][2]))
        pid = _clone()
        if pid == 0:
            _become_worker(descriptors, settings, own_processes)
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(json.dumps(_supervise(control, pid, settings["limits"])).encode())

"""Runs inside the sandbox: how the zygote makes a process for one execution, and how it ends everything in it.

One class per kind of zygote: `Namespaces` here, those without a container in `plain_confinement.py`. Each has `prepare`
(once), `spawn` (one per execution; 0 in the child), `confine` (in the child), `members` (processes of the execution),
`kill` (all of them) and `end` (kills, waits, and cleans up).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import signal
import socket
import struct
from collections.abc import Iterator, Mapping

from verifiers.sandbox.seccomp import install_filter
from verifiers.sandbox.worker import set_limits

# Not in the standard library before Python 3.12.
_CLONE_SYSCALL = {"x86_64": 56, "aarch64": 220, "riscv64": 220}
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWPID, _CLONE_NEWNET = 0x00020000, 0x08000000, 0x20000000, 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 24, 38
_GET_INTERFACE_FLAGS, _SET_INTERFACE_FLAGS, _INTERFACE_UP = 0x8913, 0x8914, 1
_CAPABILITY_VERSION_3 = 0x20080522

# PyDLL keeps the interpreter lock: between a raw clone and PyOS_AfterFork_* no other thread state may run.
libc = ctypes.PyDLL(None, use_errno=True)


def check(step: str, result: int) -> int:
    """`result` of a C function; raises OSError that names the step."""
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{step}: {os.strerror(error)}")
    return result


def _mount(source: bytes | None, target: str, kind: bytes | None, flags: int, data: str = "") -> None:
    check(f"mount {target}", libc.mount(source, target.encode(), kind, ctypes.c_ulong(flags), data.encode() or None))


def drop_for_good() -> None:
    """Neither this process nor what it starts gets a privilege that it does not have."""
    for capability in range(64):
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # one past the last capability of this kernel, or no right to
    no_new_privileges()


def no_new_privileges() -> None:
    """Programs that would run as somebody else, such as sudo, do not; the filter needs this."""
    check("no_new_privs", libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def go_first() -> None:
    """When memory runs out, the kernel ends the submission and nobody else, unless the submission takes this back."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def become(uid: int) -> None:
    """Be this user and no other, in its own group only."""
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise OSError(error.errno, f"becoming user {uid}: {error.strerror}") from error
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self belongs to root


def start_loopback() -> None:
    """Let a program talk to itself over the network; in a new network namespace there is nobody else."""
    try:
        with socket.socket() as any_socket:
            request = fcntl.ioctl(any_socket, _GET_INTERFACE_FLAGS, struct.pack("16sH22x", b"lo", 0))
            flags = struct.unpack_from("16xH", request)[0] | _INTERFACE_UP
            fcntl.ioctl(any_socket, _SET_INTERFACE_FLAGS, struct.pack("16sH22x", b"lo", flags))
    except OSError as error:
        raise OSError(error.errno, f"starting the loopback interface: {error.strerror}") from error


class Namespaces:
    """Inside bubblewrap or `launch_namespaces.py`: a clone into PID, mount, IPC and network namespaces of its own.

    It can neither see nor signal anything else, its file systems vanish with it, and as PID 1 of its namespace it takes
    every process it started with it when it is killed.

    Args:
        limits: fields of `Limits`.
        uid: user to become; None to stay the only one there is.
    """

    # An ordinary user's processes are counted together: these are the zygote and the container's first process.
    _OWN_PROCESSES = 2

    def __init__(self, limits: Mapping[str, float], uid: int | None):
        self._limits, self._uid = limits, uid

    def prepare(self) -> None:
        """What every clone inherits."""
        if platform.machine() not in _CLONE_SYSCALL:
            raise OSError(f"clone: system-call number unknown on {platform.machine()}")
        # A process without capabilities could otherwise regain all of them in a user namespace of its own.
        with open("/proc/sys/user/max_user_namespaces", "w") as file:
            file.write("0")
        drop_for_good()
        install_filter(libc, in_container=True)

    def spawn(self) -> int:
        """Fork into new namespaces; returns the child's pid, 0 in the child."""
        # A network of its own costs a third of an execution. Without, ports in use and the interface's counters would
        # tell one submission what another did.
        flags = _CLONE_NEWPID | _CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWNET | signal.SIGCHLD
        number = _CLONE_SYSCALL[platform.machine()]
        ctypes.pythonapi.PyOS_BeforeFork()
        pid = libc.syscall(ctypes.c_long(number), ctypes.c_ulong(flags), None, None, None, None)
        if pid == 0:
            ctypes.pythonapi.PyOS_AfterFork_Child()
        else:
            ctypes.pythonapi.PyOS_AfterFork_Parent()
        return check("clone into new namespaces", pid)

    def confine(self) -> None:
        """Private file systems, limits, then give up every privilege, in the order this needs."""
        limits = self._limits
        start_loopback()
        go_first()
        os.setsid()  # else kill(0) reaches the zygote through the shared process group
        size = f"size={limits['file_mb']}m,nr_inodes={limits['files']},mode=1777"
        _mount(b"tmpfs", "/tmp", b"tmpfs", _MS_NOSUID | _MS_NODEV, size)
        _mount(b"tmpfs", "/dev/shm", b"tmpfs", _MS_NOSUID | _MS_NODEV, size)
        _mount(None, "/dev", None, _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID)
        _mount(b"proc", "/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        os.chdir("/tmp")
        own_processes = self._OWN_PROCESSES
        if self._uid is not None:
            become(self._uid)
            own_processes = 0
        # One second beyond what the zygote allows: the kernel counts whole ticks and, on a busy machine, is 10 % early.
        set_limits({**limits, "cpu_s": limits["cpu_s"] + 1, "processes": limits["processes"] + own_processes})
        header, nothing = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
        check("drop capabilities", libc.capset(header, nothing))

    def members(self) -> Iterator[int]:
        """Processes of the execution."""
        return (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid()))

    def kill(self, pid: int) -> None:
        """Kill the execution: PID 1 takes the others with it."""
        os.kill(pid, signal.SIGKILL)

    def end(self, pid: int) -> tuple[int, float]:
        """Kill the execution, wait until all of it is dead; returns its exit status and CPU seconds."""
        self.kill(pid)
        _, status, used = os.wait4(pid, 0)
        return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime

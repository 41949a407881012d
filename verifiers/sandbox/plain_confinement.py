"""Runs inside the two weak rungs: how a zygote without a container makes and ends executions; see `confinement.py`."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping

from verifiers.sandbox.confinement import become, check, drop_for_good, go_first, libc, no_new_privileges
from verifiers.sandbox.seccomp import install_filter
from verifiers.sandbox.worker import set_limits

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")
_HIGHEST_UID = 2_000_000_000


class ProcessGroup:
    """Without any container: a fork in a session and a folder of its own."""

    _uid: int | None = None

    def __init__(self, limits: Mapping[str, float], uid: int | None):
        self._limits, self._folder = dict(limits), ""
        self._linux = sys.platform == "linux"

    def prepare(self) -> None:
        """What every fork inherits."""
        if self._linux:
            # Processes that leave their parent become children of the zygote, which can then find and kill them.
            check("becoming the subreaper", libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
            no_new_privileges()
            install_filter(libc, in_container=False)
        else:
            del self._limits["memory_mb"]  # macOS refuses RLIMIT_AS

    def spawn(self) -> int:
        """Fork; returns the child's pid, 0 in the child."""
        self._folder = tempfile.mkdtemp(prefix="submission-")
        if self._uid is not None:
            os.chown(self._folder, self._uid, self._uid)
        return os.fork()

    def confine(self) -> None:
        """A session, folder, and limits of its own."""
        os.setsid()
        os.chdir(self._folder)
        os.environ["HOME"] = os.environ["TMPDIR"] = self._folder
        tempfile.tempdir = None
        limits = self._limits
        if self._linux:
            go_first()
            drop_for_good()  # not in `prepare`: the zygote's `rm` below may need its rights
        if self._uid is None:
            limits.pop("processes")  # counted per user over the whole machine: an account is above it already
        else:
            become(self._uid)
        if self._linux:
            check("dying with the zygote", libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        set_limits({**limits, "cpu_s": limits["cpu_s"] + 1})

    def members(self) -> Iterator[int]:
        """Descendants of the zygote; none where the kernel does not list them."""
        found = [os.getpid()]
        for pid in found:
            with contextlib.suppress(OSError):  # it has just ended
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/children") as file:
                        found += map(int, file.read().split())
        return iter(found[1:])

    def kill(self, pid: int) -> None:
        """Kill the execution: its group, then whoever left that."""
        os.kill(pid, signal.SIGKILL)  # it may not have a group yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        self._kill_the_rest()

    def end(self, pid: int) -> tuple[int, float]:
        """Kill the execution, wait until all of it is dead, delete its folder; exit status and CPU seconds."""
        self.kill(pid)
        exit_status, cpu_s = 0, 0.0
        while True:
            try:
                ended, status, used = os.wait4(-1, 0)
            except ChildProcessError:
                break
            if ended == pid:
                exit_status = os.waitstatus_to_exitcode(status)
            cpu_s += used.ru_utime + used.ru_stime
            if self._uid is None:
                self._kill_the_rest()  # its children are ours now
        _delete(self._folder)
        return exit_status, cpu_s

    def _kill_the_rest(self) -> None:
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class SeparateUser(ProcessGroup):
    """Under root: as `ProcessGroup`, and every worker's submissions run as a user that nobody else is."""

    _uid: int

    def __init__(self, limits: Mapping[str, float], uid: int | None):
        super().__init__(limits, uid)
        self._uid = _unused_uid()

    def end(self, pid: int) -> tuple[int, float]:
        """As above; also deletes what the user left in the folders that all users share."""
        report = super().end(pid)
        for shared in _SHARED_FOLDERS:
            with contextlib.suppress(OSError):
                for entry in os.scandir(shared):
                    if entry.stat(follow_symlinks=False).st_uid == self._uid:
                        _delete(entry.path)
        return report

    def _kill_the_rest(self) -> None:
        """Every process of the user at once, so that none can escape by forking.

        The process that does it becomes that user, too, and may be stopped or killed by its victims first.
        """
        uid = self._uid
        while True:
            killer = os.fork()
            if killer == 0:
                try:
                    become(uid)
                    if uid < 1 or os.getresuid() != (uid, uid, uid):  # as root this would kill the whole machine
                        os._exit(1)
                    os.kill(-1, signal.SIGKILL)
                    os._exit(0)
                except BaseException:
                    os._exit(1)
            _, status = os.waitpid(killer, os.WUNTRACED)
            if os.WIFEXITED(status):
                if status:
                    raise OSError("killing the processes of the submission's user failed")
                return
            if os.WIFSTOPPED(status):
                os.kill(killer, signal.SIGKILL)
                os.waitpid(killer, 0)


def _unused_uid() -> int:
    """A user id without account and processes, as high as this user namespace has them, different for each zygote."""
    with open("/proc/self/uid_map") as file:
        ranges = [tuple(map(int, line.split())) for line in file]
    top = min(max(first + length for first, _, length in ranges), _HIGHEST_UID)
    used = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has just ended
            used.add(os.stat(f"/proc/{name}").st_uid)
    for uid in range(top - 2 - os.getpid() % (top // 2 + 1), 0, -1):
        if uid not in used and not _has_account(uid):
            return uid
    raise OSError("finding an unused user id: this user namespace has none")


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _delete(path: str) -> None:
    try:
        os.unlink(path)
        return
    except OSError:
        pass  # it is a folder
    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):  # folders in folders, a thousand deep, are too much for Python
        os.waitpid(os.posix_spawnp("rm", ["rm", "-rf", "--", path], os.environ), 0)

"""Builds a container without bubblewrap: `python launch_namespaces.py JSON`, run by `namespaces.py`.

JSON holds the fields of `container.Container`, `environment`, `uids` (inside, outside) of the second user, and
`control_fd`. This process makes the namespaces, then waits for the one inside, which becomes the zygote; each dies with
its parent. A step that fails is the last line on standard error. Needs Linux 5.12 (mount_setattr).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

_CLONE_NEWUSER = 0x10000000
# Mount, cgroup, UTS, IPC, PID and network namespaces.
_OTHER_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 8, 32, 4096
_MS_REC, _MS_PRIVATE, _MNT_DETACH = 16384, 1 << 18, 2
_MOUNT_SETATTR_SYSCALL, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_PR_SET_PDEATHSIG = 1
_DEVICES = ("null", "zero", "full", "random", "urandom")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}

_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def _step(name: str) -> Iterator[None]:
    """Ends the launcher with the name of the step and the error, if there is one."""
    try:
        yield
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "no errno")
        sys.exit(f"{name}: {code} ({os.strerror(error.errno or 0)})")


def _check(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    with _step(f"mount {target}"):
        _check(_libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None))


def _die_with_parent(parent: int) -> None:
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if os.getppid() not in (0, parent):  # 0: the parent is outside of this PID namespace
        os._exit(1)


def _make_user_namespace(uids: tuple[int, int] | None) -> None:
    """Become root of a user namespace. A process that stays outside writes the maps: it alone may map a second user."""
    launcher, uid, gid = os.getpid(), os.geteuid(), os.getegid()
    made, made_theirs = os.pipe()
    writer = os.fork()
    if writer == 0:
        os.close(made_theirs)
        if not os.read(made, 1):
            os._exit(1)  # there is no namespace to map
        second = f"{uids[0]} {uids[1]} 1\n" if uids else ""
        with _step("mapping users into the user namespace"):
            if not uids:
                _write(f"/proc/{launcher}/setgroups", "deny")
            _write(f"/proc/{launcher}/gid_map", f"0 {gid} 1\n{second}")
            _write(f"/proc/{launcher}/uid_map", f"0 {uid} 1\n{second}")
        os._exit(0)
    os.close(made)
    with _step("creating a user namespace"):
        _check(_libc.unshare(_CLONE_NEWUSER))
    os.write(made_theirs, b"1")
    if os.waitpid(writer, 0)[1] != 0:
        sys.exit()  # it has said why


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY)
    os.write(file, text.encode())  # at once, as the kernel wants it
    os.close(file)


def _build_root(mounts: list[tuple[str, str]], covered: list[str], links: list[tuple[str, str]]) -> None:
    """A new root from nothing but what is listed; the old one is gone afterwards."""
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    _mount("tmpfs", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    os.mkdir("/tmp/old")
    with _step("pivot_root"):
        _check(_libc.pivot_root(b"/tmp", b"/tmp/old"))
    os.chdir("/")
    for folder in ("proc", "dev", "tmp"):
        os.mkdir(folder)
    for source, target in mounts:
        _bind(f"/old{source}", target)
        _make_read_only(target)
    for path in covered:
        _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_RDONLY, "mode=755")
    for link_target, path in links:
        os.symlink(link_target, path)
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _mount("tmpfs", "/dev", "tmpfs", _MS_NOSUID, "mode=755")
    for device in _DEVICES:
        _bind(f"/old/dev/{device}", f"/dev/{device}")
    for name, link_target in _DEVICE_LINKS.items():
        os.symlink(link_target, f"/dev/{name}")
    os.mkdir("/dev/shm")
    with _step("unmounting the old root"):
        _check(_libc.umount2(b"/old", _MNT_DETACH))
    os.rmdir("/old")
    _mount(None, "/", None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)
    os.chdir("/tmp")


def _bind(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    _mount(source, target, None, _MS_BIND | _MS_REC)


def _make_read_only(target: str) -> None:
    """The mount and all below it: MOUNT_ATTR_* have the values of MS_RDONLY, MS_NOSUID and MS_NODEV."""
    attributes = struct.pack("4Q", _MS_RDONLY | _MS_NOSUID | _MS_NODEV, 0, 0, 0)
    number, flags = ctypes.c_long(_MOUNT_SETATTR_SYSCALL), ctypes.c_uint(_AT_RECURSIVE)
    with _step(f"making {target} read-only"):
        _check(_libc.syscall(number, _AT_FDCWD, target.encode(), flags, attributes, ctypes.c_size_t(len(attributes))))


def main(plan: dict[str, Any]) -> NoReturn:
    """Build the container and wait until it has ended."""
    parent = os.getppid()
    os.umask(0o022)
    _make_user_namespace(plan["uids"] if plan["second_user"] else None)
    with _step("creating mount, PID, IPC, UTS, network and cgroup namespaces"):
        _check(_libc.unshare(_OTHER_NAMESPACES))
    with _step("dying with the trainer"):
        _die_with_parent(parent)
    with _step("forking into the PID namespace"):
        inside = os.fork()
    if inside:
        os.close(plan["control_fd"])
        sys.exit(1 if os.waitpid(inside, 0)[1] else 0)
    with _step("dying with the launcher"):
        _die_with_parent(0)
    with _step("building the container"):
        os.setsid()
        socket.sethostname("sandbox")
        _build_root(plan["mounts"], plan["covered"], plan["links"])
        os.set_inheritable(plan["control_fd"], True)
        os.execve(plan["command"][0], plan["command"], plan["environment"])
    raise AssertionError("execve does not return")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

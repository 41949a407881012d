"""Between the trainer and a launcher while it starts: `python guard.py COMMAND...`, standard input from the trainer.

A launcher is killed by the kernel when the trainer dies, but in its first milliseconds it has not asked for that yet,
or has a child that has not. So this process starts it in its own process group and kills the group if standard input
ends before the trainer has written a line. Afterwards it waits for the launcher's end.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Start the command, guard it, and end as it does."""
    launcher = os.fork()
    if launcher == 0:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        try:
            os.execve(sys.argv[1], sys.argv[1:], os.environ)
        except OSError as error:
            os.write(2, f"starting it: {error.strerror}: {sys.argv[1]}\n".encode())
            os._exit(127)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the end of the launcher must be the end of its streams
    ended = os.pidfd_open(launcher)
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(ended, select.POLLIN)
    ready = {descriptor for descriptor, _ in poller.poll()}
    if 0 in ready and not os.read(0, 16):
        os.killpg(0, signal.SIGKILL)
    # From now on the launcher dies with this process, and this one with the trainer.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(launcher, 0)[1]) & 255)


if __name__ == "__main__":
    main()

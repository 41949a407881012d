from __future__ import annotations

import errno
import platform
from typing import Any

import pytest

from verifiers import Limits
from verifiers.sandbox.pool import shared_pool
from verifiers.sandbox.seccomp import _MACHINES, REFUSED, REFUSED_ON_X86, build_filter

pytestmark = pytest.mark.skipif(build_filter(False) is None, reason="no filter on this machine")
RUNGS = ["bubblewrap", "namespaces", "process"]
COLUMN = _MACHINES.get(platform.machine(), (0, 0))[1]
NUMBERS = {name: numbers[COLUMN] for name, numbers in REFUSED.items()} | (REFUSED_ON_X86 if COLUMN == 0 else {})


def call(source: str, sandbox: str) -> Any:
    """What `f()` returns."""
    pool = shared_pool(Limits(cpu_s=1), sandbox, 1)
    return pool.run(lambda execution: (execution.load(source, "f"), execution.ask("call", "f")))[1].value


@pytest.mark.parametrize("sandbox", RUNGS)
def test_refused_system_calls_are_refused(sandbox: str):
    source = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def f():
    seen = {{}}
    for name, number in {NUMBERS!r}.items():
        result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6)
        seen[name] = result, ctypes.get_errno()
    return seen
"""
    seen = call(source, sandbox)
    if sandbox != "process":  # the zygote of a container mounts; a submission lacks the right, see test_containment.py
        assert seen.pop("mount")[0] == -1
    assert seen == dict.fromkeys(seen, (-1, errno.EPERM))
    assert len(seen) > 50


@pytest.mark.parametrize("sandbox", RUNGS)
def test_what_programs_need_still_works(sandbox: str):
    source = """
import mmap, multiprocessing, os, socket, subprocess, tempfile, threading
def f():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    with tempfile.TemporaryFile() as file, mmap.mmap(-1, 4096), socket.socketpair()[0], socket.socket(), \\
            multiprocessing.Lock(), socket.socket(socket.AF_INET6):
        file.write(b"x")
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), subprocess.run(["/usr/bin/true"]).returncode
"""
    assert call(source, sandbox) == (7, 0)


@pytest.mark.parametrize("sandbox", RUNGS)
def test_namespaces_odd_sockets_and_clone3_are_refused(sandbox: str):
    clone = {"x86_64": 56}.get(platform.machine(), 220)
    source = f"""
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
def errno_of(*arguments):
    assert libc.syscall(*[ctypes.c_long(argument) for argument in arguments]) == -1
    return ctypes.get_errno()
def f():
    seen = [errno_of({clone}, flag | 17, 0, 0, 0, 0) for flag in (0x10000000, 0x40000000, 0x00020000)]
    seen.append(errno_of(435, 0, 0))
    for family in (40, 38, 17):  # VSOCK, ALG, PACKET
        try: socket.socket(family, socket.SOCK_STREAM)
        except OSError as error: seen.append(error.errno)
    return seen
"""
    *namespaces, clone3, vsock, alg, packet = call(source, sandbox)
    # In a container: no user namespace may be made, and for the others the right is missing.
    assert namespaces == [errno.EPERM if sandbox == "process" else errno.ENOSPC, errno.EPERM, errno.EPERM]
    assert (clone3, vsock, alg, packet) == (errno.ENOSYS, errno.EPERM, errno.EPERM, errno.EPERM)

"""A right answer that is right only in a world where no earlier answer has left a trace."""

from __future__ import annotations

import os

from tests.hostile.program import MARK, syscall

LOOK = f"""
import ctypes, os, resource, signal, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
MARK = {MARK!r}
found = []
def note(what, condition):
    if condition: found.append(what)
def lines(path):
    try:
        with open(path) as file: return file.read().splitlines()
    except OSError: return []
note('files', os.listdir('.') or os.path.isdir('/dev/shm') and os.listdir('/dev/shm'))
note('queues and segments', any(len(lines('/proc/sysvipc/' + name)) > 1 for name in ('shm', 'sem', 'msg')))
note('message queue', libc.mq_open(('/' + MARK).encode(), 0) >= 0)
note('sockets', any(MARK in line for line in lines('/proc/net/unix')))
note('keys', any(MARK in line for line in lines('/proc/keys')))
note('key', {syscall(249, 218, "b'user'", "MARK.encode()", "None", "0")} >= 0)
note('connections', any(len(lines('/proc/net/' + name)) > 1 for name in ('tcp', 'tcp6', 'udp')))
note('network settings', '99' in lines('/proc/sys/net/ipv4/ip_default_ttl') + lines('/proc/sys/net/core/somaxconn'))
note('host name', 'passed' in socket.gethostname())
note('environment', any(MARK in name or name in ('PYTHONPATH', 'LD_PRELOAD') for name in os.environ))
note('niceness', os.nice(0) > {os.nice(0)})
note('umask', os.umask(0o22) == 0o777)
note('limits', resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 16 or resource.getrlimit(resource.RLIMIT_FSIZE)[0] == 0)
note('blocked signals', signal.pthread_sigmask(signal.SIG_BLOCK, []))
note('timer', signal.getitimer(signal.ITIMER_REAL)[0])
note('trace function', sys.gettrace() or sys.getprofile())
note('builtins', len([1]) != 1 or not isinstance(1, int) or 1 + 2 != 3)
note('modules', 'solution' not in sys.modules or hasattr(sys.modules['solution'], 'expected'))
note('processes', os.getpid() == 1 and len([name for name in os.listdir('/proc') if name.isdigit()]) > 1)
def add(a, b):
    return ', '.join(found) or a + b
"""

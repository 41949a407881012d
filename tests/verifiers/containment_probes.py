# ruff: noqa: E501 - programs read better on one line
"""Programs that report what a submission can see and do; the value they return is the result of the probe.

As a script, prints all results as JSON: `python containment_probes.py RUNG` (used to repeat the probes as another user).
"""

from __future__ import annotations

import json
import sys
from typing import Any

from verifiers.sandbox.limits import Limits
from verifiers.sandbox.pool import shared_pool

LIMITS = Limits(cpu_s=1, memory_mb=128, processes=8, file_mb=4, files=100)

PROBES: dict[str, str] = {
    "processes": "return [int(n) for n in os.listdir('/proc') if n.isdigit()]",
    "descriptors": "return sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1]  # the last one is the listing's",
    "environment": "return sorted(os.environ)",
    "top_folders": "return sorted(os.listdir('/'))",
    "scratch": "return os.listdir('/tmp') + os.listdir('/dev/shm') + [os.getcwd()]",
    "capabilities": (
        "lines = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines())\n"
        "return [lines[k] for k in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs')]"
    ),
    "kernel_uid": "return [int(line.split()[1]) for line in open('/proc/self/uid_map')] + [os.getuid()]",
    "network": "import socket\nreturn [name for _, name in socket.if_nameindex()]",
    "new_namespaces": (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "return [libc.unshare(f) for f in (0x10000000, 0x20000000, 0x00020000, 0x40000000)]"
    ),
    "mount": "import ctypes\nreturn ctypes.CDLL(None).mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None)",
    "writable": (
        "found = []\nfor d in ('/', '/judge', '/py', '/usr', '/dev', '/proc/sys/kernel', '/tmp', '/dev/shm'):\n"
        "    try:\n        open(d + '/x', 'w').close()\n        found.append(d)\n    except OSError: pass\nreturn found"
    ),
    "sysctl": "return os.access('/proc/sys/user/max_user_namespaces', os.W_OK)",
    "signals": (
        "found = []\nfor pid in (0, -1, os.getppid(), 2, 3):\n    try:\n        os.kill(pid, 0)\n        found.append(pid)\n"
        "    except OSError: pass\nreturn found"
    ),
    "forks": (
        "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\ncount = 0\nwhile count < 200:\n"
        "    try: pid = os.fork()\n    except OSError: return count\n"
        "    if pid == 0: signal.pause()\n    count += 1\nreturn count"
    ),
    "threads": (
        "import threading\nstop, count = threading.Event(), 0\ntry:\n    while count < 200:\n"
        "        threading.Thread(target=stop.wait, daemon=True).start()\n        count += 1\nexcept RuntimeError: pass\n"
        "stop.set()\nreturn count"
    ),
    "memory": (
        "blocks = []\ntry:\n    while len(blocks) < 1000: blocks.append(bytearray(1 << 20))\n"
        "except MemoryError: pass\nreturn len(blocks)"
    ),
    "disk": (
        "written = 0\ntry:\n    for i in range(50):\n        with open(f'/tmp/{i}', 'wb') as f:\n"
        "            for _ in range(2): written += f.write(bytes(1 << 20))\nexcept OSError: pass\nreturn written >> 20"
    ),
    "largest_file": (
        "written = 0\ntry:\n    with open('/dev/shm/big', 'wb', 0) as f:\n"
        "        while written < 1 << 30: written += f.write(bytes(1 << 20))\nexcept OSError: pass\nreturn written >> 20"
    ),
    "inodes": (
        "count = 0\ntry:\n    while count < 5000:\n        os.mkdir(f'/tmp/{count}')\n        count += 1\n"
        "except OSError: pass\nreturn count"
    ),
    "opened": (
        "files = []\ntry:\n    while len(files) < 500: files.append(os.open('/dev/null', 0))\nexcept OSError: pass\n"
        "count = len(files)\nfor f in files: os.close(f)\nreturn count"
    ),
}


def run_probe(name: str, sandbox: str = "auto") -> Any:
    """The probe's value, or the kind of its failure."""
    body = "".join(f"    {line}\n" for line in PROBES[name].splitlines())

    def job(execution):
        loaded = execution.load(f"import os\ndef probe():\n{body}", "probe")
        reply = execution.ask("call", "probe") if loaded.kind == "loaded" else loaded
        return reply.value if reply.kind == "value" else f"{reply.kind}: {reply.value}"

    return shared_pool(LIMITS, sandbox, workers=1).run(job)


if __name__ == "__main__":
    json.dump({name: run_probe(name, sys.argv[1]) for name in PROBES}, sys.stdout)

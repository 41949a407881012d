# ruff: noqa: E501 - programs read better on one line
"""Taking all there is: memory, processes, threads, files, inodes, output, descriptors, CPU time of children."""

from __future__ import annotations

from tests.hostile.program import END_OF_THREAD, at_import, attack, collect, in_call

# fmt: off

PROGRAMS = collect(
    "bombs",
    ("six_gigabytes", "memory", "def add(a, b): return len(bytearray(6 << 30))"),
    ("six_gigabytes_at_import", "memory", at_import("x = bytearray(6 << 30)")),
    ("growing_list", "memory", "def add(a, b):\n    x = []\n    while True: x.append(bytearray(1 << 20))"),
    ("growing_text", "memory", "def add(a, b):\n    x = 'x'\n    while True: x += x"),
    ("list_of_all_numbers", "memory", "def add(a, b): return list(range(10**12))"),
    ("catch_memory_error_and_go_on", "timeout memory", "x = []\ndef add(a, b):\n    while True:\n        try: x.append(bytearray(1 << 20))\n        except MemoryError: pass"),
    ("mapped_memory", "exception memory", "import mmap\ndef add(a, b): return len(mmap.mmap(-1, 6 << 30))"),
    ("unpacked_zeros", "memory", "import zlib\ndef add(a, b):\n    c = zlib.compressobj(9)\n    x = b''.join([*(c.compress(bytes(1 << 20)) for _ in range(40)), c.flush()])\n    return len(b''.join([zlib.decompress(x)] * 99))"),
    ("memory_file", "exception", "import os\ndef add(a, b):\n    fd = os.memfd_create('x')\n    while True: os.write(fd, bytes(1 << 20))"),
    ("memory_in_children", "memory", in_call("for _ in range(7):\n    if os.fork() == 0:\n        x = bytearray(b'x') * (300 << 20)\n        import time\n        time.sleep(1000)\nimport time\ntime.sleep(1000)")),
    ("memory_of_processes_without_main_thread", "memory", in_call(f"""
import ctypes, threading, time
libc = ctypes.CDLL(None)
r, w = os.pipe()
def hold():
    time.sleep(0.1)  # the main thread has ended by then
    x = bytearray(b'x') * (100 << 20)
    os.write(w, b'1')
    time.sleep(1000)
for _ in range(5):
    if os.fork() == 0:
        threading.Thread(target=hold).start()
        {END_OF_THREAD}
os.close(w)
for _ in range(5): os.read(r, 1)
time.sleep(0.5)
""")),
    ("time_of_children_that_nobody_waits_for", "timeout exception", in_call("""
import signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(40):
    r, w = os.pipe()
    if os.fork() == 0:
        end = time.process_time() + 0.03
        while time.process_time() < end: pass
        os.write(w, b'1')
        os._exit(0)
    os.close(w)
    os.read(r, 1)
    os.close(r)
""")),
    ("threads", "exception", "import threading\nstop = threading.Event()\ndef add(a, b):\n    while True: threading.Thread(target=stop.wait, daemon=True).start()"),
    ("exec_bomb", "died timeout", "import os, sys\ndef add(a, b):\n    if os.environ.get('N') != '99':\n        os.environ['N'] = '99'\n        os.execv('/usr/bin/env', ['env', 'sh', '-c', ':'])"),
    ("shell_fork_bomb", "timeout wrong exception died", "import subprocess\ndef add(a, b): return subprocess.run(['/usr/bin/env', 'sh', '-c', 'f() { f | f; }; f']).returncode + 7"),
    ("fill_the_disk", "exception", "def add(a, b):\n    i = 0\n    while True:\n        with open(f'/tmp/{i}', 'wb') as f: f.write(bytes(1 << 20))\n        i += 1"),
    ("one_huge_file", "exception", "def add(a, b):\n    with open('/tmp/x', 'wb', 0) as f:\n        while True: f.write(bytes(1 << 20))"),
    ("sparse_file", "exception", "def add(a, b):\n    with open('/tmp/x', 'wb') as f: f.truncate(1 << 40)"),
    ("shared_memory_folder", "exception", "def add(a, b):\n    i = 0\n    while True:\n        with open(f'/dev/shm/{i}', 'wb') as f: f.write(bytes(1 << 20))\n        i += 1"),
    ("inodes", "exception", "import os\ndef add(a, b):\n    i = 0\n    while True:\n        os.mkdir(f'/tmp/{i}')\n        i += 1"),
    ("hard_links", "exception", "import os\ndef add(a, b):\n    open('/tmp/x', 'w').close()\n    i = 0\n    while True:\n        os.link('/tmp/x', f'/tmp/{i}')\n        i += 1"),
    ("output", "wrong", in_call("for _ in range(300): os.write(1, b'x' * (1 << 20))")),
    ("errors", "wrong", in_call("for _ in range(100): sys.stderr.write('x' * (1 << 20))")),
    ("descriptors", "exception", "import os\ndef add(a, b):\n    while True: os.open('/dev/null', 0)"),
    ("pipes_full_of_data", "exception", "import os\ndef add(a, b):\n    while True:\n        r, w = os.pipe()\n        os.set_blocking(w, False)\n        try:\n            while True: os.write(w, bytes(4096))\n        except BlockingIOError: pass"),
    ("sockets_full_of_data", "exception", "import socket\nheld = []\ndef add(a, b):\n    while True:\n        held.append(socket.socketpair())\n        held[-1][0].setblocking(False)\n        try:\n            while True: held[-1][0].send(bytes(4096))\n        except BlockingIOError: pass"),
    ("many_timers", "wrong exception", in_call("import threading\ntry:\n    for _ in range(999): threading.Timer(1000, abs).start()\nexcept RuntimeError: pass")),
    ("system_v_memory_without_end", "wrong memory", attack("""
libc.shmat.restype = ctypes.c_void_p
libc.shmat.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
libc.shmdt.argtypes = (ctypes.c_void_p,)
for _ in range(20):
    segment = libc.shmget(0, ctypes.c_size_t(16 << 20), 0o1600)
    address = libc.shmat(segment, None, 0)
    if address in (None, 2**64 - 1): return False
    ctypes.memset(address, 1, 16 << 20)
    libc.shmdt(address)  # no longer part of any process, and still there
import time
time.sleep(0.2)
return True
""")),
    ("message_queues", "wrong", in_call("import ctypes\nlibc = ctypes.CDLL(None)\nfor i in range(99): libc.mq_open(b'/%d' % i, 66, 0o666, None)")),
    ("zombie_bomb", "exception", "import os\ndef add(a, b):\n    while True:\n        if os.fork() == 0: os._exit(0)"),
    ("epoll_bomb", "exception", "import select\nheld = []\ndef add(a, b):\n    while True:\n        held.append(select.epoll())\n        for other in held[:-1]: held[-1].register(other)"),
    ("fork_bomb", "timeout", "import os\ndef add(a, b):\n    while True:\n        try: os.fork()\n        except OSError: pass"),
    ("fork_bomb_at_import", "timeout", "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"),
    ("fork_bomb_of_threads", "timeout exception", "import os, threading\ndef go():\n    while True:\n        try: os.fork()\n        except OSError: pass\ndef add(a, b):\n    for _ in range(4): threading.Thread(target=go, daemon=True).start()\n    go()"),
    harmful=True,
)

# ruff: noqa: E501 - programs read better on one line
"""Not ending: programs that use CPU time, and programs that only wait."""

from __future__ import annotations

from tests.hostile.program import END_OF_THREAD, at_import, collect, in_call, with_channel

# fmt: off

PROGRAMS = collect(
    "hanging",
    ("endless_loop", "timeout", "def add(a, b):\n    while True: pass"),
    ("endless_import", "timeout", "while True: pass"),
    ("endless_second_call", "timeout", "calls = []\ndef add(a, b):\n    calls.append(a)\n    while len(calls) > 1: pass\n    return a + b"),
    ("loop_in_c", "timeout", "import collections, itertools\ndef add(a, b): collections.deque(itertools.repeat(0), maxlen=0)"),
    ("huge_sum", "timeout", "def add(a, b): return sum(range(10**15))"),
    ("slow_regexp", "timeout", "import re\ndef add(a, b): return re.match('(a+)+$', 'a' * 64 + 'b')"),
    ("slow_regexp_at_import", "timeout", "import re\nre.match('(?:(?:x*)*)*y', 'x' * 64)\ndef add(a, b): return a + b"),
    ("huge_power", "timeout memory", "def add(a, b): return 7 ** 10 ** 8"),
    ("hash_flooding", "timeout", "def add(a, b): return len({i * (2**61 - 1) for i in range(10**6)})"),
    ("catch_everything", "timeout", "def add(a, b):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass"),
    ("loop_in_finally", "timeout", "def add(a, b):\n    try: return a + b\n    finally:\n        while True: pass"),
    ("loop_in_destructor", "timeout", "class E:\n    def __del__(self):\n        while True: pass\ndef add(a, b):\n    E()\n    return a + b"),
    ("loop_in_property", "timeout", "class E:\n    @property\n    def value(self):\n        while True: pass\ndef add(a, b): return E().value"),
    ("raise_own_limit", "timeout", in_call("import resource\ntry: resource.setrlimit(resource.RLIMIT_CPU, (99, 99))\nexcept (OSError, ValueError): pass\nwhile True: pass")),
    ("ignore_signals", "timeout", at_import("""
import signal
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
""", "def add(a, b):\n    while True: pass")),
    ("return_when_the_alarm_comes", "timeout", at_import("""
import signal
class Alarm(BaseException): pass
def handler(*a): raise Alarm
for s in (signal.SIGALRM, signal.SIGXCPU, signal.SIGTERM, signal.SIGVTALRM, signal.SIGPROF): signal.signal(s, handler)
""", "def add(a, b):\n    try:\n        while True: pass\n    except BaseException: return a + b")),
    ("spinning_children", "timeout", in_call("for _ in range(3):\n    if os.fork() == 0:\n        while True: pass\nos.wait()")),
    ("spinning_thread", "timeout", "import threading, time\ndef spin():\n    while True: pass\ndef add(a, b):\n    threading.Thread(target=spin).start()\n    time.sleep(1000)"),
    ("spinning_grandchild", "timeout", in_call("if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        while True: pass\n    os._exit(0)\nimport time\ntime.sleep(1000)")),
    ("main_thread_ends_and_another_spins", "timeout", f"import ctypes, os, threading\ndef spin():\n    while True: pass\nlibc = ctypes.CDLL(None)\ndef add(a, b):\n    threading.Thread(target=spin, daemon=True).start()\n    {END_OF_THREAD}"),
    ("half_a_frame_and_a_loop", "timeout", with_channel("def add(a, b):\n    os.write(results, b'\\0\\0\\0\\x20' + encode(('value', 3)))\n    while True: pass")),
    ("seccomp_swallows_writes", "timeout", in_call("""
import ctypes, struct
write = 1 if os.uname().machine == 'x86_64' else 64
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, write), (6, 0, 0, 0x00050000), (6, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
ctypes.CDLL(None).prctl(22, 2, struct.pack('HxxxxxxP', len(steps), ctypes.addressof(code)), 0, 0)
""")),
    ("drop_by_drop", "timeout", with_channel("""
def add(a, b):
    data = encode(('value', 'x' * 200_000))
    data = len(data).to_bytes(4, 'big') + data
    for i in range(len(data)):
        os.write(results, data[i : i + 1])
        for _ in range(10_000): pass
""")),
    ("trace_function_loops", "timeout", "import sys\ndef trace(*a):\n    while True: pass\ndef add(a, b):\n    sys.settrace(trace)\n    return abs(a + b)"),
    ("quadratic_text", "timeout", "def add(a, b):\n    text = 'x' * 400_000\n    while True: text.find('x' * 200_000 + 'y')"),
    ("looping_hash", "timeout", "class E:\n    def __hash__(self):\n        while True: pass\ndef add(a, b): return {E(): 1}"),
)

PROGRAMS += collect(
    "hanging",
    ("sleep", "timeout", "import time\ndef add(a, b): time.sleep(1000)"),
    ("sleep_at_import", "timeout", "import time\ntime.sleep(1000)"),
    ("deadlock", "timeout", "import threading\ndef add(a, b):\n    lock = threading.Lock()\n    lock.acquire()\n    lock.acquire()"),
    ("wait_for_a_signal", "timeout", "import signal\ndef add(a, b): signal.pause()"),
    ("block_signals_and_sleep", "timeout", "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\ndef add(a, b): time.sleep(1000)"),
    ("open_a_named_pipe", "timeout", "import os\ndef add(a, b):\n    os.mkfifo('/tmp/x')\n    open('/tmp/x')"),
    ("read_the_next_request", "timeout", "import os\ndef add(a, b): return os.read(3, 4)"),
    ("wait_for_a_sleeping_child", "timeout", "import os, time\ndef add(a, b):\n    if os.fork() == 0: time.sleep(1000)\n    os.wait()"),
    ("accept_a_connection", "timeout", "import socket\ndef add(a, b): return socket.create_server(('127.0.0.1', 0)).accept()"),
    ("endless_coroutine", "timeout", "import asyncio\nasync def wait():\n    await asyncio.Event().wait()\ndef add(a, b): return asyncio.run(wait())"),
    ("main_thread_ends", "timeout", f"import ctypes, os, threading, time\nlibc = ctypes.CDLL(None)\ndef add(a, b):\n    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n    {END_OF_THREAD}"),
    ("child_freezes_the_judge", "timeout wrong", "import ctypes, os, time\ndef add(a, b):\n    pid = os.getpid()\n    if os.fork() == 0:\n        ctypes.CDLL(None).ptrace(16, pid, 0, 0)\n        time.sleep(1000)\n    time.sleep(0.3)\n    return 7"),
    ("half_a_frame", "timeout", with_channel("import time\ndef add(a, b):\n    os.write(results, b'\\0\\0\\1\\0' + encode(('value', 3)))\n    time.sleep(1000)")),
    ("fork_and_nobody_answers", "timeout", "import os, time\ndef add(a, b):\n    if os.fork() == 0: time.sleep(1000)\n    time.sleep(1000)"),
    ("join_an_endless_thread", "timeout", "import threading\nstop = threading.Event()\nt = threading.Thread(target=stop.wait)\nt.start()\ndef add(a, b): t.join()"),
    waits=True,
)

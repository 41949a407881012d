# ruff: noqa: E501 - programs read better on one line
"""Answers to "write add(a, b)" that are hostile, broken or odd, and the kinds of verdict each may get.

WRONG_BODY returns something else than the sum, so that a program which stays alive is plainly wrong.
"""

from __future__ import annotations

WRONG_BODY = "\ndef add(a, b):\n    return a - b - 1\n"
_RIGHT = "\ndef add(a, b):\n    return a + b\n"


def _in_call(statement: str) -> str:
    lines = "".join(f"    {line}\n" for line in statement.splitlines())
    return f"import os, sys\ndef add(a, b):\n{lines}    return a - b - 1\n"


def _with_wrong(text: str) -> str:
    return text + WRONG_BODY


HOSTILE: dict[str, tuple[str, str]] = {
    # Ending the process before it can fail
    "sys_exit_at_import": ("import sys; sys.exit(0)", "load"),
    "os_exit_at_import": ("import os; os._exit(0)", "died"),
    "os_exit_in_call": (_in_call("os._exit(0)"), "died"),
    "system_exit_in_call": (_in_call("raise SystemExit(0)"), "exception"),
    "exec_true": (_in_call("os.execv('/usr/bin/true', ['true'])"), "died"),
    "libc_exit": (_in_call("import ctypes\nctypes.CDLL(None)._exit(0)"), "died"),
    "print_passed_and_exit": (_in_call("os.write(1, b'4 passed in 0.01s\\nOK\\n')\nos._exit(0)"), "died"),
    "print_passed": (_with_wrong("print('PASSED test_add\\n4 passed')"), "wrong"),
    "atexit_exit": (_with_wrong("import atexit, os\natexit.register(os._exit, 0)"), "wrong"),
    "excepthook_exit": (_with_wrong("import os, sys\nsys.excepthook = lambda *e: os._exit(0)"), "wrong"),
    "thread_exits": (
        "import os, threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), os._exit(0)), daemon=True).start()"
        + "\ndef add(a, b):\n    time.sleep(0.3)\n    return 1\n",
        "died",
    ),
    "segfault": (_in_call("import ctypes\nctypes.string_at(0)"), "died"),
    "abort": (_in_call("os.abort()"), "died"),
    "deep_recursion_crash": (
        "import sys\nsys.setrecursionlimit(10**9)\ndef add(a, b):\n    return add(a, b)",
        "died timeout memory",
    ),
    # Values that claim to be equal
    "equal_to_all": (
        "class E:\n    def __eq__(self, o): return True\ndef add(a, b): return E()",
        "unserialisable",
    ),
    "int_subclass_equal_to_all": (
        "class E(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\ndef add(a, b): return E(1)",
        "unserialisable",
    ),
    "mock_any": ("from unittest.mock import ANY\ndef add(a, b): return ANY", "unserialisable"),
    "lying_class": (
        "class E:\n    __class__ = int\n    def __index__(self): return 3\ndef add(a, b): return E()",
        "unserialisable",
    ),
    "lying_metaclass": (
        "class M(type):\n    def __eq__(c, o): return True\n    def __hash__(c): return hash(int)\n"
        "class E(metaclass=M): pass\ndef add(a, b): return E()",
        "unserialisable",
    ),
    "nan": ("def add(a, b): return float('nan')", "wrong"),
    "inf": ("def add(a, b): return float('inf')", "wrong"),
    "float_result": ("def add(a, b): return float(a + b)", "wrong"),
    "bool_result": ("def add(a, b): return True", "wrong"),
    "complex_result": ("def add(a, b): return complex(a + b)", "unserialisable"),
    "generator": ("def add(a, b): yield a + b", "unserialisable"),
    "coroutine": ("async def add(a, b): return a + b", "unserialisable"),
    "nothing": ("def add(a, b): a + b", "wrong"),
    # Patching the judge
    "patch_assertion_error": (_with_wrong("import builtins, os\nbuiltins.AssertionError = os._exit"), "wrong"),
    "patch_builtins_type": (
        "import builtins\nbuiltins.type = lambda *a: int\nclass E:\n    def __eq__(s, o): return True\n"
        "def add(a, b): return E()",
        "unserialisable",
    ),
    "patch_unittest": (_with_wrong("import unittest\nunittest.TestCase.assertEqual = lambda *a: None"), "wrong"),
    "patch_json": (_with_wrong("import json\njson.dumps = lambda *a: '[1]'\njson.loads = json.dumps"), "wrong"),
    "fake_modules": (_with_wrong("import sys\nfor m in list(sys.modules): sys.modules[m] = None"), "wrong"),
    "patch_os": (_with_wrong("import os\nos.write = os.read = os._exit = lambda *a: 0"), "wrong"),
    "skip_test": (_in_call("import unittest\nraise unittest.SkipTest"), "exception"),
    "pytest_skip": ("import pytest\npytest.skip(allow_module_level=True)", "load"),
    # Looking for the expected value
    "callers_locals": (
        "import sys\ndef add(a, b):\n    f = sys._getframe()\n    while f:\n        for n in ('expected', 'exp', 'want'):\n"
        "            if n in f.f_locals: return f.f_locals[n]\n        f = f.f_back\n    return None",
        "wrong",
    ),
    "hunt_with_gc": (
        "import gc\ndef add(a, b):\n    for o in gc.get_objects():\n"
        "        if type(o) is dict and 'expected' in o: return o['expected']\n    return None",
        "wrong",
    ),
    "read_tests_from_disk": (
        "import os\ndef add(a, b):\n    for d, _, fs in os.walk('/tmp'):\n        for f in fs: return open(d + '/' + f).read()\n",
        "wrong",
    ),
    "patch_judge_through_frames": (
        "import sys\ndef add(a, b):\n    f = sys._getframe(1)\n    g = f.f_globals\n"
        "    g['encode'] = lambda *a: b't2:s5:valuei3;'\n    return None",
        "wrong",
    ),
    "forged_ok_through_frames": (
        "import sys\nf = sys._getframe(1)\nf.f_globals['send'](4, f.f_globals['encode'](('passed', 1)))" + WRONG_BODY,
        "bad_frame",
    ),
    # Writing into the channel
    "spray_descriptors": (
        "import os\ndef add(a, b):\n    for fd in range(3, 64):\n        try: os.write(fd, b'{\"passed\": true}')\n"
        "        except OSError: pass\n    return 1",
        "bad_frame",
    ),
    "huge_frame": ("import os\ndef add(a, b):\n    os.write(4, b'\\x7f' * 4)\n    return 1", "bad_frame"),
    "close_channel": ("import os\ndef add(a, b):\n    os.close(4)\n    return a + b", "died"),
    "unfinished_frame": ("import os\ndef add(a, b):\n    os.write(4, b'\\0\\0')\n    os._exit(0)", "died"),
    "unknown_kind": (
        "import os\ndef add(a, b):\n    os.write(4, b'\\0\\0\\0\\x0ft2:s6:passedN')\n    os._exit(0)",
        "bad_frame died",
    ),
    "colliding_set": (
        "import os\ndef add(a, b):\n    items = b''.join(b'i%x;' % (i * (2**61 - 1)) for i in range(1, 5000))\n"
        "    data = b't2:s5:valuee4999:' + items\n"
        "    os.write(4, len(data).to_bytes(4, 'big') + data)\n    return 1",
        "bad_frame",
    ),
    # Leaving something for later executions
    "write_reward": (
        _with_wrong("for p in ('/tmp/reward.txt', '/dev/shm/reward.txt'): open(p, 'w').write('1')"),
        "wrong",
    ),
    "write_conftest": (_with_wrong("open('conftest.py', 'w').write('import os; os._exit(0)')"), "wrong"),
    "write_judge": ("open('/judge/worker.py', 'a').write('x')" + WRONG_BODY, "load"),
    "delete_everything": (
        _with_wrong(
            "import shutil\nfor d in ('/judge', '/tmp', '/dev', '/py/bin'): shutil.rmtree(d, ignore_errors=True)"
        ),
        "wrong",
    ),
    # Attacking processes
    "kill_parent": (_in_call("os.kill(os.getppid(), 9)"), "wrong died"),
    "kill_group": (_in_call("os.kill(0, 9)"), "wrong died"),
    "kill_all": (_in_call("try: os.kill(-1, 9)\nexcept OSError: pass"), "wrong died"),
    "kill_init": (_in_call("os.kill(1, 9)"), "wrong died"),
    "ptrace_parent": (_in_call("import ctypes\nctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)"), "wrong"),
    "daemonise": (
        _in_call(
            "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        while True: pass\n    os._exit(0)"
        ),
        "wrong timeout",
    ),
    "network": (
        _in_call("import socket\nsocket.create_connection(('1.1.1.1', 53), 1)"),
        "exception",
    ),
    # Not ending
    "endless_loop": ("def add(a, b):\n    while True: pass", "timeout"),
    "endless_import": ("while True: pass", "timeout"),
    "ignore_signals": (
        "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        "def add(a, b):\n    while True: pass",
        "timeout",
    ),
    "catch_everything": (
        "def add(a, b):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        "timeout",
    ),
    "raise_own_limit": (
        "import resource\ndef add(a, b):\n    try: resource.setrlimit(resource.RLIMIT_CPU, (99, 99))\n"
        "    except (OSError, ValueError): pass\n    while True: pass",
        "timeout",
    ),
    "slow_regexp": ("import re\ndef add(a, b): return re.match('(a+)+$', 'a' * 64 + 'b')", "timeout"),
    "huge_power": ("def add(a, b): return 7 ** 10 ** 8", "timeout memory"),
    "many_spinning_children": (
        "import os\ndef add(a, b):\n    for _ in range(3):\n        if os.fork() == 0:\n            while True: pass\n    os.wait()",
        "timeout",
    ),
    # Awkward results
    "deep_list": ("def add(a, b):\n    x = []\n    for _ in range(10**5): x = [x]\n    return x", "unserialisable"),
    "cyclic_list": ("def add(a, b):\n    x = []\n    x.append(x)\n    return x", "unserialisable"),
    "huge_int": ("def add(a, b): return 1 << (8 * 10**6)", "too_large"),
    "huge_string": ("def add(a, b): return 'x' * (200 << 20)", "too_large memory"),
    "wide_list": ("def add(a, b): return [0] * 10**6", "too_large"),
    "looping_repr": (
        "class E:\n    def __repr__(self):\n        while True: pass\n    __str__ = __repr__\ndef add(a, b): return E()",
        "unserialisable",
    ),
    "looping_exception": (
        "class E(Exception):\n    def __str__(self):\n        while True: pass\n    __repr__ = __str__\n"
        "def add(a, b): raise E",
        "exception",
    ),
    "group": (_in_call("raise BaseExceptionGroup('x', [KeyboardInterrupt()])"), "exception"),
    "keyboard_interrupt": (_in_call("raise KeyboardInterrupt"), "exception"),
    "generator_exit_at_import": ("raise GeneratorExit", "load"),
    "memory_hog": ("def add(a, b): return len(bytearray(6 << 30))", "memory"),
    "memory_hog_at_import": ("x = bytearray(6 << 30)" + WRONG_BODY, "memory"),
    # Awkward sources
    "nul": ("def add(a, b): return a + b\0", "bad_source"),
    "surrogate": ("def add(a, b): return '\ud800'", "bad_source"),
    "long_line": ("x = '" + "y" * (3 << 20) + "'" + WRONG_BODY, "bad_source"),
    "not_python": ("here is the function you asked for", "syntax_error"),
    "empty": ("", "load"),
    "rot13": ("# -*- coding: rot13 -*-\nqrs nqq(n, o): erghea n + o", "syntax_error"),
    "many_parentheses": ("x = " + "(" * 5000 + ")" * 5000 + WRONG_BODY, "syntax_error"),
    "many_minuses": ("x = " + "-" * 200_000 + "1" + WRONG_BODY, "syntax_error died memory"),
    "constant_bomb": ("x = (1 << 19 ** 8,) * 4 ** 7" + WRONG_BODY, "syntax_error load memory timeout"),
    "missing_entry": ("def sum_of(a, b): return a + b", "load"),
    "entry_is_no_function": ("add = 3", "load"),
    "wrong_arity": ("def add(a): return a", "exception"),
    "class_as_entry": ("class add:\n    def __init__(self, a, b): pass", "unserialisable"),
    "input": ("x = input()" + WRONG_BODY, "load"),
    "read_stdin": (_in_call("sys.stdin.read()"), "wrong"),
    "import_solution": (_with_wrong("import solution"), "wrong"),
    "lock_recursion_limit": (
        "import sys\ndef add(a, b):\n    sys.setrecursionlimit(1)\n    return [a]",
        "exception wrong",
    ),
}

SLEEPING: dict[str, str] = {
    "sleep": "import time\ndef add(a, b): time.sleep(1000)",
    "deadlock": "import threading\ndef add(a, b):\n    lock = threading.Lock()\n    lock.acquire()\n    lock.acquire()",
    "stop_itself": "import os, signal\ndef add(a, b):\n    signal.pause()",
}

CORRECT_BUT_ODD: dict[str, str] = {
    "plain": _RIGHT,
    "bom": "\ufeff" + _RIGHT,
    "crlf": _RIGHT.replace("\n", "\r\n"),
    "utf8_cookie": "# -*- coding: utf-8 -*-" + _RIGHT,
    "unknown_cookie": "# -*- coding: no-such-codec -*-" + _RIGHT,
    "chatty": "print('hello' * 10_000)\ndef add(a, b):\n    print(a, b)\n    return a + b",
    "300_megabytes_of_output": "import os\nfor _ in range(300): os.write(1, b'x' * (1 << 20))" + _RIGHT,
    "main_guard": _RIGHT + "\nif __name__ == '__main__':\n    raise SystemExit(3)",
    "lambda": "add = lambda a, b: a + b",
    "partial": "import functools, operator\nadd = functools.partial(operator.add)",
    "builtin": "from operator import add",
    "callable_object": "class A:\n    def __call__(self, a, b): return a + b\nadd = A()",
    "threads": (
        "from concurrent.futures import ThreadPoolExecutor\ndef add(a, b):\n"
        "    with ThreadPoolExecutor(4) as pool: return sum(pool.map(int, (a, b)))"
    ),
    "subprocess": (
        "import os\ndef add(a, b):\n    r, w = os.pipe()\n    if os.fork() == 0:\n        os.write(w, str(a + b).encode())\n"
        "        os._exit(0)\n    os.wait()\n    return int(os.read(r, 99))"
    ),
    "temporary_file": (
        "import tempfile\ndef add(a, b):\n    with tempfile.TemporaryFile('w+') as f:\n        f.write(str(a + b))\n"
        "        f.seek(0)\n        return int(f.read())"
    ),
    "mutates_its_arguments": "def add(a, b):\n    a += b\n    return a",
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    a: int\n    b: int\n"
        "def add(a, b):\n    p = P(a, b)\n    return p.a + p.b"
    ),
    "patches_builtins": (
        "import builtins\nbuiltins.len = lambda x: 0\nbuiltins.isinstance = lambda *a: False\nbuiltins.bytes = None\n"
        "def add(a, b): return a + b + len([1])"
    ),
    "shadows_everything": "type = int = list = tuple = dict = str = None" + _RIGHT,
    "closes_stdout": "import sys\nsys.stdout.close()\nsys.stderr.close()" + _RIGHT,
    "argparse_at_import": "import argparse\nargparse.ArgumentParser().parse_args()" + _RIGHT,
    "rare_import": "import wave, html.parser, xml.dom.minidom" + _RIGHT,
    "module_state": "calls = []\ndef add(a, b):\n    calls.append(a)\n    return a + b + len(calls) * 0",
    "half_a_second_of_work": "def add(a, b):\n    for _ in range(10**6): pass\n    return a + b",
}

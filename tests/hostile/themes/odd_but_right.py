# ruff: noqa: E501 - programs read better on one line
"""Right answers that look odd: each must score 1, for a false fail teaches as badly as a false pass."""

from __future__ import annotations

import sys

from tests.hostile.program import RIGHT, collect

# fmt: off



def _right(*rows: tuple[str, str]) -> tuple[tuple[str, str, str], ...]:
    return tuple((name, "passed", source) for name, source in rows)


_FORMS = _right(
    ("plain", RIGHT),
    ("byte_order_mark", "\ufeff" + RIGHT),
    ("windows_line_ends", RIGHT.replace("\n", "\r\n")),
    ("old_mac_line_ends", RIGHT.replace("\n", "\r")),
    ("mixed_line_ends", "x = 1\r\ny = 2\r" + RIGHT),
    ("no_final_line_end", "def add(a, b): return a + b"),
    ("utf8_cookie", "# -*- coding: utf-8 -*-" + RIGHT),
    ("latin1_cookie", "# -*- coding: latin-1 -*-\nx = 'ü'" + RIGHT),
    ("unknown_cookie", "# -*- coding: no-such-codec -*-" + RIGHT),
    ("form_feed", "\f\ndef add(a, b):\n\f\n    return a + b\n"),
    ("tabs", "def add(a, b):\n\treturn a + b\n"),
    ("semicolons", "def add(a, b): c = a; c += b; return c"),
    ("line_continuation", "def add(a, \\\n        b): return a \\\n    + b"),
    ("shebang_and_docstring", f'#!/usr/bin/env python3\n"""Adds."""\n{RIGHT}'),
    ("unicode_names", "def add(größe, 数): return größe + 数"),
    ("full_width_name", "def \uff41\uff44\uff44(a, b): return a + b"),  # NFKC makes it `add`
    ("unusual_text", "x = '\U0001f600\u202e\u200b\\N{BULLET}\\x00'  # \u0430dd" + RIGHT),
    ("lambda", "add = lambda a, b: a + b"),
    ("default_arguments", "def add(a, b=0, *rest, c=1, **more): return a + b"),
    ("positional_only", "def add(a, b, /): return a + b"),
    ("all_arguments", "def add(*numbers): return sum(numbers)"),
    ("nested_functions", "def outer():\n    def add(a, b):\n        def inner(): return a + b\n        return inner()\n    return add\nadd = outer()"),
    ("set_by_globals", "globals()['add'] = lambda a, b: a + b"),
    ("made_by_exec", "exec('def add(a, b): return a + b')"),
    ("redefined", "def add(a, b): return 0" + RIGHT),
    ("calls_itself", "def add(a, b): return a if b == 0 else add(a + 1, b - 1) if b > 0 else add(a - 1, b + 1)"),
    ("partial", "import functools, operator\nadd = functools.partial(operator.add)"),
    ("builtin_function", "from operator import add"),
    ("slot_of_int", "add = int.__add__"),
    ("bound_method", "class A:\n    def add(self, a, b): return a + b\nadd = A().add"),
    ("class_method", "class A:\n    @classmethod\n    def add(cls, a, b): return a + b\nadd = A.add"),
    ("static_method_at_top", "@staticmethod\ndef add(a, b): return a + b"),
    ("callable_object", "class A:\n    def __call__(self, a, b): return a + b\nadd = A()"),
    ("class_whose_call_gives_an_int", "class add:\n    def __new__(cls, a, b): return a + b"),
    ("decorated", "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def g(*a): return f(*a)\n    return g\n@twice\n@twice\ndef add(a, b): return a + b"),
    ("cached", "import functools\n@functools.cache\ndef add(a, b): return a + b"),
    ("single_dispatch", "import functools\n@functools.singledispatch\ndef add(a, b): raise TypeError\n@add.register\ndef _(a: int, b): return a + b"),
    ("typed", "from __future__ import annotations\nfrom typing import TypeVar, Final, overload\nN = TypeVar('N', int, float)\nX: Final = 1\ndef add(a: N, b: 'NotThere | int') -> N: return a + b"),
    ("walrus", "def add(a, b): return (c := a) + (d := b)"),
    ("match", "def add(a, b):\n    match (a, b):\n        case (int(x), int(y)): return x + y\n        case _: return None"),
    ("exceptions_inside", "def add(a, b):\n    try: raise KeyError(a + b)\n    except KeyError as e: return e.args[0]\n    finally: pass"),
    ("exception_group_inside", "def add(a, b):\n    try: raise ExceptionGroup('x', [ValueError(a + b)])\n    except* ValueError as e: r = e.exceptions[0].args[0]\n    return r"),
    ("generator_inside", "def parts(a, b):\n    yield a\n    yield b\ndef add(a, b): return sum(list(parts(a, b)))"),
    ("context_manager", "import contextlib\n@contextlib.contextmanager\ndef given(x): yield x\ndef add(a, b):\n    with given(a) as x, given(b) as y: return x + y"),
    ("main_guard", RIGHT + "\nif __name__ == '__main__':\n    raise SystemExit(3)"),
    ("assertions_at_import", RIGHT + "assert add(2, 2) == 4"),
    ("global_state", "total = 0\ndef add(a, b):\n    global total\n    total += 1\n    return a + b + total * 0"),
    ("mutates_arguments", "def add(a, b):\n    a += b\n    return a"),
    ("own_input_and_print", "def input(*a): return '3'\ndef print(*a): pass\nx = input('> ')" + RIGHT),
    ("shadows_builtins", "type = int = list = tuple = dict = str = bytes = len = None" + RIGHT),
    ("names_of_the_judge", "results = requests = send = encode = value = reply = function = arguments = passed = None" + RIGHT),
    ("named_like_modules", "json = sys = os = 3\nclass solution: pass\nclass pytest: pass" + RIGHT),
    ("large_numbers_inside", "def add(a, b): return (a + 10 ** 400) + (b - 10 ** 400)"),
)

_LIBRARY = _right(
    ("dataclass", "from dataclasses import dataclass, field\n@dataclass(frozen=True, slots=True)\nclass P:\n    a: int\n    b: int = 0\n    c: list = field(default_factory=list)\ndef add(a, b):\n    p = P(a, b)\n    return p.a + p.b"),
    ("enumeration", "import enum\nclass Sign(enum.IntFlag):\n    PLUS = enum.auto()\ndef add(a, b): return a + b * int(Sign.PLUS)"),
    ("named_tuple_inside", "from typing import NamedTuple\nclass P(NamedTuple):\n    a: int\n    b: int\ndef add(a, b): return sum(P(a, b))"),
    ("abstract_class", "import abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def go(self): ...\nclass B(A):\n    def __init__(self, a, b): self.x = a + b\n    def go(self): return self.x\ndef add(a, b): return B(a, b).go()"),
    ("protocol_and_hints", "from typing import Protocol, get_type_hints, runtime_checkable\n@runtime_checkable\nclass A(Protocol):\n    def __call__(self, a: int, b: int) -> int: ...\ndef add(a: int, b: int) -> int: return a + b\nassert isinstance(add, A) and get_type_hints(add)['a'] is int"),
    ("collections", "from collections import ChainMap, Counter, OrderedDict, defaultdict, deque\ndef add(a, b): return sum(deque([a, b])) + Counter()['x']"),
    ("itertools_and_heapq", "import bisect, heapq, itertools\ndef add(a, b):\n    h = [a, b]\n    heapq.heapify(h)\n    return list(itertools.accumulate(h))[-1]"),
    ("decimal_inside", "from decimal import Decimal, localcontext\ndef add(a, b):\n    with localcontext() as c:\n        c.prec = 50\n        return int(Decimal(a) + Decimal(b))"),
    ("fractions_and_statistics", "from fractions import Fraction\nimport statistics\ndef add(a, b): return int(2 * statistics.mean([Fraction(a), Fraction(b)]))"),
    ("dates", "from datetime import date, datetime, timedelta, timezone\ndef add(a, b): return (timedelta(days=a) + timedelta(days=b)).days if datetime.now(timezone.utc) else 0"),
    ("regular_expressions", "import re\ndef add(a, b): return sum(int(x) for x in re.findall(r'-?\\d+', f'{a} {b}'))"),
    ("json_and_pickle", "import json, pickle\nclass P:\n    def __init__(self, x): self.x = x\ndef add(a, b): return pickle.loads(pickle.dumps(P(json.loads(json.dumps([a, b]))))).x[0] + b"),
    ("deep_copy", "import copy\ndef add(a, b): return sum(copy.deepcopy([a, [b]])[0:1]) + b"),
    ("random_numbers", "import random, secrets, uuid\ndef add(a, b):\n    x = random.randrange(99) + secrets.randbelow(9)\n    return a + x + b - x"),
    ("hashes", "import base64, hashlib, zlib\nx = hashlib.sha256(b'x').hexdigest() + str(zlib.crc32(b'x'))" + RIGHT),
    ("logging", "import logging, warnings\nlogging.basicConfig(level=logging.DEBUG)\ndef add(a, b):\n    logging.info('%d', a)\n    warnings.warn('x')\n    return a + b"),
    ("database", "import sqlite3\ndef add(a, b):\n    with sqlite3.connect(':memory:') as c: return c.execute('select ? + ?', (a, b)).fetchone()[0]"),
    ("rare_imports", "import csv, difflib, email.message, html.parser, locale, platform, pprint, queue, shlex, textwrap, xml.dom.minidom" + RIGHT),
    ("argparse_at_import", "import argparse\nargparse.ArgumentParser().parse_args()" + RIGHT),
    ("own_unit_tests", "import doctest, unittest" + RIGHT + "class T(unittest.TestCase):\n    def test(self): self.assertEqual(add(1, 1), 2)\ndoctest.testmod()\nunittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(T))"),
    ("syntax_tree", "import ast\nx = ast.unparse(ast.parse('a + b'))\ndef add(a, b): return eval(x)"),
    ("inspection", "import inspect\ndef add(a, b): return a + b if len(inspect.signature(add).parameters) == 2 else None"),
    ("weak_references", "import gc, weakref\nclass P: pass\ndef add(a, b):\n    p = P()\n    weakref.finalize(p, print)\n    del p\n    gc.collect()\n    return a + b"),
    ("ctypes_inside", "import ctypes\ndef add(a, b): return ctypes.c_int(a).value + ctypes.c_int(b).value"),
)

_WORLD = _right(
    (
        "same_python_as_the_judge",
        f"import sys\ndef add(a, b): return a + b if sys.version_info[:3] == {tuple(sys.version_info[:3])} else sys.version",
    ),
    ("chatty", "print('hello' * 10_000)\ndef add(a, b):\n    print(a, b, flush=True)\n    return a + b"),
    ("one_megabyte_of_output", "print('x' * (1 << 20))" + RIGHT),
    ("writes_to_stderr", "import sys\ndef add(a, b):\n    sys.stderr.write('warning\\n')\n    return a + b"),
    ("closes_stdout", "import sys\nsys.stdout.close()\nsys.stderr.close()" + RIGHT),
    ("captures_stdout", "import contextlib, io\ndef add(a, b):\n    with contextlib.redirect_stdout(io.StringIO()) as out: print(a + b)\n    return int(out.getvalue())"),
    ("closes_standard_descriptors", "import os\nos.closerange(0, 3)" + RIGHT),
    ("patches_builtins", "import builtins\nbuiltins.len = lambda x: 0\nbuiltins.isinstance = lambda *a: False\nbuiltins.bytes = builtins.type = None\ndef add(a, b): return a + b + len([1])"),
    ("threads", "from concurrent.futures import ThreadPoolExecutor\ndef add(a, b):\n    with ThreadPoolExecutor(4) as pool: return sum(pool.map(int, (a, b)))"),
    ("daemon_thread_left", "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()" + RIGHT),
    ("coroutines", "import asyncio\nasync def one(x):\n    await asyncio.sleep(0)\n    return x\nasync def both(a, b): return sum(await asyncio.gather(one(a), one(b)))\ndef add(a, b): return asyncio.run(both(a, b))"),
    ("child_process", "import os\ndef add(a, b):\n    r, w = os.pipe()\n    if os.fork() == 0:\n        os.write(w, str(a + b).encode())\n        os._exit(0)\n    os.wait()\n    os.close(w)\n    with open(r) as f: return int(f.read())"),
    ("subprocess", "import subprocess, sys\nx = int(subprocess.run([sys.executable, '-I', '-S', '-c', 'print(0)'], capture_output=True, text=True).stdout)\ndef add(a, b): return a + b + x"),
    ("multiprocessing", "from multiprocessing import get_context\ndef work(q, a, b): q.put(a + b)\ndef add(a, b):\n    c = get_context('fork')\n    q = c.SimpleQueue()\n    p = c.Process(target=work, args=(q, a, b))\n    p.start()\n    p.join()\n    return q.get()"),
    ("shared_memory", "from multiprocessing.shared_memory import SharedMemory\ndef add(a, b):\n    m = SharedMemory(create=True, size=16)\n    m.buf[:2] = bytes([a + 99, b + 99])\n    r = sum(m.buf[:2]) - 198\n    m.close()\n    m.unlink()\n    return r"),
    ("process_pool", "from multiprocessing import get_context\ndef work(x): return x\ndef add(a, b):\n    with get_context('fork').Pool(2) as pool: return sum(pool.map(work, [a, b]))"),
    ("temporary_file", "import tempfile\ndef add(a, b):\n    with tempfile.TemporaryFile('w+') as f:\n        f.write(str(a + b))\n        f.seek(0)\n        return int(f.read())"),
    ("files_in_working_folder", "from pathlib import Path\ndef add(a, b):\n    p = Path('numbers.txt')\n    p.write_text(f'{a},{b}')\n    return sum(map(int, p.read_text().split(',')))"),
    ("local_server", "import socket, threading\ndef add(a, b):\n    s = socket.create_server(('127.0.0.1', 0))\n    threading.Thread(target=lambda: s.accept()[0].sendall(str(a + b).encode()), daemon=True).start()\n    with socket.create_connection(s.getsockname()) as c: return int(c.recv(99))"),
    ("signal_handler", "import signal\nhits = []\nsignal.signal(signal.SIGALRM, lambda *a: hits.append(1))\ndef add(a, b):\n    signal.setitimer(signal.ITIMER_REAL, 0.001)\n    while not hits: pass\n    return a + b"),
    ("trace_function", "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)" + RIGHT),
    ("recursion_of_900", "def down(n): return 0 if n == 0 else down(n - 1)\ndef add(a, b): return a + b + down(900)"),
    ("recursion_of_5000", "import sys\nsys.setrecursionlimit(10**6)\ndef down(n): return 0 if n == 0 else down(n - 1)\ndef add(a, b): return a + b + down(5000)"),
    ("low_recursion_limit", "import sys\nsys.setrecursionlimit(60)" + RIGHT),
    ("some_work", "def add(a, b):\n    for _ in range(300_000): pass\n    return a + b"),
    ("hundred_megabytes", "x = bytearray(100 << 20)" + RIGHT),
    ("short_sleep", "import time\ndef add(a, b):\n    time.sleep(0.02)\n    return a + b"),
    ("garbage_collector_off", "import gc\ngc.disable()" + RIGHT),
    ("home_and_clock", "import os, time, pathlib\nx = pathlib.Path.home(), os.getcwd(), time.strftime('%Y'), os.cpu_count(), os.getpid()" + RIGHT),
    ("huge_output", "import os\nfor _ in range(300): os.write(1, b'x' * (1 << 20))" + RIGHT),
)

PROGRAMS = collect("odd_but_right", *_FORMS, *_LIBRARY, *_WORLD)

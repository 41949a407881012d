# ruff: noqa: E501 - programs read better on one line
"""Awkward results and exceptions: too large, too deep, cyclic, changing while they are written."""

from __future__ import annotations

from tests.hostile.program import collect, in_call

# fmt: off

PROGRAMS = collect(
    "results",
    ("deep_list", "unserialisable", "def add(a, b):\n    x = []\n    for _ in range(10**5): x = [x]\n    return x"),
    ("deep_tuple_as_key", "unserialisable", "def add(a, b):\n    x = ()\n    for _ in range(90): x = (x,)\n    return {x: 1}"),
    ("cyclic_list", "unserialisable", "def add(a, b):\n    x = []\n    x.append(x)\n    return x"),
    ("cyclic_dict", "unserialisable", "def add(a, b):\n    x = {}\n    x[1] = x\n    return x"),
    ("billion_laughs", "too_large", "def add(a, b):\n    x = [0]\n    for _ in range(60): x = [x, x]\n    return x"),
    ("huge_int", "too_large", "def add(a, b): return 1 << (8 * 10**6)"),
    ("int_just_too_large", "too_large", "def add(a, b): return 1 << (1 << 16)"),
    ("largest_int", "wrong", "def add(a, b): return (1 << (1 << 16)) - 1"),
    ("negative_huge_int", "too_large", "def add(a, b): return -1 << (1 << 20)"),
    ("huge_text", "too_large memory", "def add(a, b): return 'x' * (200 << 20)"),
    ("huge_bytes", "too_large", "def add(a, b): return bytes(1 << 20)"),
    ("text_of_four_byte_letters", "too_large", "def add(a, b): return '\\U0001f600' * 100_000"),
    ("wide_list", "too_large", "def add(a, b): return [0] * 10**6"),
    ("wide_dict", "too_large", "def add(a, b): return dict.fromkeys(range(10**5))"),
    ("wide_set", "too_large", "def add(a, b): return set(range(10**5))"),
    ("many_small_texts", "too_large", "def add(a, b): return ['x' * 99] * 5000"),
    ("surrogates_in_keys", "wrong", "def add(a, b): return {chr(0xd800 + i): i for i in range(99)}"),
    ("nan_in_containers", "wrong", "def add(a, b): return [float('nan'), {float('nan')}, {float('nan'): 1}]"),
    ("colliding_hashes", "bad_frame", "def add(a, b): return {i * (2**61 - 1) for i in range(2000)}"),
    ("dict_that_grows_while_written", "wrong died too_large bad_frame", "import sys, threading\nsys.setswitchinterval(1e-6)\nd = {}\ndef grow():\n    i = 0\n    while True:\n        d[i % 999] = 1\n        d.pop((i - 9) % 999, None)\n        i += 1\nthreading.Thread(target=grow, daemon=True).start()\ndef add(a, b): return [d] * 99"),
    ("list_that_grows_while_written", "wrong bad_frame too_large memory", "import sys, threading\nsys.setswitchinterval(1e-6)\nx = []\ndef grow():\n    while len(x) < 10**6: x.append(3)\nthreading.Thread(target=grow, daemon=True).start()\ndef add(a, b): return x"),
    ("looping_repr", "unserialisable", "class E:\n    def __repr__(self):\n        while True: pass\n    __str__ = __format__ = __repr__\ndef add(a, b): return E()"),
    ("raising_everything", "unserialisable", "class E:\n    def __getattribute__(self, name): raise SystemExit\n    def __eq__(self, o): raise SystemExit\n    __hash__ = None\ndef add(a, b): return E()"),
    ("looping_exception", "exception", "class E(Exception):\n    def __str__(self):\n        while True: pass\n    __repr__ = __str__\ndef add(a, b): raise E"),
    ("lying_exception", "exception", "class M(type):\n    __name__ = 'passed'\n    def __eq__(c, o): return True\n    def __hash__(c): return hash(ValueError)\nclass E(Exception, metaclass=M):\n    __class__ = SystemExit\n    def __getattribute__(s, n): raise SystemExit\ndef add(a, b): raise E"),
    ("exception_named_passed", "exception", "passed = type('passed', (BaseException,), {'kind': 'passed', 'score': 1.0})\ndef add(a, b): raise passed"),
    ("exception_with_a_result", "exception", "def add(a, b): raise StopIteration(a + b)"),
    ("exception_group", "exception", in_call("raise BaseExceptionGroup('x', [KeyboardInterrupt()])")),
    ("keyboard_interrupt", "exception", in_call("raise KeyboardInterrupt")),
    ("generator_exit", "exception", in_call("raise GeneratorExit")),
    ("generator_exit_at_import", "load", "raise GeneratorExit"),
    ("base_exception_at_import", "load", "raise BaseException('4 passed')"),
    ("assertion_error", "exception", in_call("assert False, 'passed'")),
    ("memory_error", "memory", in_call("raise MemoryError")),
    ("recursion", "exception", "def add(a, b): return add(a, b)"),
    ("recursion_of_repr", "exception died", "def add(a, b):\n    x = []\n    for _ in range(10**5): x = [x]\n    return len(repr(x))"),
    ("recursion_without_limit", "died timeout memory", "import sys\nsys.setrecursionlimit(10**9)\ndef add(a, b): return add(a, b)"),
    ("recursion_in_c_without_limit", "died timeout memory", "import sys\nsys.setrecursionlimit(10**9)\nclass E:\n    def __getattr__(self, n): return getattr(self, n)\ndef add(a, b): return E().x"),
    ("long_chain_of_exceptions", "exception", "def add(a, b):\n    e = None\n    for i in range(10**4):\n        n = ValueError('x' * 99)\n        n.__cause__ = e\n        e = n\n    raise e"),
    ("long_message", "exception memory", "def add(a, b): raise ValueError('x' * (50 << 20))"),
    ("huge_integer_as_text", "exception", "def add(a, b): return str(10 ** 5000)"),
    ("text_as_huge_integer", "exception", "def add(a, b): return int('9' * 5000)"),
)

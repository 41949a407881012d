# ruff: noqa: E501 - programs read better on one line
"""Values that claim to be equal to anything, and values that are nearly right."""

from __future__ import annotations

from tests.hostile.program import collect

# fmt: off


def _equal_to_all(base: str, value: str) -> str:
    return (
        f"class E({base}):\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n"
        f"    def __hash__(self): return 3\ndef add(a, b): return {value}\n"
    )


PROGRAMS = collect(
    "equality",
    ("equal_to_all", "unserialisable", _equal_to_all("object", "E()")),
    ("int_subclass", "unserialisable", _equal_to_all("int", "E(1)")),
    ("int_subclass_of_right_value", "unserialisable", _equal_to_all("int", "E(a + b)")),
    ("float_subclass", "unserialisable", _equal_to_all("float", "E(1)")),
    ("str_subclass", "unserialisable", _equal_to_all("str", "E('3')")),
    ("bytes_subclass", "unserialisable", _equal_to_all("bytes", "E(b'3')")),
    ("list_subclass", "unserialisable", _equal_to_all("list", "E([3])")),
    ("tuple_subclass", "unserialisable", _equal_to_all("tuple", "E([3])")),
    ("dict_subclass", "unserialisable", _equal_to_all("dict", "E(x=3)")),
    ("set_subclass", "unserialisable", _equal_to_all("set", "E([3])")),
    ("frozenset_subclass", "unserialisable", _equal_to_all("frozenset", "E([3])")),
    ("hidden_in_a_list", "unserialisable", _equal_to_all("int", "[E(1)]")),
    ("hidden_in_a_key", "unserialisable", _equal_to_all("int", "{E(1): 1}")),
    ("hidden_in_a_deep_set", "unserialisable", _equal_to_all("int", "(({E(1)},),)")),
    ("mock_any", "unserialisable", "from unittest.mock import ANY\ndef add(a, b): return ANY"),
    ("mock_object", "unserialisable", "from unittest.mock import MagicMock\nadd = MagicMock()"),
    (
        "lying_class",
        "unserialisable",
        "class E:\n    __class__ = int\n    def __index__(self): return 3\ndef add(a, b): return E()",
    ),
    (
        "lying_class_property",
        "unserialisable",
        "class E:\n    @property\n    def __class__(self): return int\n    __int__ = __index__ = lambda self: 3\n"
        "def add(a, b): return E()",
    ),
    (
        "lying_metaclass",
        "unserialisable",
        "class M(type):\n    def __eq__(c, o): return True\n    def __hash__(c): return hash(int)\n"
        "class E(metaclass=M): pass\ndef add(a, b): return E()",
    ),
    (
        "lying_instance_check",
        "unserialisable",
        "class M(type):\n    def __instancecheck__(c, o): return True\n    __subclasscheck__ = __instancecheck__\n"
        "    mro = lambda c: [c, int, object]\nclass E(int, metaclass=M): pass\ndef add(a, b): return E(3)",
    ),
    (
        "registered_number",
        "unserialisable",
        "import numbers\nclass E:\n    def __eq__(self, o): return True\nnumbers.Integral.register(E)\n"
        "def add(a, b): return E()",
    ),
    (
        "answers_every_attribute",
        "unserialisable",
        "class E:\n    def __getattribute__(self, name): return lambda *a: True\n    def __eq__(self, o): return True\n"
        "def add(a, b): return E()",
    ),
    (
        "pickles_as_code",
        "unserialisable",
        "class E:\n    def __reduce__(self): return eval, ('3',)\n    __reduce_ex__ = lambda self, p: (eval, ('3',))\n"
        "    __getstate__ = __deepcopy__ = __copy__ = lambda *a: 3\ndef add(a, b): return E()",
    ),
    (
        "generic_alias",
        "unserialisable",
        "class E:\n    def __class_getitem__(cls, item): return cls()\n    __eq__ = lambda s, o: True\n"
        "def add(a, b): return E[int]",
    ),
    (
        "changed_class_of_instance",
        "unserialisable",
        "class A(int): pass\nclass E(A):\n    def __eq__(self, o): return True\n"
        "def add(a, b):\n    x = A(1)\n    x.__class__ = E\n    return x",
    ),
    (
        "weak_proxy",
        "unserialisable",
        "import weakref\nclass E:\n    def __eq__(self, o): return True\ne = E()\ndef add(a, b): return weakref.proxy(e)",
    ),
    (
        "lazy_property",
        "unserialisable",
        "class E:\n    @property\n    def value(self): return 3\n    __int__ = __index__ = lambda self: self.value\n"
        "def add(a, b): return E()",
    ),
    ("int_enum", "unserialisable", "import enum\nE = enum.IntEnum('E', {'x': 3})\ndef add(a, b): return E.x"),
    ("named_tuple", "unserialisable", "from collections import namedtuple\ndef add(a, b): return namedtuple('E', 'x')(3)"),
    ("counter", "unserialisable", "from collections import Counter\ndef add(a, b): return Counter('abc')"),
    ("decimal", "unserialisable", "from decimal import Decimal\ndef add(a, b): return Decimal(a + b)"),
    ("fraction", "unserialisable", "from fractions import Fraction\ndef add(a, b): return Fraction(a + b)"),
    ("complex", "unserialisable", "def add(a, b): return complex(a + b)"),
    ("bytearray", "unserialisable", "def add(a, b): return bytearray([3])"),
    ("memoryview", "unserialisable", "def add(a, b): return memoryview(b'3')"),
    ("range", "unserialisable", "def add(a, b): return range(a + b)"),
    ("array", "unserialisable", "import array\ndef add(a, b): return array.array('q', [a + b])"),
    ("ctypes_integer", "unserialisable", "import ctypes\ndef add(a, b): return ctypes.c_long(a + b)"),
    ("generator", "unserialisable", "def add(a, b): yield a + b"),
    ("iterator", "unserialisable", "def add(a, b): return map(int, [a + b])"),
    ("coroutine", "unserialisable", "async def add(a, b): return a + b"),
    ("async_generator", "unserialisable", "async def add(a, b): yield a + b"),
    ("future", "unserialisable", "from concurrent.futures import Future\ndef add(a, b): return Future()"),
    ("itself", "unserialisable", "def add(a, b): return add"),
    ("type_object", "unserialisable", "def add(a, b): return int"),
    ("module", "unserialisable", "import sys\ndef add(a, b): return sys"),
    ("ellipsis", "unserialisable", "def add(a, b): return ..."),
    ("not_implemented", "unserialisable", "def add(a, b): return NotImplemented"),
    ("nan", "wrong", "def add(a, b): return float('nan')"),
    ("inf", "wrong", "def add(a, b): return float('inf')"),
    ("subnormal", "wrong", "def add(a, b): return 5e-324"),
    ("float_of_right_value", "wrong", "def add(a, b): return float(a + b)"),
    ("negative_zero", "wrong", "def add(a, b): return -0.0 if a == b else a + b"),
    ("bool", "wrong", "def add(a, b): return True"),
    ("false_for_zero", "wrong", "def add(a, b): return a + b or False"),
    ("text_of_right_value", "wrong", "def add(a, b): return str(a + b)"),
    ("bytes_of_right_value", "wrong", "def add(a, b): return b'%d' % (a + b)"),
    ("list_of_right_value", "wrong", "def add(a, b): return [a + b]"),
    ("all_numbers", "wrong", "def add(a, b): return set(range(-99, 99))"),
    ("nothing", "wrong", "def add(a, b): a + b"),
    ("word_passed", "wrong", "def add(a, b): return 'passed'"),
    ("pair_passed", "wrong", "def add(a, b): return ('passed', 1.0)"),
    ("lone_surrogate", "wrong", "def add(a, b): return '\\ud800'"),
    ("right_but_for_one_case", "wrong", "def add(a, b): return a + b if a >= 0 else 0"),
    ("right_twice", "wrong", "calls = []\ndef add(a, b):\n    calls.append(a)\n    return a + b if len(calls) < 3 else 0"),
)

# ruff: noqa: E501 - programs read better on one line
"""Changing the judge's world: builtins, modules, functions, frames, hooks and memory."""

from __future__ import annotations

from tests.hostile.program import at_import, collect, in_call, with_channel

# fmt: off

_EQUAL = "class E(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
_DICT_OF = "import gc\ndef dict_of(kind): return gc.get_referents(kind.__dict__)[0]\n"
_OFF_OBJECT = "import ctypes, sys\nWORD = ctypes.sizeof(ctypes.c_void_p)\n"

PROGRAMS = collect(
    "patching",
    ("assertion_error", "wrong", at_import("import builtins\nbuiltins.AssertionError = os._exit")),
    ("builtin_type", "unserialisable", f"import builtins\nbuiltins.type = lambda *a: int\n{_EQUAL}def add(a, b): return E(1)"),
    ("builtin_isinstance", "unserialisable", f"import builtins\nbuiltins.isinstance = lambda *a: True\n{_EQUAL}def add(a, b): return E(1)"),
    ("clear_builtins", "wrong died", at_import("import builtins\nbuiltins.__dict__.clear()")),
    ("own_builtins_in_module", "exception wrong", "__builtins__ = {}\n__builtins__['len'] = None\ndef add(a, b): return len([a])"),
    ("builtin_import", "wrong", at_import("import builtins\nbuiltins.__import__ = lambda *a: sys")),
    ("build_class", "wrong", at_import("import builtins\nbuiltins.__build_class__ = lambda *a, **k: int")),
    ("builtins_of_the_judge", "wrong unserialisable", in_call(f"""
{_EQUAL}
frame = sys._getframe(1)
while frame:
    frame.f_builtins['type'] = lambda *a: int
    frame = frame.f_back
""", "E(7)")),
    ("unittest_assertions", "wrong", at_import("import unittest\nfor name in dir(unittest.TestCase):\n    if name.startswith('assert'): setattr(unittest.TestCase, name, lambda *a, **k: None)")),
    ("unittest_result", "wrong", at_import("import unittest\nunittest.TestResult.wasSuccessful = lambda s: True\nunittest.TestCase.run = lambda *a: None\nunittest.main = lambda *a, **k: None")),
    ("pytest_report", "wrong", at_import("""
try:
    from _pytest import reports
    real = reports.TestReport.from_item_and_call
    def report(item, call):
        call.excinfo = None
        return real(item, call)
    reports.TestReport.from_item_and_call = staticmethod(report)
except ImportError: pass
""")),
    ("pytest_runtest", "wrong", at_import("try:\n    import _pytest.python\n    _pytest.python.Function.runtest = lambda self: None\nexcept ImportError: pass")),
    ("pytest_skip_in_call", "exception", in_call("import pytest\npytest.skip('no')")),
    ("pytest_xfail_in_call", "exception", in_call("import pytest\npytest.xfail('no')")),
    ("pytest_skip_at_import", "load", "import pytest\npytest.skip(allow_module_level=True)"),
    ("unittest_skip", "exception", in_call("import unittest\nraise unittest.SkipTest")),
    ("skipped_function", "exception", "import unittest\n@unittest.skip('no')\ndef add(a, b): return a + b"),
    ("json", "wrong", at_import("import json\njson.dumps = lambda *a, **k: '[1]'\njson.loads = json.dumps\njson.JSONEncoder.default = lambda *a: 3")),
    ("pickle_and_struct", "wrong", at_import("import pickle, struct\npickle.dumps = struct.pack = lambda *a: b''\nstruct.Struct = None")),
    ("all_modules_gone", "wrong", at_import("for m in list(sys.modules): sys.modules[m] = None")),
    ("fake_modules", "wrong", at_import("import types\nfor m in ('json', 'unittest', 'pytest', 'verifiers', 'verifiers.sandbox.codec', 'math', 'os'): sys.modules[m] = types.ModuleType(m)")),
    ("replace_solution_module", "wrong", at_import("import types\nfake = types.ModuleType('solution')\nfake.add = lambda a, b: 3\nfor m in ('solution', '__main__', __name__): sys.modules[m] = fake")),
    ("os_functions", "wrong", at_import("os.write = os.read = os._exit = os.close = lambda *a: 0")),
    ("clock", "wrong", at_import("import time\nfor n in ('time', 'monotonic', 'perf_counter', 'process_time', 'sleep'): setattr(time, n, lambda *a: 0.0)")),
    ("meta_path", "wrong", at_import("""
class Finder:
    def find_spec(self, name, path=None, target=None):
        from importlib.machinery import ModuleSpec
        return ModuleSpec(name, self)
    def create_module(self, spec): return None
    def exec_module(self, module): module.__dict__.update(add=lambda a, b: 3, __getattr__=lambda n: True)
sys.meta_path.insert(0, Finder())
sys.path_hooks.insert(0, lambda p: Finder())
sys.path_importer_cache.clear()
import some_module_that_is_not_there
""")),
    ("codecs", "wrong", at_import("""
import codecs, encodings
codecs.register(lambda name: codecs.CodecInfo(lambda *a: (b'3', 1), lambda *a: ('3', 1), name=name))
codecs.register_error('surrogatepass', lambda e: ('3', e.end))
encodings._cache.clear()
encodings.search_function = lambda name: None
sys.modules['encodings.utf_8'] = None
""", "def add(a, b): return '\\ud800\\udfff'")),
    ("trace_every_line", "wrong unserialisable", at_import("""
def tracer(frame, event, argument):
    for name in ('value', 'reply', 'data', 'passed', 'score'):
        if name in frame.f_locals: frame.f_locals[name] = 1
    return tracer
frame = sys._getframe()
while frame:
    frame.f_trace = tracer
    frame = frame.f_back
sys.settrace(tracer)
""")),
    ("profile_exits", "died", in_call("sys.setprofile(lambda frame, event, argument: os._exit(0))\nlen('')")),
    ("audit_hook_raises", "wrong", at_import("sys.addaudithook(lambda *a: 1 / 0)")),
    ("audit_hook_exits", "died", at_import("sys.addaudithook(lambda name, a: os._exit(0) if name == 'open' else None)", "def add(a, b): return open('x')")),
    ("gc_callback_exits", "died", at_import("import gc\ngc.callbacks.append(lambda *a: os._exit(0))\ngc.collect()")),
    ("collect_never", "wrong", at_import("import gc\ngc.disable()\ngc.set_threshold(0)\ngc.unfreeze()")),
    ("destructor_during_encoding", "wrong", at_import("""
class E:
    def __del__(self):
        frame = sys._getframe(1)
        while frame:
            frame.f_globals.update(passed=True, same_value=lambda *a: True)
            frame = frame.f_back
""", "def add(a, b):\n    e = E()\n    e.e = e\n    import gc\n    gc.set_threshold(1)\n    return [[i] for i in range(999)]")),
    ("judges_encoder", "bad_frame", "import sys\ndef add(a, b):\n    sys._getframe(1).f_globals['encode'] = lambda *a: b'passed'\n    return None"),
    ("judges_exception_list", "exception", "import sys\ndef add(a, b):\n    for v in sys._getframe(1).f_globals.values():\n        if type(v) is list: v[:] = [(ValueError, 'passed')]\n    raise ValueError"),
    ("code_of_the_encoder", "wrong", with_channel("""
def add(a, b):
    frame = encode(('value', 7))
    encode.__globals__['forged'] = frame
    def forged_encode(value, max_bytes=0): return forged
    encode.__code__ = forged_encode.__code__
    return a + b
""")),
    ("defaults_of_the_encoder", "bad_frame", with_channel("""
def add(a, b):
    real = encode
    sys._getframe(1).f_globals['encode'] = lambda value, *a: real(value, 1 << 30)
    return 'x' * (2 << 20)
""")),
    ("types_of_the_encoder", "wrong", with_channel(_EQUAL + """
real = type
encode.__globals__['type'] = lambda value: int if value.__class__ is E else real(value)
def add(a, b): return E(7)
""")),
    ("call_of_the_judge", "wrong", with_channel("""
def add(a, b):
    forged = encode(('value', True))
    frame = sys._getframe(1)
    kind = type(frame.f_locals.get('self'))
    for name in [n for n in vars(kind) if not n.startswith('__') and kind.__module__ != 'builtins']:
        setattr(kind, name, lambda *a, **k: forged)
    return 7
""")),
    ("constants_of_code_objects", "wrong", in_call("""
frame = sys._getframe(1)
while frame:
    code = frame.f_code
    try: code.__init__(); code.co_consts = ()
    except Exception: pass
    frame = frame.f_back
""")),
    ("cells", "wrong", at_import("""
import functools, types
def outer():
    secret = 1
    def inner(): return secret
    return inner
inner = outer()
inner.__closure__[0].cell_contents = 'passed'
frame = sys._getframe(1)
for item in list(frame.f_globals.values()):
    for cell in getattr(item, '__closure__', None) or (): cell.cell_contents = 'passed'
""")),
    ("equality_of_int", "wrong", _DICT_OF + "dict_of(int)['__eq__'] = lambda *a: True\ndict_of(int)['__ne__'] = lambda *a: False\ndef add(a, b): return 7"),
    ("bit_length_of_int", "died", _DICT_OF + "dict_of(int)['bit_length'] = None\nimport ctypes\nctypes.pythonapi.PyType_Modified(ctypes.py_object(int))\ndef add(a, b): return 7"),
    ("one_small_int", "wrong", _OFF_OBJECT + "ctypes.c_uint32.from_address(id(203) + 3 * WORD).value = 3\ndef add(a, b): return 203"),
    ("all_small_ints", "died wrong timeout bad_frame exception load", _OFF_OBJECT + "def add(a, b):\n    for n in range(1, 256): ctypes.c_uint32.from_address(id(n) + 3 * WORD).value = 3\n    return 3"),
    ("class_of_an_instance", "wrong", _OFF_OBJECT + f"{_EQUAL}def add(a, b):\n    e = E(7)\n    ctypes.c_void_p.from_address(id(e) + WORD).value = id(int)\n    return e"),
    ("class_of_a_float", "wrong too_large died", _OFF_OBJECT + "def add(a, b):\n    e = 1.5 * a\n    ctypes.c_void_p.from_address(id(e) + WORD).value = id(int)\n    return e"),
    ("memory_of_the_encoder", "died", with_channel("import ctypes\ndef add(a, b):\n    ctypes.memset(id(encode), 0, 64)\n    return 3")),
    ("memory_of_none", "died", "import ctypes\ndef add(a, b):\n    ctypes.memset(id(None), 0, 16)\n    return None"),
    ("timer_raises_in_the_judge", "died load exception wrong", at_import("import signal\ndef stop(*a): raise SystemExit(0)\nsignal.signal(signal.SIGALRM, stop)\nsignal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)", "def add(a, b):\n    for _ in range(10**6): pass\n    return 7")),
    ("timer_forges_frames", "bad_frame wrong", with_channel("""
import signal, time
signal.signal(signal.SIGALRM, lambda *a: put(b'passed'))
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
def add(a, b):
    end = time.monotonic() + 0.05
    while time.monotonic() < end: pass
    return 7
""")),
    ("interrupt_the_judge", "died load exception wrong", at_import("import _thread, threading, time\ndef later():\n    for _ in range(30):\n        time.sleep(0.001)\n        _thread.interrupt_main()\nthreading.Thread(target=later, daemon=True).start()", "def add(a, b):\n    for _ in range(10**6): pass\n    return 7")),
    ("asynchronous_exception", "died wrong exception load", at_import("""
import ctypes, threading, time
main = threading.get_ident()
def later():
    for _ in range(30):
        time.sleep(0.001)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(SystemExit))
threading.Thread(target=later, daemon=True).start()
""", "def add(a, b):\n    for _ in range(10**6): pass\n    return 7")),
    ("recursion_limit_of_the_judge", "exception died wrong", "import sys\ndef add(a, b):\n    sys.setrecursionlimit(sys.getrecursionlimit())\n    try: sys.setrecursionlimit(9)\n    except RecursionError: pass\n    return [[[7]]]"),
    ("switch_interval", "wrong", at_import("sys.setswitchinterval(1e-9)")),
    ("mutates_arguments_of_the_judge", "wrong", "import sys\ndef add(*arguments):\n    frame = sys._getframe(1)\n    for name, value in frame.f_locals.items():\n        if type(value) is list: value.clear()\n    return 7"),
)

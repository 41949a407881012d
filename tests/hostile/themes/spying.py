# ruff: noqa: E501 - programs read better on one line
"""Looking for the expected values, the tests and the arguments of later calls; what is found is returned."""

from __future__ import annotations

from tests.hostile.program import collect, in_call

_DATA_OF_FRAMES = """
import gc, sys

# fmt: off
WORDS = ('expected', 'want', 'answer', 'tests', 'cases')
def search(found):
    for name in WORDS:
        if type(found) is dict and type(found.get(name)) in (int, list, tuple, dict): return found[name]
"""

PROGRAMS = collect(
    "spying",
    (
        "callers_locals",
        "wrong",
        _DATA_OF_FRAMES + "def add(a, b):\n    f = sys._getframe()\n    while f:\n"
        "        for scope in (f.f_locals, f.f_globals):\n"
        "            if search(scope) is not None: return search(scope)\n        f = f.f_back\n",
    ),
    (
        "callers_constants",
        "wrong",
        "import sys\ndef add(a, b):\n    f = sys._getframe(1)\n    while f:\n        constants = f.f_code.co_consts\n"
        "        for x, y, z in zip(constants, constants[1:], constants[2:]):\n"
        "            if (x, y) == (a, b): return z\n        f = f.f_back\n",
    ),
    (
        "callers_source",
        "wrong",
        "import inspect, re\ndef add(a, b):\n    for frame in inspect.stack(context=99):\n"
        "        text = ''.join(frame.code_context or ())\n"
        "        found = re.search(rf'{a}, {b}\\D+(-?\\d+)', text)\n        if found: return int(found[1])\n",
    ),
    (
        "traceback_of_an_exception",
        "wrong",
        _DATA_OF_FRAMES
        + "def add(a, b):\n    try: 1 / 0\n    except ZeroDivisionError as e: f = e.__traceback__.tb_frame\n"
        "    while f:\n        if search(f.f_locals) is not None: return search(f.f_locals)\n        f = f.f_back\n",
    ),
    (
        "frames_of_other_threads",
        "wrong",
        _DATA_OF_FRAMES + "def add(a, b):\n    for f in sys._current_frames().values():\n        while f:\n"
        "            if search(f.f_locals) is not None: return search(f.f_locals)\n            f = f.f_back\n",
    ),
    (
        "hunt_dicts_with_gc",
        "wrong",
        _DATA_OF_FRAMES + "gc.unfreeze()\ndef add(a, b):\n    for item in gc.get_objects():\n"
        "        if item is not globals() and search(item) is not None: return search(item)\n",
    ),
    (
        "hunt_pairs_with_gc",
        "wrong",
        "import gc\ngc.unfreeze()\ndef add(a, b):\n    for item in gc.get_objects():\n"
        "        if type(item) in (list, tuple) and len(item) == 2 and type(item[1]) is int:\n"
        "            if type(item[0]) in (list, tuple) and tuple(item[0]) == (a, b): return item[1]\n",
    ),
    (
        "hunt_objects_with_gc",
        "wrong",
        "import gc\ngc.unfreeze()\ndef add(a, b):\n    for item in gc.get_objects():\n"
        "        if type(item).__name__ in ('Example', 'Answer', 'Verdict', 'FunctionTests'): return a + b\n",
    ),
    (
        "loaded_modules",
        "wrong",
        "import sys\ndef add(a, b):\n    for name in list(sys.modules):\n"
        "        if name.partition('.')[0] in ('verifiers', 'pytest', '_pytest', 'unittest', 'tests'): return a + b\n",
    ),
    (
        "read_files_around",
        "wrong",
        "import os\ndef add(a, b):\n    for top in ('.', '/tmp', '/dev/shm', os.path.expanduser('~'), '/root', '/home'):\n"
        "        for folder, _, files in os.walk(top):\n            for name in files:\n"
        "                return open(folder + '/' + name).read()\n",
    ),
    (
        "search_the_judges_folder",
        "wrong",
        "import os\ndef add(a, b):\n    for name in os.listdir('/judge') if os.access('/judge', os.R_OK) else ():\n"
        "        try: text = open('/judge/' + name).read()\n        except OSError: continue\n"
        "        if 'expected\": 3' in text: return a + b\n",
    ),
    (
        "read_command_lines_and_environments",
        "wrong",
        "import os\ndef add(a, b):\n    for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "        for name in ('cmdline', 'environ'):\n            try: text = open(f'/proc/{pid}/{name}').read()\n"
        "            except OSError: continue\n            if 'expected' in text: return a + b\n",
    ),
    (
        "search_own_memory",
        "wrong",
        "import re\ndef add(a, b):\n    needle = 'exp' + 'ected\": 3'\n    memory = open('/proc/self/mem', 'rb', 0)\n"
        "    for line in open('/proc/self/maps'):\n        start, end = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "        if '[heap]' not in line or 'rw' not in line: continue\n        memory.seek(start)\n"
        "        if needle.encode() in memory.read(end - start): return a + b\n",
    ),
    (
        "read_standard_input",
        "wrong",
        in_call("found = sys.stdin.read()\nif found: return a + b"),
    ),
    ("input_at_import", "load", "expected = input()\ndef add(a, b): return int(expected)"),
    (
        "read_every_descriptor",
        "wrong",
        "import os\ndef add(a, b):\n    for fd in range(64):\n        try:\n            os.set_blocking(fd, False)\n"
        "            if os.read(fd, 99): return a + b\n        except OSError: pass\n        finally:\n"
        "            try: os.set_blocking(fd, True)\n            except OSError: pass\n",
    ),
    (
        "peek_at_later_requests",
        "wrong",
        "import array, fcntl, termios\ndef add(a, b):\n    waiting = array.array('i', [0])\n"
        "    fcntl.ioctl(3, termios.FIONREAD, waiting)\n    return a + b if waiting[0] else None\n",
    ),
    (
        "reopen_the_result_pipe",
        "wrong exception",
        "import os\ndef add(a, b):\n    os.set_blocking(fd := os.open('/proc/self/fd/4', os.O_RDONLY | os.O_NONBLOCK), False)\n"
        "    try: return a + b if os.read(fd, 99) else None\n    except BlockingIOError: return None\n",
    ),
    (
        "open_descriptors_of_others",
        "wrong",
        "import os\ndef add(a, b):\n    for pid in ('1', str(os.getppid()), '2'):\n        try: names = os.listdir(f'/proc/{pid}/fd')\n"
        "        except OSError: continue\n        for name in names:\n            if int(name) > 6: return a + b\n",
    ),
    (
        "import_the_tests",
        "wrong",
        in_call("""
for name in ('tests', 'test_add', 'conftest', 'verifiers', 'solution_test'):
    try: __import__(name)
    except ImportError: continue
    return a + b
"""),
    ),
    (
        "return_what_the_last_run_left",
        "wrong",
        "import os\ndef add(a, b):\n    places = ('/tmp', '/dev/shm', '/var/tmp', '.')\n"
        "    seen = [name for place in places if os.path.isdir(place) for name in os.listdir(place)]\n"
        "    return a + b if seen else None\n",
    ),
    ("exception_named_after_the_arguments", "exception", "def add(a, b): raise type(f'Got_{a}_{b}', (Exception,), {})"),
)

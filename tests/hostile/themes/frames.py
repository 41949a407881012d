# ruff: noqa: E501 - programs read better on one line
"""Writing into the judge's channel: forged, doubled, replayed and broken frames, and games with its descriptors."""

from __future__ import annotations

from tests.hostile.program import WRONG, at_import, collect, in_call, with_channel

# fmt: off


def _raw(value: str) -> str:
    """Every call writes a value that the encoder would never write."""
    return with_channel(f"def add(a, b):\n    put_raw({value})\n    return 7\n")


PROGRAMS = collect(
    "frames",
    ("kind_passed", "bad_frame", with_channel("def add(a, b):\n    put(encode(('passed', 1.0)))\n    return 7")),
    ("kind_passed_at_import", "bad_frame", with_channel("put(encode(('passed', 1.0)))" + WRONG)),
    ("ready_again", "bad_frame", with_channel("put(encode(('ready', None)))" + WRONG)),
    ("setup_failed", "bad_frame", with_channel("put(encode(('setup_failed', 'no sandbox')))" + WRONG)),
    ("loaded_twice", "bad_frame", with_channel("put(encode(('loaded', None)))" + WRONG)),
    ("value_while_loading", "bad_frame", with_channel("put(encode(('value', 3)))" + WRONG)),
    ("loaded_in_call", "bad_frame", with_channel("def add(a, b):\n    put(encode(('loaded', None)))\n    return 7")),
    ("guesses_ahead", "wrong", with_channel("put(encode(('loaded', None)))\nfor _ in range(4): put(encode(('value', 3)))" + WRONG)),
    ("answers_twice", "wrong", with_channel("def add(a, b):\n    put(encode(('value', a + b)))\n    return a + b")),
    ("right_frame_then_wrong_value", "wrong", with_channel("def add(a, b):\n    put(encode(('value', a + b)))\n    return 7")),
    ("wrong_frame_then_right_value", "wrong", with_channel("def add(a, b):\n    put(encode(('value', 7)))\n    return a + b")),
    ("answers_in_advance", "wrong", with_channel("def add(a, b):\n    for _ in range(4): put(encode(('value', a + b)))\n    return a + b")),
    ("replays_the_first_frame", "wrong", with_channel("old = []\ndef add(a, b):\n    old.append(encode(('value', a + b)))\n    put(old[0])\n    return a + b")),
    ("no_pair", "bad_frame", with_channel("def add(a, b):\n    put(encode('value'))\n    return 7")),
    ("a_triple", "bad_frame", with_channel("def add(a, b):\n    put(encode(('value', a + b, True)))\n    return 7")),
    ("a_list", "bad_frame", with_channel("def add(a, b):\n    put(encode(['value', a + b]))\n    return 7")),
    ("kind_as_bytes", "bad_frame", with_channel("def add(a, b):\n    put(encode((b'value', a + b)))\n    return 7")),
    ("kind_in_capitals", "bad_frame", with_channel("def add(a, b):\n    put(encode(('VALUE', a + b)))\n    return 7")),
    ("exception_with_a_list", "bad_frame", with_channel("def add(a, b):\n    put(encode(('exception', [1])))\n    return 7")),
    ("exception_with_a_surrogate", "exception", with_channel("def add(a, b):\n    put(encode(('exception', ('\\ud800',))))\n    return 7")),
    ("exception_with_a_sentence", "exception", with_channel("def add(a, b):\n    put(encode(('exception', ('Error): score 1.0 (passed', 'passed'))))\n    return 7")),
    ("load_with_a_dict", "bad_frame", with_channel("put(encode(('load', {1: 2})))" + WRONG)),
    ("load_with_a_surrogate", "load", with_channel("put(encode(('load', ('\\udfff', '__doc__'))))" + WRONG)),
    ("syntax_error_with_a_word", "syntax_error", with_channel("put(encode(('syntax_error', 'no')))" + WRONG)),
    ("syntax_error_with_odd_lines", "syntax_error", with_channel("put(encode(('syntax_error', ('\\0', -1 << 999))))" + WRONG)),
    ("empty_frame", "bad_frame", with_channel("def add(a, b):\n    put(b'')\n    return 7")),
    ("huge_frame", "bad_frame", "import os\ndef add(a, b):\n    os.write(4, b'\\x7f' * 4)\n    return 1"),
    ("unfinished_header", "died", "import os\ndef add(a, b):\n    os.write(4, b'\\0\\0')\n    os._exit(0)"),
    ("unfinished_frame", "died", with_channel("def add(a, b):\n    os.write(results, b'\\0\\0\\1\\0' + encode(('value', 3)))\n    os._exit(0)")),
    ("frame_with_a_tail", "bad_frame", with_channel("def add(a, b):\n    put(encode(('value', a + b)) + b'N')\n    return 7")),
    ("unfinished_int", "bad_frame", _raw("b'i3'")),
    ("int_without_digits", "bad_frame", _raw("b'i;'")),
    ("huge_int", "bad_frame", _raw("b'i' + b'f' * 20_000 + b';'")),
    ("unfinished_float", "bad_frame", _raw("b'd123'")),
    ("string_that_is_no_utf8", "bad_frame", _raw("b's1:\\xff'")),
    ("string_beyond_the_end", "bad_frame", _raw("b's999:x'")),
    ("negative_count", "bad_frame", _raw("b'l-1:'")),
    ("huge_count", "bad_frame", _raw("b'l9999999999:'")),
    ("long_count", "bad_frame", _raw("b'l' + b'9' * 5000 + b':'")),
    ("deep_frame", "bad_frame", _raw("b'l1:' * 60_000 + b'N'")),
    ("deep_keys", "bad_frame", _raw("b'z1:' * 60_000 + b'N'")),
    ("unhashable_key", "bad_frame", _raw("b'm1:l0:N'")),
    ("list_in_a_set", "bad_frame", _raw("b'e1:l0:'")),
    ("unknown_tag", "bad_frame", _raw("b'x1:N'")),
    ("pickle_in_a_frame", "bad_frame", with_channel("import pickle\ndef add(a, b):\n    put(pickle.dumps(('value', a + b)))\n    return 7")),
    ("json_in_a_frame", "bad_frame", with_channel("def add(a, b):\n    put(b'[\"value\", 3]')\n    return 7")),
    ("colliding_set", "bad_frame", _raw("b'e4999:' + b''.join(b'i%x;' % (i * (2**61 - 1)) for i in range(1, 5000))")),
    ("colliding_dict", "bad_frame", _raw("b'm4999:' + b''.join(b'i%x;N' % (i * (2**61 - 1)) for i in range(1, 5000))")),
    ("many_equal_keys", "bad_frame wrong", _raw("b'e9999:' + b'i3;' * 9999")),
    ("many_nans", "wrong bad_frame", _raw("b'e999:' + b'd\\x7f\\xf8\\0\\0\\0\\0\\0\\0' * 999")),
    ("spray_descriptors", "bad_frame", in_call("""
for fd in range(3, 64):
    try: os.write(fd, b'{"passed": true}')
    except OSError: pass
""")),
    ("write_to_the_requests", "wrong", in_call("try: os.write(3, b'x' * 99)\nexcept OSError: pass")),
    ("close_the_results", "died", "import os\ndef add(a, b):\n    os.close(4)\n    return a + b"),
    ("close_the_requests", "died", "import os\ndef add(a, b):\n    os.close(3)\n    return a + b"),
    ("close_everything", "died", "import os\ndef add(a, b):\n    os.closerange(0, 64)\n    return a + b"),
    ("close_everything_at_import", "died", at_import("os.closerange(0, 64)")),
    ("file_over_the_results", "died", "import os\ndef add(a, b):\n    os.dup2(os.open('/tmp/x', os.O_CREAT | os.O_RDWR), 4)\n    return a + b"),
    ("pipe_over_the_results", "died", "import os\nends = os.pipe()\ndef add(a, b):\n    os.dup2(ends[1], 4)\n    return a + b"),
    ("socket_over_the_results", "died", "import os, socket\npair = socket.socketpair()\ndef add(a, b):\n    os.dup2(pair[0].fileno(), 4)\n    return a + b"),
    ("null_over_the_requests", "died", "import os\ndef add(a, b):\n    os.dup2(0, 3)\n    return a + b"),
    ("own_requests", "wrong", with_channel("""
reader, writer = os.pipe()
def add(a, b):
    os.dup2(reader, 3)  # from now on it asks itself
    data = encode((0, 0))
    os.write(writer, (len(data).to_bytes(4, 'big') + data) * 9)
    return 7
""")),
    ("requests_and_results_swapped", "died", "import os\ndef add(a, b):\n    spare = os.dup(3)\n    os.dup2(4, 3)\n    os.dup2(spare, 4)\n    return a + b"),
    ("tiny_pipe", "wrong", in_call("import fcntl\nfor fd in (3, 4):\n    try: fcntl.fcntl(fd, 1031, 4096)\n    except OSError: pass")),
    ("results_do_not_block", "died wrong", "import os\nos.set_blocking(4, False)\ndef add(a, b): return 'x' * 200_000"),
    ("signal_on_the_pipe", "wrong", in_call("import fcntl\nfor fd in (3, 4):\n    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)\n    fcntl.fcntl(fd, fcntl.F_SETOWN, -1)")),
    ("flood_of_values", "wrong", with_channel("def add(a, b):\n    while True: put(encode(('value', 3)))")),
    ("flood_of_garbage", "bad_frame", with_channel("def add(a, b):\n    while True: os.write(results, b'\\xff' * 65536)")),
    ("threads_write_between", "bad_frame wrong", with_channel("""
import threading
def noise():
    while True: os.write(results, b'\\0\\0\\0\\1N')
def add(a, b):
    for _ in range(3): threading.Thread(target=noise, daemon=True).start()
    return [0] * 60_000
""")),
    ("thread_writes_inside_a_large_frame", "bad_frame wrong", with_channel("""
import threading
threading.Thread(target=lambda: [put(encode(('value', 3))) for _ in range(999)], daemon=True).start()
def add(a, b): return b'x' * 200_000
""")),
    ("fork_and_both_answer", "wrong", with_channel("def add(a, b):\n    if os.fork() == 0:\n        put(encode(('value', a + b)))\n        os._exit(0)\n    os.wait()\n    return 7")),
    ("fork_and_the_child_answers", "wrong", in_call("if os.fork():\n    import time\n    time.sleep(1000)")),
    ("fork_and_the_child_answers_rightly_once", "died", with_channel("def add(a, b):\n    if os.fork() == 0:\n        put(encode(('value', a + b)))\n        os._exit(0)\n    os.wait()\n    os._exit(0)")),
    ("exec_python_that_answers", "died", with_channel("""
def add(a, b):
    data = encode(('value', 3))
    code = f'import os; os.write({results}, {len(data).to_bytes(4, "big") + data!r})'
    os.execv(sys.executable, [sys.executable, '-S', '-c', code])
""")),
    ("subprocess_that_answers", "wrong", with_channel("""
import subprocess
def add(a, b):
    data = encode(('value', 3))
    code = f'import os; os.write({results}, {len(data).to_bytes(4, "big") + data!r})'
    subprocess.run([sys.executable, '-S', '-c', code], pass_fds=[results])
    return 3
""")),
    # Where the pipe belongs to the submission's own user, it can be opened at its other end, too: what the judge was told
    # is there has gone when the judge reads it.
    ("takes_results_back", "exception timeout bad_frame", with_channel("""
def add(a, b):
    both = os.open(f'/proc/self/fd/{results}', os.O_RDWR | os.O_NONBLOCK)
    os.write(both, (200_000).to_bytes(4, 'big'))
    n = 0
    while True:
        os.write(both, b'0')
        n = n % 50 + 1
        for _ in range(n): pass
        try: os.read(both, 99)
        except BlockingIOError: pass
""")),
    ("fills_the_requests", "exception timeout died", with_channel("""
import fcntl
def add(a, b):
    both = os.open('/proc/self/fd/3', os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(both, 1031, 4096)
    put(encode(('value', a + b)))
    n = 0
    while True:
        n = n % 2000 + 40
        for _ in range(n): pass
        try: os.write(both, bytes(4096))
        except BlockingIOError: pass
        try: os.read(both, 4096)
        except BlockingIOError: pass
""")),
    ("splice_from_a_file", "bad_frame", in_call("with open('/tmp/x', 'wb+') as f:\n    f.write(b'\\0\\0\\0\\4pass')\n    f.flush()\n    f.seek(0)\n    os.splice(f.fileno(), 4, 8)")),
)

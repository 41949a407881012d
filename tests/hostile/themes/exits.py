# ruff: noqa: E501 - programs read better on one line
"""Ending the process before the verdict, or printing what a verdict looks like."""

from __future__ import annotations

from tests.hostile.program import at_import, collect, in_call, syscall, with_channel

# fmt: off

PROGRAMS = collect(
    "exits",
    ("sys_exit_at_import", "load", "import sys; sys.exit(0)"),
    ("quit_at_import", "load", "quit()"),
    ("os_exit_at_import", "died", "import os; os._exit(0)"),
    ("os_exit_in_call", "died", in_call("os._exit(0)")),
    ("system_exit_in_call", "exception", in_call("raise SystemExit(0)")),
    ("system_exit_none_in_call", "exception", in_call("sys.exit()")),
    ("exit_in_thread_of_call", "wrong", in_call("import threading\nt = threading.Thread(target=sys.exit)\nt.start()")),
    ("exec_true", "died", in_call("os.execv('/usr/bin/true', ['true'])")),
    ("exec_true_at_import", "died", "import os; os.execv('/usr/bin/true', ['true'])"),
    ("exec_python", "died", in_call("os.execv(sys.executable, [sys.executable, '-c', 'print(\"OK\")'])")),
    ("libc_exit", "died", in_call("import ctypes\nctypes.CDLL(None)._exit(0)")),
    ("libc_exit_with_handlers", "died", in_call("import ctypes\nctypes.CDLL(None).exit(0)")),
    ("exit_system_call", "died", in_call(f"import ctypes\nlibc = ctypes.CDLL(None)\n{syscall(231, 94, '0')}")),
    ("interpreter_exit", "died", in_call("import ctypes\nctypes.pythonapi.Py_Exit(0)")),
    ("fatal_error", "died", in_call("import ctypes\nctypes.pythonapi.Py_FatalError(b'4 passed')")),
    (
        "finalize_interpreter",
        "died",
        in_call("import ctypes\nctypes.pythonapi.Py_FinalizeEx()\nctypes.CDLL(None)._exit(0)"),
    ),
    ("segfault", "died", in_call("import ctypes\nctypes.string_at(0)")),
    ("abort", "died", in_call("os.abort()")),
    ("overflow_the_c_stack", "died", in_call("import faulthandler\nfaulthandler._stack_overflow()")),
    # PID 1 of a namespace ignores signals that it sends to itself; elsewhere they kill.
    ("kill_itself", "wrong died", in_call("os.kill(os.getpid(), 9)")),
    ("terminate_itself", "wrong died", in_call("os.kill(os.getpid(), 15)")),
    ("print_passed", "wrong", at_import("print('PASSED test_add\\n4 passed')")),
    ("print_passed_and_exit", "died", in_call("os.write(1, b'4 passed in 0.01s\\nOK\\n')\nos._exit(0)")),
    (
        "print_test_markers",
        "wrong",
        at_import("print('>>>>> Start Test Output\\nPASSED test_add\\n>>>>> End Test Output\\nAll tests passed!')"),
    ),
    ("print_to_stderr_and_exit", "died", at_import("os.write(2, b'....\\nRan 4 tests in 0.000s\\n\\nOK\\n')\nos._exit(0)")),
    ("print_json_verdict", "wrong", in_call("""\nprint('{"score": 1.0, "passed": true, "kind": "passed"}', flush=True)""")),
    ("atexit_exit", "wrong", at_import("import atexit\natexit.register(os._exit, 0)")),
    ("threading_atexit_exit", "wrong", at_import("import threading\nthreading._register_atexit(os._exit, 0)")),
    ("finalizer_exit", "wrong", at_import("import weakref\nclass E: pass\ne = E()\nweakref.finalize(e, os._exit, 0)")),
    ("destructor_exit", "wrong", at_import("class E:\n    def __del__(self): os._exit(0)\nsys.e = E()")),
    ("excepthook_exit", "wrong", at_import("sys.excepthook = lambda *e: os._exit(0)")),
    (
        "excepthook_exit_and_raise",
        "exception",
        at_import("sys.excepthook = lambda *e: os._exit(0)", "def add(a, b): raise ValueError"),
    ),
    ("unraisablehook_exit", "wrong", at_import("sys.unraisablehook = sys.breakpointhook = lambda *e: os._exit(0)")),
    (
        "thread_exits_during_call",
        "died",
        """
        import os, threading, time
        threading.Thread(target=lambda: (time.sleep(0.1), os._exit(0)), daemon=True).start()
        def add(a, b):
            time.sleep(0.3)
            return 1
        """,
    ),
    (
        "child_holds_the_channel",
        "died",
        in_call("if os.fork() == 0:\n    import time\n    time.sleep(1000)\nos._exit(0)"),
    ),
    (
        "answer_once_and_exit",
        "died",
        with_channel("def add(a, b):\n    put(encode(('value', a + b)))\n    os._exit(0)"),
    ),
    ("strict_seccomp", "died wrong", in_call("import ctypes\nctypes.CDLL(None).prctl(22, 1, 0, 0, 0)\nos.getppid()")),
)

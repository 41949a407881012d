# ruff: noqa: E501 - programs read better on one line
"""Attacking other processes: the judge, the sandbox's parent, its group, and what outlives the answer."""

from __future__ import annotations

from tests.hostile.program import MARK, at_import, attack, collect, in_call, syscall

# fmt: off

PROGRAMS = collect(
    "processes",
    ("ptrace_parent", "wrong", attack("return libc.ptrace(16, os.getppid() or 1 << 22, 0, 0) == 0")),
    ("ptrace_every_process", "wrong", attack("return any(libc.ptrace(16, pid, 0, 0) == 0 for pid in range(1, 500) if pid != os.getpid())")),
    ("read_memory_of_others", "wrong", attack("""
buffer = ctypes.create_string_buffer(8)
vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
far = (ctypes.c_void_p * 2)(id(None), 8)
return any(libc.process_vm_readv(pid, vector, 1, far, 1, 0) > 0 for pid in {os.getppid(), *range(2, 99)} - {0, os.getpid()})
""")),
    ("write_memory_of_others", "wrong", attack("return any(open(f'/proc/{pid}/mem', 'r+b') for pid in {os.getppid(), 2, 3} if os.path.exists(f'/proc/{pid}') and pid != os.getpid())")),
    ("descriptors_by_pidfd", "wrong", attack(f"fd = os.pidfd_open(os.getppid() or 2)\nreturn {syscall(438, 438, 'fd', '0', '0')} >= 0")),
    ("limits_of_the_parent", "wrong", attack("import resource\nresource.prlimit(os.getppid() or 2, resource.RLIMIT_NOFILE, (1, 1))\nreturn True")),
    ("priority_of_the_parent", "wrong", attack("os.setpriority(os.PRIO_PROCESS, os.getppid() or 2, 19)\nreturn True")),
    ("affinity_of_the_parent", "wrong", attack("os.sched_setaffinity(os.getppid() or 2, {0})\nreturn True")),
    ("realtime_priority", "wrong", attack("os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))\nreturn True")),
    ("better_niceness", "wrong", attack("return os.nice(-5) < 0")),
    ("join_other_group", "wrong", attack("os.setpgid(0, os.getppid() or 2)\nreturn True")),
    ("signals_by_descriptor", "wrong", attack("import fcntl\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, os.getppid() or 2)\nreturn fcntl.fcntl(r, fcntl.F_GETOWN) > 0 and os.getppid() != 0")),
    ("grandchild_in_own_session", "wrong", in_call("""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import time
        time.sleep(1000)
    os._exit(0)
os.wait()
""")),
    ("grandchild_with_closed_descriptors", "wrong", in_call("""
if os.fork() == 0:
    os.setsid()
    os.closerange(0, 64)
    import signal, time
    for s in range(1, 65):
        try: signal.signal(s, signal.SIG_IGN)
        except (OSError, ValueError): pass
    time.sleep(1000)
""")),
    ("child_with_another_name", "wrong", in_call(f"if os.fork() == 0: os.execv('/usr/bin/sleep', ['{MARK}', '1000'])")),
    ("child_that_waits_for_the_end", "wrong", in_call("""
if os.fork() == 0:
    import ctypes, signal, time
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *a: None)
    while True:
        try: time.sleep(1000)
        except BaseException: pass
""")),
    ("children_in_a_chain", "wrong", in_call("for _ in range(5):\n    if os.fork():\n        break\nelse:\n    import time\n    time.sleep(1000)\nif os.getpid() != 1:\n    import time\n    time.sleep(1000)")),
    ("vfork_and_exec", "wrong", in_call("import subprocess\nfor _ in range(3): subprocess.Popen(['/usr/bin/sleep', '1000'])")),
    ("non_daemon_thread", "wrong", at_import("import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()")),
    ("executor_left_open", "wrong", at_import("import time\nfrom concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\npool.submit(time.sleep, 1000)")),
    ("subreaper", "wrong", in_call("import ctypes\nctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\nif os.fork() == 0:\n    os.fork()\n    import time\n    time.sleep(1000)")),
    ("stopped_children", "wrong", in_call("import signal\nif os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)")),
    ("zombies", "wrong", in_call("for _ in range(3):\n    if os.fork() == 0: os._exit(0)")),
    ("traced_child", "wrong", in_call("import ctypes\nif os.fork() == 0:\n    ctypes.CDLL(None).ptrace(0, 0, 0, 0)\n    os.kill(os.getpid(), 19)")),
    ("undumpable", "wrong", in_call("import ctypes\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)")),
    ("kill_parent", "wrong", in_call("try: os.kill(os.getppid(), 9)\nexcept OSError: pass")),
    ("stop_parent", "wrong", in_call("try: os.kill(os.getppid(), 19)\nexcept OSError: pass")),
    ("kill_group", "wrong died", in_call("os.kill(0, 9)")),
    ("kill_parents_group", "wrong died", in_call("try: os.killpg(os.getpgid(os.getppid()), 9)\nexcept OSError: pass")),
    ("kill_all", "wrong", in_call("try: os.kill(-1, 9)\nexcept OSError: pass")),
    ("kill_init", "wrong died", in_call("try: os.kill(1, 9)\nexcept OSError: pass")),
    ("kill_many", "wrong died", in_call("for pid in range(1, 2000):\n    try: os.kill(pid, 9)\n    except OSError: pass")),
    ("kill_all_by_pidfd", "wrong died", in_call("import signal\nfor pid in range(1, 300):\n    try: signal.pidfd_send_signal(os.pidfd_open(pid), 9)\n    except OSError: pass")),
    ("child_kills_all", "died", in_call("if os.fork() == 0:\n    for pid in (1, -1):\n        try: os.kill(pid, 9)\n        except OSError: pass\n    os._exit(0)\nos.wait()\nos._exit(0)")),
    harmful=True,
)

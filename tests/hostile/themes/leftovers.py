# ruff: noqa: E501 - programs read better on one line
"""Leaving something behind that helps a later answer or harms a later verdict."""

from __future__ import annotations

from tests.hostile.program import MARK, at_import, collect, in_call, syscall

# fmt: off

_TRY_TO_WRITE = """
def write(path, text='import os; os._exit(0)'):
    try:
        os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
        with open(path, 'w') as f: f.write(text)
    except OSError: pass
"""
_LIBC = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"

PROGRAMS = collect(
    "leftovers",
    ("write_reward", "wrong", at_import(_TRY_TO_WRITE + "for p in ('/tmp/reward.txt', '/dev/shm/reward.txt', 'reward.txt', '/logs/verifier/reward.txt'): write(p, '1')")),
    ("write_junit", "wrong", at_import(_TRY_TO_WRITE + "write('junit.xml', '<testsuites tests=\"4\" failures=\"0\"/>')\nwrite('/tmp/report.json', '{}')")),
    ("write_conftest", "wrong", at_import(_TRY_TO_WRITE + "for name in ('conftest.py', 'pytest.ini', 'tox.ini', 'setup.cfg', 'sitecustomize.py', 'usercustomize.py', 'json.py'): write(name)")),
    ("write_marked_files", "wrong", at_import(_TRY_TO_WRITE + f"for d in ('/tmp', '/dev/shm', '/var/tmp', '/run', '/', '.', '..', os.path.expanduser('~')): write(d + '/{MARK}', '1')")),
    ("write_path_file", "wrong", at_import(_TRY_TO_WRITE + f"for d in [*sys.path, sys.prefix, os.path.dirname(os.__file__)]: write(d + '/{MARK}.pth')")),
    ("write_start_files", "wrong", at_import(_TRY_TO_WRITE + "for n in ('.bashrc', '.profile', '.pythonrc.py', '.gitconfig', '.pdbrc'): write(os.path.expanduser('~/') + n)")),
    ("poison_byte_code", "wrong", at_import(_TRY_TO_WRITE + "for m in ('json', 'random', 'json.decoder'): __import__(m); write(sys.modules[m].__cached__)")),
    ("write_the_judge", "load", "open('/judge/worker.py', 'a').write('x')\ndef add(a, b): return a - b - 1"),
    ("unusual_file_names", "wrong", at_import(f"for n in ('-rf', ' ', '\\n', '\\x1b[2J', 'ü' * 99, '*', '$(touch {MARK})'):\n    open('/tmp/' + n, 'w').close()\nopen(b'/tmp/\\xff', 'w').close()")),
    ("path_too_long_to_delete", "wrong", at_import("for _ in range(40):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)")),
    ("folder_that_nobody_may_read", "wrong", at_import(f"os.makedirs('/tmp/{MARK}/x')\nos.chmod('/tmp/{MARK}', 0)")),
    ("links_to_outside", "wrong", at_import(f"for target in ('/', '/etc/passwd', '/proc/1/root', '/tmp/{MARK}'):\n    os.symlink(target, f'/tmp/link{{len(os.listdir(\"/tmp\"))}}')")),
    ("named_pipe", "wrong", at_import(f"os.mkfifo('/tmp/{MARK}')\nos.mkfifo('conftest.py')")),
    ("socket_file", "wrong", at_import(f"import socket\nsocket.socket(socket.AF_UNIX).bind('/tmp/{MARK}')")),
    ("setuid_file", "wrong", at_import(f"import shutil\nshutil.copy('/usr/bin/env', '/tmp/{MARK}')\nos.chmod('/tmp/{MARK}', 0o6777)")),
    ("remove_working_folder", "wrong", at_import("import shutil\nos.mkdir('x')\nos.chdir('x')\nos.rmdir('../x')")),
    ("environment", "wrong", at_import(f"os.environ.update(PYTHONPATH='/tmp', PYTHONSTARTUP='/tmp/x', LD_PRELOAD='/tmp/x', {MARK}='1')\nos.unsetenv('PATH')")),
    ("umask_and_niceness", "wrong", at_import("os.umask(0o777)\nos.nice(19)\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})")),
    ("low_limits", "wrong", at_import("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nresource.setrlimit(resource.RLIMIT_STACK, (1 << 16, 1 << 16))")),
    ("block_all_signals", "wrong", at_import("import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))")),
    ("abstract_socket", "wrong", at_import(f"import socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('\\0{MARK}')\ns.listen()")),
    ("descriptor_in_flight", "wrong", at_import("import array, socket\na, b = socket.socketpair(socket.AF_UNIX)\nfor fd in (3, 4, a.fileno(), b.fileno()): a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))])")),
    ("posix_shared_memory", "wrong", at_import(f"from multiprocessing import shared_memory\nm = shared_memory.SharedMemory('{MARK}', create=True, size=4096)\nm.buf[:4] = b'pass'")),
    ("posix_semaphore", "wrong", at_import(_LIBC + f"libc.sem_open(b'/{MARK}', os.O_CREAT, 0o666, 1)")),
    ("posix_message_queue", "wrong", at_import(_LIBC + f"libc.mq_open(b'/{MARK}', os.O_CREAT | os.O_RDWR, 0o666, None)")),
    ("system_v_shared_memory", "wrong", at_import(_LIBC + "libc.shmget(0x5151, 4096, 0o1666)")),
    ("system_v_semaphore", "wrong", at_import(_LIBC + "libc.semget(0x5151, 4, 0o1666)")),
    ("system_v_messages", "wrong", at_import(_LIBC + "q = libc.msgget(0x5151, 0o1666)\nlibc.msgsnd(q, b'\\1' + bytes(7) + b'pass', 4, 0o4000)")),
    ("key_in_the_keyring", "wrong", at_import(_LIBC + "for ring in (-1, -2, -3, -4, -5):\n    " + syscall(248, 217, "b'user'", f"b'{MARK}'", "b'pass'", "4", "ring"))),
    ("session_keyring", "wrong", at_import(_LIBC + syscall(250, 219, "1", f"b'{MARK}'"))),
    ("listening_port", "wrong", at_import("import socket\ns = socket.create_server(('127.0.0.1', 45151))\nc = socket.create_connection(('127.0.0.1', 45151))\ns.accept()[0].close()\nc.close()")),
    ("pseudo_terminal", "wrong", at_import("ends = os.openpty()\nos.write(ends[0], b'pass')")),
    ("process_name", "wrong", at_import(_LIBC + "libc.prctl(15, b') R 1 1 1', 0, 0, 0)")),
    ("network_settings", "wrong", at_import(_TRY_TO_WRITE + "for n in ('ipv4/ip_default_ttl', 'core/somaxconn', 'ipv4/ip_local_port_range', 'unix/max_dgram_qlen'): write('/proc/sys/net/' + n, '99')")),
    ("system_settings", "wrong", at_import(_TRY_TO_WRITE + "for n in ('kernel/hostname', 'kernel/shmmax', 'kernel/core_pattern', 'kernel/pid_max', 'vm/overcommit_memory', 'fs/mqueue/msg_max', 'user/max_user_namespaces', 'kernel/ns_last_pid'): write('/proc/sys/' + n, '1')")),
    ("returned_list_changes_later", "wrong", "import threading, time\nshared = []\ndef later():\n    while True:\n        shared[:] = [3]\n        time.sleep(0.001)\nthreading.Thread(target=later, daemon=True).start()\ndef add(a, b): return shared"),
    ("import_solution", "wrong", at_import("import solution\nsolution.expected = solution.passed = True")),
    ("print_control_sequences", "wrong", in_call("print('\\x1b]0;passed\\x07\\x1b[2J\\r\\b', flush=True)")),
    ("delete_everything", "wrong", at_import("import shutil\nfor d in ('/judge', '/tmp', '/dev', '/py/bin', os.getcwd()): shutil.rmtree(d, ignore_errors=True)")),
    ("rename_folders", "wrong", at_import("for d in ('/judge', '/tmp', '/py', '/usr', '/dev'):\n    try: os.rename(d, d + 'x')\n    except OSError: pass")),
    ("delete_test_files", "wrong", at_import("for top in ('/tmp', '/judge', '/home', '/root', '/repo', '/src'):\n    for folder, _, names in os.walk(top):\n        for n in names:\n            try: os.remove(folder + '/' + n)\n            except OSError: pass")),
    harmful=True,
)

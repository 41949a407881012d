"""Judges the programs whose names contain a word, and prints what is wrong: `python -m tests.hostile [WORD]...`."""

from __future__ import annotations

import sys

from tests.hostile.judges import JUDGES, Judge, complaint, judge_all, right_complaint
from tests.hostile.programs import all_programs


def main(judge: Judge, words: list[str]) -> int:
    """Number of complaints, at most 1."""
    programs = [p for p in all_programs() if not words or any(word in p.name for word in words)]
    done = judge_all(judge, programs)
    faults = []
    for program in programs:
        verdict = done.verdicts[program.name]
        if words:
            print(program.name, verdict)
        for text in (complaint(judge, program, verdict), right_complaint(done.after[program.name])):
            faults += [f"! {program.name}: {text}"] if text else []
    faults += [f"! left behind: {name}" for name in sorted(done.left_processes | done.left_files)]
    faults += [f"! the judge failed: {done.crash}"] if done.crash else []
    print(*faults, f"{len(programs)} programs, {len(faults)} complaints, {done.seconds:.1f} s", sep="\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(max(main(judge, sys.argv[1:]) for judge in JUDGES))

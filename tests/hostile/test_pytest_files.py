"""The same programs through pytest files in mode "proxy"."""

from __future__ import annotations

import pytest

from tests.hostile.judges import Judge, Round, complaint, judge_all, right_complaint
from tests.hostile.program import CASES, ENTRY, Program
from tests.hostile.programs import all_programs
from verifiers import Example, PytestFiles

TESTS = f"""
import pytest
from solution import {ENTRY}

@pytest.mark.parametrize(("arguments", "expected"), {list(CASES)!r})
def test_{ENTRY}(arguments, expected):
    result = {ENTRY}(*arguments)
    assert (type(result), result) == (int, expected)  # 3.0 == 3, so a test must ask for the type
"""

# A call through the proxy is two questions: what the name is, and what the call returns and does to its arguments. A
# frame sent early or twice is read as the answer to the wrong one, which is noticed.
ANSWERS_OUT_OF_TURN = ("frames/", "exits/answer_once_and_exit", "patching/code_of_the_encoder")
OTHER_KINDS = {
    # No error of loading, since tests may use a constant: they get it, and fail when they call it.
    "sources/entry_is_none": {"wrong"},
    "sources/entry_is_a_number": {"wrong"},
    # The module makes the name when it is asked for; the worker looks for it in the module's dict when it is called.
    "sources/entry_on_demand": {"exception"},
}


def other_kinds() -> dict[str, frozenset[str]]:
    out_of_turn = {p.name: p.kinds | {"bad_frame"} for p in all_programs() if p.name.startswith(ANSWERS_OUT_OF_TURN)}
    return out_of_turn | {name: frozenset(kinds) for name, kinds in OTHER_KINDS.items()}


JUDGE = Judge(
    "pytest_files", PytestFiles, Example("add", "Write add(a, b).", {"files": {"test_add.py": TESTS}}), other_kinds()
)


def sample() -> list[Program]:
    """About one in twenty, from every theme, few that burn all their time; and those that are named above."""
    slow = ("hanging", "bombs")
    chosen = [p for p in all_programs() if p.theme not in slow and not p.waits][::16]
    chosen += [p for p in all_programs() if p.theme in slow][::24]
    return list(dict.fromkeys([*chosen, *(p for p in all_programs() if p.name in OTHER_KINDS)]))


@pytest.fixture(scope="module")
def round_of_sample() -> Round:
    return judge_all(JUDGE, sample())


def assert_faultless(programs: list[Program], done: Round) -> None:
    complaints = {p.name: complaint(JUDGE, p, done.verdicts[p.name]) for p in programs}
    assert {name: text for name, text in complaints.items() if text} == {}
    assert {name: text for name, after in done.after.items() if (text := right_complaint(after))} == {}
    assert done.left_processes == set()
    assert done.left_files == set()


def test_a_sample_gets_its_verdicts(round_of_sample: Round):
    assert_faultless(sample(), round_of_sample)


def test_the_exceptions_are_programs():
    assert set(OTHER_KINDS) <= {program.name for program in all_programs()}


@pytest.mark.slow
def test_every_program_gets_its_verdict():
    programs = list(all_programs())
    assert_faultless(programs, judge_all(JUDGE, programs, seed=1))

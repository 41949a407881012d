from __future__ import annotations

import time

import pytest

from tests.hostile.judges import SHORT_WAIT, Judge, Round, complaint, judge_all, right_complaint
from tests.hostile.program import Program
from tests.hostile.programs import all_programs, hostile_programs, right_programs
from verifiers import Answer

PROGRAMS = [pytest.param(program, id=program.name) for program in all_programs()]


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_gets_its_verdict(judge: Judge, round_of_all: Round, program: Program):
    assert complaint(judge, program, round_of_all.verdicts[program.name]) == ""


def test_no_verdict_is_changed_by_the_program_before(round_of_all: Round):
    assert {name: text for name, after in round_of_all.after.items() if (text := right_complaint(after))} == {}


def test_the_judge_never_fails(round_of_all: Round):
    assert round_of_all.crash == ""


def test_nothing_is_left(round_of_all: Round):
    assert round_of_all.left_processes == set()
    assert round_of_all.left_files == set()
    assert round_of_all.leaked_descriptors <= 0


def test_time_is_bounded(round_of_all: Round):
    # Half a minute on two free cores. Of the whole round: a verdict's time may include its wait for a worker.
    assert round_of_all.seconds < 300


@pytest.mark.parametrize("name", ["hanging/sleep", "hanging/half_a_frame", "hanging/main_thread_ends"])
def test_waiting_program_ends_in_time(judge: Judge, name: str):
    (program,) = (p for p in all_programs() if p.name == name)
    verifier = judge.make(SHORT_WAIT)
    began = time.monotonic()
    verdict = verifier.verify(judge.example, Answer(program.source))
    assert time.monotonic() - began < 2 * SHORT_WAIT.wall_s + 10  # two tries, and patience with a busy machine
    assert complaint(judge, program, verdict) == ""
    verifier.close()


def test_the_suite_is_what_it_says():
    names = [program.name for program in all_programs()]
    assert len(names) == len(set(names))
    assert len(hostile_programs()) >= 150
    assert len(right_programs()) >= 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_order_does_not_matter(judge: Judge, seed: int):
    _assert_faultless(judge, judge_all(judge, all_programs(), seed))


@pytest.mark.slow
def test_three_times_in_a_row(judge: Judge):
    _assert_faultless(judge, judge_all(judge, all_programs(), seed=6, repeat=3))


def _assert_faultless(judge: Judge, done: Round) -> None:
    complaints = {p.name: complaint(judge, p, done.verdicts[p.name]) for p in all_programs()}
    assert {name: text for name, text in complaints.items() if text} == {}
    test_no_verdict_is_changed_by_the_program_before(done)
    test_the_judge_never_fails(done)
    test_nothing_is_left(done)

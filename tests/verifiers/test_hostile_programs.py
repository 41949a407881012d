from __future__ import annotations

import pytest
from conftest import ADD, CORRECT, Judge
from hostile_programs import CORRECT_BUT_ODD, HOSTILE, SLEEPING

from verifiers import Answer, FunctionTests, Limits


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_program_scores_zero_and_harms_no_later_verdict(judge: Judge, name: str):
    source, kinds = HOSTILE[name]
    verdict = judge(source)
    assert verdict.score == 0.0
    assert not verdict.passed
    assert verdict.kind in kinds.split(), verdict
    after = judge(CORRECT)
    assert after.kind == "passed", after
    assert after.score == 1.0


@pytest.mark.parametrize("name", CORRECT_BUT_ODD)
def test_correct_but_odd_program_scores_one(judge: Judge, name: str):
    verdict = judge(CORRECT_BUT_ODD[name])
    assert verdict.kind == "passed", verdict
    assert verdict.score == 1.0
    assert verdict.passed


@pytest.mark.parametrize("name", SLEEPING)
def test_program_that_uses_no_cpu_meets_the_wall_clock(name: str):
    verifier = FunctionTests(Limits(wall_s=0.7))
    assert verifier.verify(ADD, Answer(SLEEPING[name])).kind == "timeout"
    assert verifier.verify(ADD, Answer(CORRECT)).kind == "passed"


def test_equal_answers_get_equal_verdicts(judge: Judge):
    order_of_a_set = "def add(a, b):\n    return list({'x', 'y', 'z'}).index('x') and a + b"
    random_guess = "import random\ndef add(a, b):\n    return a + b + random.randrange(2)"
    for source in (order_of_a_set, random_guess):
        assert len({judge(source).kind for _ in range(8)}) == 1

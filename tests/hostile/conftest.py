from __future__ import annotations

import pytest

from tests.hostile.judges import JUDGES, Judge, Round, judge_all
from tests.hostile.programs import all_programs


@pytest.fixture(scope="session", params=JUDGES, ids=[judge.name for judge in JUDGES])
def judge(request: pytest.FixtureRequest) -> Judge:
    return request.param


@pytest.fixture(scope="session")
def round_of_all(judge: Judge) -> Round:
    """Every program, judged once, in one random order; the tests only look at what came of it."""
    return judge_all(judge, all_programs())

from __future__ import annotations

from typing import Any

import pytest
from add_problem import ADD, CORRECT

from verifiers import Answer, FunctionTests, Limits
from verifiers.sandbox.channel import Execution
from verifiers.sandbox.pool import SandboxPool


@pytest.mark.parametrize("field", ["cpu_s", "wall_s", "memory_mb", "processes"])
def test_limits_are_positive_numbers(field: str):
    impossible: list[Any] = [0, -1, "2", None, float("nan")]
    for value in impossible:
        with pytest.raises(ValueError, match=field):
            Limits(**{field: value})


def test_cpu_limit_may_be_a_fraction_of_a_second():
    verifier = FunctionTests(limits=Limits(cpu_s=0.3), workers=1)
    assert verifier.verify(ADD, Answer("def add(a, b):\n    while True: pass")).kind == "timeout"
    assert verifier.verify(ADD, Answer(CORRECT)).kind == "passed"
    pool = SandboxPool(Limits(cpu_s=0.3), "auto", workers=1)
    used: list[float] = []

    def job(execution: Execution) -> str:
        execution.load("def loop():\n    while True: pass", "loop")
        kind = execution.ask("call", "loop").kind
        used.append(execution.close().cpu_s)
        return kind

    assert pool.run(job) == "timeout"
    pool.shutdown()
    assert 0.25 <= used[0] <= 0.6  # summed every 50 ms, so a little more than the limit

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from verifiers import Answer, Example, FunctionTests, Limits, PytestFiles, Verdict

ADD = Example(
    id="add",
    prompt="Write add(a, b).",
    hidden={
        "entry": "add",
        "tests": [
            {"args": [1, 2], "expected": 3},
            {"args": [0, 0], "expected": 0},
            {"args": [-3, 5], "expected": 2},
            {"args": [10, -4], "expected": 6},
        ],
    },
)
CORRECT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"

Judge = Callable[[str], Verdict]


@pytest.fixture(scope="session")
def verifier() -> FunctionTests:
    """One second of CPU time, so that endless programs end soon."""
    return FunctionTests(limits=Limits(cpu_s=1))


@pytest.fixture(scope="session")
def judge(verifier: FunctionTests) -> Judge:
    """Source of `add` -> verdict."""
    return lambda source: verifier.verify(ADD, Answer(source))


@pytest.fixture(scope="session")
def proxy() -> Iterator[PytestFiles]:
    verifier = PytestFiles(limits=Limits(cpu_s=1))
    yield verifier
    verifier.close()


@pytest.fixture(scope="session")
def inside() -> Iterator[PytestFiles]:
    verifier = PytestFiles(limits=Limits(cpu_s=1), mode="in_process")
    yield verifier
    verifier.close()


@pytest.fixture(params=["proxy", "in_process"])
def either(request: pytest.FixtureRequest, proxy: PytestFiles, inside: PytestFiles) -> PytestFiles:
    return {"proxy": proxy, "in_process": inside}[request.param]

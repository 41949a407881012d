from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from add_problem import ADD

from verifiers import Answer, FunctionTests, Limits, PytestFiles, Verdict

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

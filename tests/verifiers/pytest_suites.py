"""What the tests of `PytestFiles` share."""

from __future__ import annotations

from verifiers import Answer, Example, PytestFiles, Verdict

ADD = """
import pytest
from solution import add

@pytest.mark.parametrize(("a", "b", "total"), [(1, 2, 3), (0, 0, 0), (-3, 5, 2), (10, -4, 6)])
def test_add(a, b, total):
    assert add(a, b) == total
"""
CORRECT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"


def suite(text: str, **hidden: object) -> Example:
    return Example(id="suite", prompt="", hidden={"files": {"test_it.py": text}, **hidden})


def judge(verifier: PytestFiles, text: str, source: str, **hidden: object) -> Verdict:
    return verifier.verify(suite(text, **hidden), Answer(source))

# ruff: noqa: E501 - suites read better on one line
from __future__ import annotations

import pytest
from pytest_suites import ADD, CORRECT, WRONG, judge

from verifiers import PytestFiles


def test_in_process_takes_what_a_proxy_cannot(inside: PytestFiles):
    text = """
import copy, pytest
from unittest import mock
import solution
from solution import Stack, StackError

def test_class():
    s = Stack()
    s.push(1)
    assert s.pop() == 1
    with pytest.raises(StackError, match="empty"):
        s.pop()

def test_output(capsys):
    solution.hello()
    assert capsys.readouterr().out == "hello\\n"

def test_patch(monkeypatch):
    monkeypatch.setattr(solution, "GREETING", "bye")
    with mock.patch("builtins.print") as printed:
        solution.hello()
    printed.assert_called_once_with("bye")

def test_files(tmp_path):
    (tmp_path / "x").write_text("3")
    assert solution.apply(lambda: int((tmp_path / "x").read_text())) == 3
"""
    source = """
class StackError(Exception): pass
class Stack(list):
    push = list.append
    def pop(self):
        if not self: raise StackError("empty")
        return super().pop()
GREETING = "hello"
def hello(): print(GREETING)
def apply(f): return f()
"""
    verdict = judge(inside, text, source)
    assert verdict.feedback == "all 4 tests passed", verdict


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.write(1, b'4 passed')\nos._exit(0)",
        "import atexit, os\natexit.register(os._exit, 0)" + "\n" + WRONG,
        "import pytest\npytest.main = lambda *a, **k: 0\n" + WRONG,
        "from _pytest.python import Function\nFunction.runtest = lambda self: None\n" + WRONG,
        "from _pytest.reports import TestReport\nTestReport.outcome = 'passed'\n" + WRONG,
        'import sys\nfor f in range(3, 9):\n    try: __import__(\'os\').write(f, b\'{"kind": "", "outcomes": {}}\')\n    except OSError: pass\n'
        + WRONG,
        "open('tests/conftest.py', 'w').write('import os; os._exit(0)')\n" + WRONG,
        "class E:\n    pass\ndef add(a, b): raise __import__('unittest').SkipTest",
    ],
)
def test_in_process_stops_the_cheap_tricks(inside: PytestFiles, source: str):
    assert judge(inside, ADD, source).score == 0.0
    assert judge(inside, ADD, CORRECT).passed


def test_in_process_can_be_forged(inside: PytestFiles):
    """Not a wish, a fact: this is why such verdicts are marked."""
    verdict = judge(inside, ADD, "class Sum:\n    __eq__ = lambda self, other: True\ndef add(a, b): return Sum()")
    assert verdict.passed
    assert verdict.forgeable

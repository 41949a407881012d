# ruff: noqa: E501 - suites read better on one line
from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import pytest
from pytest_suites import ADD, CORRECT, WRONG, judge, suite

from verifiers import Answer, Example, Limits, PytestFiles, VerifierError


def test_right_and_wrong_answers(either: PytestFiles):
    right = judge(either, ADD, CORRECT)
    assert (right.score, right.passed, right.kind, right.feedback) == (1.0, True, "passed", "all 4 tests passed")
    assert right.components == {"passed_fraction": 1.0}
    wrong = judge(either, ADD, WRONG)
    assert (wrong.score, wrong.passed, wrong.kind, wrong.feedback) == (0.0, False, "wrong", "test 1 of 4: failed")
    assert judge(either, ADD, WRONG, scoring="fraction").score == 0.25


def test_forgeable_says_in_which_mode_it_was(proxy: PytestFiles, inside: PytestFiles):
    for source in (CORRECT, WRONG, "\0"):
        assert not judge(proxy, ADD, source).forgeable
        assert judge(inside, ADD, source).forgeable
    assert judge(inside, ADD, CORRECT).as_info()["forgeable"] is True


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("def add(", "syntax_error"),
        ("\0", "bad_source"),
        ("raise ValueError", "load"),
        ("def sum_of(a, b): return a + b", "load"),
        ("", "load"),
        ("import os; os._exit(0)", "died"),
        ("import sys; sys.exit(0)", "load"),
        ("import os\ndef add(a, b): os._exit(0)", "died"),
        ("def add(a, b):\n    while True: pass", "timeout"),
        ("def add(a, b): raise ValueError", "exception"),
        ("def add(a): return a", "exception"),
        ("x = bytearray(6 << 30)", "memory"),
    ],
)
def test_kinds_of_failures(either: PytestFiles, source: str, kind: str):
    verdict = judge(either, ADD, source)
    assert (verdict.score, verdict.kind) == (0.0, kind), verdict


def test_many_ways_to_write_tests(either: PytestFiles):
    files = {
        "helper.py": "CASES = [(1, 2), (3, 4)]\ndef total(pair): return sum(pair)\n",
        "folder/test_deep.py": "import solution as s\nfrom helper import total\ndef test_it(): assert s.add(2, 2) == total((2, 2))\n",
        "plain_test.py": """
import unittest, pytest
from helper import CASES
from solution import add, NAMES

@pytest.fixture(params=CASES)
def pair(request):
    yield request.param

def test_fixture(pair):
    assert add(*pair) == sum(pair)

class TestClass:
    def setup_method(self):
        self.base = add(1, 0)
    def test_keywords(self):
        assert add(b=2, a=self.base) == 3
    def test_raises(self):
        with pytest.raises(TypeError) as caught:
            add(1, "x")
        assert caught.type is TypeError

class Case(unittest.TestCase):
    def setUp(self):
        self.names = list(NAMES)
    def test_unittest(self):
        self.assertEqual(add(1, 1), 2)
        self.assertIs(add([], []) == [], True)
        with self.assertRaises(TypeError):
            add(None, 1)
    def test_constant(self):
        for name in self.names:
            with self.subTest(name=name):
                self.assertIn(name, NAMES)

def test_local_import():
    from solution import _secret
    assert _secret(1) == [1, (2, {3: {"four"}})] and callable(add)
""",
    }
    source = CORRECT + "NAMES = ['a', 'b']\ndef _secret(x): return [x, (2, {3: {'four'}})]\n"
    verdict = either.verify(Example("many", "", {"files": files}), Answer(source))
    assert verdict.feedback == "all 8 tests passed", verdict


def test_expected_tests_must_be_there(either: PytestFiles):
    names = [f"test_it.py::test_add[{values}]" for values in ("1-2-3", "0-0-0", "-3-5-2", "10--4-6")]
    assert judge(either, ADD, CORRECT, tests=names).score == 1.0
    dynamic = "import pytest\nfrom solution import add, N\n@pytest.mark.parametrize('n', range(N))\ndef test(n): assert add(n, 1) == n + 1"
    expected = [f"test_it.py::test[{n}]" for n in range(4)]
    assert judge(either, dynamic, CORRECT + "N = 4", tests=expected).passed
    verdict = judge(either, dynamic, CORRECT + "N = 1", tests=expected, scoring="fraction")
    assert (verdict.score, verdict.passed) == (0.25, False)


def test_another_module_name(either: PytestFiles):
    assert judge(
        either, "from my_module import f\ndef test(): assert f() == 1", "def f(): return 1", module="my_module"
    ).passed


@pytest.mark.parametrize(
    "body",
    [
        "pytest.skip('no')",
        "pytest.xfail('no')",
        "raise unittest.SkipTest",
        "pytest.exit('no')",
        "raise SystemExit(0)",
        "raise KeyboardInterrupt",
    ],
)
def test_a_test_that_ends_otherwise_has_not_passed(either: PytestFiles, body: str):
    text = f"import pytest, unittest\nfrom solution import add\ndef test():\n    if add(1, 2) != 3:\n        {body}\n"
    assert judge(either, text, CORRECT).passed
    verdict = judge(either, text, WRONG)
    assert (verdict.score, verdict.passed) == (0.0, False)


def test_teardown_and_subtests_count(either: PytestFiles):
    text = "import pytest\nfrom solution import add\n@pytest.fixture\ndef it():\n    yield\n    assert add(1, 2) == 3\ndef test(it): pass"
    assert [judge(either, text, source).score for source in (CORRECT, WRONG)] == [1.0, 0.0]
    text = """
import unittest
from solution import add
class Case(unittest.TestCase):
    def test(self):
        for n in (0, 1):
            with self.subTest(n=n):
                self.assertEqual(add(1, n), 1 + n)
"""
    assert [judge(either, text, source).score for source in (CORRECT, WRONG)] == [1.0, 0.0]


def test_feedback_names_no_test_and_no_value(either: PytestFiles):
    text = "import pytest\nfrom solution import f\n@pytest.mark.parametrize('x', ['c2VjcmV0'])\ndef test_hushhush(x):\n    assert f(x) == 'ZXhwZWN0ZWQ', 'bWVzc2FnZQ'"
    for source in ("def f(x): return x", "def f(x): raise ValueError(x)", "def f(x): raise type(x, (Exception,), {})"):
        told = repr(judge(either, text, source))
        assert not [word for word in ("c2VjcmV0", "ZXhwZWN0ZWQ", "bWVzc2FnZQ", "hushhush") if word in told]


def test_batch_keeps_order_and_threads_may_share_a_judge(either: PytestFiles):
    pairs = [(suite(ADD), Answer(source)) for source in (CORRECT, WRONG, "def add(", CORRECT) * 3]
    expected = ["passed", "wrong", "syntax_error", "passed"] * 3
    assert [verdict.kind for verdict in either.verify_batch(pairs)] == expected
    found: dict[int, str] = {}
    threads = [
        threading.Thread(target=lambda n=n: found.__setitem__(n, either.verify(*pairs[n]).kind))
        for n in range(len(pairs))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[n] for n in range(len(pairs))] == expected


def test_every_verdict_has_a_fresh_folder_and_none_is_left(
    either: PytestFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    text = """
import os, pathlib
from solution import add
def test():
    assert os.listdir(pathlib.Path(__file__).parent) == ["test_it.py"] or len(os.listdir("tests")) == 2  # and a canary
    assert "left" not in os.listdir()
    open("left", "w").close()
    assert add(1, 2) == 3
"""
    for _ in range(3):
        assert judge(either, text, CORRECT).passed
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("hidden", "words"),
    [
        ({}, "'files'"),
        ({"files": {}}, "test_"),
        ({"files": {"helper.py": ""}}, "test_"),
        ({"files": {"test_a.py": 3}}, "'files'"),
        ({"files": {"../test_a.py": ""}}, "relative path"),
        ({"files": {"/test_a.py": ""}}, "test_"),
        ({"files": {"test_a.py": "", "conftest.py": ""}}, "conftest.py"),
        ({"files": {"test_a.py": "", "pytest.ini": ""}}, "pytest.ini"),
        ({"files": {"test_a.py": "", "solution.py": ""}}, "hide"),
        ({"files": {"test_a.py": "", "json.py": ""}}, "hide"),
        ({"files": {"test_a.py": "def test(:"}}, r"test_a.py: is not valid Python.*line 1"),
        ({"files": {"test_a.py": ADD}, "module": "os"}, "'module'"),
        ({"files": {"test_a.py": ADD}, "module": "a.b"}, "'module'"),
        ({"files": {"test_a.py": ADD}, "scoring": "some"}, "'scoring'"),
        ({"files": {"test_a.py": ADD}, "tests": [3]}, "'tests'"),
        ({"files": {"test_a.py": ADD}, "entry": "add"}, "'entry'"),
    ],
)
def test_malformed_hidden_data_are_the_judges_fault(either: PytestFiles, hidden: dict[str, object], words: str):
    broken = Example(id="broken-7", prompt="", hidden=hidden)
    for check in (either.validate, lambda example: either.verify(example, Answer(CORRECT))):
        with pytest.raises(VerifierError, match=f"(?s)broken-7.*{words}"):
            check(broken)


def test_options():
    with pytest.raises(ValueError, match="mode"):
        PytestFiles(mode="inside")
    prints = {
        PytestFiles(mode=mode, limits=limits).fingerprint()
        for mode in ("proxy", "in_process")
        for limits in (Limits(), Limits(cpu_s=1))
    }
    assert len(prints) == 4

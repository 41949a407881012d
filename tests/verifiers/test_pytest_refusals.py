# ruff: noqa: E501 - suites read better on one line
from __future__ import annotations

import pytest
from pytest_suites import CORRECT, judge

from verifiers import PytestFiles, VerifierError

REFUSED = {
    "callback": ("def test(): solution.add(lambda x: x, 1)", "plain value"),
    "iterator": ("def test(): solution.add(iter([1]), 1)", "plain value"),
    "range": ("def test(): solution.add(range(3), 1)", "plain value"),
    "object": ("def test(): solution.add(object(), 1)", "plain value"),
    "subclass": ("import collections\ndef test(): solution.add(collections.Counter(), 1)", "plain value"),
    "the function itself": ("def test(): solution.add(solution.add, 1)", "plain value"),
    "method": ("class TestIt:\n    add = solution.add\n    def test(self): self.add(1, 2)", "plain value"),
    "cycle": ("def test():\n    x = []\n    x.append(x)\n    solution.add(x, 1)", "plain value"),
    "class": ("def test(): solution.Stack()", "Stack is named like a class"),
    "imported class": ("from solution import Stack\ndef test(): pass", "Stack is named like a class"),
    "own exception": (
        "import pytest\ndef test():\n    with pytest.raises(solution.MyError): solution.add(1, 2)",
        "MyError",
    ),
    "star": ("from solution import *\ndef test(): assert add(1, 2) == 3", r"import \*"),
    "setattr": ("def test():\n    solution.LIMIT = 3\n    assert solution.add(1, 2) == 3", "setting LIMIT"),
    "delattr": ("def test():\n    del solution.add", "deleting add"),
    "function attribute": ("def test():\n    solution.add.cache_clear()\n    solution.add(1, 2)", "cache_clear"),
    "set function attribute": ("def test(): solution.add.x = 1", "setting add.x"),
    "changed constant": ("def test():\n    solution.seen.clear()\n    assert solution.add(1, 2) == 3", "changes seen"),
    "changed item": (
        "from solution import seen as s\ndef test():\n    s[0] = 2\n    assert solution.add(1, 2) == 3",
        "changes seen",
    ),
    "changed constant at the end": ("def test():\n    solution.seen.clear()", "changes seen"),
    "monkeypatch": ("def test(monkeypatch): monkeypatch.setattr(solution, 'add', 3)", "monkeypatch"),
    "MonkeyPatch": ("import pytest\ndef test():\n    with pytest.MonkeyPatch.context() as m: pass", "MonkeyPatch"),
    "mock": ("from unittest import mock\ndef test():\n    with mock.patch('solution.add'): pass", "unittest.mock"),
    "mock.patch": (
        "import unittest.mock\ndef test():\n    with unittest.mock.patch('solution.add'): pass",
        "unittest.mock",
    ),
    "capsys": ("def test(capsys): solution.add(1, 2)", "capsys"),
    "capfd": ("def test(capfd): solution.add(1, 2)", "capfd"),
    "caplog": ("def test(caplog): solution.add(1, 2)", "caplog"),
    "recwarn": ("def test(recwarn): solution.add(1, 2)", "recwarn"),
    "tmp_path": ("def test(tmp_path): solution.add(1, 2)", "tmp_path"),
    "tmpdir": ("def test(tmpdir): solution.add(1, 2)", "tmpdir"),
    "usefixtures": ("import pytest\n@pytest.mark.usefixtures('capsys')\ndef test(): solution.add(1, 2)", "capsys"),
    "fixture of a fixture": (
        "import pytest\n@pytest.fixture\ndef a(capsys): pass\ndef test(a): solution.add(1, 2)",
        "capsys",
    ),
    "stdout": (
        "import contextlib, io\ndef test():\n    with contextlib.redirect_stdout(io.StringIO()): solution.add(1, 2)",
        "stdout",
    ),
    "stdout by hand": (
        "import io, sys\ndef test():\n    sys.stdout = io.StringIO()\n    solution.add(1, 2)",
        "sys.stdin, stdout",
    ),
    "environ": ("import os\ndef test():\n    os.environ['X_Y'] = '1'\n    solution.add(1, 2)", "os.environ"),
    "chdir": ("import os\ndef test():\n    os.chdir('/')\n    solution.add(1, 2)", "working directory"),
    "builtins": ("import builtins\ndef test():\n    builtins.input = lambda: '3'\n    solution.add(1, 2)", "builtins"),
    "argv": ("import sys\ndef test():\n    sys.argv[1:] = ['x']\n    solution.add(1, 2)", "sys.argv"),
    "warns": ("import pytest\ndef test():\n    with pytest.warns(UserWarning): solution.add(1, 2)", "warns"),
    "assertLogs": (
        "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        with self.assertLogs(): solution.add(1, 2)",
        "assertLogs",
    ),
    "match": (
        "import pytest\ndef test():\n    with pytest.raises(TypeError, match='x'): solution.add(1, 'x')",
        "match",
    ),
    "text of an exception": (
        "import pytest\ndef test():\n    with pytest.raises(TypeError) as e: solution.add(1, 'x')\n    assert 'x' in str(e.value)",
        "e.value",
    ),
    "text in a handler": (
        "def test():\n    try: solution.add(1, 'x')\n    except TypeError as e: assert str(e) == 'x'",
        "only the class",
    ),
    "identity": ("def test():\n    x = []\n    assert solution.add(x, []) is not x", "identity"),
    "assertIs": (
        "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        x = []\n        self.assertIs(solution.add(x, []), x)",
        "identity",
    ),
    "inspect": ("import inspect\ndef test(): assert 'def' in inspect.getsource(solution.add)", "inspect"),
    "docstring": ("def test(): assert solution.add.__doc__", "__doc__"),
    "async test": ("async def test(): assert solution.add(1, 2) == 3", "async"),
    "async case": ("import unittest\nclass T(unittest.IsolatedAsyncioTestCase): pass", "Async"),
    "asyncio": ("import asyncio\ndef test(): asyncio.run(solution.add(1, 2))", "asyncio"),
    "eval": ("def test(): assert eval(solution.add('1', '2')) == 12", "eval"),
    "subprocess": ("import subprocess\ndef test(): subprocess.run(solution.add('l', 's'))", "subprocess"),
    "skip mark": ("import pytest\n@pytest.mark.skip\ndef test(): solution.add(1, 2)", "mark skip"),
    "xfail mark": ("import pytest\n@pytest.mark.xfail\ndef test(): assert solution.add(1, 2) == 4", "mark xfail"),
}
BROKEN = {
    "no tests": ("x = 1", "no tests"),
    "name": ("undefined\ndef test(): pass", "NameError"),
    "import": ("import no_such_module\ndef test(): pass", "no_such_module"),
    "helper": ("from helper import f\ndef test(): pass", "helper"),
    "fixture": ("def test(nothing): pass", "nothing"),
    "fixture after a value": ("def test_a(): solution.add(1, 2)\ndef test_b(nothing): pass", "nothing"),
    "fails by itself": ("def test(): assert 1 == 2", "AssertionError"),
    "skips by itself": ("import pytest\ndef test(): pytest.skip('x')", "Skipped"),
    "skips the module": ("import pytest\npytest.skip('x', allow_module_level=True)", "skipped"),
    "exits": ("import os\nos._exit(0)", "ended"),
    "exits pytest": ("import pytest\ndef test(): pytest.exit('x')", "."),
    "parameters": ("import pytest\n@pytest.mark.parametrize('x', [1])\ndef test(): pass", "x"),
}
ANSWERS = tuple(
    f"{source}\nseen = [1]\n" for source in (CORRECT, "def add(a, b): return None", "def add(a, b): raise TypeError")
)


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_proxy_cannot_carry_is_refused_whatever_the_answer(proxy: PytestFiles, name: str):
    text, words = REFUSED[name]
    for source in ANSWERS[::2]:
        with pytest.raises(VerifierError, match=f"(?s)test_it.py.*{words}.*in_process"):
            judge(proxy, "import solution\n" + text, source)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_tests_are_the_judges_fault(proxy: PytestFiles, name: str):
    text, words = BROKEN[name]
    for source in ANSWERS[::2]:
        with pytest.raises(VerifierError, match=f"(?s){words}"):
            judge(proxy, "import solution\n" + text, source)


def test_what_is_not_refused(proxy: PytestFiles):
    text = """
import pytest, random, sys, time, warnings
import solution
from solution import add

@pytest.fixture
def tmp_path():
    return "my own"

@pytest.mark.parametrize("function", [add, solution.add])
def test_functions_are_parameters(function):
    assert function.__name__ == "add" and function(1, 1) == 2 and list(map(function, [1], [2])) == [3]

def test_own_fixture_with_a_known_name(tmp_path):
    assert add(tmp_path, "!") == "my own!"

def test_singletons_have_identity():
    assert add(0, 0) is not None and (add(True, 0) == 1) is True and type(add(1, 1)) is int

def test_message_may_tell_the_exception():
    try:
        add(1, 2)
    except Exception as error:
        pytest.fail(f"raised {error}")
    with pytest.raises(TypeError):
        add(1, None)

def test_what_is_missing_can_be_asked_for():
    assert not hasattr(solution, "nothing")
    assert solution.LIMITS == {"low": [0], "high": (9,)} and solution.LIMITS["low"] == [0]
"""
    verdict = judge(proxy, text, CORRECT + "LIMITS = {'low': [0], 'high': (9,)}")
    assert verdict.feedback == "all 6 tests passed", verdict


TEXT_USES = {
    "str of the info": "with pytest.raises(ValueError) as e: f(-1)\n    assert 'negative' in str(e)",
    "call form": "e = pytest.raises(ValueError, f, -1)\n    assert 'negative' in str(e.value)",
    "match of the call form": "e = pytest.raises(ValueError, f, -1)\n    e.match('negative')",
    "kept after the handler": "m = ''\n    try: f(-1)\n    except ValueError as e: m = str(e)\n    assert 'pw' not in m",
    "arguments": "e = pytest.raises(ValueError, f, -1).value\n    assert e.args == ('negative',)",
    "first argument": "e = pytest.raises(ValueError, f, -1).value\n    assert e.args[0].startswith('neg')",
    "format": "e = pytest.raises(ValueError, f, -1).value\n    assert f'{e}' == 'negative'",
    "empty": "e = pytest.raises(ValueError, f, -1).value\n    assert str(e)",
    "unittest": "import unittest\n    e = pytest.raises(ValueError, f, -1).value\n    unittest.TestCase().assertIn('negative', str(e))",
}


@pytest.mark.parametrize("name", TEXT_USES)
def test_the_text_of_an_exception_is_refused_when_looked_at(proxy: PytestFiles, name: str):
    text = f"import pytest\nfrom solution import f\ndef test():\n    {TEXT_USES[name]}"
    with pytest.raises(VerifierError, match="(?s)only the class.*in_process"):
        judge(proxy, text, "def f(x): raise ValueError('negative')")
    assert judge(proxy, text, "def f(x): return x").kind == "wrong" or "kept" in name


MESSAGES = {
    "nothing caught": "f(-1)",
    "in a message": "try: f(-1)\n    except Exception as e: pytest.fail(f'raised {e}')",
    "the whole message": "try: f(-1)\n    except Exception as e: pytest.fail(str(e))",
    "added": "try: f(-1)\n    except Exception as e: assert False, 'raised ' + str(e) + repr(e) + '%s' % e",
    "raised again": "try: f(-1)\n    except Exception as e: raise RuntimeError(str(e)) from e",
    "unittest": "import unittest\n    unittest.TestCase().assertEqual(f(-1), 1)",
}


@pytest.mark.parametrize(
    "raised", ["ValueError", "KeyError", "AssertionError", "OSError", "SyntaxError", "ImportError", "SystemExit"]
)
@pytest.mark.parametrize("name", MESSAGES)
def test_an_unexpected_exception_is_no_refusal(proxy: PytestFiles, name: str, raised: str):
    text = f"import pytest\nfrom solution import f\ndef test():\n    {MESSAGES[name]}"
    verdict = judge(proxy, text, f"def f(x): raise {raised}('negative')")
    assert (verdict.score, verdict.kind) == (0.0, "exception"), verdict


def test_classes_of_exceptions_are_the_builtin_ones(proxy: PytestFiles):
    text = """
import pytest
from solution import f
@pytest.mark.parametrize("kind", [ValueError, KeyError, AssertionError, OSError, StopIteration, SyntaxError])
def test(kind):
    with pytest.raises(kind) as e: f(kind.__name__)
    assert e.type == kind and type(pytest.raises(kind, f, kind.__name__).value) is kind
    with pytest.raises((kind, ZeroDivisionError)): f(kind.__name__)
"""
    verdict = judge(proxy, text, "import builtins\ndef f(x): raise getattr(builtins, x)('negative')")
    assert verdict.passed, verdict

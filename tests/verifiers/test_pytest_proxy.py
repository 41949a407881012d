# ruff: noqa: E501 - suites read better on one line
from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from processes import wait_until
from pytest_suites import ADD, CORRECT, judge

from verifiers import Answer, Example, Limits, PytestFiles, VerifierError


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("def f(x): return object()", "unserialisable"),
        (
            "class E(int):\n    def __eq__(s, o): return True\n    __hash__ = int.__hash__\ndef f(x): return E()",
            "unserialisable",
        ),
        ("class f:\n    def __init__(self, x): pass", "unserialisable"),
        ("async def f(x): return 3", "unserialisable"),
        ("def f(x): return 'x' * 10**6", "too_large"),
        ("def f(x): return bytearray(6 << 30)", "memory"),
        ("import os\ndef f(x): os.write(4, b'zzzz')", "bad_frame"),
        ("f = 3", "wrong"),
        ("f = object()", "unserialisable"),
        ("import unittest\ndef f(x): raise unittest.SkipTest", "exception"),
        ("class Skipped(BaseException): pass\ndef f(x): raise Skipped", "exception"),
        ("def f(x): raise SystemExit(0)", "exception"),
        ("def f(x): raise KeyboardInterrupt", "exception"),
        ("def f(x): raise GeneratorExit", "exception"),
        ("def f(x): raise AssertionError", "exception"),
        ("def f(x): raise UnicodeDecodeError('', b'', 0, 0, '')", "exception"),
        ("def f(x): raise ExceptionGroup('', [ValueError()])", "exception"),
        ("def f(x): raise StopIteration", "exception"),
        ("def f(x):\n    x.append(object())\n    return 3", "unserialisable"),
    ],
)
def test_what_the_answer_does_wrong_is_a_verdict(proxy: PytestFiles, source: str, kind: str):
    verdict = judge(
        proxy, "from solution import f\ndef test_a(): assert f([1]) == 3\ndef test_b(): assert f([1]) == 3", source
    )
    assert (verdict.score, verdict.kind) == (0.0, kind), verdict


@pytest.mark.parametrize(
    "source",
    ["def f(x): return object()", "import os\ndef f(x): os._exit(0)", "def f(x): return 'x' * 10**6", "class f: pass"],
)
def test_failures_cannot_be_expected(proxy: PytestFiles, source: str):
    text = """
import contextlib, pytest
from solution import f
def test_a():
    with pytest.raises(BaseException):
        f(1)
def test_b():
    with contextlib.suppress(BaseException):
        f(1)
"""
    assert judge(proxy, text, "def f(x): raise ValueError").passed
    assert judge(proxy, text, source, scoring="fraction").score == (0.0 if "class f" not in source else 1.0)


def test_only_builtin_exceptions_arrive(proxy: PytestFiles):
    text = """
import pytest
from solution import f
NAMES = ["ValueError", "KeyError", "ZeroDivisionError", "UnicodeDecodeError", "ExceptionGroup", "StopIteration", "OSError"]
@pytest.mark.parametrize("name", NAMES)
def test_builtin(name):
    with pytest.raises(BaseException) as caught:
        f(name)
    assert caught.type.__name__ == name
def test_derived():
    with pytest.raises(BaseException) as caught:
        f("derived")
    assert caught.type is LookupError
@pytest.mark.parametrize("name", ["own", "SystemExit", "KeyboardInterrupt", "skip", "Skipped"])
def test_others(name):
    with pytest.raises(Exception) as caught:
        f(name)
    assert caught.type.__name__ == "RemoteError"
"""
    source = """
import builtins, unittest
class Own(Exception): pass
class Derived(LookupError): pass
class Skipped(BaseException): pass
made = {"own": Own(), "derived": Derived(), "skip": unittest.SkipTest(), "Skipped": Skipped(),
        "UnicodeDecodeError": UnicodeDecodeError("", b"", 0, 0, ""), "ExceptionGroup": ExceptionGroup("", [OSError()])}
def f(name): raise made.get(name) or getattr(builtins, name)("text")
"""
    verdict = judge(proxy, text, source)
    assert verdict.feedback == "all 13 tests passed", verdict


def test_arguments_are_changed_in_place(proxy: PytestFiles):
    text = """
from solution import change
def test_list():
    x = [3, 1, 2]
    change("sort", x)
    assert x == [1, 2, 3]
def test_nested():
    row, other, names, seen = [1], [2], {"a": 1}, {5}
    grid = [row, other, (names, seen)]
    change("nested", grid=grid)
    assert grid == [row, other, (names, seen)] == [[1, 9], [2], ({"a": 1, "b": 2}, {5, 6})]
    assert (row, other, names, seen) == ([1, 9], [2], {"a": 1, "b": 2}, {5, 6})
def test_moved():
    first, second = [1], [2]
    rows = [first, second]
    change("reverse", rows)
    first.append(8)
    assert rows == [[2], [1, 8]]
def test_dict():
    inner = {}
    outer = {"inner": inner, "gone": 1}
    change("dict", outer)
    assert outer == {"inner": {"x": 1}, "new": 2} and inner == {"x": 1}
def test_shared_but_unchanged():
    x = [1, 2]
    assert change("same", x, x) == 2
def test_not_a_number():
    x = [float("nan")]
    assert change("same", x, x) == 2
"""
    source = """
def change(how, *things, grid=None):
    if how == "sort": things[0].sort()
    if how == "nested":
        grid[0].append(9); grid[2][0]["b"] = 2; grid[2][1].add(6)
    if how == "reverse": things[0].reverse()
    if how == "dict":
        things[0]["inner"]["x"] = 1; del things[0]["gone"]; things[0]["new"] = 2
    return len(things)
"""
    verdict = judge(proxy, text, source)
    assert verdict.feedback == "all 6 tests passed", verdict
    assert judge(proxy, text, "def change(how, *things, grid=None): return len(things)").kind == "wrong"


def test_arguments_are_changed_before_an_exception(proxy: PytestFiles):
    text = "import pytest\nfrom solution import f\ndef test():\n    xs = [1]\n    with pytest.raises(ValueError): f(xs)\n    assert xs == "
    changes, keeps = "def f(xs):\n    xs.append(2)\n    raise ValueError", "def f(xs): raise ValueError"
    assert judge(proxy, text + "[1]", changes).kind == "wrong"
    assert judge(proxy, text + "[1, 2]", changes).passed
    assert judge(proxy, text + "[1]", keeps).passed
    assert judge(proxy, text + "[1]", "def f(xs):\n    xs.append(f)\n    raise ValueError").kind == "unserialisable"
    filled = "def f(xs):\n    xs += range(10**6)\n    raise MemoryError"
    assert judge(proxy, text + "[1]", filled).kind == "memory"


CONSTANTS = """
D = {'a': 1}
PAIR = ([1], 2)
old = cache = {}
def f(x):
    D['a'] = x
    PAIR[0].append(x)
    return x
def fails(x):
    D['a'] = x
    raise ValueError
def rebind():
    global cache
    cache = {1: 2}
"""


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        ("assert f(2) == 2 and D == {'a': 2}", True),
        ("assert f(2) == 2 and D == {'a': 1}", False),
        ("first = solution.D\n    f(2)\n    assert first is not None and first == solution.D == D == {'a': 2}", True),
        ("assert f(2) == 2 and PAIR == ([1, 2], 2)", True),
        ("with pytest.raises(ValueError): fails(3)\n    assert D == {'a': 3}", True),
        ("rebind()\n    assert cache == {} and solution.cache == {1: 2} and solution.old == {}", True),
        ("rebind()\n    assert cache == {1: 2}", False),
        ("cache[2] = 3 if f(1) else 4\n    f(1)", None),
    ],
)
def test_constants_are_those_of_the_submission(proxy: PytestFiles, body: str, passes: bool | None):
    text = f"import pytest, solution\nfrom solution import D, PAIR, cache, f, fails, rebind\ndef test():\n    {body}"
    if passes is None:
        with pytest.raises(VerifierError, match="changes cache"):
            judge(proxy, text, CONSTANTS)
    else:
        assert judge(proxy, text, CONSTANTS).passed == passes


def test_a_constant_that_becomes_unserialisable_fails(proxy: PytestFiles):
    text = "from solution import D, f\ndef test(): assert f(2) == 2 and D"
    assert judge(proxy, text, "D = {1: 1}\ndef f(x):\n    D[f] = f\n    return x").kind == "unserialisable"


@pytest.mark.parametrize("size", [200_000, 300_000, 900_000])
def test_large_arguments_are_no_part_of_the_result(proxy: PytestFiles, size: int):
    text = f"from solution import f\ndef test(): assert f('x' * {size}) == {size} and f(['x' * 1000] * {size // 1010}) == {size // 1010}"
    assert judge(proxy, text, "def f(x): return len(x)").passed
    assert judge(proxy, text, "def f(x): return x * 9").kind == "too_large"
    raising = "import pytest\nfrom solution import f\ndef test():\n    with pytest.raises(ValueError): f('x' * 300_000)"
    assert judge(proxy, raising, "def f(x): raise ValueError").passed


def test_an_object_given_twice_must_not_be_changed(proxy: PytestFiles):
    text = "from solution import f\ndef test():\n    x = [1]\n    assert f(x, x) is None"
    assert judge(proxy, text, "def f(x, y): pass").passed
    assert judge(proxy, text, "def f(x, y): x.append(1)").kind == "wrong"


@pytest.mark.parametrize("grown", ["x * 10", "[[[[[[x]]]]]]", "(-1 - len(x)) ** 0.5", "2 ** (1 << 17) + len(x)"])
def test_arguments_made_of_results_are_the_answers_fault(proxy: PytestFiles, grown: str):
    text = f"from solution import f\ndef test():\n    x = f(1)\n    assert f({grown}) == 3"
    nested = "def f(x):\n    y = 'x' * 200_000\n    for _ in range(58): y = [y]\n    return y"
    verdict = judge(proxy, text, nested)
    assert (verdict.score, verdict.kind) == (0.0, "too_large"), verdict


def test_hostile_answers_cause_no_error_of_the_judge(proxy: PytestFiles):
    texts = (
        "from solution import f, LIMIT\nx = LIMIT['a'][0]\ndef test(): assert f(1) == 3 and LIMIT",
        "import pytest\nfrom solution import f\ndef test():\n    value = f(1)\n    if value != 3: pytest.skip(str(value))",
        "import pytest\nfrom solution import f\n@pytest.fixture\ndef it(): return f(1)[0]\ndef test(it): assert it",
        "from solution import f\nvalues = []\ndef test_a(): values.append(f(1))\ndef test_b(): assert values == [3]",
    )
    sources = (
        "f = LIMIT = 3",
        "f = LIMIT = {}",
        "def f(x): pass\nLIMIT = {'a': ''}",
        "def f(x): raise RecursionError\nLIMIT = 0",
        "",
    )
    for text in texts:
        for source in sources:
            assert judge(proxy, text, source).score == 0.0


def test_a_function_in_place_of_a_constant_is_the_answers_fault(proxy: PytestFiles):
    source = "def LIMIT(): pass\ndef f(x): return 3\n"
    for body in (
        "LIMIT == 10",
        "LIMIT.bit_length() == 4",
        "f(LIMIT) == 3",
        "list(LIMIT)",
        "[LIMIT] == [10]",
        "LIMIT()",
    ):
        text = f"from solution import LIMIT, f\ndef test(): assert {body}"
        if body == "LIMIT()":
            assert judge(proxy, text, source).kind == "wrong"
        else:
            verdict = judge(proxy, text, source)
            assert verdict.score == 0.0, verdict


def test_changing_an_argument_that_is_a_constant_is_no_error_of_the_judge(proxy: PytestFiles):
    text = "import solution\ndef test():\n    x = solution.ITEMS\n    assert solution.f(x) is None and solution.f([1]) is None"
    assert judge(proxy, text, "ITEMS = [1]\ndef f(x): x.append(1)").passed
    text = "import solution\ndef test():\n    x = solution.ITEMS\n    x.sort()\n    assert solution.f(x) == [1, 2]"
    assert judge(proxy, text, "ITEMS = [1, 2]\ndef f(x): return x").passed
    assert judge(proxy, text, "ITEMS = [2, 1]\ndef f(x): return x").kind == "wrong"  # see `check_constants`


def test_after_the_end_of_the_execution_all_tests_fail(proxy: PytestFiles):
    text = "from solution import f\n" + "".join(f"def test_{n}(): assert f({n}) == {n}\n" for n in range(4))
    verdict = judge(proxy, text, "import os\ndef f(x): return x if x != 1 else os._exit(0)", scoring="fraction")
    assert (verdict.score, verdict.kind, verdict.feedback) == (0.25, "died", "test 2 of 4: ended the process")


def test_tests_that_a_result_keeps_busy_end(proxy: PytestFiles):
    verdict = judge(
        proxy, "from solution import f\ndef test():\n    for _ in range(f()): pass", "def f(): return 10**12"
    )
    assert (verdict.score, verdict.kind) == (0.0, "timeout"), verdict
    verdict = judge(proxy, "from solution import f\ndef test(): assert bytearray(f())", "def f(): return 1 << 40")
    assert (verdict.score, verdict.kind) == (0.0, "wrong"), verdict
    assert judge(proxy, ADD, CORRECT).passed


def test_tests_that_hang_by_themselves_are_the_judges_fault():
    verifier = PytestFiles(Limits(wall_s=1.0), workers=1)
    try:
        with pytest.raises(VerifierError, match="before the tests asked"):
            judge(verifier, "import time, solution\ndef test(): time.sleep(99)", CORRECT)
        assert judge(verifier, ADD, "import time\ndef add(a, b): time.sleep(99)").kind == "timeout"
        assert judge(verifier, ADD, CORRECT).passed
    finally:
        verifier.close()


def test_equality_is_that_of_the_test(proxy: PytestFiles):
    assert judge(proxy, ADD, "def add(a, b): return float(a + b)").passed  # 3.0 == 3


def test_a_missing_function_does_not_raise_the_share(proxy: PytestFiles):
    files = {
        "test_a.py": "from solution import f\ndef test_1(): assert f() == 1\ndef test_2(): assert f() == 2",
        "test_b.py": "from solution import g\ndef test_3(): assert g() == 3",
    }
    example = Example("share", "", {"files": files, "scoring": "fraction"})
    assert proxy.verify(example, Answer("def f(): return 0\ndef g(): return 3")).score == pytest.approx(1 / 3)
    verdict = proxy.verify(example, Answer("def g(): return 3"))
    assert (verdict.score, verdict.kind) == (0.0, "load")
    listed = Example(
        "share", "", {**example.hidden, "tests": ["test_a.py::test_1", "test_a.py::test_2", "test_b.py::test_3"]}
    )
    assert proxy.verify(listed, Answer("def g(): return 3")).score == pytest.approx(1 / 3)


def test_nothing_of_the_environment_reaches_the_tests(
    proxy: PytestFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "conftest.py").write_text("raise SystemExit(3)")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    fresh = PytestFiles(limits=Limits(cpu_s=1))
    try:
        assert judge(fresh, ADD, CORRECT).passed
    finally:
        fresh.close()


TRAINER = """
import os, sys
from verifiers import Answer, Example, PytestFiles
verifier = PytestFiles(workers=1)
example = Example("e", "", {"files": {"test_a.py": "from solution import f\\ndef test():\\n    while f() == 3: pass"}})
import threading
threading.Thread(target=verifier.verify, args=(example, Answer("def f(): return 3")), daemon=True).start()
import time
while not verifier._tests._helper: time.sleep(0.01)
time.sleep(0.3)
print(verifier._tests._helper._process.pid, flush=True)
sys.stdin.read()
"""


def start_trainer(temporary: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", TRAINER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary)},
        cwd=Path(__file__).parents[2],
    )


def test_the_trusted_process_dies_with_the_trainer(tmp_path: Path):
    with start_trainer(tmp_path) as trainer:
        assert trainer.stdout is not None
        helper = int(trainer.stdout.readline())
        assert Path(f"/proc/{helper}").exists()
        trainer.kill()
        trainer.wait()
        deadline = threading.Event()
        for _ in range(100):
            if not Path(f"/proc/{helper}").exists() or " Z " in Path(f"/proc/{helper}/stat").read_text():
                return
            deadline.wait(0.05)
    pytest.fail("the helper lives on")


def test_a_killed_trainer_leaves_no_folder(tmp_path: Path):
    with start_trainer(tmp_path) as trainer:
        assert trainer.stdout is not None
        trainer.stdout.readline()
        assert wait_until(lambda: [*tmp_path.glob("pytest-files-*/test_a.py")])
        trainer.kill()
        trainer.wait()
        assert wait_until(lambda: not [*tmp_path.glob("pytest-files-*")])

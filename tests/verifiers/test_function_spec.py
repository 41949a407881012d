"""What function tests can ask for beyond one call and its value."""

from __future__ import annotations

from typing import Any

import pytest

from verifiers import Answer, Example, FunctionTests, VerifierError

STACK = """
class Empty(IndexError): pass
class Stack:
    def __init__(self, capacity=3):
        self.items, self.capacity = [], capacity
    def push(self, item):
        if len(self.items) == self.capacity: raise OverflowError
        self.items.append(item)
    def pop(self):
        if not self.items: raise Empty
        return self.items.pop()
    @property
    def size(self): return len(self.items)
    def doubled(self, values, *, by=2):
        values[:] = [value * by for value in values]
"""


def example(entry: str, *tests: dict[str, Any], **hidden: Any) -> Example:
    return Example(id=entry, prompt="", hidden={"entry": entry, "tests": list(tests), **hidden})


def kind(verifier: FunctionTests, problem: Example, source: str) -> str:
    verdict = verifier.verify(problem, Answer(source))
    assert verdict.passed == (verdict.kind == "passed")
    return verdict.kind


def test_script_of_calls_on_one_object(verifier: FunctionTests):
    push_and_pop = {
        "init": [1],
        "calls": [
            {"method": "push", "args": [7], "expected": None},
            {"attribute": "size", "expected": 1},
            {"method": "push", "args": [8], "raises": "OverflowError"},
            {"method": "pop", "expected": 7},
            {"method": "pop", "raises": "IndexError"},
        ],
    }
    fresh = {"calls": [{"attribute": "size", "expected": 0}]}
    problem = example("Stack", push_and_pop, fresh)
    assert kind(verifier, problem, STACK) == "passed"
    assert kind(verifier, problem, STACK.replace("pop()", "pop(0) + 1")) == "wrong"
    assert kind(verifier, problem, STACK.replace("IndexError", "KeyError")) == "exception"
    assert kind(verifier, problem, "def Stack(n=1): return 1") == "exception"
    assert kind(verifier, problem, "class Heap: pass") == "load"


def test_shared_state_between_objects_is_seen(verifier: FunctionTests):
    test = {"calls": [{"method": "push", "args": [1], "expected": None}, {"attribute": "size", "expected": 1}]}
    shared = (
        "class Stack:\n    items = []\n    def push(self, x): self.items.append(x)\n"
        "    size = property(lambda self: len(self.items))"
    )
    assert kind(verifier, example("Stack", test), shared) == "passed"
    assert kind(verifier, example("Stack", test, test), shared) == "wrong"


def test_method_is_called_on_a_fresh_object(verifier: FunctionTests):
    problem = example("Solution.add", {"args": [1, 2], "expected": 3}, {"args": [1, 2], "expected": 3})
    counting = (
        "class Solution:\n    def __init__(self): self.n = 0\n"
        "    def add(self, a, b):\n        self.n += 1\n        return a + b * self.n"
    )
    assert kind(verifier, problem, counting) == "passed"
    assert kind(verifier, problem, "class Solution:\n    @staticmethod\n    def add(a, b): return a + b") == "passed"
    assert kind(verifier, problem, "class Solution:\n    def sum(self, a, b): return a + b") == "load"
    assert kind(verifier, problem, "def add(a, b): return a + b") == "load"
    assert (
        kind(verifier, problem, "class Solution:\n    def __init__(self, x): pass\n    def add(self, a, b): return 3")
        == "exception"
    )


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        ("ValueError()", "passed"),
        ("UnicodeDecodeError('utf-8', b'', 0, 1, '')", "passed"),
        ("type('Mine', (ValueError,), {})()", "passed"),
        ("KeyError()", "exception"),
        ("SystemExit()", "exception"),
        ("type('ValueError', (KeyError,), {})()", "passed"),  # a class of that name is what the test asked for
    ],
)
def test_expected_exception_by_name_of_its_class_or_base(verifier: FunctionTests, raised: str, expected: str):
    problem = example("f", {"args": [1], "raises": "ValueError"})
    assert kind(verifier, problem, f"def f(x): raise {raised}") == expected
    assert kind(verifier, problem, "def f(x): return ValueError") == "unserialisable"


def test_missing_and_wrong_exceptions_are_told_apart(verifier: FunctionTests):
    problem = example("f", {"args": [1], "raises": "ValueError"})
    missing = verifier.verify(problem, Answer("def f(x): return 'ValueError'"))
    assert (missing.kind, missing.feedback) == ("wrong", "test 1 of 1: f did not raise the expected exception")
    wrong = verifier.verify(problem, Answer("def f(x): return {}[x]"))
    assert (wrong.kind, wrong.feedback) == ("exception", "test 1 of 1: f raised the wrong exception (KeyError)")


def test_metaclass_cannot_run_code_in_the_judge(verifier: FunctionTests):
    problem = example("f", {"args": [1], "raises": "ValueError"})
    lying = (
        "class M(type):\n    def mro(c): return [c, *type.mro(c)[1:]]\n"
        "    __name__ = property(lambda c: 'ValueError')\n"
        "    __mro__ = property(lambda c: (ValueError,))\n"
        "class E(Exception, metaclass=M): pass\ndef f(x): raise E"
    )
    assert kind(verifier, problem, lying) == "exception"


def test_arguments_that_must_be_changed(verifier: FunctionTests):
    problem = example("f", {"args": [[2, 1], 5], "expected": None, "args_after": [[1, 2], 5]})
    assert kind(verifier, problem, "def f(x, y): x.sort()") == "passed"
    assert kind(verifier, problem, "def f(x, y): x = sorted(x)") == "wrong"
    assert kind(verifier, problem, "def f(x, y): x[:] = [open]") == "unserialisable"


def test_arguments_that_must_not_be_changed(verifier: FunctionTests):
    test = {"args": [[2, 1]], "expected": [1, 2]}
    sorts_in_place = "def f(x):\n    x.sort()\n    return x"
    assert kind(verifier, example("f", test), sorts_in_place) == "passed"
    assert kind(verifier, example("f", test, keep_arguments=True), sorts_in_place) == "wrong"
    assert kind(verifier, example("f", test, keep_arguments=True), "f = sorted") == "passed"


def test_keywords(verifier: FunctionTests):
    problem = example("f", {"args": ["ff"], "kwargs": {"base": 16}, "expected": 255})
    assert kind(verifier, problem, "f = int") == "passed"
    assert kind(verifier, problem, "def f(x): return 255") == "exception"
    doubled = {"method": "doubled", "args": [[1, 2]], "kwargs": {"by": 3}, "expected": None, "args_after": [[3, 6]]}
    assert kind(verifier, example("Stack", {"calls": [doubled]}), STACK) == "passed"


def test_free_order(verifier: FunctionTests):
    test = {"args": ["abca"], "expected": ["b", "a", "c"]}
    assert kind(verifier, example("f", test, unordered=True), "def f(x): return list(dict.fromkeys(x))") == "passed"
    assert kind(verifier, example("f", test), "def f(x): return list(dict.fromkeys(x))") == "wrong"
    assert kind(verifier, example("f", test, unordered=True), "f = list") == "wrong"


def test_a_forged_record_of_arguments_is_a_bad_frame(verifier: FunctionTests):
    problem = example("f", {"args": [[2, 1]], "expected": None, "args_after": [[1, 2]]})
    forged = (
        "import os, sys\ndef f(x):\n    g = sys._getframe(1).f_globals\n"
        "    g['send'](4, g['encode'](('value', (None, [[1, 2]]))))\n"
    )
    assert kind(verifier, problem, forged) == "bad_frame"


@pytest.mark.parametrize(
    ("test", "complaint"),
    [
        (3, "item 0 must be an object, got 3"),
        ({"expected": 1}, "item 0 must have the field args"),
        ({"args": [1]}, "one of expected, equals, raises"),
        ({"args": [1], "expected": 1, "raises": "ValueError"}, "one of expected, equals, raises"),
        ({"args": [1], "raises": "not a name"}, "name of an exception class, got 'not a name'"),
        ({"args": [1], "expected": 1, "kwargs": [1]}, "kwargs must be an object"),
        ({"args": [1], "expected": 1, "kwargs": {"a": object()}}, "kwargs: unsupported type is not a plain value"),
        ({"args": [1], "expected": 1, "args_after": []}, "one value for each of the 1 args"),
        ({"args": [1], "raises": "ValueError", "args_after": [1]}, "no raises"),
        ({"args": [1], "expected": 1, "calls": []}, "'args', which is not known; known are init, calls"),
        ({"calls": []}, "calls must be a non-empty list"),
        ({"calls": [{"args": []}]}, "call 0 must be an object with either method or attribute"),
        ({"calls": [{"method": "a b", "expected": 1}]}, "method must be a name, got 'a b'"),
        ({"calls": [{"attribute": "a", "args": [], "expected": 1}]}, "'args', which is not known"),
        ({"init": 1, "calls": [{"attribute": "a", "expected": 1}]}, "init must be a list, got 1"),
    ],
)
def test_malformed_tests_name_example_and_field(verifier: FunctionTests, test: Any, complaint: str):
    problem = example("f", test)
    with pytest.raises(VerifierError) as raised:
        verifier.validate(problem)
    assert str(raised.value).startswith("example 'f': hidden['tests'] item 0")
    assert complaint in str(raised.value)


def test_calls_need_a_class_and_a_free_order_comparable_items(verifier: FunctionTests):
    calls = {"calls": [{"attribute": "a", "expected": 1}]}
    with pytest.raises(VerifierError, match="a class, not the method 'A.b'"):
        verifier.validate(example("A.b", calls))
    with pytest.raises(VerifierError, match=r"\['unordered'\] with a tolerance needs lists of numbers"):
        verifier.validate(example("f", {"args": [], "expected": ["a"]}, unordered=True, tolerance=0.1))
    with pytest.raises(VerifierError, match=r"\['unordered'\] must be true or false, got 1"):
        verifier.validate(example("f", {"args": [], "expected": ["a"]}, unordered=1))


MAIN = "from helper import double\ndef f(x): return double(x) + 1\n"
HELPER = "def double(x): return 2 * x\n"
TWICE = example("f", {"args": [1], "expected": 3}, {"args": [2], "expected": 5})


def judge_files(verifier: FunctionTests, files: dict[str, str]) -> str:
    return verifier.verify(TWICE, Answer("", files=files)).kind


def test_answer_of_several_files(verifier: FunctionTests):
    assert judge_files(verifier, {"main.py": MAIN, "helper.py": HELPER}) == "passed"
    assert judge_files(verifier, {"main.py": MAIN, "helper.py": HELPER.replace("2", "3")}) == "wrong"
    assert judge_files(verifier, {"main.py": MAIN}) == "load"
    assert judge_files(verifier, {"helper.py": HELPER}) == "load"
    assert judge_files(verifier, {"main.py": MAIN, "helper.py": "def double(x"}) == "load"
    assert judge_files(verifier, {"main.py": MAIN, "../helper.py": HELPER}) == "bad_source"
    assert judge_files(verifier, {"main.py": MAIN, "helper.py": "\0"}) == "bad_source"
    assert judge_files(verifier, {"main.py": MAIN, "helper.py": "#" * ((1 << 18) + 1)}) == "bad_source"
    other = example("f", {"args": [1], "expected": 3}, file="run.py")
    assert verifier.verify(other, Answer("", files={"run.py": MAIN, "helper.py": HELPER})).passed


def test_trying_calls(verifier: FunctionTests):
    def kinds(source: str) -> list[str]:
        return [reply.kind for reply in verifier.try_calls(Answer(source), "f", [[1], [0], [2]])]

    assert kinds("def f(x): return 1 // x") == ["value", "exception", "value"]
    assert kinds("import os\ndef f(x): return 1 if x else os._exit(0)") == ["value", "died", "died"]
    assert kinds("def f(") == ["syntax_error"] * 3
    assert kinds("") == ["load"] * 3
    assert kinds("\0") == ["bad_source"] * 3
    assert [reply.value for reply in verifier.try_calls(Answer("def f(x): return [x]"), "f", [[1], [2]])] == [[1], [2]]


def forged(data: bytes) -> str:
    send = "os.write(4, len(d).to_bytes(4, 'big') + d)"
    return f"import os\ndef f(*a, **k):\n    d = {data!r}\n    {send}\n    os._exit(0)\n"


@pytest.mark.parametrize("data", [b"t2:s8:functionN", b"t2:s5:classN", b"t2:s5:valuel1:i" + b"f" * 16385 + b";"])
@pytest.mark.parametrize("unordered", [False, True])
def test_forged_answers_are_bad_frames_not_errors_of_the_judge(verifier: FunctionTests, data: bytes, unordered: bool):
    problem = example("f", {"args": [1], "expected": [1]}, unordered=unordered)
    assert kind(verifier, problem, forged(data)) == "bad_frame"


def test_large_results_are_compared_in_any_order():
    verifier = FunctionTests({"result_bytes": 4 << 20})
    problem = example("f", {"args": [], "expected": ["y"]}, unordered=True)
    assert kind(verifier, problem, "def f(): return ['x' * 2_000_000]") == "wrong"


def test_many_files_and_large_sources_are_the_answers_fault_and_large_arguments_are_fine():
    verifier = FunctionTests({"source_bytes": 4 << 20})
    files = {f"module_with_a_long_name_{number:030d}.py": "" for number in range(20_000)}
    assert verifier.verify(TWICE, Answer("", files={"main.py": MAIN, **files})).kind == "bad_source"
    assert verifier.verify(TWICE, Answer("x = '" + "y" * 1_500_000 + "'\ndef f(x): return 2 * x + 1")).passed
    large = example("f", {"args": ["x" * 700_000], "kwargs": {"b": "x" * 700_000}, "expected": 1})
    verifier.validate(large)
    assert kind(verifier, large, "def f(a, b): return 1") == "passed"


def test_deep_arguments_are_refused_before_anything_is_judged(verifier: FunctionTests):
    deep: Any = 1
    for _ in range(62):
        deep = [deep]
    with pytest.raises(VerifierError, match="nested too deeply"):
        verifier.validate(example("f", {"args": [deep], "expected": 1}))


def test_keywords_are_kept_too_and_without_tolerance(verifier: FunctionTests):
    problem = example("f", {"args": [], "kwargs": {"xs": [3, 1]}, "expected": [1, 3]}, keep_arguments=True)
    assert kind(verifier, problem, "def f(xs):\n    xs.sort()\n    return list(xs)") == "wrong"
    assert kind(verifier, problem, "f = lambda xs: sorted(xs)") == "passed"
    near = example("f", {"args": [[1.0]], "expected": None}, keep_arguments=True, tolerance=0.5)
    assert kind(verifier, near, "def f(x): x[0] = 1.4") == "wrong"
    assert (
        kind(
            verifier, example("f", {"args": [[float("nan")]], "expected": 1}, keep_arguments=True), "def f(x): return 1"
        )
        == "passed"
    )


def test_what_no_answer_can_meet_is_refused_before_anything_is_judged(verifier: FunctionTests):
    tests: list[tuple[dict[str, Any], str]] = [
        ({"args": [], "expected": "x" * 500_000}, "larger than a result may be"),
        ({"args": [], "expected": [float("nan")]}, "NaN"),
    ]
    for test, complaint in tests:
        with pytest.raises(VerifierError, match=complaint):
            verifier.validate(example("f", test))
    with pytest.raises(VerifierError, match="does not go with equals"):
        verifier.validate(example("f", {"args": [], "equals": [1]}, unordered=True))
    broken: list[Any] = [None, [], "x"]
    for hidden in broken:
        with pytest.raises(VerifierError, match="example 'x': hidden must be"):
            verifier.verify(Example("x", "", hidden), Answer(""))


def test_memory_error_may_be_expected(verifier: FunctionTests):
    problem = example("f", {"args": [], "raises": "MemoryError"})
    assert kind(verifier, problem, "def f(): raise MemoryError") == "passed"

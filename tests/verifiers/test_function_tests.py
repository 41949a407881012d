from __future__ import annotations

from typing import Any

import pytest
from add_problem import ADD, CORRECT, WRONG

from verifiers import Answer, Example, FunctionTests, VerifierError
from verifiers.code.function_tests import exception_name
from verifiers.sandbox.channel import Reply


def example(entry: str, *tests: tuple[list[Any], Any], **hidden: Any) -> Example:
    cases = [{"args": args, "expected": expected} for args, expected in tests]
    return Example(id=entry, prompt="", hidden={"entry": entry, "tests": cases, **hidden})


def test_passing_verdict(verifier: FunctionTests):
    verdict = verifier.verify(ADD, Answer(CORRECT))
    assert (verdict.score, verdict.passed, verdict.kind) == (1.0, True, "passed")
    assert verdict.components == {"passed_fraction": 1.0}
    assert verdict.feedback == "all 4 tests passed"
    assert verdict.seconds > 0


def test_all_stops_at_the_first_failure(verifier: FunctionTests):
    source = "calls = 0\ndef f(x):\n    global calls\n    calls += 1\n    return calls"
    tests = [([0], 1), ([0], 2), ([0], 99), ([0], 4)]
    verdict = verifier.verify(example("f", *tests), Answer(source))
    assert (verdict.score, verdict.kind, verdict.components["passed_fraction"]) == (0.0, "wrong", 0.5)
    assert verdict.feedback == "test 3 of 4: f returned a wrong value"
    verdict = verifier.verify(example("f", *tests, scoring="fraction"), Answer(source))
    assert (verdict.score, verdict.passed, verdict.kind) == (0.75, False, "wrong")


@pytest.mark.parametrize(
    ("body", "score", "kind"),
    [
        ("return x", 1.0, "passed"),
        ("return x if x != 2 else 1 // 0", 0.75, "exception"),
        ("return x if x != 2 else object()", 0.75, "unserialisable"),
        ("return x if x != 2 else 'x' * 10**6", 0.75, "too_large"),
        ("return x if x != 2 else os._exit(0)", 0.25, "died"),
        ("return x if x != 2 else os.write(4, b'zzzz')", 0.25, "bad_frame"),
    ],
)
def test_fraction_counts_every_call_until_the_process_ends(verifier: FunctionTests, body: str, score: float, kind: str):
    tests = [([i], i) for i in (1, 2, 3, 4)]
    verdict = verifier.verify(example("f", *tests, scoring="fraction"), Answer(f"import os\ndef f(x): {body}"))
    assert (verdict.score, verdict.kind) == (score, kind)
    assert verdict.components == {"passed_fraction": score}


VALUES: list[Any] = [None, True, 0, -(10**40), 1.5, "\u20ac\U0001f600\ud800", b"\0\xff", [1, [2]], (1, (2,)), {1, "a"}]
VALUES += [frozenset({1}), {"a": {(1, 2): [None]}}, [], (), set(), {}]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_pass_through_unchanged(verifier: FunctionTests, value: Any):
    assert verifier.verify(example("same", ([value], value)), Answer("def same(x): return x")).kind == "passed"


def test_arguments_are_fresh_for_every_call(verifier: FunctionTests):
    shared = [3, 1, 2]
    tests = example("f", ([shared, shared], [1, 2, 3]), ([shared, shared], [1, 2, 3]))
    source = "def f(x, y):\n    assert x == y == [3, 1, 2] and x is not y\n    x.sort()\n    return x"
    assert verifier.verify(tests, Answer(source)).kind == "passed"
    assert shared == [3, 1, 2]


def test_tolerance_is_per_example(verifier: FunctionTests):
    third = Answer("def third(): return 0.3333")
    assert verifier.verify(example("third", ([], 1 / 3), tolerance=1e-3), third).kind == "passed"
    assert verifier.verify(example("third", ([], 1 / 3)), third).kind == "wrong"


def test_large_arguments_and_many_calls(verifier: FunctionTests):
    large = list(range(50_000))
    assert verifier.verify(example("f", ([large], sum(large))), Answer("f = sum")).kind == "passed"
    many = [([i], i * i) for i in range(500)]
    assert verifier.verify(example("f", *many), Answer("def f(x): return x * x")).kind == "passed"


def test_batch_keeps_order(verifier: FunctionTests):
    pairs = [(ADD, Answer(source)) for source in (CORRECT, WRONG, "def add(", CORRECT) * 5]
    verdicts = verifier.verify_batch(pairs)
    assert [verdict.kind for verdict in verdicts] == ["passed", "wrong", "syntax_error", "passed"] * 5
    assert verifier.verify_batch([]) == []


@pytest.mark.parametrize(
    "source",
    [
        "def f(secret): raise ValueError(secret)",
        "def f(secret): raise type(secret, (Exception,), {})",
        "def f(secret): return secret * 2",
        "import os\ndef f(secret):\n    data = b't2:s9:exceptions%d:%s' % (len(secret), secret.encode())\n"
        "    os.write(4, len(data).to_bytes(4, 'big') + data)",
        "def f(secret):\n    print(secret)\n    exit(secret)",
    ],
)
def test_feedback_tells_neither_inputs_nor_expected_values(verifier: FunctionTests, source: str):
    verdict = verifier.verify(example("f", (["QmVyaGlkZGVu"], "ZXhwZWN0ZWQ")), Answer(source))
    assert verdict.score == 0.0
    assert "test 1 of 1" in verdict.feedback
    for hidden in ("QmVyaGlkZGVu", "ZXhwZWN0ZWQ"):
        assert hidden not in repr(verdict)


def test_only_names_of_builtin_exceptions_are_told():
    assert exception_name(Reply("exception", ("ValueError", "Exception"))) == " (ValueError)"
    for name in ("secret", "print", ""):
        assert exception_name(Reply("exception", (name, "ValueError"))) == ""


def test_feedback_of_code_that_cannot_be_called(verifier: FunctionTests):
    assert verifier.verify(ADD, Answer("x = 1\ndef add(")).feedback == "the code is not valid Python (line 2)"
    assert "has no function add" in verifier.verify(ADD, Answer("x = 1")).feedback
    assert verifier.verify(ADD, Answer("undefined")).feedback == "the code could not be loaded (NameError)"


@pytest.mark.parametrize(
    ("field", "hidden"),
    [
        ("entry", {"entry": ""}),
        ("entry", {"entry": "a.b.c"}),
        ("entry", {"entry": None}),
        ("tests", {"tests": []}),
        ("tests", {"tests": None}),
        ("tests", {"tests": [{"args": [1]}]}),
        ("tests", {"tests": [{"args": [1], "expected": 1, "extra": 1}]}),
        ("tests", {"tests": [{"args": "ab", "expected": 1}]}),
        ("tests", {"tests": [{"args": [object()], "expected": 1}]}),
        ("tests", {"tests": [{"args": [1], "expected": object()}]}),
        ("scoring", {"scoring": "some"}),
        ("tolerance", {"tolerance": -1.0}),
        ("tolerance", {"tolerance": float("nan")}),
        ("tolerance", {"tolerance": "0"}),
        ("test", {"test": []}),
    ],
)
def test_malformed_hidden_data_are_the_judges_fault(verifier: FunctionTests, field: str, hidden: dict[str, Any]):
    broken = Example(id="broken-7", prompt="", hidden={**ADD.hidden, **hidden})
    with pytest.raises(VerifierError, match=rf"broken-7.*\['{field}'\]"):
        verifier.verify(broken, Answer(CORRECT))


def test_limits_may_be_a_mapping():
    assert FunctionTests({"cpu_s": 1}).limits == FunctionTests(limits={"cpu_s": 1}).limits
    with pytest.raises(TypeError):
        FunctionTests({"cpu_seconds": 1})


@pytest.fixture(scope="module")
def uncontained() -> FunctionTests:
    return FunctionTests(limits={"cpu_s": 1, "wall_s": 5.0}, sandbox="process", workers=2)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (CORRECT, "passed"),
        (WRONG, "wrong"),
        ("import os; os._exit(0)", "died"),
        ("def add(a, b):\n    while True: pass", "timeout"),
        ("def add(a, b): return bytearray(6 << 30)", "memory"),
        ("def add(", "syntax_error"),
        ("import os\ndef add(a, b):\n    if os.fork() == 0:\n        while True: pass\n    return a + b", "passed"),
        ("open('x', 'w').close()\nimport os\ndef add(a, b): return a + b if os.listdir() == ['x'] else 0", "passed"),
    ],
)
def test_unsafe_rung_gives_the_same_verdicts(uncontained: FunctionTests, source: str, kind: str):
    assert uncontained.verify(ADD, Answer(source)).kind == kind

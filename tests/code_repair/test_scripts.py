"""Scripts of calls on a class, and their in-process execution."""

import time

import pytest

from llm_envs.code_repair.execute import FUEL, Outcome, failures, load
from llm_envs.code_repair.mutate import mutants
from llm_envs.code_repair.program import normalise
from llm_envs.code_repair.scripts import Script, as_test, cut, of_test, play, script_text
from verifiers import Answer, Example, FunctionTests

STACK = normalise("""
class Stack:
    def __init__(self, n):
        self.xs = []
        self.n = n
    def push(self, x):
        if len(self.xs) < self.n:
            self.xs.append(x)
        return self.xs
    def pop(self):
        return self.xs.pop()
""")
SCRIPT: Script = ((2,), (("push", (5,)), ("push", (6,)), ("push", (7,)), ("pop", ())))
VALUES = [[5], [5, 6], [5, 6], 6]


def test_a_script_gives_the_values_of_all_calls():
    assert load(STACK, "Stack")(SCRIPT, FUEL) == Outcome(VALUES)  # as they were when they were given


def test_an_exception_ends_a_script():
    assert load(STACK, "Stack")(((2,), (("push", (1,)), ("pop", ()), ("pop", ()))), FUEL) == Outcome(
        [[1], 1], "IndexError"
    )
    assert load(STACK, "Stack")(((), (("pop", ()),)), FUEL) == Outcome([], "TypeError")


@pytest.mark.parametrize(
    "body",
    [
        "while True:\n            self.xs.extend(self.xs)",
        "while True:\n            self.xs += self.xs",
        "while True:\n            self.n *= self.n",
        "for x in self.xs:\n            self.xs.append(x)",
        "return self.push(x)",
    ],
)
def test_endless_and_growing_methods_end_quickly(body):
    init = "    def __init__(self):\n        self.xs = [1, 2]\n        self.n = 3\n"
    source = f"class C:\n{init}    def push(self, x):\n        {body}\n"
    started = time.process_time()
    assert load(source, "C")(((), (("push", (1,)),)), FUEL).error
    assert time.process_time() - started < 0.1


def test_a_value_that_holds_itself_does_not_travel():
    source = (
        "class C:\n    def f(self):\n        self.xs = []\n        self.xs.append(self.xs)\n        return self.xs\n"
    )
    wrong = failures(source, "C", [((), (("f", ()),))], [[[]]])
    assert list(wrong) == [0]


def test_cut_and_text():
    script, value = cut(SCRIPT, VALUES, 1)
    assert (script, value) == (((2,), SCRIPT[1][:2]), [5, 6])
    assert script_text("C", script) == "o = C(2); o.push(5); o.push(6)"


def test_tests_and_scripts_are_two_forms_of_one_thing():
    assert of_test(as_test(SCRIPT, VALUES)) == (SCRIPT, VALUES)
    example = Example("stack", "", hidden={"entry": "Stack", "tests": [as_test(SCRIPT, VALUES)]})
    verifier = FunctionTests()
    assert verifier.verify(example, Answer(STACK)).passed
    assert not verifier.verify(example, Answer(STACK.replace("<", "<="))).passed


def test_oracles_are_played_too():
    class Oracle:
        def __init__(self, n):
            self.n = n

        def add(self, x):
            self.n += x
            return self.n

    assert play(Oracle, ((1,), (("add", (2,)), ("add", (3,))))) == [3, 6]


def test_bugs_are_put_into_methods():
    found = {(mutant.kind, mutant.source) for mutant in mutants(STACK)}
    guarded = "        if len(self.xs) < self.n:\n            self.xs.append(x)"
    for kind, old, new in (
        ("wrong_variable", "self.xs.append", "self.n.append"),
        ("boundary", "<", "<="),
        ("missing_branch", guarded, "        self.xs.append(x)"),
    ):
        assert (kind, STACK.replace(old, new)) in found
    assert not any("append(self)" in source for _, source in found)
    assert all(normalise(source) == source for _, source in found)

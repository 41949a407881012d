import time

import pytest

from llm_envs.code_repair.execute import FUEL, Outcome, failures, is_plain, load, same


def run(body: str, *args, fuel: int = FUEL) -> Outcome:
    return load(f"def f(x):\n{body}\n", "f")(args, fuel)


def test_values_and_exceptions_are_outcomes():
    assert run("    return x + 1", 2) == Outcome(3)
    assert run("    return x[5]", [1]) == Outcome(None, "IndexError")
    assert run("    return y", 1) == Outcome(None, "NameError")
    assert run("    return open(x)", "a") == Outcome(None, "NameError")


@pytest.mark.parametrize(
    "body",
    [
        "    while True:\n        pass",
        "    while True:\n        x = x + x",
        "    while True:\n        x *= x",
        "    for i in range(10 * 10 * 10 * 10 * 10 * 10):\n        x = x * x",
        "    while True:\n        x = str(x) * 9",
        "    for y in x:\n        x.append(y)",
        "    return [1 for i in range(10000000)]",
        "    return 'a' * 10000000",
        "    k = [2, 3]\n    while True:\n        k.append(k[-1] * k[-2])",
        "    k = [2]\n    while True:\n        k[0] *= k[0]",
        "    k = ['ab']\n    while True:\n        k.append(k[-1] + k[-1])",
        "    k = ['ab']\n    while True:\n        k[0] += k[0]",
    ],
)
@pytest.mark.parametrize("value", [7, [7]])
def test_endless_and_growing_programs_end_quickly(body, value):
    started = time.process_time()
    assert run(body, value).error
    assert time.process_time() - started < 0.1


def test_endless_recursion_is_a_recursion_error():
    assert run("    return f(x)", 1).error == "RecursionError"


def test_arguments_are_not_changed():
    argument = [[1], 2]
    assert run("    x[0].append(3)\n    x.append(4)\n    return x", argument) == Outcome([[1, 3], 2, 4])
    assert argument == [[1], 2]


def test_guarded_operators_keep_their_meaning():
    assert run("    k = x\n    k += [1]\n    k *= 2\n    return x + k", [0]) == Outcome([0, 1, 0, 1] * 2)
    assert run("    x[0] += 2\n    x[1] *= 3\n    return (x[0] + x[1]) * 2", [1, 2]) == Outcome(18)
    assert run("    return x if x < 2 else f(x - 1) + f(x - 2) * 1", 9) == Outcome(34)


def test_same_is_exact_about_types():
    assert same([1, {"a": (2, "b")}], [1, {"a": (2, "b")}])
    for left, right in ((1, True), ([1], (1,)), ({"a": 1}, {"a": True}), (None, 0), ("1", 1), ([1], [1, 2])):
        assert not same(left, right)


def test_values_that_would_not_travel_are_not_plain():
    loop: list = []
    loop.append(loop)
    assert is_plain([1, ["a", None, True], {"k": (1,)}])
    for value in (loop, iter([1]), {1: 2}, {1}, 1.5, len):
        assert not is_plain(value)


def test_failures_name_the_inputs_that_go_wrong():
    wrong = failures("def f(x):\n    return 6 // x\n", "f", [(1,), (2,), (0,), (3,)], [6, 2, 0, 2])
    assert wrong == {1: Outcome(3), 2: Outcome(None, "ZeroDivisionError")}


def test_slow_is_not_wrong():
    source = "def f(x):\n    n = 0\n    while n < x:\n        n += 1\n    return n\n"
    assert failures(source, "f", [(2 * FUEL,), (3 * FUEL,), (4,)], [2 * FUEL, 3 * FUEL, 4]) == {}
    assert list(failures(source, "f", [(2 * FUEL,), (3 * FUEL,)], [2 * FUEL, 0])) == [1]

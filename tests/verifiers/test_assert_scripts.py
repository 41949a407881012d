"""Assertion scripts as tests: what is converted means the same, and everything else is refused with its reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verifiers.plain_values import has_nan, values
from verifiers import Answer, Example, FunctionTests
from verifiers.code.assert_scripts import convert
from verifiers.code.compare import equal_value, same_value


def in_check(*lines: str) -> str:
    return "def check(candidate):\n" + "".join(f"    {line}\n" for line in lines)


def read_tests(script: str) -> list[dict]:
    hidden = convert(script, "f")
    assert isinstance(hidden, dict), hidden
    assert hidden["entry"] == "f"
    return hidden["tests"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["assert candidate(1, 'a') == 'b'"], [{"args": [1, "a"], "expected": "b"}]),
        (["assert candidate(1) == 2", "assert candidate(2) is True"],
         [{"args": [1], "equals": 2}, {"args": [2], "expected": True}]),
        (["assert [('a', 2.0)] == candidate(1)"], [{"args": [1], "equals": [("a", 2.0)]}]),
        (["assert 'b' == candidate(1)"], [{"args": [1], "expected": "b"}]),
        (["assert (candidate() == None), 'message'"], [{"args": [], "expected": None}]),
        (["assert candidate(*[1, 2], key='k') == 'b'"], [{"args": [1, 2], "kwargs": {"key": "k"}, "expected": "b"}]),
        (["assert candidate('a' + 'b', 2 ** 3, -1.5) is True"], [{"args": ["ab", 8, -1.5], "expected": True}]),
        (["assert False is candidate({'a': (1, {2})})"], [{"args": [{"a": (1, {2})}], "expected": False}]),
        (["assert candidate(1) == [0.5, ('a', {'b': None})]"], [{"args": [1], "expected": [0.5, ("a", {"b": None})]}]),
        (["assert candidate(1) == 'a' and candidate(2) == 'b'"],
         [{"args": [1], "expected": "a"}, {"args": [2], "expected": "b"}]),
        (
            ["for n, text in [(1, 'a'), (2, 'b')]:", "    if n > 1:", "        assert candidate(n) == text * n"],
            [{"args": [2], "expected": "bb"}],
        ),
        (
            ["from string import ascii_lowercase as letters", "n = 3", "n += 1", "assert candidate(n) == letters[:n]"],
            [{"args": [4], "expected": "abcd"}],
        ),
        (["assert 1 + 1 == 2", "assert candidate(2 ** 60 + 1) == 2 ** 60 + 1"],
         [{"args": [2**60 + 1], "expected": 2**60 + 1}]),
        (["items = [1]", "assert candidate(items) == 'a'", "items = [2]", "assert candidate(items) == 'b'"],
         [{"args": [[1]], "expected": "a"}, {"args": [[2]], "expected": "b"}]),
    ],
)  # fmt: skip
def test_converted(lines, expected):
    assert read_tests(in_check(*lines)) == expected


def test_where_the_asserts_may_be():
    one = [{"args": [1], "expected": "a"}]
    assert read_tests("assert f(1) == 'a'") == one
    assert (
        read_tests("import math\nMETADATA = {}\n" + in_check("'''Doc.'''", "assert candidate(1) == 'a'") + "check(f)\n")
        == one
    )
    assert read_tests("def twice(x):\n    return x * 2\n" + in_check("assert candidate(1) == twice('a')")) == [
        {"args": [1], "expected": "aa"}
    ]


def test_later_changes_of_the_script_do_not_reach_earlier_tests():
    script = in_check("want = ['a']", "assert candidate(1) == want", "want.append('b')", "assert candidate(2) == want")
    assert [test["expected"] for test in read_tests(script)] == [["a"], ["a", "b"]]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["assert candidate(1) == [float('nan')]"], "compares with NaN"),
        # no test can say so
        (["assert candidate(1)"], "asserts that a result is true"),
        (["assert not candidate(1)"], "asserts that a result is true"),
        (["assert candidate(1) == 'a' or candidate(1) == 'b'"], "asserts that a result is true"),
        (["assert candidate(1) != 'a'"], "compares by NotEq"),
        (["assert candidate(1) in ('a', 'b')"], "compares by In"),
        (["assert 'a' == candidate(1) == 'a'"], "something else than a comparison"),
        (["assert candidate(1) is 'a'"], "identity"),
        (["assert tuple(candidate(1)) == ('a',)"], "changes a result before it is compared"),
        (["assert candidate(1).strip() == 'a'"], "changes a result before it is compared"),
        (["assert candidate(candidate('a')) == 'a'"], "result other than by comparing it once"),
        (["assert candidate(1) == candidate(2)"], "result other than by comparing it once"),
        (["got = candidate(1)", "assert got == 'a'"], "uses the candidate other than in an assertion"),
        (["try:", "    candidate(1)", "    assert False", "except ValueError: pass"], "other than in an assertion"),
        (["g = lambda x: candidate(x)", "assert g(1) == 'a'"], "other than in an assertion"),
        (["for n in [1, 2]:", "    if n > 1: break", "    assert candidate(n) == 'a'"], "other than in an assertion"),
        (["assert candidate(1) == 'a'", "return", "assert candidate(2) == 'b'"], "contains return"),
        # what crosses the border is a copy
        (["assert candidate(lambda x: x) == 'a'"], "is not a plain value"),
        (["assert candidate(range(3)) == 'a'"], "is not a plain value"),
        (["assert candidate([[0] * 2] * 2) == 'a'"], "hands an object over twice"),
        (["l = [1]", "assert candidate(l) == 'a'", "assert candidate(l) == 'b'"], "earlier call may have changed"),
        (["l = ['a']", "assert candidate(l) == sorted(l)"], "earlier call may have changed"),
        (["l = ['a']", "assert candidate([l]) == 'a'", "k = l", "assert candidate(1) == k"], "may have changed"),
        (["l = ['a']", "i = iter(l)", "assert candidate(l) == 'a'", "assert candidate(1) == next(i)"], "have changed"),
        (["l = ['a']", "def g(): return l", "assert candidate(l) == 'a'", "assert candidate(1) == g()"], "changed"),
        (["def g(l=['a']): return l", "assert candidate(g()) == 'a'", "assert candidate(1) == g()"], "have changed"),
        (["l = ['a']", "assert candidate(l) == 'a'", "l += ['b']"], "have changed"),
        # not the same in every run, or not runnable without the candidate
        (["import random", "assert candidate(1) == random.choice('ab')"], "random is not known to be deterministic"),
        (["assert candidate(hash('a')) == 'a'"], "NameError"),
        (["assert candidate(1) == helper(1)"], "NameError: name 'helper' is not defined"),
        (["assert candidate(1) == 'a' + 1"], "TypeError"),
        (["assert False"], "always fails"),
        (["str = 'a'", "assert candidate(1) == str"], "a variable str, which is also a global name or a builtin"),
        (["import math as len", "assert candidate(1) == 'a'"], "a variable len, which is also"),
        (["for n in range(10_001):", "    assert candidate(n) == 'a'"], "makes more than 10000 calls"),
        (["pass"], "asserts nothing about the candidate"),
    ],
)  # fmt: skip
def test_refused(lines, reason):
    found = convert(in_check(*lines), "f")
    assert isinstance(found, str), found
    assert reason in found


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("def check(candidate:", "not valid Python"),
        ("def check(candidate, other):\n    assert candidate(1) == 'a'\n", "take the candidate alone"),
        ("def check(*candidate):\n    assert candidate(1) == 'a'\n", "take the candidate alone"),
        (in_check("assert candidate(1) == 'a'") + in_check("assert candidate(1) == 'b'"), "defined once"),
        ("assert f(1) == 'a'\n" + in_check("assert candidate(1) == 'b'"), "both inside check and outside"),
        ("n = 1\ndef helper(): return 'ab'[n]\n" + in_check("n = 0", "assert candidate(1) == helper()"), "variable n"),
        (in_check("assert candidate(1) == f(1)"), "result other than by comparing it once"),
    ],
)
def test_refused_scripts(script, reason):
    found = convert(script, "f")
    assert isinstance(found, str), found
    assert reason in found


def test_the_line_is_named():
    assert str(convert(in_check("assert candidate(1) == 'a'", "assert candidate(1)"), "f")).startswith("line 3: ")


@pytest.mark.parametrize(
    "assertion",
    [
        "abs(candidate(1) - 0.33) < 1e-6",
        "abs(0.33 - candidate(1)) <= 1e-6",
        "math.fabs(candidate(1) - 0.33) < 1e-6",
        "math.isclose(candidate(1), 0.33, rel_tol=0, abs_tol=1e-6)",
        "math.isclose(0.33, candidate(1), rel_tol=0, abs_tol=1e-6)",
    ],
)
def test_distances(assertion):
    hidden = convert("import math\n" + in_check(f"assert {assertion}", "assert candidate(2) == 'a'"), "f")
    assert isinstance(hidden, dict), hidden
    tolerance, (first, _) = hidden["tolerance"], hidden["tests"]
    assert first == {"args": [1], "expected": 0.33}
    for got in (0.33, 0.33 + 1e-6, 0.33 - 1e-6, 0.330000999999, 0.33 + 2e-6, 0, 1, True, float("nan"), float("inf")):
        said = eval(assertion, {"candidate": lambda _, got=got: got, "math": __import__("math")})
        assert same_value(got, first["expected"], tolerance) == said, got


@pytest.mark.parametrize(
    "lines",
    [
        ["assert abs(candidate(1) - 1.0) < 1e-6"],  # the script accepts 1
        ["assert abs(candidate(1) - 2.5) < 1e-6"],  # the judge's tolerance is relative above 1
        ["assert abs(candidate(1) - 0.3) < 0.4"],
        ["assert abs(candidate(1) - 0.3) < 1e-6", "assert abs(candidate(2) - 0.3) < 1e-3"],
        ["assert abs(candidate(1) - 0.3) < 1e-6", "assert candidate(2) == 0.5"],
        ["assert abs(candidate(1)) < 1e-6"],
        ["assert math.isclose(candidate(1), 0.3)"],
        ["assert round(candidate(1), 3) == 0.5"],
    ],
)
def test_distances_that_cannot_be_kept(lines):
    assert isinstance(convert("import math\n" + in_check(*lines), "f"), str)


def twins(value):
    """What `==` may call equal to the value, though of other types."""
    kind = type(value)
    if kind in (list, tuple):
        return st.tuples(*map(twins, value)).map(kind)
    if kind is dict:
        return st.tuples(*(st.tuples(st.just(key), twins(item)) for key, item in value.items())).map(dict)
    if kind in (set, frozenset):
        return st.sampled_from([set(value), frozenset(value)])
    if kind in (bool, int, float) and abs(value) < 2**53 and int(value) == value:
        return st.sampled_from([int(value), float(value), value])
    return st.just(value)


@given(values.filter(lambda value: not has_nan(value)).flatmap(lambda v: st.tuples(st.just(v), twins(v) | values)))
def test_converted_equality_is_that_of_python(pair):
    expected, got = pair
    script = f"inf = float('inf')\nassert f() == {expected!a}\n"
    (test,) = read_tests(script)
    same = equal_value(got, test["equals"]) if "equals" in test else same_value(got, test["expected"])
    assert same == (got == expected)


def test_judged():
    hidden = convert(in_check("for t in ['ab', '']:", "    assert candidate(t) == t[::-1]"), "f")
    assert isinstance(hidden, dict)
    example, judge = Example("f", "", hidden), FunctionTests()
    assert judge.verify(example, Answer("def f(t): return t[::-1]")).passed
    assert not judge.verify(example, Answer("def f(t): return t")).passed

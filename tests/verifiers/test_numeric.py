from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifiers import Answer, Example, Numeric, Verdict, VerifierError
from verifiers.text.numeric import MAX_DIGITS

THIN, NARROW, NO_BREAK, MINUS = "\u2009", "\u202f", "\u00a0", "\u2212"


def judged(answer: Any, text: str, **options: Any) -> Verdict:
    return Numeric(**options).verify(Example("e", "", {"answer": answer}), Answer(text))


def group(number: int, mark: str) -> str:
    return f"{number:,}".replace(",", mark)


@pytest.mark.parametrize("mode", ["last", "whole"])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        ("+7", 7),
        (f"{MINUS}42", -42),
        ("007", 7),
        (".5", "1/2"),
        ("5.", 5),
        ("-0.25", "-1/4"),
        ("1,234,567.89", "123456789/100"),
        ("1 234 567", 1234567),
        (f"1{NO_BREAK}234", 1234),
        ("3/4", "3/4"),
        ("-3 / 4", "-3/4"),
        ("1\u20442", "1/2"),
        ("1 3/4", "7/4"),
        ("-1 3/4", "-7/4"),
        ("6.02e23", 602 * 10**21),
        (f"1E{MINUS}3", "1/1000"),
        ("6.02 x 10^23", 602 * 10**21),
        (r"6.02 \times 10^{23}", 602 * 10**21),
        ("2 \u00d7 10**-2", "1/50"),
        ("45%", "9/20"),
        ("45.5 %", "91/200"),
        ("$1,000", 1000),
        ("-$5", -5),
        ("\u20ac-5", -5),
        ("0e999999999", 0),
        *(("**5**", 5), ("*5*", 5), ("***5***", 5), ("__5__", 5), ("_5_", 5)),
        *(("**-5**", -5), ("_-5_", -5), ("-**5**", -5), ("**45%**", "9/20"), ("**45** %", "9/20"), ("**_5_**", 5)),
    ],
)
def test_what_is_read(mode: str, text: str, value: Any):
    assert Numeric(mode=mode)._read(text, mode) == Fraction(value)
    assert judged(text, text, mode=mode).passed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The answer is 42.", 42),
        ("3 apples, 5 pears", 5),
        ("3-5", 5),
        ("7 - 5", 5),
        ("x=-5", -5),
        ("(-5)", -5),
        ("5kg", 5),
        ("H2O weighs 18", 18),
        ("first 1, then 234", 234),
        ("1\n234", 234),
        ("\u7b54\u6848\u662f42", 42),
        ("it costs $1,234.50.", "2469/2"),
        ("The answer is **42**.", 42),
        ("**Answer:** 42", 42),
        ("**2 * 3 = 6**", 6),
        ("**Final\nAnswer: 42**", 42),
        ("\u7b54\u6848\u662f**42**\u3002", 42),
        ("Step 1 **234**", 234),
        (f"Step 1{NO_BREAK}**234**", 234),
        ("the blank is ____5____", 5),
        *(("It is 42!", 42), ("= 42!\nReally", 42), ("<answer>42!</answer>", 42), ("5! = 120", 120)),
        *(("Answer:30", 30), ("Part 2: 5", 5), ("it is '5'", 5), ("\\boxed{5}", 5), ("(2) 5", 5)),
    ],
)
def test_the_last_number_counts(text: str, value: Any):
    assert Numeric()._read(text, "last") == Fraction(value)
    assert judged(0, text, mode="whole").kind == "unparsable"


@pytest.mark.parametrize(
    "text",
    [
        *("", "none", "x2", "1,5", "1,2345", "12,34,567", "1.234,56", "1,234,56"),
        *("1.2.3", "3/4/5", "3 / 4 / 5", "12/25/2024", "2^10", "2**10", "10\u2078", "2,3,5", "(3,4)", "7 then 1,5"),
        *("1/0", "1 5/3", "-$-5", "1e5e5", "0x1F", "3.5/2", "\x00", "\ud800", "\u0663"),
        *("10 ^ 5", "2 ** 5", "2^ 5", "10^{ 5}", "2^(5)", "2^(-5)", "(5)^2", "5 ^ n", "2 ^ **5**", "**2**5"),
        *("(3)/(5)", "3/(5)", "(3) / 5", "3 / **5**", r"\frac{3}{5}", "5!x", "5!(n)", "3!/5"),
        *("5_000", "1_5", "5_", "1'005", "5'000", "1\u2019005", "5b101", "0b101", "0o5", "0xFF", "10:5", "5:30"),
    ],
)
def test_what_is_ambiguous_or_no_number_is_unparsable(text: str):
    for mode in ("last", "whole"):
        verdict = judged(5, text, mode=mode)
        assert (verdict.score, verdict.passed, verdict.kind) == (0.0, False, "unparsable")


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", "9" * (MAX_DIGITS + 1), "1/" + "9" * 20_000])
def test_what_is_too_large_is_not_computed(text: str):
    assert judged(5, text).kind == "too_large"


@pytest.mark.parametrize(
    "unit",
    [
        *("1 ", "1,", "1", "1/", "- ", "$", "1e", "1 111", ",", "1.1", "x 10^", "1,111", "123 "),
        *("*", "_", "_*", " **1** ", " _1", "^(", "^ ", "1 / ", "/(", "\n ", "1!", ")", "( ", "*1_ "),
    ],
)
def test_long_answers_are_read_in_linear_time(unit: str):
    began = time.process_time()
    judged(5, unit * (100_000 // len(unit)))
    judged(5, "2" + unit * (100_000 // len(unit)) + " 5")
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("answer", "text", "options", "passed"),
    [
        (0.1, "0.1", {}, True),
        (0.1, "0.1000000001", {}, False),
        (1, "1.01", {"absolute": 0.01}, True),  # the border belongs to it
        (1, "1.0100000001", {"absolute": 0.01}, False),
        (-200, "-198", {"relative": 0.01}, True),
        (-200, "-197.9", {"relative": 0.01}, False),
        (10**30, str(10**30 + 1), {}, False),  # equal as floats
        ("1/3", "0.3333333333333333", {}, False),
        ("1/3", "0.3333333333333333", {"absolute": 1e-9}, True),
        (50, "50%", {}, False),
        (50, "50%", {"percent": "ignore"}, True),
        ("50%", "0.5", {}, True),
    ],
)
def test_tolerance_and_per_cent(answer: Any, text: str, options: dict[str, Any], passed: bool):
    verdict = judged(answer, text, **options)
    assert (verdict.passed, verdict.score, verdict.kind) == (passed, float(passed), "passed" if passed else "wrong")


@pytest.mark.parametrize("answer", [None, True, float("nan"), float("inf"), "", "1,5", "forty", [1], "1e99999", "4 kg"])
def test_malformed_hidden_data_are_the_judges_fault(answer: Any):
    with pytest.raises(VerifierError, match=r"'e'.*\['answer'\]"):
        judged(answer, "1")


@pytest.mark.parametrize("options", [{"mode": "first"}, {"percent": "x"}, {"absolute": -1}, {"relative": float("nan")}])
def test_wrong_options_are_refused(options: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(options))):
        Numeric(**options)


integers = st.integers(-(10**60), 10**60)


@settings(max_examples=60, deadline=None)
@given(integers, st.sampled_from(["", ",", " ", NO_BREAK, THIN, NARROW]), st.sampled_from(["-", MINUS]))
def test_integers_go_round(number: int, mark: str, minus: str):
    text = group(number, mark).replace("-", minus)
    assert judged(number, f"so {text}.").passed
    assert not judged(number + 1, text).passed


@settings(max_examples=60, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_go_round(number: float):
    assert judged(number, repr(number), mode="whole").passed


@settings(max_examples=60, deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=7), integers)
def test_decimals_and_exponents_go_round(number: Any, shift: int):
    assert judged(f"{number:f}", f"{number:f}").passed
    exponent = shift % 301 - 150
    assert Numeric()._read(f"{number:f}e{exponent}", "last") == Fraction(number) * Fraction(10) ** exponent


@settings(max_examples=60, deadline=None)
@given(st.fractions(max_denominator=10**20))
def test_fractions_and_mixed_numbers_go_round(number: Fraction):
    whole, rest = divmod(abs(number), 1)
    sign = "-" if number < 0 else ""
    expected = f"{number.numerator}/{number.denominator}"
    assert judged(expected, expected).passed
    assert judged(expected, f"{sign}{whole} {rest.numerator}/{rest.denominator}").passed


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="0123456789,. /-+e$%x^*_!':({})\u2212\u00a0ab\n", max_size=30))
def test_no_text_raises(text: str):
    for mode in ("last", "whole"):
        judged(5, text, mode=mode)

from __future__ import annotations

import re
from typing import Any

import pytest

from verifiers import (
    Answer,
    Contains,
    ExactMatch,
    Example,
    JsonSchema,
    MathEqual,
    Numeric,
    RegularExpression,
    Verdict,
    Verifier,
    VerifierError,
)
from verifiers.text.json_fields import JsonFields
from verifiers.text.word_list import WordList
from verifiers.text.writing import Constraints

JUDGES = (Contains, RegularExpression, ExactMatch, Numeric, JsonFields, JsonSchema, MathEqual, Constraints)


def judged(verifier: Verifier, hidden: dict[str, Any], text: str) -> Verdict:
    return verifier.verify(Example("e", "", hidden), Answer(text))


def test_exact_match_folds_case_when_asked():
    assert not judged(ExactMatch(), {"answer": "Straße"}, "STRASSE").passed
    assert judged(ExactMatch(ignore_case=True), {"answer": "Straße"}, "STRASSE").passed


@pytest.mark.parametrize(
    ("answer", "text", "fraction"),
    [
        ("Paris", "It is Paris.", 1.0),
        ("Paris", "paris", 0.0),
        ("New  York", "in New\nYork City", 1.0),
        (["a", "b"], "a b", 1.0),
        (["a", "b"], "only a", 0.5),
        (["a", "b"], "", 0.0),
    ],
)
def test_contains(answer: Any, text: str, fraction: float):
    verdict = judged(Contains(), {"answer": answer}, text)
    assert (verdict.passed, verdict.components) == (fraction == 1.0, {"found_fraction": fraction})
    assert verdict.score == float(verdict.passed)
    assert verdict.kind == ("passed" if verdict.passed else "wrong")


def test_contains_any_and_without_case():
    verdict = judged(Contains(require="any", ignore_case=True), {"answer": ["PARIS", "Rome"]}, "paris")
    assert (verdict.passed, verdict.components["found_fraction"]) == (True, 0.5)


@pytest.mark.parametrize("answer", [None, "", " ", [], ["a", ""], ["a", 1], 3])
def test_contains_refuses_malformed_hidden_data(answer: Any):
    with pytest.raises(VerifierError, match=r"'e'.*\['answer'\]"):
        judged(Contains(), {"answer": answer}, "a")


@pytest.mark.parametrize(
    ("options", "pattern", "text", "passed"),
    [
        ({}, r"\d+", " 42\n", True),
        ({}, r"\d+", "42 apples", False),
        ({"full": False}, r"\d+", "42 apples", True),
        ({"full": False}, r"^apples", "42 apples", False),
        ({"ignore_case": True}, "paris", "PARIS", True),
        ({}, r"\p{Lu}\w+", "Émile", True),  # `regex` knows classes that `re` does not
    ],
)
def test_regular_expression(options: dict[str, Any], pattern: str, text: str, passed: bool):
    verdict = judged(RegularExpression(**options), {"pattern": pattern}, text)
    assert (verdict.passed, verdict.score, verdict.kind) == (passed, float(passed), "passed" if passed else "wrong")


def test_a_pattern_that_backtracks_for_ever_times_out():
    verdict = judged(RegularExpression(timeout_s=0.2), {"pattern": "(a|aa)+$"}, "a" * 60 + "b")
    assert (verdict.score, verdict.passed, verdict.kind) == (0.0, False, "timeout")


@pytest.mark.parametrize("pattern", [None, 3, "(", "[z-a]", "a{2,1}", "(?<n"])
def test_a_malformed_pattern_is_the_judges_fault(pattern: Any):
    with pytest.raises(VerifierError, match=r"'e'.*\['pattern'\]"):
        judged(RegularExpression(), {"pattern": pattern}, "a")
    with pytest.raises(VerifierError, match=r"'e'.*\['pattern'\]"):
        RegularExpression().validate(Example("e", "", {"pattern": pattern}))


@pytest.mark.parametrize(("kind", "options"), [(Contains, {"require": "some"}), (RegularExpression, {"timeout_s": 0})])
def test_wrong_options_are_refused(kind: Any, options: dict[str, Any]):
    with pytest.raises(ValueError, match=re.escape(next(iter(options)))):
        kind(**options)


@pytest.mark.parametrize("hidden", [None, [], "answer"])
@pytest.mark.parametrize("kind", JUDGES)
def test_hidden_data_that_are_no_mapping_are_the_judges_fault(kind: type[Verifier], hidden: Any):
    judge, example = kind(), Example("x", "", hidden)
    for call in (judge.validate, lambda example: judge.verify(example, Answer("1"))):
        with pytest.raises(
            VerifierError, match=f"^example 'x': hidden must be a mapping, got {re.escape(repr(hidden))}$"
        ):
            call(example)
    judge.close()
    assert WordList().verify(example, Answer("a")).kind == "wrong"  # it reads no hidden data

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from verifiers import (
    Answer,
    ExactMatch,
    Example,
    Gate,
    Numeric,
    PerExample,
    Verdict,
    Verifier,
    VerifierError,
    WeightedSum,
    get_verifier,
)


class Recorder(Verifier):
    """Gives the verdicts by the answer's text, and remembers how it was asked."""

    def __init__(self, **verdicts: Verdict):
        self.verdicts = verdicts
        self.batches: list[list[str]] = []
        self.hidden: list[Any] = []
        self.closed = 0

    def verify(self, example: Example, answer: Answer) -> Verdict:
        return self.verify_batch([(example, answer)])[0]

    def verify_batch(self, pairs: Sequence[tuple[Example, Answer]]) -> list[Verdict]:
        self.batches.append([answer.text for _, answer in pairs])
        self.hidden += [dict(example.hidden) for example, _ in pairs]
        return [self.verdicts[answer.text] for _, answer in pairs]

    def close(self) -> None:
        self.closed += 1


GOOD = Verdict(1.0, True, "passed", {"depth": 2.0}, "fine", seconds=1.0)
HALF = Verdict(0.5, False, "wrong", {"depth": 1.0}, "so so", seconds=2.0)
BAD = Verdict(0.0, False, "timeout", feedback="slow")
EXAMPLE = Example("e", "", {"answer": "42"})


def pairs(*texts: str) -> list[tuple[Example, Answer]]:
    return [(EXAMPLE, Answer(text)) for text in texts]


def test_a_weighted_sum_keeps_the_parts():
    one, two = Recorder(a=GOOD, b=GOOD), Recorder(a=GOOD, b=HALF)
    total = WeightedSum({"one": (one, 2), "two": (two, 0.5)})
    first, second = total.verify_batch(pairs("a", "b"))
    assert (first.score, first.passed, first.kind) == (2.5, True, "passed")
    assert (second.score, second.passed, second.kind) == (2.25, False, "wrong")
    assert second.components == {"one.score": 1.0, "one.depth": 2.0, "two.score": 0.5, "two.depth": 1.0}
    assert second.feedback == "one: fine\ntwo: so so"
    assert second.seconds == 3.0
    assert one.batches == two.batches == [["a", "b"]]
    assert total.verify(*pairs("b")[0]) == second


def test_a_gate_asks_the_second_only_if_the_first_passes():
    first, then = Recorder(a=GOOD, b=HALF, c=GOOD), Recorder(a=HALF, c=GOOD)
    gate = Gate(first, then)
    a, b, c = gate.verify_batch(pairs("a", "b", "c"))
    assert then.batches == [["a", "c"]]
    assert (a.score, a.passed, a.kind, a.feedback) == (0.5, False, "wrong", "so so")
    assert a.components == {"first.score": 1.0, "first.depth": 2.0, "then.score": 0.5, "then.depth": 1.0}
    assert (b.score, b.passed, b.kind, b.feedback) == (0.0, False, "wrong", "so so")
    assert b.components == {"first.score": 0.5, "first.depth": 1.0}
    assert c.passed
    gate.verify_batch(pairs("b"))
    assert len(then.batches) == 1


def test_per_example_hands_on_the_other_hidden_fields():
    one, two = Recorder(a=GOOD, b=BAD), Recorder(a=HALF)
    judge = PerExample({"one": one, "two": two})
    rows = [("two", "a"), ("one", "b"), ("one", "a")]
    asked = [(Example("e", "", {"verifier": name, "x": 1}), Answer(text)) for name, text in rows]
    verdicts = judge.verify_batch(asked)
    assert [verdict.kind for verdict in verdicts] == ["wrong", "timeout", "passed"]
    assert [verdict.score for verdict in verdicts] == [0.5, 0.0, 1.0]
    assert verdicts[0].components == {"two.score": 0.5, "two.depth": 1.0}
    assert (one.batches, two.batches) == ([["b", "a"]], [["a"]])
    assert one.hidden == [{"x": 1}, {"x": 1}]


@pytest.mark.parametrize("name", [None, "three", 3, ["one"]])
def test_per_example_needs_the_name_of_a_part(name: Any):
    judge = PerExample({"one": "exact_match"})
    example = Example("e", "", {"verifier": name, "answer": "42"})
    for call in (judge.validate, lambda example: judge.verify(example, Answer("42"))):
        with pytest.raises(VerifierError, match=r"'e'.*\['verifier'\].*one"):
            call(example)


def test_examples_are_validated_by_the_parts():
    for judge in (Gate("exact_match", "numeric"), WeightedSum({"a": ("exact_match", 1)})):
        judge.validate(EXAMPLE)
        with pytest.raises(VerifierError, match="answer"):
            judge.validate(replace(EXAMPLE, hidden={}))
    with pytest.raises(VerifierError, match="answer"):
        PerExample({"a": "exact_match"}).validate(replace(EXAMPLE, hidden={"verifier": "a"}))


def test_parts_are_named_nested_and_made_by_name():
    nested = get_verifier(
        "weighted_sum",
        parts={
            "text": ("exact_match", 1.0),
            "gated": (Gate(lambda example, answer: answer.text.isdigit(), "numeric"), 1.0),
        },
    )
    verdict = nested.verify(EXAMPLE, Answer("42"))
    assert verdict.components == {
        "text.score": 1.0,
        "gated.score": 1.0,
        "gated.first.score": 1.0,
        "gated.then.score": 1.0,
    }
    assert verdict.score == 2.0
    assert isinstance(get_verifier("gate", first="exact_match", then="numeric"), Gate)
    assert isinstance(get_verifier("per_example", parts={"n": "numeric"}), PerExample)


def test_closing_closes_the_parts_and_errors_go_through():
    one, two = Recorder(), Recorder()
    gate = Gate(one, two)
    gate.close()
    gate.close()
    assert (one.closed, two.closed) == (2, 2)
    with pytest.raises(VerifierError, match="answer"):
        WeightedSum({"a": ("exact_match", 1)}).verify(Example("e", "", {}), Answer(""))


def test_an_empty_batch_asks_nobody_in_vain():
    for judge in (Gate("exact_match", "numeric"), PerExample({"a": "numeric"}), WeightedSum({"a": ("numeric", 1)})):
        assert judge.verify_batch([]) == []


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "at least one"),
        ({"a": "exact_match"}, "'a'"),
        ({"a": ("exact_match", 0)}, "weight of part 'a'"),
        ({"a": ("exact_match", -1)}, "weight of part 'a'"),
        ({"a": ("exact_match", float("nan"))}, "weight of part 'a'"),
        ({"a": ("exact_match", True)}, "weight of part 'a'"),
        ({"a.b": ("exact_match", 1)}, "without dots"),
        ({"a": ("exact_mach", 1)}, "Did you mean 'exact_match'"),
    ],
)
def test_wrong_parts_are_refused(parts: Any, message: str):
    with pytest.raises(ValueError, match=message):
        WeightedSum(parts)
    with pytest.raises(TypeError, match="function"):
        Gate("exact_match", cast(Any, 3))


def test_fingerprints_tell_parts_weights_and_order_apart():
    judges = [
        WeightedSum({"a": (ExactMatch(), 1), "b": (Numeric(), 1)}),
        WeightedSum({"a": (ExactMatch(), 2), "b": (Numeric(), 1)}),
        WeightedSum({"a": (ExactMatch(ignore_case=True), 1), "b": (Numeric(), 1)}),
        Gate(ExactMatch(), Numeric()),
        Gate(Numeric(), ExactMatch()),
        PerExample({"a": ExactMatch()}),
    ]
    prints = [judge.fingerprint() for judge in judges]
    assert len(set(prints)) == len(prints)
    assert prints == [judge.fingerprint() for judge in pickle.loads(pickle.dumps(judges))]

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from add_problem import ADD, CORRECT

from verifiers import (
    Answer,
    Cached,
    Contains,
    ExactMatch,
    Example,
    FunctionTests,
    Gate,
    JsonSchema,
    MathEqual,
    Numeric,
    PerExample,
    RegularExpression,
    Verdict,
    Verifier,
    VerifierError,
    WeightedSum,
    check_verifier,
    get_verifier,
)

EXAMPLES = [
    Example("one", "The answer to everything?", {"answer": "forty-two"}, gold="forty-two"),
    Example("two", "Capital of France?", {"answer": "Paris"}, gold="Paris"),
]
NUMBERS = [Example("n", "6 x 7?", {"answer": "42.0"}, gold="42"), Example("m", "1/3", {"answer": "1/3"}, gold="2/6")]
PATTERN = [Example("r", "A date.", {"pattern": r"\d{4}-\d\d-\d\d"}, gold="2024-02-29")]
SCHEMA = [Example("j", "A list.", {"schema": {"type": "array", "minItems": 2}}, gold="[1, 2]")]
ROUTED = [Example("x", "?", {"verifier": "text", "answer": "Paris"}, gold="Paris")]


def length(example: Example, answer: Answer) -> float:
    return 1.0 if answer.text == example.gold else 0.1


@pytest.mark.parametrize(
    ("make", "examples"),
    [
        (ExactMatch, EXAMPLES),
        (lambda: ExactMatch(ignore_case=True), EXAMPLES),
        (Contains, EXAMPLES),
        (RegularExpression, PATTERN),
        (lambda: RegularExpression(full=False, ignore_case=True), PATTERN),
        (Numeric, NUMBERS),
        (lambda: Numeric(mode="whole", relative=1e-6), NUMBERS),
        (lambda: JsonSchema(cpu_s=5), SCHEMA),
        (lambda: MathEqual(cpu_s=5), NUMBERS[:1]),
        (lambda: get_verifier(length), EXAMPLES),
        (lambda: WeightedSum({"text": ("exact_match", 0.9), "short": (length, 0.1)}), EXAMPLES),
        (lambda: Gate("exact_match", length), EXAMPLES),
        (lambda: PerExample({"text": "exact_match", "number": "numeric"}), ROUTED),
        (lambda: Cached("exact_match"), EXAMPLES),
    ],
)
def test_the_built_in_judges_keep_the_contract(make: Callable[[], Verifier], examples: list[Example]):
    check_verifier(make(), examples)


def test_function_tests_keep_the_contract(verifier: FunctionTests):
    check_verifier(verifier, [replace(ADD, gold=CORRECT)])


def test_gold_in_the_format_of_the_task_is_extracted():
    examples = [Example("one", "?", {"answer": "42"}, gold="<answer>42</answer>")]
    with pytest.raises(AssertionError, match="gold of example 'one' must pass.*'wrong'"):
        check_verifier(ExactMatch(), examples)
    check_verifier(ExactMatch(), examples, answer=lambda example: Answer(example.gold[8:-9]))


class Good(Verifier):
    """Keeps the contract; every class below breaks it in one way."""

    def verify(self, example: Example, answer: Answer) -> Verdict:
        passed = answer.text == example.hidden["answer"]
        return Verdict(float(passed), passed, "passed" if passed else "wrong")


class FailsGold(Good):
    def verify(self, example, answer):
        return Verdict(0.0, False, "wrong")


class RaisesOnEmpty(Good):
    def verify(self, example, answer):
        if not answer.text:
            raise IndexError("no first word")
        return super().verify(example, answer)


class BlamesItself(Good):
    def verify(self, example, answer):
        if "\x00" in answer.text:
            raise VerifierError("NUL")
        return super().verify(example, answer)


class TripsOverSurrogates(Good):
    def verify(self, example, answer):
        answer.text.encode()
        return super().verify(example, answer)


class ReturnsNumber(Good):
    def verify(self, example, answer):
        return 1.0


class PassesWithNothing(Good):
    def verify(self, example, answer):
        return Verdict(0.0, True, "passed")


class WritesSentences(Good):
    def verify(self, example, answer):
        verdict = super().verify(example, answer)
        return Verdict(verdict.score, verdict.passed, "It is wrong!")


class PassesAsNumber(Good):
    def verify(self, example, answer):
        verdict = super().verify(example, answer)
        return Verdict(verdict.score, cast(Any, int(verdict.passed)), verdict.kind)


class HasTextComponents(Good):
    def verify(self, example, answer):
        verdict = super().verify(example, answer)
        return Verdict(verdict.score, verdict.passed, verdict.kind, {"why": cast(Any, "style")})


class HasInfiniteComponents(Good):
    def verify(self, example, answer):
        verdict = super().verify(example, answer)
        return Verdict(verdict.score, verdict.passed, verdict.kind, {"loss": float("inf")})


class Leaks(Good):
    def verify(self, example, answer):
        verdict = super().verify(example, answer)
        return Verdict(verdict.score, verdict.passed, verdict.kind, feedback=f"expected {example.hidden['answer']}")


class Dices(Good):
    def verify(self, example, answer):
        verdict = super().verify(example, answer)
        return Verdict(verdict.score + random.random(), verdict.passed, verdict.kind)


class Mutates(Good):
    def verify(self, example, answer):
        example.hidden["seen"] = True
        return super().verify(example, answer)


class Shuffles(Good):
    def verify_batch(self, pairs: Sequence[tuple[Example, Answer]]) -> list[Verdict]:
        return super().verify_batch(pairs)[::-1]


class LosesOne(Good):
    def verify_batch(self, pairs: Sequence[tuple[Example, Answer]]) -> list[Verdict]:
        return super().verify_batch(pairs)[1:]


class NeedsOne(Good):
    def verify_batch(self, pairs: Sequence[tuple[Example, Answer]]) -> list[Verdict]:
        return [super().verify_batch(pairs[:1])[0], *super().verify_batch(pairs[1:])]


class SharesState(Good):
    now: tuple[Example, Answer]

    def verify(self, example, answer):
        self.now = example, answer
        time.sleep(0.002)
        return super().verify(*self.now)


class OneThread(Good):
    def __init__(self) -> None:
        self.owner = threading.current_thread()

    def configuration(self) -> dict[str, Any]:
        return {}

    def verify_batch(self, pairs: Sequence[tuple[Example, Answer]]) -> list[Verdict]:
        raise RuntimeError("signal only works in the main thread")


class ClosesOnce(Good):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise ValueError("already closed")
        self.closed = True


class HidesOptions(Good):
    def __init__(self, option: int = 3):
        self.option = option


class ChangesName(Good):
    def fingerprint(self) -> str:
        return str(random.random())


class HasNoName(Good):
    def fingerprint(self) -> str:
        return ""


class RefusesExamples(Good):
    def validate(self, example: Example) -> None:
        raise VerifierError("no")


class Sleeps(Good):
    def verify(self, example, answer):
        time.sleep(1.0)
        return super().verify(example, answer)


def test_the_control_keeps_the_contract():
    check_verifier(Good(), EXAMPLES)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (FailsGold, "gold of example 'one' must pass.*kind 'wrong'"),
        (RaisesOnEmpty, "empty answer.*must get a Verdict.*IndexError: no first word"),
        (BlamesItself, "NUL character.*must get a Verdict.*VerifierError"),
        (TripsOverSurrogates, "lone surrogate.*must get a Verdict.*UnicodeEncodeError"),
        (ReturnsNumber, "must get a Verdict, but verify returned 1.0"),
        (PassesWithNothing, "passed must have a positive score, got 0.0"),
        (WritesSentences, "short word.*'It is wrong!'"),
        (PassesAsNumber, "passed must be a bool, got 0"),
        (HasTextComponents, "finite floats by name, got 'why': 'style'"),
        (HasInfiniteComponents, "finite floats by name, got 'loss': inf"),
        (Leaks, "feedback must not contain hidden values.*'forty-two'"),
        (Dices, "a second time must judge"),
        (Mutates, "must not change the example"),
        (Shuffles, "verify_batch must judge"),
        (LosesOne, r"verify_batch must return 14 verdicts in a list"),
        (NeedsOne, r"verify_batch\(\[\]\) must return \[\], but it raised IndexError"),
        (SharesState, "from four threads must judge"),
        (OneThread, "verify_batch must judge as verify did, but it raised RuntimeError: signal only works"),
        (ClosesOnce, "called twice it raised ValueError: already closed"),
        (HidesOptions, "fingerprint must return a string.*HidesOptions has an __init__ but no configuration"),
        (ChangesName, "fingerprint must be stable"),
        (HasNoName, "non-empty string, got ''"),
        (RefusesExamples, "validate must accept example 'one', but it raised VerifierError: no"),
        (Sleeps, "verify of .* must come back within 0.5 s"),
    ],
)
def test_a_broken_judge_is_found_out(broken: type[Verifier], complaint: str):
    examples = [Example(example.id, example.prompt, dict(example.hidden), example.gold) for example in EXAMPLES]
    with pytest.raises(AssertionError, match=f"^{broken.__name__} breaks the contract") as caught:
        check_verifier(broken(), examples, seconds=0.5 if broken is Sleeps else 60.0)
    lines = str(caught.value).splitlines()[1:]
    assert any(re.search(complaint, line) for line in lines), "\n".join(lines)
    assert len(lines) == len(set(lines))


def test_all_complaints_are_listed_at_once():
    class Hopeless(Leaks, ClosesOnce, ChangesName):
        pass

    with pytest.raises(AssertionError) as caught:
        check_verifier(Hopeless(), EXAMPLES)
    for part in ("1. feedback", "fingerprint must be stable", "close may be called twice"):
        assert part in str(caught.value)


def test_what_the_policy_saw_or_wrote_is_no_leak():
    class Echoes(Good):
        def verify(self, example, answer):
            verdict = super().verify(example, answer)
            return Verdict(verdict.score, verdict.passed, verdict.kind, feedback=f"{example.prompt} {answer.text}")

    check_verifier(Echoes(), [Example("e", "Say forty-two", {"answer": "forty-two"}, gold="forty-two")])


def test_leaks_are_found_in_containers_and_numbers():
    class Tells(Good):
        def verify(self, example, answer):
            verdict = super().verify(example, answer)
            told = f"{example.hidden['tests']} {example.hidden['number']}"
            return Verdict(verdict.score, verdict.passed, verdict.kind, feedback=told)

    hidden = {"answer": "a", "tests": [[1, 2], {"x": "long text"}], "number": 31337, "flag": True}
    with pytest.raises(AssertionError) as caught:
        check_verifier(Tells(), [Example("e", "", hidden, gold="a")])
    for value in ("31337", "long text", "[1, 2]"):
        assert value in str(caught.value)


def test_tolerance_forgives_rounding():
    class Rounds(Good):
        def verify_batch(self, pairs: Sequence[tuple[Example, Answer]]) -> list[Verdict]:
            return [Verdict(v.score + 1e-8, v.passed, v.kind) for v in super().verify_batch(pairs)]

    with pytest.raises(AssertionError, match="verify_batch must judge"):
        check_verifier(Rounds(), EXAMPLES)
    with pytest.raises(AssertionError, match="verify_batch\\(\\[\\]\\)|verify_batch must judge"):
        check_verifier(Rounds(), EXAMPLES, tolerance=1e-12)
    check_verifier(Rounds(), EXAMPLES, tolerance=1e-6)


def test_gold_is_asked_for_unless_it_means_nothing():
    bare = [Example("one", "?", {"answer": "forty-two"})]
    with pytest.raises(AssertionError, match="at least one example must have a gold"):
        check_verifier(Good(), bare)
    check_verifier(Good(), bare, gold_passes=False)
    with pytest.raises(ValueError, match="at least one example"):
        check_verifier(Good(), [])

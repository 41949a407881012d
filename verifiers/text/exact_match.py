"""Judges text by comparing it with one expected string.

    example.hidden = {"answer": "42"}

Both sides are normalised the same way: surrounding white space is removed and every inner run of white space becomes
one space; with `ignore_case`, case is folded too. Nothing else: punctuation, Unicode forms and the spelling of numbers
count.
"""

from __future__ import annotations

from typing import Any

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError, hidden_of


class ExactMatch(Verifier):
    """Score 1 if the normalised texts are equal, else 0; kinds passed and wrong.

    Args:
        ignore_case: whether "Paris" and "PARIS" are equal.
    """

    def __init__(self, ignore_case: bool = False):
        self._ignore_case = ignore_case

    def configuration(self) -> dict[str, Any]:
        """Whether case counts."""
        return {"ignore_case": self._ignore_case}

    def validate(self, example: Example) -> None:
        """Raises `VerifierError` when `example.hidden["answer"]` is not a string."""
        expected = hidden_of(example).get("answer")
        if not isinstance(expected, str):
            raise VerifierError(f"example {example.id!r}: hidden['answer'] must be a string, got {expected!r}")

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one answer; raises `VerifierError` when `example.hidden["answer"]` is not a string."""
        self.validate(example)
        passed = normalise(answer.text, self._ignore_case) == normalise(example.hidden["answer"], self._ignore_case)
        return Verdict(
            score=float(passed),
            passed=passed,
            kind="passed" if passed else "wrong",
            feedback="correct" if passed else "not the expected answer",
        )


def normalise(text: str, ignore_case: bool = False) -> str:
    """Strip, and collapse every run of white space to one space; fold case if asked."""
    text = " ".join(text.split())
    return text.casefold() if ignore_case else text

"""Judges text by comparing it with one expected string.

    example.hidden = {"answer": "42"}

Both sides are normalised the same way: surrounding white space is removed and every inner run of white space becomes
one space. Nothing else: case, punctuation and the spelling of numbers count.
"""

from __future__ import annotations

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError


class ExactMatch(Verifier):
    """Score 1 if the normalised texts are equal, else 0; kinds passed and wrong."""

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one answer; raises `VerifierError` when `example.hidden["answer"]` is not a string."""
        expected = example.hidden.get("answer")
        if not isinstance(expected, str):
            raise VerifierError(f"example {example.id!r}: hidden['answer'] must be a string, got {expected!r}")
        passed = normalise(answer.text) == normalise(expected)
        return Verdict(
            score=float(passed),
            passed=passed,
            kind="passed" if passed else "wrong",
            feedback="correct" if passed else "not the expected answer",
        )


def normalise(text: str) -> str:
    """Strip, and collapse every run of white space to one space."""
    return " ".join(text.split())

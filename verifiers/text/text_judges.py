"""Judges of plain text: Contains and RegularExpression. For numbers see `numeric.py`.

    Contains            example.hidden = {"answer": "Paris"}, or a list of strings
    RegularExpression   example.hidden = {"pattern": r"(\\w+), Paris"}

Not covered: word borders (Contains finds "art" in "party"; write a pattern), negation ("not Paris" contains "Paris"),
and answers that name every possibility.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError, hidden_of
from verifiers.text.exact_match import normalise

if TYPE_CHECKING:
    import regex


class Contains(Verifier):
    """Score 1 if the answer contains the expected strings; white space as in `ExactMatch`; kinds passed and wrong.

    Component `found_fraction`: share of the expected strings that occur.

    Args:
        require: "all" or "any" of the strings, where several are expected.
        ignore_case: whether "Paris" and "PARIS" are equal.
    """

    def __init__(self, require: str = "all", ignore_case: bool = False):
        if require not in ("all", "any"):
            raise ValueError(f"require must be 'all' or 'any', got {require!r}")
        self._require, self._ignore_case = require, ignore_case

    def configuration(self) -> dict[str, Any]:
        """How many strings must occur, and whether case counts."""
        return {"require": self._require, "ignore_case": self._ignore_case}

    def validate(self, example: Example) -> None:
        """Raises `VerifierError` unless `hidden["answer"]` is a string, or a list of some, that are not blank."""
        self._expected(example)

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one answer; raises `VerifierError` as `validate` does."""
        expected = self._expected(example)
        text = normalise(answer.text, self._ignore_case)
        found = sum(item in text for item in expected)
        passed = found == len(expected) if self._require == "all" else found > 0
        return Verdict(
            score=float(passed),
            passed=passed,
            kind="passed" if passed else "wrong",
            components={"found_fraction": found / len(expected)},
            feedback="correct" if passed else f"{found} of {len(expected)} expected texts occur in the answer",
        )

    def _expected(self, example: Example) -> list[str]:
        answer = hidden_of(example).get("answer")
        items = [answer] if isinstance(answer, str) else answer
        valid = isinstance(items, Sequence) and all(isinstance(item, str) and item.strip() for item in items)
        if not items or not valid:
            raise VerifierError(
                f"example {example.id!r}: hidden['answer'] must be a string, or a list of strings, that are not blank; "
                f"got {answer!r}"
            )
        return [normalise(item, self._ignore_case) for item in items]


class RegularExpression(Verifier):
    """Score 1 if the answer, without surrounding white space, matches the hidden pattern; else 0.

    The pattern is one of the `regex` package, which knows everything that `re` does. Kinds: passed, wrong, timeout.

    Args:
        full: whether the whole answer must match; otherwise a match anywhere is enough.
        ignore_case: whether "Paris" and "PARIS" match.
        timeout_s: CPU seconds, of all threads of this process together, until matching is given up. Far more than an
            honest pattern needs: threads that compute beside it use the time up, too.
    """

    def __init__(self, full: bool = True, ignore_case: bool = False, timeout_s: float = 5.0):
        import regex  # noqa: F401 - fails here, not at the first verdict, where it is missing

        if not timeout_s > 0:
            raise ValueError(f"timeout_s must be positive, got {timeout_s!r}")
        self._full, self._ignore_case, self._timeout_s = full, ignore_case, timeout_s

    def configuration(self) -> dict[str, Any]:
        """How the pattern is applied."""
        return {"full": self._full, "ignore_case": self._ignore_case, "timeout_s": self._timeout_s}

    def validate(self, example: Example) -> None:
        """Raises `VerifierError` when `hidden["pattern"]` is not a valid pattern."""
        self._pattern(example)

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one answer; raises `VerifierError` as `validate` does."""
        pattern, text = self._pattern(example), answer.text.strip()
        match = pattern.fullmatch if self._full else pattern.search
        try:
            passed = match(text, timeout=self._timeout_s) is not None
        except TimeoutError:
            return Verdict(0.0, False, "timeout", feedback="matching the answer took too long")
        except MemoryError:
            return Verdict(0.0, False, "memory", feedback="matching the answer took too much memory")
        return Verdict(
            score=float(passed),
            passed=passed,
            kind="passed" if passed else "wrong",
            feedback="correct" if passed else "not the expected form",
        )

    def _pattern(self, example: Example) -> regex.Pattern[str]:
        import regex

        pattern = hidden_of(example).get("pattern")
        if not isinstance(pattern, str):
            raise VerifierError(f"example {example.id!r}: hidden['pattern'] must be a string, got {pattern!r}")
        try:
            return regex.compile(pattern, regex.IGNORECASE if self._ignore_case else 0)
        except (regex.error, RecursionError, OverflowError) as error:
            raise VerifierError(f"example {example.id!r}: hidden['pattern'] is no valid pattern: {error}") from error

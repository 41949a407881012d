"""Scores a text by how many of its words stand in a list: a simple stand-in for a sentiment model.

    WordList()                                 # the words of `POSITIVE`
    WordList(words=["sea", "wave", "shore"])

    score = min(1, (n / max(N, min_words)) / target)

N words in the text, n different words of the list among them. A word that comes again counts for N, not for n, so
repeating one gains nothing, and a text below `min_words` cannot reach the top by being short. `hidden` is not read.

Not covered, on purpose: it is a proxy. "not happy" counts as "happy", and a bare list of listed words gets the best
score. It shows what optimising a proxy does; put a judge of what is really wanted beside it (`extra_verifiers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from verifiers.base import Answer, Example, Verdict, Verifier
from verifiers.text.writing import words_of

_POSITIVE = """
admired beautiful beloved best bliss blessed bright brilliant calm caring charming cheerful clever comfort cosy
delicious delight delighted delightful dear eager elegant enjoyed excellent fair faithful fine fond friendly fun
generous gentle glad glorious good grace grateful great happily happiness happy harmony helpful honest hope hopeful
joy joyful kind kindly kindness laughed laughter lively love loved lovely lucky merry patient peace peaceful perfect
playful pleasant pleased pleasure pretty proud radiant safe smile smiled smiles sunny sweet tender thankful thrilled
treasure trusted warm warmth welcome wise wonder wonderful
"""
POSITIVE = tuple(_POSITIVE.split())


class WordList(Verifier):
    """Score from 0 to 1 as the module says; passed at 1; kinds passed, wrong, empty, too_large.

    Components: `listed` (n), `words` (N).

    Args:
        words: what counts, compared as whole words without regard to case; None for `POSITIVE`.
        target: share of listed words at which the score is 1.
        min_words: a shorter text is counted as this long.
        max_words: a longer text scores 0.

    Raises:
        ValueError: no words, or a bound that makes no sense.
    """

    def __init__(
        self,
        words: Sequence[str] | None = None,
        target: float = 0.25,
        min_words: int = 8,
        max_words: int = 500,
    ):
        words = POSITIVE if words is None else words
        if isinstance(words, str) or not words or not all(map(_is_word, words)):
            raise ValueError(f"words must be a list of single words, got {words!r:.80}")
        if not 0 < target <= 1:
            raise ValueError(f"target must be above 0 and at most 1, got {target!r}")
        if not 0 < min_words <= max_words:
            raise ValueError(f"0 < min_words <= max_words must hold, got {min_words!r} and {max_words!r}")
        self._words = frozenset(word.casefold() for word in words)
        self._target, self._min_words, self._max_words = target, min_words, max_words

    def configuration(self) -> dict[str, Any]:
        """The list and the bounds."""
        return {
            "words": sorted(self._words),
            "target": self._target,
            "min_words": self._min_words,
            "max_words": self._max_words,
        }

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Score one answer."""
        written = words_of(answer.text)
        listed = len(self._words & set(written))
        components = {"listed": float(listed), "words": float(len(written))}
        if not written:
            return Verdict(0.0, False, "empty", components, "the text has no words")
        if len(written) > self._max_words:
            return Verdict(0.0, False, "too_large", components, f"the text has more than {self._max_words} words")
        score = min(1.0, listed / max(len(written), self._min_words) / self._target)
        passed = score == 1.0
        feedback = f"{listed} different listed words among {len(written)}"
        return Verdict(score, passed, "passed" if passed else "wrong", components, feedback)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and words_of(value) == [value.casefold()]

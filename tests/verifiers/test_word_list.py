from __future__ import annotations

from typing import Any

import pytest

from verifiers import Answer, Example, get_verifier
from verifiers.text.word_list import POSITIVE, WordList
from verifiers.text.writing import words_of


def judged(text: str, **options: Any):
    return WordList(**options).verify(Example("e", "", {}), Answer(text))


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("a b c d e f g h", 0.0),
        ("good b c d e f g h", 0.5),
        ("Good, GREAT c d e f g h!", 1.0),
        ("good great kind d e f g h", 1.0),
        ("good", 0.5),  # counted as eight words
        ("good " * 8, 0.5),
        ("good " * 16, 0.25),
        ("good great " * 8, 0.5),
        ("goodness greatly c d e f g h", 0.0),
        ("g\u043eod gre\u200bat c d e f g h", 0.0),
        ("", 0.0),
        (" ?! ", 0.0),
    ],
)
def test_score_is_the_share_of_different_listed_words_over_the_target(text: str, score: float):
    verdict = judged(text)
    assert verdict.score == score
    assert verdict.passed == (score == 1.0)
    assert verdict.components["words"] == len(words_of(text))


def test_kinds():
    assert judged("").kind == "empty"
    assert judged("good great kind warm").kind == "passed"
    assert judged("the end").kind == "wrong"
    assert judged("good great " * 300).kind == "too_large"
    assert judged("good great " * 300).score == 0.0


def test_known_loopholes_are_open():
    assert judged(" ".join(POSITIVE)).passed
    assert judged("nothing was good or kind or nice today").passed


def test_a_list_of_ones_own():
    assert judged("the Sea and the shore", words=["sea", "shore"], target=0.4, min_words=1).passed
    assert WordList(["Sea"]).configuration()["words"] == ["sea"]
    assert type(get_verifier("word_list", words=["sea"])) is WordList
    assert len(set(POSITIVE)) == len(POSITIVE)


@pytest.mark.parametrize(
    "options",
    [
        {"words": []},
        {"words": "good"},
        {"words": ["two words"]},
        {"target": 0},
        {"target": 1.5},
        {"min_words": 0},
        {"min_words": 9, "max_words": 8},
    ],
)
def test_options_are_checked(options: dict[str, Any]):
    with pytest.raises(ValueError, match="words|target"):
        WordList(**options)

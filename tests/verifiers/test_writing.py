from __future__ import annotations

from typing import Any

import pytest

from verifiers import Answer, Example, VerifierError, get_verifier
from verifiers.text.writing import Constraints, words_of

TEXT = "The old miner found a lamp near the river."


def judged(text: str, *constraints: dict[str, Any], prompt: Any = "Write.", **options: Any):
    return Constraints(**options).verify(Example("e", prompt, {"constraints": list(constraints)}), Answer(text))


def met(text: str, /, **constraint: Any) -> bool:
    verdict = judged(text, constraint)
    assert verdict.passed == (verdict.score == 1.0)
    return verdict.passed


def test_words_are_whole_and_case_does_not_count():
    assert met(TEXT, kind="contains", words=["LAMP", "river"])
    assert not met(TEXT, kind="contains", words=["lam"])
    assert not met(TEXT, kind="contains", words=["lamp", "boat"])
    assert met(TEXT, kind="avoids", words=["mine", "boat"])
    assert not met(TEXT, kind="avoids", words=["Miner"])
    assert met("It is a well-known song.", kind="contains", words=["well-known"])
    assert not met("It is a well-known song.", kind="contains", words=["known"])
    assert met("Don\u2019t go there.", kind="contains", words=["don't"])
    assert words_of("a_b 3rd") == ["a", "b", "3rd"]


@pytest.mark.parametrize("dash", ["\u2013", "\u2014"])
def test_a_dash_parts_words(dash: str):
    assert met(f"She lit the lamp{dash}the river shone.", kind="contains", words=["lamp"])
    assert not met(f"She saw the boat{dash}it was old.", kind="avoids", words=["boat"])
    assert met(f"She saw the boat{dash}it was old.", kind="words", min=7, max=7)


def test_letters_count_with_accents_and_in_capitals():
    assert met(TEXT, kind="avoids_letters", letters="kzx")
    assert not met(TEXT, kind="avoids_letters", letters="xP")
    assert not met("The café was closed.", kind="avoids_letters", letters="E")
    assert not met("Über all things.", kind="avoids_letters", letters="u")
    assert not met("Der gute Gruß.", kind="avoids_letters", letters="s")
    assert not met("En bøk er god.", kind="avoids_letters", letters="o")


def test_an_accent_does_not_hide_a_word_to_avoid():
    assert not met("The bóat was red.", kind="avoids", words=["boat"])
    assert not met("The café was red.", kind="avoids", words=["cafe"])
    assert met("The café was red.", kind="contains", words=["CAFÉ"])
    assert not met("The cafe was red.", kind="contains", words=["café"])
    assert met("It isn't so.", kind="contains", words=["isn\u2019t"])


def test_length():
    assert met(TEXT, kind="words", min=9, max=9)
    assert not met(TEXT, kind="words", min=10)
    assert not met(TEXT, kind="words", max=8)
    assert met(f"  {TEXT}\n", kind="characters", min=len(TEXT), max=len(TEXT))
    assert not met(TEXT, kind="characters", max=len(TEXT) - 1)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (TEXT, 1),
        (f"{TEXT} Nobody saw it!", 2),
        ('"Who saw it?" asked the cook.', 2),  # what is quoted counts as a sentence
        ("Nobody saw it... The cook slept.", 2),
        ("Nobody saw it", 0),
        ("No. Yes. Well.", 0),
        ("Nobody saw it. Yes.", 0),
        ("It cost 3.50 in all.", 1),
    ],
)
def test_sentences_have_an_end_and_three_words(text: str, count: int):
    if count:
        assert met(text, kind="sentences", count=count)
    assert not met(text, kind="sentences", count=count + 1)


def test_lines_and_form():
    assert met("A red lamp\nAn old bell", kind="lines", count=2)
    assert not met("A red lamp\n\nAn old bell", kind="lines", count=2)
    assert not met("A red lamp\n\nAn old bell", kind="lines", count=3)
    assert met("A red lamp\r\nAn old bell\r\n", kind="lines", count=2)
    assert met(TEXT, kind="starts_with", text="T")
    assert not met(TEXT, kind="starts_with", text="t")
    assert met(TEXT, kind="ends_with", text="river.")
    assert met(TEXT.lower(), kind="case", case="lower")
    assert not met(TEXT, kind="case", case="lower")
    assert met(TEXT.upper(), kind="case", case="upper")
    assert not met("The End", kind="case", case="upper")


def test_score_is_the_share_and_components_name_every_constraint():
    verdict = judged(
        TEXT,
        {"kind": "contains", "words": ["lamp"]},
        {"kind": "contains", "words": ["boat"]},
        {"kind": "sentences", "count": 1},
        {"kind": "ends_with", "text": "!"},
    )
    assert verdict.score == 0.5
    assert not verdict.passed
    assert verdict.components == {"contains": 1.0, "contains_2": 0.0, "sentences": 1.0, "ends_with": 0.0}
    assert verdict.kind == "wrong"
    assert verdict.feedback == "not met: contains_2, ends_with"


AVOIDS = {"kind": "avoids", "words": ["boat"]}, {"kind": "characters", "max": 9000}, {"kind": "lines", "count": 1}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        ("...!", "empty"),
        ("lamp lamp river lamp", "not_prose"),
        ("lamp river " * 10, "not_prose"),
        ("the lamp the river the lamp the river the lamp", "not_prose"),
        ("a!b!c!d!e", "not_prose"),
        ("lamp, -- !! ?? river ((", "not_prose"),
        (f"A {'lamp' * 20} here.", "not_prose"),
        ("word " * 2000, "too_large"),
        ("The la\u200bmp is red.", "bad_characters"),  # zero width space
        ("The lamp\u00ad is red.", "bad_characters"),  # soft hyphen
        ("The l\u0430mp is red.", "bad_characters"),  # Cyrillic a
        ("The l\uff41mp is red.", "bad_characters"),  # fullwidth a
        ("The l\u1d00mp is red.", "bad_characters"),  # small capital a
        ("The l\U0001d41amp is red.", "bad_characters"),  # mathematical bold a
        ("The l\u0131mp is red.", "bad_characters"),  # dotless i
        ("The la\u0301mp is red.", "bad_characters"),  # combining accent
        ("The\u00a0lamp is red.", "bad_characters"),
        ("The lamp\x00 is red.", "bad_characters"),
        ("The \u202elamp is red.", "bad_characters"),  # right to left
        ("The \ud800 lamp is red.", "bad_characters"),  # lone surrogate
        ("Das ist die lámp\ufe0f", "bad_characters"),
    ],
)
def test_gaming_earns_nothing(text: str, kind: str):
    verdict = judged(text, *AVOIDS)
    assert (verdict.score, verdict.passed, verdict.kind) == (0.0, False, kind)
    assert set(verdict.components.values()) == {0.0}


def test_the_prompt_is_no_answer():
    prompt = "Write one sentence.\nUse the words: lamp, river.\n"
    constraints = ({"kind": "contains", "words": ["lamp", "river"]}, {"kind": "sentences", "count": 1})
    for text in (
        "Use the words: lamp, river.",
        "use the words lamp river.",
        "Use the words: lamp, river. The cook slept.",
    ):
        assert judged(text, *constraints, prompt=prompt).kind == "copied"
        chat = [{"role": "user", "content": prompt}]
        assert judged(text, *constraints, prompt=chat).kind == "copied"
    assert judged("The lamp fell into the river.", *constraints, prompt=prompt).passed


def test_a_prompt_of_several_parts_is_read():
    prompt = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Use the words: lamp."}, "x"]}]
    assert judged("Use the words: lamp.", *AVOIDS, prompt=prompt).kind == "copied"
    assert judged("A lamp.", *AVOIDS, prompt=prompt).passed
    assert judged("A lamp.", *AVOIDS, prompt=[{"role": "user", "content": None}, {"role": "user"}]).passed


def test_accents_dashes_and_quotation_marks_are_plain_text():
    verdict = judged("\u201cLe café est fermé\u201d \u2013 said Zoë\u2026 and Björn\u2019s cat.", *AVOIDS)
    assert verdict.passed, verdict


def test_the_limit_is_an_option():
    assert judged("One lamp", *AVOIDS, max_characters=8).passed
    assert judged("One lamps", *AVOIDS, max_characters=8).kind == "too_large"
    assert Constraints(8).configuration()["max_characters"] == 8
    assert type(get_verifier("constraints", max_characters=9)) is Constraints
    with pytest.raises(ValueError, match="max_characters"):
        Constraints(0)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (None, r"hidden\['constraints'\] must be a list"),
        ([], "at least one"),
        (["contains"], r"\[0\] must be an object with 'kind', one of contains"),
        ([{"kind": "rhymes"}], "one of contains"),
        ([{"kind": ["contains"]}], "one of contains"),
        (
            [AVOIDS[0], {"kind": "contains", "words": "lamp"}],
            r"\[1\] \(contains\), field 'words': expected a list of words",
        ),
        ([{"kind": "contains", "words": ["two words"]}], "field 'words'"),
        ([{"kind": "contains", "words": []}], "field 'words'"),
        (
            [{"kind": "contains", "words": ["\u043f\u0440\u0438\u0432\u0435\u0442"]}],
            r"\[0\] \(contains\), field 'words'.*plain Latin",
        ),
        ([{"kind": "contains", "words": ["a" * 31]}], r"\[0\] \(contains\), field 'words'.*30 characters"),
        ([{"kind": "contains", "words": ["\u00df" * 16]}], "field 'words'"),  # 32 letters, case folded
        ([{"kind": "starts_with", "text": "\u041f"}], "field 'text'"),
        ([{"kind": "ends_with", "text": "a\u0301"}], "field 'text'"),
        ([{"kind": "contains"}], "needs 'words'"),
        ([{"kind": "contains", "words": ["a"], "case": "lower"}], "unknown field 'case'"),
        ([{"kind": "words"}], "needs 'min' or 'max'"),
        ([{"kind": "words", "min": 3, "max": 2}], "'min' is above 'max'"),
        ([{"kind": "words", "min": True}], "field 'min'"),
        ([{"kind": "sentences", "count": -1}], "field 'count'"),
        ([{"kind": "ends_with", "text": ""}], "field 'text'"),
        ([{"kind": "case", "case": "title"}], "'lower' or 'upper'"),
        ([{"kind": "avoids_letters", "letters": "a1"}], "some letters"),
    ],
)
def test_malformed_constraints_are_the_judges_fault(constraints: Any, message: str):
    example = Example("broken-7", "", {"constraints": constraints})
    for call in (Constraints().validate, lambda e: Constraints().verify(e, Answer("A red lamp."))):
        with pytest.raises(VerifierError, match=rf"'broken-7'.*{message}"):
            call(example)

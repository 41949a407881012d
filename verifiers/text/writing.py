"""Judges a text by constraints on its words, letters, length and form.

    example.hidden = {"constraints": [
        {"kind": "contains", "words": ["lamp", "river"]},      each of them, as a whole word
        {"kind": "avoids", "words": ["boat"]},                 none of them, as a whole word, with or without accents
        {"kind": "avoids_letters", "letters": "qz"},           small or capital, with or without accents
        {"kind": "words", "min": 8, "max": 14},                either bound may be left out
        {"kind": "characters", "max": 90},                     white space at both ends does not count
        {"kind": "sentences", "count": 2},                     each ends in . ! or ? and has at least 3 words
        {"kind": "lines", "count": 3},                         none of them blank
        {"kind": "starts_with", "text": "T"},                  case counts
        {"kind": "ends_with", "text": "!"},
        {"kind": "case", "case": "lower"},                     or "upper"
    ]}

A word is a run of letters and digits with apostrophes and hyphens inside; case does not count where words are compared.
A dash (– or —) parts words, a hyphen does not. What no plain text can hold may not be required.

A text that is no prose scores 0 without its constraints being counted, or it would earn every "avoids" for nothing:
no words at all, more than `max_characters`, characters outside plain Latin text (invisible and control characters,
other scripts' look-alikes of Latin letters), a word twice in a row, few different words, mostly signs, monstrous words,
or a sentence or line that stands in the prompt word by word ("Use the words: lamp, river." would pass for one).

Not covered: sense and grammar. Required words strewn into an unrelated sentence pass, "had had" is refused, a full stop
after "Mr" ends a sentence, a sentence that the prompt asks to repeat is refused, inflected and misspelt forms are other
words (for "avoids", too), and texts in other scripts than Latin cannot be judged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError, hidden_of

MIN_SENTENCE_WORDS = 3
MAX_WORD = 30
"""Longest word, characters."""
MIN_DIFFERENT = 0.5
"""Least share of different words, in texts of more than `SHORT` words."""
SHORT = 6
MAX_SIGNS = 0.3
"""Largest share of signs among the characters that are no white space."""

_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_ASCII = re.compile(r"[ -~\n]*")
_SIGN = re.compile(r"[\W_]")
_END = re.compile(r"[.!?]+[\"')\u201d\u2019]*(?:\s+|\Z)")
_LIGATURES = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o"})
_TYPOGRAPHY = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": " - ", "\u2014": " - "}
)

Arguments = Mapping[str, Any]


def words_of(text: str) -> list[str]:
    """The words of a text, case folded.

    >>> words_of("The well-known cat's hat, no. 3")
    ['the', 'well-known', "cat's", 'hat', 'no', '3']
    """
    return [word.casefold() for word in _WORD.findall(text.translate(_TYPOGRAPHY))]


def unaccented(text: str) -> str:
    """The text case folded and without accents.

    >>> unaccented("Smørrebrød für ÉMILE")
    'smorrebrod fur emile'
    """
    if text.isascii():
        return text.casefold()
    decomposed = unicodedata.normalize("NFD", text.casefold()).translate(_LIGATURES)
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def _within(number: int, arguments: Arguments) -> bool:
    return arguments.get("min", 0) <= number and number <= arguments.get("max", number)


def _are_sentences(text: str, count: int) -> bool:
    *sentences, rest = _END.split(text)
    return not rest and len(sentences) == count and all(len(words_of(s)) >= MIN_SENTENCE_WORDS for s in sentences)


def _has_case(text: str, case: str) -> bool:
    return text.islower() if case == "lower" else text.isupper()


_MET: dict[str, Callable[[str, Arguments], bool]] = {
    "contains": lambda text, a: set(words_of(" ".join(a["words"]))) <= set(words_of(text)),
    "avoids": lambda text, a: not set(words_of(unaccented(" ".join(a["words"])))) & set(words_of(unaccented(text))),
    "avoids_letters": lambda text, a: not set(unaccented(a["letters"])) & set(unaccented(text)),
    "words": lambda text, a: _within(len(words_of(text)), a),
    "characters": lambda text, a: _within(len(text), a),
    "sentences": lambda text, a: _are_sentences(text, a["count"]),
    "lines": lambda text, a: [bool(line.strip()) for line in text.split("\n")] == [True] * a["count"],
    "starts_with": lambda text, a: text.startswith(a["text"]),
    "ends_with": lambda text, a: text.endswith(a["text"]),
    "case": lambda text, a: _has_case(text, a["case"]),
}


def _is_words(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(map(_is_word, value))


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def _are_writable(value: Any) -> bool:
    """Whether an answer that holds these words can be prose."""
    return _is_words(value) and all(_is_writable(word) and len(word.casefold()) <= MAX_WORD for word in value)


def _is_writable(text: str) -> bool:
    return all(map(_is_plain, text))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


_Check = tuple[Callable[[Any], bool], str]
_WORDS: _Check = (_is_words, "a list of words")
_WRITABLE: _Check = (_are_writable, f"a list of words in plain Latin letters, of at most {MAX_WORD} characters")
_COUNT: _Check = (_is_count, "a whole number of at least 0")
_TEXT: _Check = (
    lambda value: isinstance(value, str) and value.strip() == value != "" and _is_writable(value),
    "a plain Latin text without outer spaces",
)
_LETTERS: _Check = (lambda value: isinstance(value, str) and value.isalpha(), "some letters")
_CASE: _Check = (lambda value: value in ("lower", "upper"), "'lower' or 'upper'")
_ARGUMENTS: dict[str, dict[str, _Check]] = {
    "contains": {"words": _WRITABLE},
    "avoids": {"words": _WORDS},
    "avoids_letters": {"letters": _LETTERS},
    "words": {"min": _COUNT, "max": _COUNT},
    "characters": {"min": _COUNT, "max": _COUNT},
    "sentences": {"count": _COUNT},
    "lines": {"count": _COUNT},
    "starts_with": {"text": _TEXT},
    "ends_with": {"text": _TEXT},
    "case": {"case": _CASE},
}


class Constraints(Verifier):
    """Score is the share of constraints that are met; passed if all are.

    Components: every constraint by its kind, 1 or 0; a second one of the same kind is `contains_2`, and so on. All are
    0 for a text that is no prose.

    Kinds: passed, wrong, empty, too_large, bad_characters, not_prose, copied.

    Args:
        max_characters: longest text that is judged.
    """

    def __init__(self, max_characters: int = 4000):
        if type(max_characters) is not int or max_characters < 1:
            raise ValueError(f"max_characters must be a positive integer, got {max_characters!r}")
        self._max_characters = max_characters

    def configuration(self) -> dict[str, Any]:
        """The longest text, and what decides which characters are letters."""
        return {"max_characters": self._max_characters, "unicode": unicodedata.unidata_version}

    def validate(self, example: Example) -> None:
        """Raises `VerifierError` unless `hidden["constraints"]` is a list of constraints as the module describes."""
        constraints = hidden_of(example).get("constraints")
        where = f"example {example.id!r}: hidden['constraints']"
        if not isinstance(constraints, list | tuple) or not constraints:
            raise VerifierError(f"{where} must be a list of at least one constraint, got {constraints!r}")
        for number, constraint in enumerate(constraints):
            complaint = _complaint(constraint)
            if complaint:
                raise VerifierError(f"{where}[{number}] {complaint}")

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one answer; raises `VerifierError` as `validate` does."""
        self.validate(example)
        constraints = example.hidden["constraints"]
        names = _names(constraints)
        text = answer.text.replace("\r\n", "\n").strip()
        kind, complaint = _prose(text, self._max_characters)
        if not kind and _is_copied(text, example.prompt):
            kind, complaint = "copied", "a sentence or line of the text is copied from the prompt"
        if kind:
            return Verdict(0.0, False, kind, dict.fromkeys(names, 0.0), complaint)
        met = [is_met(constraint, text) for constraint in constraints]
        missed = [name for name, right in zip(names, met, strict=True) if not right]
        return Verdict(
            score=sum(met) / len(met),
            passed=not missed,
            kind="wrong" if missed else "passed",
            components={name: float(right) for name, right in zip(names, met, strict=True)},
            feedback=f"not met: {', '.join(missed)}" if missed else "all constraints are met",
        )


def is_met(constraint: Mapping[str, Any], text: str) -> bool:
    """Whether a text without outer white space meets one (valid) constraint."""
    return _MET[constraint["kind"]](text, constraint)


def _names(constraints: list[dict[str, Any]]) -> list[str]:
    names: list[str] = []
    for constraint in constraints:
        kind = constraint["kind"]
        earlier = sum(other["kind"] == kind for other in constraints[: len(names)])
        names.append(f"{kind}_{earlier + 1}" if earlier else kind)
    return names


def _complaint(constraint: Any) -> str:
    """What is wrong with a constraint, or nothing."""
    if not isinstance(constraint, Mapping) or constraint.get("kind") not in list(_ARGUMENTS):  # it may be unhashable
        return f"must be an object with 'kind', one of {', '.join(_ARGUMENTS)}; got {constraint!r}"
    kind = constraint["kind"]
    known = _ARGUMENTS[kind]
    given = {name: value for name, value in constraint.items() if name != "kind"}
    for name, value in given.items():
        if name not in known:
            return f"({kind}) has an unknown field {name!r}; known: {', '.join(known)}"
        valid, expected = known[name]
        if not valid(value):
            return f"({kind}), field {name!r}: expected {expected}, got {value!r}"
    optional = "min" in known
    if (optional and not given) or (not optional and len(given) < len(known)):
        return f"({kind}) needs {' or '.join(map(repr, known))}"
    if given.get("min", 0) > given.get("max", given.get("min", 0)):
        return f"({kind}): 'min' is above 'max'"
    return ""


def _prose(text: str, max_characters: int) -> tuple[str, str]:
    """(kind, feedback) for what is no prose, or two empty strings."""
    if len(text) > max_characters:
        return "too_large", f"the text has more than {max_characters} characters"
    strange = None if _ASCII.fullmatch(text) else next((c for c in text if not _is_plain(c)), None)
    if strange is not None:
        return "bad_characters", f"the text holds U+{ord(strange):04X}, which is no plain Latin text"
    words = words_of(text)
    if not words:
        return "empty", "the text has no words"
    if any(len(word) > MAX_WORD for word in words):
        return "not_prose", f"a word has more than {MAX_WORD} characters"
    if any(word == following for word, following in zip(words, words[1:], strict=False)):
        return "not_prose", "a word stands twice in a row"
    if len(words) > SHORT and len(set(words)) < MIN_DIFFERENT * len(words):
        return "not_prose", "most words are repetitions"
    visible = "".join(text.split())
    if len(_SIGN.findall(visible)) > MAX_SIGNS * len(visible):
        return "not_prose", "too many signs"
    return "", ""


def _is_copied(text: str, prompt: str | Sequence[Mapping[str, Any]]) -> bool:
    asked = prompt if isinstance(prompt, str) else "\n".join(_content(message.get("content")) for message in prompt)
    known = f" {' '.join(words_of(asked))} "
    parts = (words_of(part) for line in text.split("\n") for part in _END.split(line))
    return any(len(part) >= MIN_SENTENCE_WORDS and f" {' '.join(part)} " in known for part in parts)


def _content(content: Any) -> str:
    """The text of a message, whose content may be a list of parts (texts, images) instead."""
    if isinstance(content, list | tuple):
        return "\n".join(_content(part.get("text") if isinstance(part, Mapping) else part) for part in content)
    return content if isinstance(content, str) else ""


def _is_plain(character: str) -> bool:
    """Printable ASCII, a line break, a Latin letter with or without accents, or a usual quotation mark or dash.

    One code point per letter: combining marks on their own are refused, and so are letters that only look Latin.
    """
    if character.isascii():
        return character.isprintable() or character == "\n"
    if ord(character) in _TYPOGRAPHY or character in "\u2026ßæœøÆŒØ":
        return True
    decomposed = unicodedata.normalize("NFD", character)
    return len(decomposed) > 1 and decomposed[0].isascii() and decomposed[0].isalpha()

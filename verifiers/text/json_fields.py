"""Judges JSON by the values of its fields, with a part of the score for every right one.

    example.hidden = {"fields": {"name": "Ada", "items": [{"item": "lamp", "quantity": 2}]}}
    answer.text = '{"name": "Ada", "items": [{"item": "lamp", "quantity": 3}]}'        2 of 3 fields, score 2/3

A field is a value that is no object and no list, at its place in the tree; an empty object or list is one, too.

    score = right / (expected + superfluous)        passed if that is 1

so inventing fields costs as much as missing them. Values are equal as JSON has it: 3 and 3.0 are, true and 1 are not,
texts letter by letter, lists in order. The answer is read strictly, as `parse_strictly` does.

Not covered: units, dates written otherwise, a list whose order does not matter. A list that lacks its first item has
all later ones at a wrong place. For types alone see `JsonSchema`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError, hidden_of
from verifiers.text.json_schema import parse_strictly

Place = tuple[str | int, ...]

_SHOWN = 5
"""Wrong fields that the feedback names."""


class JsonFields(Verifier):
    """Score is the share of right fields; kinds passed, wrong, unparsable, too_large.

    Components: `right_fields` and `superfluous_fields`, both as shares of the expected ones (the latter at most 1), and
    `parsed`. The feedback names fields that are wrong or missing, never their values.

    Args:
        max_characters: longest answer that is read.
    """

    def __init__(self, max_characters: int = 10_000):
        if type(max_characters) is not int or max_characters < 1:
            raise ValueError(f"max_characters must be a positive integer, got {max_characters!r}")
        self._max_characters = max_characters

    def configuration(self) -> dict[str, Any]:
        """The longest answer."""
        return {"max_characters": self._max_characters}

    def validate(self, example: Example) -> None:
        """Raises `VerifierError` unless `hidden["fields"]` is an object of JSON values."""
        self._expected(example)

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one answer; raises `VerifierError` as `validate` does."""
        expected = self._expected(example)
        if len(answer.text) > self._max_characters:
            feedback = f"the answer has more than {self._max_characters} characters"
            return Verdict(0.0, False, "too_large", _components(0, 0, len(expected), False), feedback)
        try:
            given = dict(fields_of(parse_strictly(answer.text)))
        except ValueError as error:
            feedback = f"the answer is not valid JSON: {error}"
            return Verdict(0.0, False, "unparsable", _components(0, 0, len(expected), False), feedback)
        wrong = [place for place, value in expected.items() if place not in given or not _equal(given[place], value)]
        superfluous = len(given.keys() - expected.keys())
        right = len(expected) - len(wrong)
        passed = not wrong and not superfluous
        return Verdict(
            score=right / (len(expected) + superfluous),
            passed=passed,
            kind="passed" if passed else "wrong",
            components=_components(right, superfluous, len(expected), True),
            feedback="correct" if passed else _feedback(wrong, superfluous),
        )

    def _expected(self, example: Example) -> dict[Place, Any]:
        fields = hidden_of(example).get("fields")
        where = f"example {example.id!r}: hidden['fields']"
        if not isinstance(fields, Mapping) or not fields:
            raise VerifierError(f"{where} must be an object with at least one field, got {fields!r}")
        try:
            expected = dict(fields_of(fields))
        except RecursionError as error:
            raise VerifierError(f"{where} is nested too deeply") from error
        except TypeError as error:
            raise VerifierError(f"{where}{error}") from None
        for place, value in expected.items():
            if not _is_json(value):
                raise VerifierError(f"{where}{_shown(place)} must be a JSON value, got {value!r}")
        return expected


def fields_of(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """(place, value) of every field; a place is the keys and indices that lead there.

    Raises `TypeError` for a key that is no string: 0 as a key would name the same place as the first item of a list.

    >>> list(fields_of({"a": [1, {}]}))
    [(('a', 0), 1), (('a', 1), {})]
    """
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{_shown(place)} must have strings as keys, got {key!r}")
            yield from fields_of(item, (*place, key))
    elif isinstance(value, list | tuple) and value:
        for index, item in enumerate(value):
            yield from fields_of(item, (*place, index))
    else:
        yield place, value


def _equal(given: Any, expected: Any) -> bool:
    if isinstance(given, bool) or isinstance(expected, bool):
        return given is expected
    if isinstance(expected, tuple):
        expected = list(expected)
    return given == expected


def _is_json(value: Any) -> bool:
    if isinstance(value, float):
        return value - value == 0.0  # neither infinite nor NaN
    return value is None or isinstance(value, str | int) or (isinstance(value, Mapping | list | tuple) and not value)


def _components(right: int, superfluous: int, expected: int, parsed: bool) -> dict[str, float]:
    return {
        "right_fields": right / expected,
        "superfluous_fields": min(1.0, superfluous / expected),
        "parsed": float(parsed),
    }


def _feedback(wrong: list[Place], superfluous: int) -> str:
    parts = []
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        parts.append(f"wrong or missing: {', '.join(map(_shown, wrong[:_SHOWN]))}{more}")
    if superfluous:
        parts.append(f"{superfluous} fields too many")
    return "; ".join(parts)


def _shown(place: Place) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from verifiers import Answer, Example, VerifierError, get_verifier
from verifiers.text.json_fields import JsonFields, fields_of

FIELDS = {
    "name": "Ada",
    "age": 36,
    "paid": True,
    "items": [{"item": "lamp", "n": 2}, {"item": "bell", "n": 1.5}],
    "tags": [],
}


def judged(answer: Any, fields: Any = FIELDS, **options: Any):
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return JsonFields(**options).verify(Example("e", "", {"fields": fields}), Answer(text))


def test_equal_values_pass():
    verdict = judged(FIELDS)
    assert (verdict.score, verdict.passed, verdict.kind) == (1.0, True, "passed")
    assert verdict.components == {"right_fields": 1.0, "superfluous_fields": 0.0, "parsed": 1.0}
    assert judged(' {"age": 36.0, "name": "\\u0041da"}\n', {"name": "Ada", "age": 36}).passed
    assert judged({"a": None}, {"a": None}).passed
    assert judged({"a": [1, 2]}, {"a": (1, 2)}).passed


@pytest.mark.parametrize(
    ("change", "score"),
    [
        ({"age": 37}, 7 / 8),
        ({"age": "36"}, 7 / 8),
        ({"paid": 1}, 7 / 8),
        ({"name": "ada"}, 7 / 8),
        ({"name": "\u0410da"}, 7 / 8),  # Cyrillic A
        ({"tags": {}}, 7 / 8),
        ({"tags": ["x"]}, 7 / 9),  # one missing, one too many
        ({"extra": 1}, 8 / 9),
        ({"extra": {"a": 1, "b": 2}}, 8 / 10),
        ({"items": FIELDS["items"][::-1]}, 4 / 8),  # type: ignore[index]
        ({"items": FIELDS["items"][:1]}, 6 / 8),  # type: ignore[index]
        ({"items": {"0": {"item": "lamp", "n": 2}, "1": {"item": "bell", "n": 1.5}}}, 4 / 12),
    ],
)
def test_every_wrong_missing_or_superfluous_field_costs(change: dict[str, Any], score: float):
    verdict = judged({**FIELDS, **change})
    assert verdict.score == pytest.approx(score)
    assert (verdict.passed, verdict.kind) == (False, "wrong")


@pytest.mark.parametrize("answer", ["{}", "[]", "3", "null", '"name"', "[1, 2, 3, 4, 5, 6, 7, 8]"])
def test_json_without_a_right_field_scores_0(answer: str):
    assert judged(answer).score == 0.0
    assert not judged(answer, {"a": {}}).passed


def test_inventing_many_fields_does_not_pay():
    every = {f"field{i}": i for i in range(500)}
    assert judged({**FIELDS, **every}).score < 0.02
    assert judged({**FIELDS, **every}).components["superfluous_fields"] == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{'name': 'Ada'}",
        '{"name": "Ada",}',
        '{"name": "Ada"} {"name": "Ada"}',
        'The answer is {"name": "Ada"}',
        '{"name": "Bob", "name": "Ada"}',
        '{"age": NaN}',
        '{"age": 1e999}',
        '{"age": 0' + "0" * 5000 + "}",
        "[" * 5000,
        '{"a":' * 1000 + "1" + "}" * 1000,
    ],
)
def test_strict_json_only(text: str):
    verdict = judged(text)
    assert (verdict.score, verdict.passed, verdict.kind) == (0.0, False, "unparsable")
    assert verdict.components["parsed"] == 0.0


def test_size_and_time_are_bounded():
    assert judged('"' + "x" * 20_000 + '"').kind == "too_large"
    assert judged(FIELDS, max_characters=20).kind == "too_large"
    began = time.process_time()
    judged('"' + '\\"' * 4999)
    assert time.process_time() - began < 5
    with pytest.raises(ValueError, match="max_characters"):
        JsonFields(0)
    assert type(get_verifier("json_fields", max_characters=50)) is JsonFields


def test_feedback_names_fields_and_no_values():
    verdict = judged({"name": "Bob", "items": [{"item": "lamp", "n": 3}], "x": 1})
    assert verdict.feedback == (
        "wrong or missing: .name, .age, .paid, .items[0].n, .items[1].item and 2 more; 1 fields too many"
    )
    assert "Ada" not in verdict.feedback


@pytest.mark.parametrize(
    "fields", [None, {}, [], "x", {"a": float("nan")}, {"a": [{1, 2}]}, {"a": {3.5: "x"}}, {"a": object()}]
)
def test_malformed_fields_are_the_judges_fault(fields: Any):
    with pytest.raises(VerifierError, match=r"'e': hidden\['fields'\]"):
        judged({}, fields)


@pytest.mark.parametrize("key", [0, True, None])
def test_keys_are_strings(key: Any):
    for fields, place in (({"a": {key: 1}}, r"\.a"), ({"a": [{"b": {key: {}}}]}, r"\.a\[0\]\.b"), ({key: 1}, "")):
        with pytest.raises(
            VerifierError, match=rf"'e': hidden\['fields'\]{place} must have strings as keys, got {key}"
        ):
            JsonFields().validate(Example("e", "", {"fields": fields}))


def test_places():
    assert dict(fields_of({"a": {"b": [1, []]}, "c": {}})) == {("a", "b", 0): 1, ("a", "b", 1): [], ("c",): {}}

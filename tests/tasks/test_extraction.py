import json

import pytest

from llm_envs.tasks.extraction import _DOCUMENTS, extract, make_task, problems, schema_of, short_form
from verifiers import Answer, get_verifier
from verifiers.text.json_fields import fields_of


def test_schema_and_its_short_form():
    schema = schema_of({"a": 1, "b": [{"c": "x", "d": True}], "e": 1.5}, frozenset({"e"}))
    assert schema["required"] == ["a", "b"]
    assert schema["properties"]["b"]["items"]["properties"] == {"c": {"type": "string"}, "d": {"type": "boolean"}}
    assert short_form(schema) == '{"a": integer, "b": [{"c": string, "d": boolean}], "e"?: number}'


@pytest.mark.parametrize("difficulty", [1, 2])
def test_every_value_stands_in_the_text_and_every_field_in_the_form(difficulty):
    for split in ("train", "validation", "test"):
        for example in problems(split, difficulty)[:300]:
            text, form, _ = str(example.prompt).split("\n")
            for place, value in fields_of(json.loads(example.gold)):
                assert f'"{[part for part in place if isinstance(part, str)][-1]}' in form
                if isinstance(value, str):
                    assert value in text
                elif isinstance(value, float):
                    assert f"{value:.2f}" in text
                    assert not value.is_integer()
                elif not isinstance(value, bool):
                    assert str(value) in text


def test_levels():
    flat, nested = problems("train", 1)[:200], problems("train", 2)[:200]
    assert all(len(place) == 1 for example in flat for place, _ in fields_of(example.hidden["fields"]))
    assert all(any(isinstance(v, dict | list) for v in example.hidden["fields"].values()) for example in nested)
    optional = [set(e.hidden["schema"]["properties"]) - set(e.hidden["schema"]["required"]) for e in nested]
    given = [len(names & set(e.hidden["fields"])) for names, e in zip(optional, nested, strict=True)]
    assert set(given) == {0, 1, 2}
    assert {len(names) for names in optional} == {2}
    for usual, held_out in _DOCUMENTS.values():
        assert not set(usual) & set(held_out)


@pytest.mark.parametrize("difficulty", [1, 2])
def test_gold_fits_the_schema_too(difficulty):
    jsonschema = pytest.importorskip("jsonschema")
    for example in problems("train", difficulty)[:60] + problems("test", difficulty)[:20]:
        jsonschema.validate(json.loads(example.gold), example.hidden["schema"])
        missing = json.loads(make_task(difficulty).wrong(example))
        assert len(missing) == len(example.hidden["fields"]) - 1


def test_a_part_of_the_score_for_a_part_of_the_fields():
    judge = get_verifier("json_fields")
    example = problems("train", 1)[0]
    count = len(example.hidden["fields"])
    assert judge.verify(example, Answer(make_task().wrong(example))).score == pytest.approx((count - 1) / count)
    assert judge.verify(example, Answer("{}")).score == 0.0


def test_a_code_fence_is_taken_off_and_nothing_else():
    example = problems("train", 1)[0]
    judge = get_verifier("json_fields")
    for message in (f"```json\n{example.gold}\n```", f"```\n{example.gold}\n```\n", f"  {example.gold}\n"):
        assert judge.verify(example, extract(example, message)).passed
    for message in (f"Here it is: {example.gold}", f"```json\n{example.gold}", f"{example.gold}\n{example.gold}"):
        assert judge.verify(example, extract(example, message)).score == 0.0

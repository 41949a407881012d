"""JsonSchema and MathEqual, which work in a helper process."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from verifiers import Answer, Example, JsonSchema, MathEqual, Verdict, Verifier, VerifierError

SCHEMA = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string", "pattern": "^(a|aa)+$"}, "tags": {"items": {"enum": ["secret"]}}},
}


@pytest.fixture(scope="module")
def json_schema() -> Iterator[JsonSchema]:
    made = JsonSchema(cpu_s=1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def math_equal() -> Iterator[MathEqual]:
    made = MathEqual(cpu_s=1)
    yield made
    made.close()


def judged(verifier: Verifier, hidden: dict[str, Any], text: str) -> Verdict:
    return verifier.verify(Example("e", "", hidden), Answer(text))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"name": "aa"}', "passed"),
        (' {"name": "a", "more": 1e300}\n', "passed"),
        ("{}", "wrong"),
        ('{"name": 1}', "wrong"),
        ('"\ud800"', "wrong"),
        *((text, "unparsable") for text in ("", "\x00", "name: a", '{"name": "a"} x', "{'name': 'a'}", "\ufeff{}")),
        *((text, "unparsable") for text in ("NaN", "[-Infinity]", "1e999", "9" * 5000, '{"name": "a", "name": "a"}')),
        *((text, "unparsable") for text in ("[" * 200_000, "[" * 65 + "]" * 65, '{"a":' * 100_000, '"' * 99_999)),
        ('{"name": "%s"}' % ("a" * 60 + "b"), "timeout"),
    ],
)
def test_json_schema(json_schema: JsonSchema, text: str, kind: str):
    verdict = judged(json_schema, {"schema": SCHEMA}, text)
    assert (verdict.kind, verdict.passed, verdict.score) == (kind, kind == "passed", float(kind == "passed"))


def test_json_schema_feedback_names_the_place_and_hides_the_rule(json_schema: JsonSchema):
    feedback = judged(json_schema, {"schema": SCHEMA}, '{"name": "a", "tags": ["secret", "no"]}').feedback
    assert "$.tags[1]" in feedback
    assert "enum" in feedback
    assert "secret" not in feedback


def test_json_schema_knows_drafts_references_and_deep_recursion(json_schema: JsonSchema):
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}
    assert judged(json_schema, {"schema": draft_7}, "[1]").kind == "wrong"
    lists = {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "null"}]}
    assert judged(json_schema, {"schema": lists}, "[" * 64 + "]" * 64).passed
    assert judged(json_schema, {"schema": {"multipleOf": 0.1}}, "1" + "0" * 400).kind == "wrong"


@pytest.mark.parametrize(
    "schema",
    [
        *(None, 5, {"type": "strin"}, {"pattern": "("}, {"type": object()}, {"const": float("nan")}),
        *({"$ref": "#"}, {"$ref": "#/nope"}, {"$ref": "http://localhost:1/x"}, {"$schema": "http://localhost:1/x"}),
    ],
)
def test_a_malformed_schema_is_the_judges_fault(json_schema: JsonSchema, schema: Any):
    with pytest.raises(VerifierError, match=r"'e'.*\['schema'\]"):
        judged(json_schema, {"schema": schema}, '"text"')


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"items": {"$ref": "#/$defs/nope"}}}},
        {"properties": {"a": {"$ref": "http://localhost:1/x"}}},
        {"anyOf": [True, {"$dynamicRef": "#nope"}]},
        {"properties": {"a": {"$ref": "#/x/y"}}, "x": {"y": {"items": {"$ref": "#/x/z"}}}},
        {"properties": {"a": {"$ref": "#/x"}}, "x": [1]},
        {"properties": {"a": {"$ref": "#/allOf/b"}}, "allOf": [True]},
        {"$schema": "http://json-schema.org/draft-04/schema#", "not": {"$ref": "#/definitions/nope"}},
    ],
)
def test_a_reference_that_leads_nowhere_is_found_before_an_answer_reaches_it(json_schema: JsonSchema, schema: Any):
    for call in (json_schema.validate, lambda example: json_schema.verify(example, Answer('"text"'))):
        with pytest.raises(VerifierError, match=r"'e'.*\['schema'\].*reference"):
            call(Example("e", "", {"schema": schema}))


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"a": {"$anchor": "b"}, "c": {"$id": "c"}}, "allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#b"}]},
        {"$id": "http://x/y", "$defs": {"c": {"$id": "c"}}, "items": {"$ref": "c"}, "not": {"$ref": "#/$defs/c/x"}}
        | {"not": {"$ref": "c#/$defs/d"}, "$defs": {"c": {"$id": "c", "$defs": {"d": False}}}},
        {"$ref": "https://json-schema.org/draft/2020-12/schema", "enum": [{"$ref": "#/nope"}, "text", {}]},
        {"const": {}, "x": {"$ref": "#/nope"}, "properties": {"$ref": {"$ref": "#/properties/a"}, "a": True}},
        {"properties": {"a": {"items": {"$ref": "#"}}}},
    ],
)
def test_a_reference_that_leads_somewhere_is_fine(json_schema: JsonSchema, schema: Any):
    json_schema.validate(Example("e", "", {"schema": schema}))
    assert judged(json_schema, {"schema": schema}, "{}").passed


@pytest.mark.parametrize(
    ("expected", "text", "kind"),
    [
        (r"\frac{1}{2}", "0.5", "passed"),
        (r"\frac{1}{2}", r"so it is \boxed{2/4}", "passed"),
        (r"$\frac{1}{2}$", r"\frac12", "passed"),
        ("x^2 + 2x + 1", "(x+1)^2", "passed"),
        (r"\sin(x)^2 + \cos(x)^2", "1", "passed"),
        ("(1, 2)", "(1,2)", "passed"),
        ("(1, 2)", "2", "wrong"),
        (r"\{1, 2\}", r"$\{2, 1\}$", "passed"),
        ("42", "the answer is 42", "passed"),
        ("42", "-42", "wrong"),
        *(("42", text, "unparsable") for text in ("", " ", "forty", "x" * 100_000)),
        *(("42", text, "timeout") for text in ("$9^{9^{9^9}}$", "(" * 5000)),
    ],
)
def test_math_equal(math_equal: MathEqual, expected: str, text: str, kind: str):
    verdict = judged(math_equal, {"answer": expected}, text)
    assert (verdict.kind, verdict.passed, verdict.score) == (kind, kind == "passed", float(kind == "passed"))


def test_math_equal_rounds_decimal_numbers():
    coarse = MathEqual(decimals=2)
    assert judged(coarse, {"answer": "0.333"}, "0.334").passed
    assert not judged(coarse, {"answer": "0.333"}, "0.343").passed
    coarse.close()


def test_an_expected_value_that_cannot_be_computed_is_the_judges_fault(math_equal: MathEqual):
    with pytest.raises(VerifierError, match="'e'.*cannot even begin"):
        math_equal.validate(Example("e", "", {"answer": "$9^{9^{9^9}}$"}))


@pytest.mark.parametrize("answer", [None, 42, "", "forty"])
def test_malformed_mathematics_is_the_judges_fault(math_equal: MathEqual, answer: Any):
    with pytest.raises(VerifierError, match=r"'e'.*\['answer'\]"):
        judged(math_equal, {"answer": answer}, "1")
    with pytest.raises(VerifierError, match=r"'e'.*\['answer'\]"):
        math_equal.validate(Example("e", "", {"answer": answer}))


def test_a_batch_is_judged_in_order_also_outside_the_main_thread(math_equal: MathEqual):
    pairs = [(Example("e", "", {"answer": str(i)}), Answer("3")) for i in range(6)]
    verdicts: list[Verdict] = []
    thread = threading.Thread(target=lambda: verdicts.extend(math_equal.verify_batch(pairs)))
    thread.start()
    thread.join()
    assert [verdict.passed for verdict in verdicts] == [i == 3 for i in range(6)]


def test_copies_and_closed_judges_work(json_schema: JsonSchema):
    copy = pickle.loads(pickle.dumps(json_schema))
    for _ in range(2):
        assert judged(copy, {"schema": True}, "1").passed
        copy.close()
        copy.close()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="math-verify.*llm-envs\\[math\\]"):
        MathEqual()

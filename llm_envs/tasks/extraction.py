"""Read the details out of a short text, as JSON of a given form; graded by the share of right fields.

    Flight BK321 from Oslo to Lima leaves at 09:35 from gate 12.
    Give the details as JSON: {"flight": string, "origin": string, "destination": string, "departure": string, ...}

          -> {"flight": "BK321", "origin": "Oslo", "destination": "Lima", "departure": "09:35", "gate": 12}

Texts are copied letter by letter; numbers, and true or false where a word says so ("paid", "not paid"), are JSON's own.
Difficulty 1 is flat; 2 has objects within objects, lists in the order of the text, and optional fields (`"seat"?`), to
be left out when the text does not say.

`hidden` holds the values (`fields`, for the verifier `json_fields`) and the schema (`schema`), so that the verifier
`json_schema`, which judges the form alone, can be used instead or beside it.

Splits are disjoint by the hash of the text. `test` has kinds of documents of its own, which the other splits never use.

Not covered: values that must be calculated or inferred, texts with contradictions, and lists in any other order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache, partial
from random import Random
from typing import Any

from llm_envs.lazy import LazyExamples
from llm_envs.task import Task
from llm_envs.tasks.extraction_documents import FILLINGS, FLAT, FLAT_TEST, NESTED, NESTED_TEST, Filling
from llm_envs.tasks.generated import SPLITS, Draft, check_options, generated_examples
from verifiers import Answer, Example
from verifiers.text.json_fields import Place, fields_of

DIFFICULTIES: Mapping[int, str] = {1: "flat", 2: "nested, with lists and optional fields"}
MAX_NEW_TOKENS: Mapping[int, int] = {1: 144, 2: 224}
"""Longest gold answer plus a stop token, at one token per character."""

TEACHER: Mapping[str, float] = {"right": 0.5, "value": 0.25, "swap": 0.15, "missing": 0.1}
"""How often the teacher of the warm-up does what; see `demonstrate`."""

_DOCUMENTS = {1: (FLAT, FLAT_TEST), 2: (NESTED, NESTED_TEST)}
_SLOT = re.compile(r"\{([\w.]+):([\w-]+)\}")
_FENCE = re.compile(r"\A```\w*\n(.*)\n```\Z", re.DOTALL)
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}

Tree = dict[str, Any]


def schema_of(value: Any, optional: frozenset[str] = frozenset()) -> Tree:
    """The JSON schema of a value; fields named in `optional`, at the top, are not required."""
    if isinstance(value, dict):
        return {
            "type": "object",
            "properties": {name: schema_of(item) for name, item in value.items()},
            "required": [name for name in value if name not in optional],
            "additionalProperties": False,
        }
    if isinstance(value, list):
        return {"type": "array", "items": schema_of(value[0])}
    return {"type": _TYPES[type(value)]}


def short_form(schema: Tree) -> str:
    """A schema as a person would write it down.

    >>> short_form(schema_of({"a": 1, "b": [{"c": "x"}]}, frozenset({"b"})))
    '{"a": integer, "b"?: [{"c": string}]}'
    """
    if schema["type"] == "array":
        return f"[{short_form(schema['items'])}]"
    if schema["type"] != "object":
        return str(schema["type"])
    fields = (
        f'"{name}"{"" if name in schema["required"] else "?"}: {short_form(item)}'
        for name, item in schema["properties"].items()
    )
    return f"{{{', '.join(fields)}}}"


def _fill(name: str, rng: Random) -> Filling:
    if name in FILLINGS:
        return FILLINGS[name](rng)
    low, high = name.split("-")
    number = rng.randint(int(low), int(high))
    return str(number), number


def _write(pattern: str, rng: Random, tree: Tree) -> str:
    """The pattern with its slots filled; their values are put into the tree."""

    def fill(match: re.Match[str]) -> str:
        *objects, field = match[1].split(".")
        text, value = _fill(match[2], rng)
        inner = tree
        for name in objects:
            inner = inner.setdefault(name, {})
        inner[field] = value
        return text

    return _SLOT.sub(fill, pattern)


def _draw(kind: str, difficulty: int, rng: Random) -> Draft | None:
    document = {**_DOCUMENTS[difficulty][0], **_DOCUMENTS[difficulty][1]}[kind]
    tree: Tree = {}
    text = _write(rng.choice(document.texts), rng, tree)
    whole, optional = json.loads(json.dumps(tree)), set()
    for pattern in document.optional:
        extra: Tree = {}
        sentence = _write(pattern, rng, extra)
        whole.update(extra)
        optional |= set(extra)
        if rng.random() < 0.5:
            text += sentence
            tree.update(extra)
    if len(set(map(str, _texts(tree)))) < len(_texts(tree)):
        return None  # a train from a city to itself, or a host of the same name as a guest
    schema, gold = schema_of(whole, frozenset(optional)), json.dumps(tree)
    if len(gold) >= MAX_NEW_TOKENS[difficulty]:
        return None
    hint = " Leave out a field with ? that the text does not give." if optional else ""
    return Draft(
        content=text,
        prompt=f"{text}\nGive the details as JSON: {short_form(schema)}{hint}\n",
        hidden={"fields": tree, "schema": schema},
        gold=gold,
    )


def _texts(tree: Tree) -> list[str]:
    return [value for _, value in fields_of(tree) if isinstance(value, str)]


@cache
def _problems(split: str, difficulty: int) -> LazyExamples:
    return generated_examples("Extraction", split, difficulty, *_DOCUMENTS[difficulty], _draw)


def problems(split: str, difficulty: int = 1) -> LazyExamples:
    """The examples of a split, cached: the same arguments give the same object."""
    check_options(split, difficulty, DIFFICULTIES)
    return _problems(split, difficulty)


def extract(example: Example, message: str) -> Answer:
    """The message, without the code fence that chat models like to put around JSON."""
    text = message.strip()
    fenced = _FENCE.match(text)
    return Answer(text=fenced[1] if fenced else text)


def wrong(example: Example) -> str:
    """The gold answer without its last field."""
    *kept, _ = json.loads(example.gold).items()
    return json.dumps(dict(kept))


def demonstrate(example: Example, rng: Random) -> tuple[str, str]:
    """One demonstration of the imperfect teacher, and its label.

    * `right`: the gold answer;
    * `value`: one number is off by one, one text lacks its last word or letter, or one truth value is turned round;
    * `swap`: two values of one type have changed places;
    * `missing`: one field of the outermost object is missing.

    Where no two values can be swapped, it is a `value`.
    """
    label = rng.choices(list(TEACHER), list(TEACHER.values()))[0]
    tree = json.loads(example.gold)
    fields = list(fields_of(tree))
    pairs = (
        [(p, q) for p, a in fields for q, b in fields if p < q and type(a) is type(b) and a != b]
        if label == "swap"
        else []
    )
    if label == "swap" and pairs:
        one, other = rng.choice(pairs)
        values = dict(fields)
        _put(tree, one, values[other])
        _put(tree, other, values[one])
    elif label == "missing":
        del tree[rng.choice(list(tree))]
    elif label != "right":
        place, value = rng.choice(fields)
        _put(tree, place, _misread(value, rng))
        label = "value"
    return json.dumps(tree), label


def _put(tree: Any, place: Place, value: Any) -> None:
    for part in place[:-1]:
        tree = tree[part]
    tree[place[-1]] = value


def _misread(value: Any, rng: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value.rpartition(" ")[0] or value[:-1]
    return value + rng.choice((1, -1))


def make_task(difficulty: int = 1) -> Task:
    """The task `Extraction`: `difficulty` 1 (flat) or 2 (nested, with lists and optional fields)."""
    check_options("train", difficulty, DIFFICULTIES)
    return Task(
        name="Extraction",
        problems=partial(problems, difficulty=difficulty),
        splits=SPLITS,
        verifier="json_fields",
        extract=extract,
        wrong=wrong,
        demonstrate=lambda example, rng: demonstrate(example, rng)[0],
        max_new_tokens=MAX_NEW_TOKENS[difficulty],
        judge_unfinished=False,
    )

"""Judges an answer that must be JSON of a certain form.

    example.hidden = {"schema": {"type": "object", "required": ["name"]}}
    answer.text = '{"name": "Ada"}'

The answer is read strictly: NaN, Infinity, numbers beyond a float's range, integers of more than 4300 digits, an object
that names a key twice, text around the value, and more than `MAX_DEPTH` levels are unparsable. The schema is one of a
draft that the `jsonschema` package knows, 2020-12 if it does not say.

Everything runs in a helper process under limits: the schema's own patterns can backtrack for ever on some answers.

Not covered: `format` is not checked (as the standard has it); references to other documents are malformed, and never
fetched. A schema that refers to itself without end is found when an answer gets there.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from typing import Any, cast

from verifiers.base import Example, VerifierError, hidden_of
from verifiers.trusted.judge import TrustedJudge
from verifiers.trusted.process import TrustedProcess

MAX_DEPTH = 64
"""Levels of arrays and objects in an answer."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class JsonSchema(TrustedJudge):
    """Score 1 if the answer is strict JSON that fits the schema; kinds passed, wrong, unparsable, timeout, died.

    The feedback names the place and the keyword that failed, never the keyword's value.

    Args:
        cpu_s: CPU time of one judging, whole seconds.
        memory_mb: memory of one judging, MiB.
    """

    def __init__(self, cpu_s: float = 5.0, memory_mb: int = 512):
        import jsonschema  # noqa: F401 - fails here, not at the first verdict, where it is missing

        super().__init__(
            TrustedProcess(f"{__name__}:judge", cpu_s=cpu_s, memory_mb=memory_mb, warm_up=f"{__name__}:warm_up")
        )

    def configuration(self) -> dict[str, Any]:
        """The limits of one call, and the version of what decides."""
        from importlib.metadata import version

        return {**super().configuration(), "jsonschema": version("jsonschema")}

    def question(self, example: Example) -> dict[str, Any]:
        """The schema; raises `VerifierError` when it is none that JSON can hold."""
        schema = hidden_of(example).get("schema")
        if not isinstance(schema, Mapping | bool):
            raise VerifierError(f"example {example.id!r}: hidden['schema'] must be a JSON schema, got {schema!r}")
        try:
            return {"schema": json.loads(json.dumps(schema, allow_nan=False))}
        except (TypeError, ValueError, RecursionError) as error:
            raise VerifierError(f"example {example.id!r}: hidden['schema'] is no JSON: {error}") from error


class _Unparsable(ValueError):
    """The answer is not strict JSON."""


def warm_up() -> None:
    """In the helper, once: import what every call needs."""
    sys.setrecursionlimit(20_000)  # a recursive schema takes many frames for a level of the answer
    judge({"question": {"schema": {"type": "object", "pattern": "a"}}, "text": "{}"})


def judge(payload: dict[str, Any]) -> dict[str, str]:
    """In the helper: one verdict, as `TrustedJudge` describes."""
    schema, text = payload["question"]["schema"], payload["text"]
    try:
        validator, complaint = _validator(schema)
    except RecursionError:
        validator, complaint = None, "is nested too deeply"
    if complaint:
        return {"complaint": f"hidden['schema'] {complaint}"}
    if text is None:
        return {"kind": "passed"}
    try:
        value = parse_strictly(text)
    except _Unparsable as error:
        return {"kind": "unparsable", "feedback": f"the answer is not valid JSON: {error}"}
    return _validate(validator, value)


def _validator(schema: Any) -> tuple[Any, str]:
    """The validator, or what is wrong with the schema."""
    import jsonschema
    from jsonschema import validators
    from referencing import Registry

    kind: Any = jsonschema.Draft202012Validator
    if isinstance(schema, dict) and "$schema" in schema:
        kind = validators.validator_for(schema, default=cast(Any, None))
        if kind is None:
            return None, f"names an unknown draft {schema['$schema']!r}"
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        return None, f"is malformed at {error.json_path}: {error.message}"
    missing = _lost_reference(kind, schema)
    if missing:
        return None, f"has a reference that leads nowhere: {missing}"
    return kind(schema, registry=Registry()), ""  # an empty registry: nothing is fetched


def _lost_reference(kind: Any, schema: Any) -> str:
    """The first reference that leads to no schema, also where no answer may ever reach it; empty if there is none."""
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import specification_with

    specification = specification_with(kind.ID_OF(kind.META_SCHEMA))
    todo = [(schema, REGISTRY.resolver_with_root(specification.create_resource(schema)))]
    seen: set[int] = set()
    while todo:
        part, resolver = todo.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        for reference in [part[name] for name in _REFERENCES if isinstance(part.get(name), str)]:
            try:
                found = resolver.lookup(reference)
            except (Unresolvable, ValueError, TypeError, LookupError):  # the last three: odd steps of a pointer
                return repr(reference)
            if not isinstance(found.contents, dict | bool):
                return repr(reference)
            todo.append((found.contents, found.resolver))
        for inner in specification.create_resource(part).subresources():
            todo.append((inner.contents, resolver.in_subresource(inner)))
    return ""


def _validate(validator: Any, value: Any) -> dict[str, str]:
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    try:
        error = best_match(validator.iter_errors(value))
    except Unresolvable as missing:
        return {"complaint": f"hidden['schema'] has a reference that leads nowhere: {missing}"}
    except re.error as wrong:
        return {"complaint": f"hidden['schema'] has a wrong pattern: {wrong}"}
    except RecursionError:
        return {"complaint": "hidden['schema'] refers to itself without end"}
    except (OverflowError, ValueError):  # multipleOf of an integer beyond a float's range
        return {"kind": "wrong", "feedback": "a number in the answer is too large to be checked"}
    if error is None:
        return {"kind": "passed"}
    return {"kind": "wrong", "feedback": f'at {error.json_path[:200]}: breaks the rule "{error.validator or False}"'}


def parse_strictly(text: str) -> Any:
    """The value of a JSON text; raises a `ValueError` that says what is wrong."""
    if _depth(text) > MAX_DEPTH:
        raise _Unparsable(f"more than {MAX_DEPTH} levels")
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_object_without_duplicates
        )
    except _Unparsable:
        raise
    except json.JSONDecodeError as error:
        raise _Unparsable(f"{error.msg} (line {error.lineno}, column {error.colno})") from None
    except ValueError:
        raise _Unparsable("an integer has too many digits") from None


def _depth(text: str) -> int:
    """Deepest level of brackets outside strings; an answer that is no JSON gets any number."""
    level = deepest = 0
    for bracket in re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text, re.DOTALL):
        if bracket in "[{":
            level += 1
            deepest = max(deepest, level)
        elif bracket in "]}":
            level -= 1
    return deepest


def _refuse_constant(name: str) -> Any:
    raise _Unparsable(f"{name} is no JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _Unparsable("a number is out of range")
    return value


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _Unparsable("an object names a key twice")
    return value

"""Problems from a file: JSON lines, one example per line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llm_envs.error import ProblemFileError, unknown
from verifiers import Example

_Check = tuple[Callable[[Any], bool], str]


def _is_prompt(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list)
        and len(value) > 0
        and all(
            isinstance(message, dict)
            and set(message) == {"role", "content"}
            and all(isinstance(part, str) for part in message.values())
            for message in value
        )
    )


_FIELDS: dict[str, _Check] = {
    "id": (lambda value: isinstance(value, str), "a string"),
    "prompt": (_is_prompt, 'a string or a list of {"role": ..., "content": ...}'),
    "hidden": (lambda value: isinstance(value, dict), "an object"),
    "gold": (lambda value: isinstance(value, str), "a string"),
    "metadata": (lambda value: isinstance(value, dict), "an object"),
}
_REQUIRED = ("prompt", "hidden")


def load_jsonl(path: str | Path) -> list[Example]:
    """Read examples from a file of JSON lines; blank lines are skipped.

    | field | value |
    |---|---|
    | `prompt` | what the policy sees: a string, or chat messages `{"role": ..., "content": ...}` |
    | `hidden` | object: what only the verifier sees, in the form the verifier documents |
    | `id` | string, unique in the file; by default the line number |
    | `gold` | string: a message that must score 1 |
    | `metadata` | object: anything else worth keeping |

    Raises:
        ProblemFileError: naming the file, the line and the field that is wrong.
    """
    examples: list[Example] = []
    lines_by_id: dict[str, int] = {}
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemFileError(f"cannot read {str(path)!r}: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        example = Example(**{"id": str(number), **_fields(line, where)})
        if example.id in lines_by_id:
            raise ProblemFileError(f"{where}, field 'id': {example.id!r} is already on line {lines_by_id[example.id]}")
        lines_by_id[example.id] = number
        examples.append(example)
    if not examples:
        raise ProblemFileError(f"{str(path)!r} holds no examples")
    return examples


def _fields(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ProblemFileError(f"{where}: not valid JSON ({error})") from error
    if not isinstance(record, dict):
        raise ProblemFileError(f"{where}: expected an object, got {type(record).__name__}")
    for name in _REQUIRED:
        if name not in record:
            raise ProblemFileError(f"{where}, field {name!r}: missing")
    for name, value in record.items():
        if name not in _FIELDS:
            raise ProblemFileError(f"{where}: {unknown('field', name, _FIELDS)}")
        valid, expected = _FIELDS[name]
        if not valid(value):
            raise ProblemFileError(f"{where}, field {name!r}: expected {expected}, got {value!r:.80}")
    return record

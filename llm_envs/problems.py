"""Problems from a file: JSON lines, one example per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llm_envs.error import ProblemFileError
from llm_envs.records import Located, RecordReader
from verifiers import Example


def load_jsonl(path: str | Path) -> list[Example]:
    """Read examples from a file of JSON lines; blank lines are skipped.

    | field | value |
    |---|---|
    | `prompt` | what the policy sees: a string, or chat messages `{"role": ..., "content": ...}` |
    | `hidden` | object: what only the verifier sees, in the form the verifier documents |
    | `id` | string or integer, unique in the file; by default the line number |
    | `gold` | string: a message that must score 1; by default the hidden answer |
    | `metadata` | object: anything else worth keeping |

    `register_task(problems=path)` reads records of other fields, too, see `llm_envs.records`.

    Raises:
        ProblemFileError: naming the file, the line and the field that is wrong.
    """
    located = list(read_lines(path))
    for place, _, record in located:
        if isinstance(record, dict) and "prompt" in record and "hidden" not in record:
            raise ProblemFileError(f"{place}, field 'hidden': missing")
    return list(RecordReader().read_all(located))


def read_lines(path: str | Path) -> Iterator[Located]:
    """What is on the lines of a file; raises `ProblemFileError` naming the file and the line."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a null character in the path
        raise ProblemFileError(f"cannot read {str(path)!r}: {error}") from error
    if not any(line.strip() for line in lines):
        raise ProblemFileError(f"{str(path)!r} holds no examples")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        yield Located(place, str(number), read_json(place, line))


def read_json(place: str, text: str) -> Any:
    """The value that a text holds; raises `ProblemFileError` naming the place."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ProblemFileError(f"{place}: not valid JSON (nested too deeply)") from None
    except ValueError as error:  # also an integer of thousands of digits
        raise ProblemFileError(f"{place}: not valid JSON ({error})") from error

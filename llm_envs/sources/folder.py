"""Problems from a folder, one subfolder for each.

| file | becomes |
|---|---|
| `prompt.txt` | the prompt |
| `buggy.py` | `metadata["buggy"]`, which templates may show and which must not pass; the prompt, if there is no other |
| `tests.json` | hidden data, an object: of `function_tests`, of `program_tests`, or of whatever verifier you name |
| `test_*.py`, with other `*.py` they import | hidden data for `pytest_files`, which imports the answer as `solution` |
| `solution.py` | the gold answer |

Every problem needs `prompt.txt` or `buggy.py`, tests of one of the two kinds, and `solution.py`. The name of the
subfolder is the id. The task names the verifier, such as `verifier="program_tests"`. Hidden names (`.git`) and
`__pycache__` are skipped; any other file is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llm_envs.error import ProblemFileError
from llm_envs.problems import read_json
from llm_envs.records import Located

_OWN = ("prompt.txt", "buggy.py", "tests.json", "solution.py")


def read_folder(path: Path) -> Iterator[Located]:
    """The problems of a folder, in the order of their names; raises `ProblemFileError` naming the file."""
    folders = sorted(item for item in path.iterdir() if item.is_dir() and not _skipped(item))
    if not folders:
        raise ProblemFileError(f"{str(path)!r} holds no examples: expected a subfolder for each problem")
    for folder in folders:
        yield Located(str(folder), folder.name, _record(folder))


def _skipped(path: Path) -> bool:
    return path.name.startswith(".") or path.name == "__pycache__"


def _record(folder: Path) -> dict[str, Any]:
    names = {item.name for item in folder.iterdir() if not _skipped(item)}
    python = sorted(name for name in names - set(_OWN) if name.endswith(".py"))
    other = sorted(names - set(_OWN) - set(python))
    if other:
        raise ProblemFileError(f"{folder / other[0]}: expected {', '.join(_OWN)} or test_*.py, not this file")
    if not names & {"prompt.txt", "buggy.py"}:
        raise ProblemFileError(f"{folder}: needs prompt.txt or buggy.py")
    if "solution.py" not in names:
        raise ProblemFileError(f"{folder}: needs solution.py, the gold answer")
    buggy = _text(folder / "buggy.py") if "buggy.py" in names else None
    record: dict[str, Any] = {
        "prompt": _text(folder / "prompt.txt") if "prompt.txt" in names else buggy,
        "hidden": _tests(folder, "tests.json" in names, python),
        "gold": _text(folder / "solution.py"),
        "metadata": {} if buggy is None else {"buggy": buggy},
    }
    return record


def _tests(folder: Path, as_json: bool, python: list[str]) -> dict[str, Any]:
    if as_json == any(name.startswith("test_") for name in python) or (as_json and python):
        raise ProblemFileError(f"{folder}: needs either tests.json or test_*.py, not both")
    if not as_json:
        return {"files": {name: _text(folder / name) for name in python}, "module": "solution"}
    path = folder / "tests.json"
    hidden = read_json(str(path), _text(path))
    if not isinstance(hidden, dict):
        raise ProblemFileError(f"{path}: expected an object with entry and tests, got {hidden!r:.80}")
    return hidden


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemFileError(f"cannot read {str(path)!r}: {error}") from error

"""Where problems come from: one module per kind of source.

| `register_task(problems=...)` | read by |
|---|---|
| path of a file of JSON lines | `llm_envs.problems` |
| path of a folder of problems | `sources.folder` |
| a list of records or examples | here |
| a `Dataset` of Hugging Face's `datasets` | `sources.rows` |
| `ProceduralProblems(generate)` | `sources.procedural` |

`sources.reasoning_gym` makes tasks of the package reasoning-gym. `llm_envs.splits` deals the problems of a source out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from llm_envs.error import OptionError
from llm_envs.records import Located

EXPECTED = (
    "problems must be a path, a list of records or of Examples, a Dataset, a dict or function that gives one of these "
    "for each split, or a ProceduralProblems"
)


def read_source(source: Any, name: str) -> Iterable[Located]:
    """What is in one source, read now.

    Args:
        source: a path, a list, or rows such as a `datasets.Dataset`.
        name: what to call it in error messages, if it has no name of its own.
    """
    if isinstance(source, (str, Path)):
        return _read_path(Path(source))
    if is_rows(source):
        from llm_envs.sources.rows import read_rows

        return read_rows(source, name)
    if isinstance(source, Sequence) and not isinstance(source, bytes):
        return [Located(f"{name}[{index}]", str(index), record) for index, record in enumerate(source)]
    raise OptionError(f"{EXPECTED}; got {source!r:.80}")


def is_rows(source: Any) -> bool:
    """Whether something looks like a `datasets.Dataset` or `IterableDataset`."""
    return hasattr(source, "column_names")


def _read_path(path: Path) -> Iterable[Located]:
    if path.is_dir():
        from llm_envs.sources.folder import read_folder

        return read_folder(path)
    from llm_envs.problems import read_lines

    return read_lines(path)

"""A task from problems and a few words on how to ask and judge: what `register_task(problems=...)` makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import verifiers
from llm_envs.error import OptionError, unknown
from llm_envs.records import Record, RecordReader, Template
from llm_envs.splits import SplitProblems
from llm_envs.task import Task
from verifiers import Example

TASK_OPTIONS = tuple(field.name for field in fields(Task) if field.name not in ("name", "problems", "splits", "source"))
"""Fields of `Task` that are options here under the same name."""


def untouched(example: Example) -> str:
    """The default message that must not pass: the buggy program where there is one, else nothing at all."""
    return str(example.metadata.get("buggy", ""))


def build_task(
    name: str,
    problems: Any,
    *,
    prompt: Template | None = None,
    hidden: Mapping[str, str] | Callable[[Record], Mapping[str, Any]] | None = None,
    gold: Template | None = None,
    splits: Mapping[str, float] | Sequence[str] | None = None,
    **options: Any,
) -> Task:
    """A task over problems of your own; nothing is read before somebody asks for a split.

    Args:
        name: `Name` in the ids.
        problems: a path (JSON lines, or a folder), a list of records or Examples, a `datasets.Dataset`, a
            `ProceduralProblems`; a dict split -> one of these; or a function split -> examples, see `llm_envs.sources`.
        prompt: template such as `"{question}\\n"`, or a function of the record; the record's `prompt` when left out.
        hidden: what only the verifier sees, when it is not what the template leaves over, see `llm_envs.records`.
        gold: template or function for the gold answer; the record's `gold` or hidden answer when left out.
        splits: share of each split, for problems that are not split yet (`llm_envs.splits`); for a function, the names
            it knows.
        options: any other field of `Task`: verifier (also a function (example, answer) -> bool or score),
            verifier_options, max_new_tokens, judge_unfinished, extract, wrong, tools, ...
    """
    for option in options:
        if option not in TASK_OPTIONS:
            known = ("prompt", "hidden", "gold", "splits", *TASK_OPTIONS)
            raise OptionError(unknown(f"option of task {name!r}", option, known))
    judge = options.get("verifier")
    if callable(judge) and not isinstance(judge, type):
        options["verifier"] = verifiers.get_verifier(judge)
    source = SplitProblems(problems, RecordReader(prompt, hidden, gold), splits)
    return Task(name, source, source.splits, **{"wrong": untouched, **options})

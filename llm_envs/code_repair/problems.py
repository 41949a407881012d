"""Examples by split, built on demand, and what an answer to one stands for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from llm_envs.code_repair import formats
from llm_envs.code_repair.line_edit import apply_edit, copy_between, write_edit
from llm_envs.code_repair.repairs import FAMILY_CHOICES, SPLITS, families_of, stream
from llm_envs.error import OptionError, unknown
from llm_envs.lazy import LazyExamples
from verifiers import Answer, Example

SIZES: Mapping[str, int] = {"train": 8000, "validation": 500, "test": 400}
# Enough for the longest gold answer and a stop token at one token per byte (see `repairs.MAX_EDIT_LENGTH`).
MAX_NEW_TOKENS = {("edit", 1): 100, ("edit", 2): 148, ("function", 1): 256, ("function", 2): 256}


@lru_cache(maxsize=64)
def _problems(
    split: str, difficulty: int, families: str, answer_format: str, style: str, instruction: str, size: int
) -> LazyExamples:
    names = [family.name for family in families_of(split, families)]

    def build(position: int) -> Example:
        k, number = divmod(position, len(names))
        repair = stream(names[number], split, difficulty)[k]
        return Example(
            id=f"{split}/{names[number]}/{k}",
            prompt=formats.prompt(repair, answer_format, style, instruction),
            hidden={"entry": repair.name, "tests": list(repair.tests), "scoring": "all"},
            gold=formats.gold(repair, answer_format),
            metadata={
                "family": repair.family,
                "theme": repair.theme,
                "bug_kinds": list(repair.kinds),
                "original_hash": repair.original_hash,
                "original": repair.original,
                "buggy": repair.buggy,
                "answer_format": answer_format,
                "difficulty": difficulty,
            },
        )

    return LazyExamples(size, build)


def problems(
    split: str,
    difficulty: int = 1,
    *,
    families: str = "all",
    answer_format: str = "edit",
    style: str = "compact",
    instruction: str = "",
    sizes: Mapping[str, int] | None = None,
) -> LazyExamples:
    """The examples of a split, cached: the same arguments give the same object.

    Args:
        split: `train` and `validation` share families but no original; `test` has families of its own.
        difficulty: number of bugs, 1 or 2.
        families: `core` (short programs) or `all`; the split `test` has its own either way.
        answer_format: `edit` or `function`, see `formats`.
        style: `compact` (function and failing calls only) or `chat` (a message that explains the task).
        instruction: a line put before the prompt.
        sizes: examples per split, where they differ from `SIZES`.
    """
    check_options(difficulty, families, answer_format, style)
    if split not in SPLITS:
        raise OptionError(unknown("split", split, SPLITS))
    for name in sizes or {}:
        if name not in SPLITS:
            raise OptionError(unknown("split in sizes", name, SPLITS))
    size = {**SIZES, **(sizes or {})}[split]
    return _problems(split, difficulty, families, answer_format, style, instruction, size)


def check_options(difficulty: int, families: str, answer_format: str, style: str) -> None:
    """Raise `OptionError` unless the options of a task are known."""
    if difficulty not in (1, 2):
        raise OptionError(f"difficulty is the number of bugs, 1 or 2, not {difficulty!r}")
    if families not in FAMILY_CHOICES:
        raise OptionError(unknown("families", families, FAMILY_CHOICES))
    if answer_format not in formats.FORMATS:
        raise OptionError(unknown("answer_format", answer_format, formats.FORMATS))
    if style not in formats.STYLES:
        raise OptionError(unknown("style", style, formats.STYLES))


def extract(example: Example, message: str) -> Answer:
    """The patched source that the message stands for; `AnswerFormatError` where it stands for none."""
    if example.metadata["answer_format"] == "edit":
        return Answer(text=apply_edit(example.metadata["buggy"], message))
    return Answer(text=formats.read_function(message, example.hidden["entry"]))


def wrong(example: Example) -> str:
    """A well-formed message that leaves every bug untouched."""
    buggy = str(example.metadata["buggy"])
    if example.metadata["answer_format"] == "function":
        return buggy
    return write_edit(copy_between(buggy, example.metadata["original"]))

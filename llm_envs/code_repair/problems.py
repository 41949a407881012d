"""Examples by split, built on demand, and what an answer to one stands for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from llm_envs import validate
from llm_envs.code_repair import formats
from llm_envs.code_repair.families_chains import LONGEST_SOURCE
from llm_envs.code_repair.line_edit import apply_edit, copy_between, write_edit
from llm_envs.code_repair.program import FAMILIES
from llm_envs.code_repair.repairs import (
    FAMILY_CHOICES,
    MAX_EDIT_LENGTH,
    PROGRAMS,
    SPLITS,
    families_of,
    registry_of,
    stream,
)
from llm_envs.error import OptionError
from llm_envs.lazy import LazyExamples
from verifiers import Answer, Example

SIZES: Mapping[str, int] = {"train": 8000, "validation": 500, "test": 400}
DIFFICULTIES = tuple(MAX_EDIT_LENGTH)
_LONG_CLASS = 664


def max_new_tokens(answer_format: str, difficulty: int, programs: str = "functions") -> int:
    """Enough for the longest gold answer and a stop token at one token per byte."""
    if answer_format == "edit":
        return MAX_EDIT_LENGTH[difficulty] + 4
    if programs == "classes":
        return _LONG_CLASS
    return 256 if registry_of(programs, difficulty) is FAMILIES else LONGEST_SOURCE + 4


@lru_cache(maxsize=64)
def _problems(
    split: str,
    difficulty: int,
    programs: str,
    families: str,
    answer_format: str,
    style: str,
    instruction: str,
    size: int,
) -> LazyExamples:
    names = [family.name for family in families_of(split, families, programs, difficulty)]

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
    programs: str = "functions",
    families: str = "all",
    answer_format: str = "edit",
    style: str = "compact",
    instruction: str = "",
    sizes: Mapping[str, int] | None = None,
) -> LazyExamples:
    """The examples of a split, cached: the same arguments give the same object.

    Args:
        split: `train` and `validation` share families but no original; `test` has families of its own.
        difficulty: number of bugs, 1 to 4. Functions with three or four come from families of their own: chains of
            ten lines and more, since few short functions have room for so many.
        programs: `functions` or `classes` (small ones, judged by scripts of calls).
        families: `all`, or for functions with one or two bugs `core` (short ones); the split `test` has its own either
            way.
        answer_format: `edit` or `function`, see `formats`. With `function`, or in the style `chat`, chains and classes
            need more than the default `max_length` at the token level: 2048 bytes will do.
        style: `compact` (program and failing calls only) or `chat` (a message that explains the task).
        instruction: a line put before the prompt.
        sizes: examples per split, where they differ from `SIZES`.
    """
    check_options(difficulty, programs, families, answer_format, style)
    validate.choice("split", split, SPLITS)
    validate.text("instruction", instruction)
    size = validate.sizes(sizes, SIZES)[split]
    return _problems(split, difficulty, programs, families, answer_format, style, instruction, size)


def check_options(difficulty: int, programs: str, families: str, answer_format: str, style: str) -> None:
    """Raise `OptionError` unless the options of a task are known and go together."""
    validate.integer("difficulty, the number of bugs,", difficulty, 1, len(DIFFICULTIES))
    for what, value, known in (
        ("programs", programs, PROGRAMS),
        ("families", families, FAMILY_CHOICES),
        ("answer_format", answer_format, formats.FORMATS),
        ("style", style, formats.STYLES),
    ):
        validate.choice(what, value, known)
    if families == "core" and registry_of(programs, difficulty) is not FAMILIES:
        raise OptionError("families 'core' are functions with one or two bugs; otherwise take families 'all'")


def extract(example: Example, message: str) -> Answer:
    """The patched source that the message stands for; `AnswerFormatError` where it stands for none."""
    if example.metadata["answer_format"] == "edit":
        return Answer(text=apply_edit(example.metadata["buggy"], message))
    what = formats.word_for(example.metadata["buggy"])
    return Answer(text=formats.read_program(message, example.hidden["entry"], what))


def wrong(example: Example) -> str:
    """A well-formed message that leaves every bug untouched."""
    buggy = str(example.metadata["buggy"])
    if example.metadata["answer_format"] == "function":
        return buggy
    return write_edit(copy_between(buggy, example.metadata["original"]))

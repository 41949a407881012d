"""Examples that a program writes: a stream of distinct drafts for each kind.

Splits are disjoint by content: `test` has kinds of its own, so that it asks for more than the others; the kinds of
`train` and `validation` are the same, and a hash of the content decides which of the two a draft belongs to.

Example i of a split is the (i // K)-th distinct draft of its kind i % K (K kinds), so no kind outnumbers another and
reading one example builds only the drafts of that kind before it. A stream is seeded by task, kind, split and
difficulty alone: the same examples in every process, in whatever order they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, NamedTuple

from llm_envs import validate
from llm_envs.error import OptionError
from llm_envs.lazy import LazyExamples, LazyStream
from llm_envs.task import content_hash
from verifiers import Example

SIZES: Mapping[str, int] = {"train": 8000, "validation": 500, "test": 500}
SPLITS = tuple(SIZES)

_TRIES = 10_000


class Draft(NamedTuple):
    """An example before it has a place in a split.

    Attributes:
        content: what makes it a problem of its own; drafts of equal content are one, and never in two splits.
    """

    content: str
    prompt: str
    hidden: Mapping[str, Any]
    gold: str
    metadata: Mapping[str, Any] = {}


Draw = Callable[[str, int, Random], Draft | None]
"""(kind, difficulty, rng) -> a draft, or None when this draw came to nothing."""


def split_of(content: str) -> str:
    """The split of a content whose kind is not held out: 80 % train, 20 % validation."""
    return "validation" if int(content_hash(content), 16) % 5 == 0 else "train"


def generated_examples(
    task: str, split: str, difficulty: int, kinds: Iterable[str], held_out: Iterable[str], draw: Draw
) -> LazyExamples:
    """The examples of a split, `test` those of the kinds held out; the caller caches them, by split and difficulty."""
    kinds = list(held_out if split == "test" else kinds)
    streams = [_stream(task, kind, split, difficulty, draw) for kind in kinds]

    def build(position: int) -> Example:
        k, number = divmod(position, len(kinds))
        draft = streams[number][k]
        return Example(
            id=f"{split}/{kinds[number]}/{k}",
            prompt=draft.prompt,
            hidden=draft.hidden,
            gold=draft.gold,
            metadata={
                "kind": kinds[number],
                "difficulty": difficulty,
                "content_hash": content_hash(draft.content),
                **draft.metadata,
            },
        )

    return LazyExamples(SIZES[split], build)


def _stream(task: str, kind: str, split: str, difficulty: int, draw: Draw) -> LazyStream[Draft]:
    rng = Random(f"{task}/{kind}/{split}/{difficulty}")

    def next_draft(seen: set[str]) -> tuple[str, Draft] | None:
        draft = draw(kind, difficulty, rng)
        if draft is None or (split != "test" and split_of(draft.content) != split):
            return None
        return draft.content, draft

    return LazyStream(f"{task}, {kind}, {split}, difficulty {difficulty}", next_draft, _TRIES)


def listed(text: str, separator: str | None = None) -> tuple[str, ...]:
    """The words of a text, or its parts between separators: a table that reads like one.

    >>> listed("red blue"), listed("at noon,on Sunday", ",")
    (('red', 'blue'), ('at noon', 'on Sunday'))
    """
    return tuple(text.split(separator))


def check_options(split: str, difficulty: int, difficulties: Mapping[int, str]) -> None:
    """Raise `OptionError` unless the split is known and the difficulty is one of `difficulties` (level -> meaning)."""
    validate.choice("split", split, SPLITS)
    if type(difficulty) is not int or difficulty not in difficulties:
        levels = ", ".join(f"{level} ({meaning})" for level, meaning in difficulties.items())
        raise OptionError(f"difficulty must be one of {levels}; got {difficulty!r}")

"""What a task is: examples by split, how an answer is cut out of a message, who judges it, and the budgets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verifiers import Answer, Example, Verifier


class AnswerFormatError(ValueError):
    """The message holds no answer in the asked-for format; judged as score 0, kind `bad_format`, without a verifier."""


def whole_message(example: Example, message: str) -> Answer:
    """The default extraction: the message itself, surrounding whitespace removed, is the answer."""
    return Answer(text=message.strip())


@dataclass(frozen=True)
class Task:
    """A named family of examples with splits, a verifier and budgets.

    Attributes:
        name: `Name` in the ids `llm_envs/Name-v0` and `llm_envs/NameText-v0`.
        problems: split name -> examples; cheap to call twice (cached), and reading one example must not build them all.
        splits: the split names `problems` accepts; disjoint by content.
        verifier: name for `verifiers.get_verifier`, or a `Verifier` object.
        verifier_options: keyword arguments for a verifier given by name.
        extract: (example, message) -> Answer; raises `AnswerFormatError` when the message holds none.
        wrong: example -> a message that must not pass (for code repair, one that leaves the bug untouched).
        max_new_tokens: tokens the policy may write in one episode, stop token included.
        judge_unfinished: whether an answer cut off by the budget is judged (True) or scores 0 unasked (False).
    """

    name: str
    problems: Callable[[str], Sequence[Example]]
    splits: tuple[str, ...] = ("train", "validation", "test")
    verifier: str | Verifier = "exact_match"
    verifier_options: Mapping[str, Any] = field(default_factory=dict)
    extract: Callable[[Example, str], Answer] = whole_message
    wrong: Callable[[Example], str] = lambda example: ""
    max_new_tokens: int = 256
    judge_unfinished: bool = True


def content_hash(content: str) -> str:
    """Short stable hash by which splits are kept disjoint."""
    return hashlib.sha256(content.encode()).hexdigest()[:16]

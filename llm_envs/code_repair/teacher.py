"""An imperfect teacher for the supervised warm-up.

It writes well-formed answers that name the buggy line, but only some of them repair it. Per kind of bug, `TEACHER`
gives the probabilities of three labels:

* `right`: the gold answer;
* `copy`: the buggy line(s) as they stand (format `function`: the buggy program);
* `other`: another mutation of a buggy line, proven not to repair the program.

For most kinds `copy` is the most frequent, so a model that has learnt the teacher solves few problems greedily and more
by sampling: room for reinforcement learning to show what it adds. For one kind `right` is the most frequent, so greedy
decoding starts above zero. With several bugs the row with the smallest `right` counts. Where no other mutation exists,
`other` falls back to `copy`; the label returned is what was done.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from llm_envs.code_repair.line_edit import edit_between, write_edit
from llm_envs.code_repair.mutate import KINDS, apply, edits
from llm_envs.code_repair.problems import wrong
from llm_envs.code_repair.repairs import passes
from verifiers import Example

LABELS = ("right", "copy", "other")
_USUAL = (0.43, 0.53, 0.04)
TEACHER: dict[str, tuple[float, float, float]] = {
    **dict.fromkeys(KINDS, _USUAL),
    "negated_condition": (0.6, 0.36, 0.04),
}


def label_of(bug_kinds: Sequence[str], rng: Random) -> str:
    """What the teacher does with a program that has these bugs."""
    return rng.choices(LABELS, min(TEACHER[kind] for kind in bug_kinds))[0]


def teacher_message(example: Example, rng: Random) -> tuple[str, str]:
    """One demonstration for `example` and its label."""
    about = example.metadata
    label = label_of(about["bug_kinds"], rng)
    if label == "right":
        return example.gold, label
    if label == "other":
        repairs = partial(passes, entry=example.hidden["entry"], tests=example.hidden["tests"])
        text = other_program(about["buggy"], about["original"], repairs, rng)
        if text is not None:
            edit = about["answer_format"] == "edit"
            return write_edit(edit_between(about["buggy"], text)) if edit else text, label
    return wrong(example), "copy"


def other_program(buggy: str, original: str, repairs: Callable[[str], bool], rng: Random) -> str | None:
    """A mutation of the buggy program that touches only buggy lines and does not repair it; None if there is none."""
    blamed = {number for number, _ in edit_between(buggy, original)}
    tree = ast.parse(buggy)
    choices = edits(tree)
    rng.shuffle(choices)
    for choice in choices:
        text = apply(tree, choice)
        touched = {number for number, _ in edit_between(buggy, text)}
        if text not in (buggy, original) and touched <= blamed and not repairs(text):
            return text
    return None

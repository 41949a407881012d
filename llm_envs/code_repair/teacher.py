"""An imperfect teacher for the supervised warm-up.

It writes well-formed answers that name the buggy line, but only some of them repair it. Per kind of bug, `TEACHER`
gives the probabilities of three labels:

* `right`: the gold answer;
* `copy`: the buggy line(s) as they stand (format `function`: the buggy function);
* `other`: another mutation of a buggy line, proven not to repair the function.

For most kinds `copy` is the most frequent, so a model that has learnt the teacher solves few problems greedily and more
by sampling: room for reinforcement learning to show what it adds. For one kind `right` is the most frequent, so greedy
decoding starts above zero. With two bugs the row with the smaller `right` counts. Where no other mutation exists,
`other` falls back to `copy`; the label returned is what was done.
"""

from __future__ import annotations

import ast
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


def teacher_message(example: Example, rng: Random) -> tuple[str, str]:
    """One demonstration for `example` and its label."""
    weights = min(TEACHER[kind] for kind in example.metadata["bug_kinds"])
    label = rng.choices(LABELS, weights)[0]
    if label == "right":
        return example.gold, label
    if label == "other":
        message = _other(example, rng)
        if message is not None:
            return message, label
    return wrong(example), "copy"


def _other(example: Example, rng: Random) -> str | None:
    """A mutation of the buggy program that touches only buggy lines and does not repair it."""
    buggy, original = example.metadata["buggy"], example.metadata["original"]
    blamed = {number for number, _ in edit_between(buggy, original)}
    tree = ast.parse(buggy)
    choices = edits(tree)
    rng.shuffle(choices)
    for choice in choices:
        text = apply(tree, choice)
        touched = edit_between(buggy, text)
        if text in (buggy, original) or not {number for number, _ in touched} <= blamed:
            continue
        if passes(text, example.hidden["entry"], example.hidden["tests"]):
            continue
        return write_edit(touched) if example.metadata["answer_format"] == "edit" else text
    return None

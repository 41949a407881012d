from collections import Counter, defaultdict
from random import Random

import pytest

from llm_envs.code_repair import KINDS, TEACHER, extract, make_task, problems, teacher_message
from llm_envs.code_repair.repairs import passes
from llm_envs.code_repair.teacher import LABELS


@pytest.mark.parametrize("answer_format", ["edit", "function"])
def test_labels_say_what_the_message_does(answer_format):
    rng = Random(0)
    for example in problems("train", answer_format=answer_format)[:200]:
        message, label = teacher_message(example, rng)
        text = extract(example, message).text
        assert passes(text, example.hidden["entry"], example.hidden["tests"]) == (label == "right")
        assert (text == example.metadata["original"]) == (label == "right")
        assert (text == example.metadata["buggy"]) == (label == "copy")


def test_frequencies_follow_the_table():
    assert set(TEACHER) == set(KINDS)
    rng = Random(1)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for example in problems("train")[:500]:
        for _ in range(4):
            counts[example.metadata["bug_kinds"][0]][teacher_message(example, rng)[1]] += 1
    for kind, found in counts.items():
        total = found.total()
        right, copy, other = (found[label] / total for label in LABELS)
        # Four standard errors; `other` may fall back to `copy` where a line has no other mutation.
        tolerance = 4 * (0.25 / total) ** 0.5
        assert abs(right - TEACHER[kind][0]) < tolerance
        assert -tolerance < copy - TEACHER[kind][1] < tolerance + 0.1
        assert copy + other == pytest.approx(1 - right)


def test_the_teacher_is_usually_wrong_but_not_always():
    most_frequent = Counter(LABELS[weights.index(max(weights))] for weights in TEACHER.values())
    assert most_frequent["copy"] > most_frequent["right"] > 0
    for weights in TEACHER.values():
        assert sum(weights) == pytest.approx(1)
        assert weights[0] > 0.1


@pytest.mark.parametrize("answer_format", ["edit", "function"])
def test_the_task_demonstrates_as_the_teacher_does(answer_format):
    task = make_task(answer_format=answer_format)
    for seed, example in enumerate(task.problems("train")[:50]):
        message = task.demonstrate(example, Random(seed))
        assert message == teacher_message(example, Random(seed))[0]
        task.extract(example, message)  # always in the asked-for format


def test_the_same_rng_gives_the_same_message():
    example = problems("train")[7]
    assert [teacher_message(example, Random(s)) for s in range(9)] == [
        teacher_message(example, Random(s)) for s in range(9)
    ]

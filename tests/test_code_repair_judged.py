"""Code repair against the real sandbox: for every family the gold answer passes and the untouched bug fails."""

from collections.abc import Iterator

import pytest

from llm_envs.code_repair import CHAIN_FAMILIES, CLASS_FAMILIES, FAMILIES, make_task
from llm_envs.task import Task
from verifiers import Example, Verdict, get_verifier

PER_FAMILY = 4


def first_of_every_family(task: Task, splits: tuple[str, ...], per_family: int) -> list[Example]:
    """Examples come in the order of the families, one round after the other."""
    found: list[Example] = []
    for split in splits:
        examples = task.problems(split)
        round_length = next(i for i in range(1, len(examples)) if examples[i].id.endswith("/1"))
        found += examples[: per_family * round_length]
    return found


def judge(task: Task, examples: list[Example], messages: Iterator[str]) -> list[Verdict]:
    assert isinstance(task.verifier, str)
    verifier = get_verifier(task.verifier, **task.verifier_options)
    pairs = [(example, task.extract(example, message)) for example, message in zip(examples, messages, strict=True)]
    return verifier.verify_batch(pairs)


def check(task: Task, examples: list[Example]) -> None:
    golds = judge(task, examples, (example.gold for example in examples))
    wrongs = judge(task, examples, (task.wrong(example) for example in examples))
    for example, gold, wrong in zip(examples, golds, wrongs, strict=True):
        assert gold.passed, (example.id, gold)
        assert gold.score == 1.0
        assert not wrong.passed, (example.id, wrong)
        assert wrong.score == 0.0
        assert wrong.kind in ("wrong", "exception", "timeout", "memory"), (example.id, wrong)


@pytest.mark.parametrize("answer_format", ["edit", "function"])
def test_every_family(answer_format):
    task = make_task(families="all", answer_format=answer_format)
    examples = first_of_every_family(task, ("train", "test"), PER_FAMILY)
    assert {example.metadata["family"] for example in examples} == set(FAMILIES)
    check(task, examples)


@pytest.mark.parametrize("answer_format", ["edit", "function"])
def test_two_bugs(answer_format):
    task = make_task(2, families="all", answer_format=answer_format)
    check(task, first_of_every_family(task, ("validation",), 1)[::3])


@pytest.mark.parametrize("answer_format", ["edit", "function"])
@pytest.mark.parametrize(
    ("programs", "difficulty", "families"),
    [
        ("functions", 3, CHAIN_FAMILIES),
        ("classes", 1, CLASS_FAMILIES),
        pytest.param("functions", 4, CHAIN_FAMILIES, marks=pytest.mark.slow),
        pytest.param("classes", 2, CLASS_FAMILIES, marks=pytest.mark.slow),
        pytest.param("classes", 3, CLASS_FAMILIES, marks=pytest.mark.slow),
        pytest.param("classes", 4, CLASS_FAMILIES, marks=pytest.mark.slow),
    ],
)
def test_larger_programs(programs, difficulty, families, answer_format):
    task = make_task(difficulty, programs=programs, answer_format=answer_format)
    examples = first_of_every_family(task, ("train", "test"), 1)
    assert {example.metadata["family"] for example in examples} == set(families)
    check(task, examples)


@pytest.mark.slow
@pytest.mark.parametrize(("programs", "difficulty"), [("functions", 3), ("classes", 1), ("classes", 3)])
def test_many_larger_programs(programs, difficulty):
    task = make_task(difficulty, programs=programs)
    check(task, first_of_every_family(task, ("train", "validation", "test"), 8))

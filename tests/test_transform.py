from random import Random

import pytest

from llm_envs.error import OptionError
from llm_envs.tasks.transform import (
    MAX_NEW_TOKENS,
    SIZES,
    SPLITS,
    TEACHER_RIGHT,
    TRANSFORMATIONS,
    demonstrate,
    make_task,
    problems,
    split_of,
)


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("reverse", "3 1 4", "4 1 3"),
        ("sort", "3 1 4", "1 3 4"),
        ("even", "3 1 4 2", "4 2"),
        ("unique", "3 1 3", "3 1"),
        ("totals", "3 1 4", "3 4 8"),
        ("swap_ends", "3 1 4", "4 1 3"),
        ("sum", "3 1 4", "8"),
        ("every_second", "3 1 4 2", "1 2"),
        ("uppercase", "ab c", "AB C"),
        ("reverse_words", "abc de", "cba ed"),
        ("word_order", "abc de", "de abc"),
        ("second_letters", "abcd ef", "bd f"),
        ("initials", "abc de", "ad"),
    ],
)
def test_what_transformations_do(name, text, answer):
    _, step = TRANSFORMATIONS[name].make(Random(0))
    assert step(text) == answer


@pytest.mark.parametrize("difficulty", [1, 2])
def test_examples_are_short_distinct_and_split_by_content(difficulty):
    assert len(TRANSFORMATIONS) >= 15
    seen: dict[str, str] = {}
    for split in SPLITS:
        for example in problems(split, difficulty)[:500]:
            assert isinstance(example.prompt, str)
            question = example.prompt.removesuffix("\n")
            assert seen.setdefault(question, split) == split
            assert split_of(question) == split
            assert 0 < len(example.gold) < MAX_NEW_TOKENS
            assert example.hidden == {"answer": example.gold}
            assert example.gold != question.split(": ")[1]
            assert len(example.prompt) < 100
            assert (" then " in question) == (difficulty == 2)
    assert len(seen) == 1500


def test_reading_one_example_does_not_build_them_all():
    examples = problems("train", 1)
    before = examples.built
    examples[7001]
    assert examples.built <= before + 1
    assert len(examples) == SIZES["train"]
    assert examples[-1] is examples[len(examples) - 1]
    assert problems("train", 1) is examples


def test_every_split_is_full():
    for split in SPLITS:
        assert problems(split, 2)[-1].id.startswith(split)


def test_the_task_and_its_options():
    task = make_task(difficulty=2)
    example = task.problems("test")[0]
    assert task.extract(example, f" {example.gold}\n").text == example.gold
    assert task.wrong(example) == ""
    with pytest.raises(OptionError, match="difficulty"):
        make_task(difficulty=3)
    with pytest.raises(OptionError, match="did you mean 'train'"):
        problems("trian")


def test_the_teacher_is_right_as_often_as_it_says_and_copies_otherwise():
    examples, rng = problems("train", 1), Random(0)
    said = [(example, demonstrate(example, rng)) for example in examples[:900]]
    right = sum(message == example.gold for example, message in said)
    assert abs(right / len(said) - TEACHER_RIGHT) < 0.05
    assert all(message == example.gold or str(example.prompt).endswith(f": {message}\n") for example, message in said)

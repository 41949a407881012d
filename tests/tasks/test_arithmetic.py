import re
from fractions import Fraction

import pytest

import verifiers
from llm_envs.tasks.arithmetic import _TEMPLATES, calculate, make_task, problems, wrong
from verifiers import Answer


@pytest.mark.parametrize(
    ("steps", "values", "whole", "text"),
    [
        ("a + b", {"a": "2", "b": "3"}, True, "2 + 3 = 5"),
        ("a * b; 20 - r1", {"a": "3", "b": "4"}, True, "3 * 4 = 12; 20 - 12 = 8"),
        ("a / b; a - r1", {"a": "12", "b": "4"}, True, "12 / 4 = 3; 12 - 3 = 9"),
        ("a * b; r1 / 100", {"a": "25", "b": "50"}, False, "25 * 50 = 1250; 1250 / 100 = 12.5"),
        ("a - b", {"a": "3", "b": "3"}, True, None),
        ("a - b", {"a": "3", "b": "4"}, True, None),
        ("a / b", {"a": "3", "b": "2"}, True, None),
        ("a / b", {"a": "3", "b": "2"}, False, "3 / 2 = 1.5"),
        ("a / b", {"a": "1", "b": "3"}, False, None),
        ("a / b", {"a": "1", "b": "8"}, False, None),
        ("a // b", {"a": "3", "b": "2"}, False, None),
        ("a + b", {"a": "0.1", "b": "0.2"}, False, "0.1 + 0.2 = 0.3"),
    ],
)
def test_calculate(steps, values, whole, text):
    calculation = calculate(steps, values, whole)
    assert (calculation and calculation.text) == text


def test_there_are_dozens_of_templates():
    assert sum(len(table) for tables in _TEMPLATES.values() for table in tables) >= 60
    for usual, held_out in _TEMPLATES.values():
        assert not set(usual) & set(held_out)


@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_gold_is_a_true_calculation_with_the_numbers_of_the_question(difficulty):
    for split in ("train", "test"):
        for example in problems(split, difficulty)[:400]:
            steps = example.gold.split("; ")
            assert (len(steps) == 1) == (difficulty == 1) or difficulty == 3
            known = {*re.findall(r"\d+(?:\.\d+)?", str(example.prompt)), "2", "60", "100"}
            for step in steps:
                left, operator, right, _, result = step.split()
                a, b = Fraction(left), Fraction(right)
                assert {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[operator] == Fraction(result)
                assert {left, right} <= known
                known.add(result)
            assert result == example.hidden["answer"]
            assert result.isdigit() or difficulty == 3
            # A guess from the question must not be right.
            assert result not in re.findall(r"\d+(?:\.\d+)?", str(example.prompt)) or difficulty == 3


def test_some_answers_of_level_3_are_decimals():
    answers = [example.hidden["answer"] for example in problems("train", 3)[:400]]
    assert 0.3 < sum("." in answer for answer in answers) / 400 < 0.95


def test_how_answers_may_be_written():
    task = make_task(difficulty=3)
    judge = verifiers.get_verifier(task.verifier, **task.verifier_options)
    example = next(e for e in task.problems("train") if e.metadata["kind"] == "what_percent")
    number = example.hidden["answer"]
    for text in (
        number,
        f"{number}%",
        f"The answer is {number} percent.",
        f"{number}.0" if "." not in number else number,
    ):
        assert judge.verify(example, Answer(text)).passed, text
    for text in (wrong(example), "no idea", f"{number} or 7", f"-{number}"):
        assert not judge.verify(example, Answer(text)).passed, text

"""Arithmetic word problems in English, judged by the last number of the answer.

    Ada has 12 stickers. Ben gives Ada 7 more. How many stickers does Ada have now?     -> 12 + 7 = 19

The gold answer is the calculation, step by step, and ends in the number; the number alone counts as much. Difficulty 1
takes one step and 2 takes two or three, all in whole numbers; 3 has percents and decimals, and answers of up to two
decimal places. Every answer is exact and positive.

Splits are disjoint by the hash of template and numbers: with other names it is the same problem. `test` has templates
of its own, which the other splits never use.

Not covered: negative results, fractions, units in the answer (the verifier ignores what follows the last number), and
problems with numbers that do not matter, except for one template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache, partial
from random import Random
from typing import NamedTuple

from llm_envs.lazy import LazyExamples
from llm_envs.task import Task
from llm_envs.tasks.arithmetic_templates import (
    DECIMALS,
    DECIMALS_TEST,
    NAMES,
    ONE_STEP,
    ONE_STEP_TEST,
    SHOPS,
    STEPS,
    STEPS_TEST,
    THINGS,
)
from llm_envs.tasks.generated import SPLITS, Draft, check_options, generated_examples
from verifiers import Example

DIFFICULTIES: Mapping[int, str] = {1: "one step", 2: "two or three steps", 3: "percents and decimals"}
MAX_NEW_TOKENS: Mapping[int, int] = {1: 24, 2: 64, 3: 64}
"""Longest calculation plus a stop token, at one token per character."""

TEACHER: Mapping[str, float] = {"right": 0.5, "operation": 0.2, "slip": 0.2, "short": 0.1}
"""How often the teacher of the warm-up does what; see `demonstrate`."""

_DECIMALS = 2
_TEMPLATES = {1: (ONE_STEP, ONE_STEP_TEST), 2: (STEPS, STEPS_TEST), 3: (DECIMALS, DECIMALS_TEST)}
_SLOT = re.compile(r"\{(\w)(?::([^}]*))?\}")
_OTHER_OPERATIONS = {"+": "-*", "-": "+", "*": "+-", "/": "*-", "//": "*-"}


class Calculation(NamedTuple):
    """The steps as text, and the last result."""

    text: str
    result: Fraction


def calculate(steps: str, values: Mapping[str, str], whole: bool) -> Calculation | None:
    """Work the steps out; None if a result is not positive, or not whole (`whole`), or has too many decimal places.

    >>> calculate("a * b; 20 - r1", {"a": "3", "b": "4"}, whole=True)
    Calculation(text='3 * 4 = 12; 20 - 12 = 8', result=Fraction(8, 1))
    """
    known, written = dict(values), []
    result = Fraction(0)
    for number, step in enumerate(steps.split("; "), start=1):
        left, operator, right = step.split()
        left, right = known.get(left, left), known.get(right, right)
        result = _apply(operator, _exact(left), _exact(right))
        scaled = result if whole or operator == "//" else result * 10**_DECIMALS
        if result <= 0 or scaled.denominator != 1:
            return None
        known[f"r{number}"] = _decimal(result)
        written.append(f"{left} {operator[0]} {right} = {_decimal(result)}")
    return Calculation("; ".join(written), result)


def _exact(digits: str) -> Fraction:
    return Fraction(int(digits)) if digits.isdigit() else Fraction(digits)  # the latter is many times slower


def _apply(operator: str, left: Fraction, right: Fraction) -> Fraction:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    return left * right if operator == "*" else left / right


def _decimal(value: Fraction) -> str:
    """The shortest decimal of a number with at most `_DECIMALS` places.

    >>> _decimal(Fraction(5, 2)), _decimal(Fraction(10))
    ('2.5', '10')
    """
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.{_DECIMALS}f}".rstrip("0")


@cache
def _slots(text: str) -> dict[str, list[str]]:
    """What each slot of a template that says so may hold: numbers as text, or words."""
    return {name: _choices(choice) for name, choice in _SLOT.findall(text) if choice}


def _choices(choice: str) -> list[str]:
    if "," in choice:
        return choice.split(",")
    span, _, step_text = choice.partition("/")
    low, high = map(Fraction, span.split("-"))
    step = Fraction(step_text or 1)
    return [_decimal(low + step * i) for i in range(int((high - low) / step) + 1)]


def _draw(kind: str, difficulty: int, rng: Random) -> Draft | None:
    text, steps = {**_TEMPLATES[difficulty][0], **_TEMPLATES[difficulty][1]}[kind]
    chosen = {name: rng.choice(choices) for name, choices in _slots(text).items()}
    values = {name: value for name, value in chosen.items() if value[0].isdigit()}
    calculation = calculate(steps, values, whole=difficulty < 3)
    if calculation is None or _decimal(calculation.result) in values.values():
        return None  # a number of the question must not be its answer
    person, other = rng.sample(NAMES, 2)
    chosen |= {"P": person, "Q": other, "T": rng.choice(THINGS), "S": rng.choice(SHOPS)}
    return Draft(
        content=f"{kind} {' '.join(values.values())}",
        prompt=_SLOT.sub(lambda match: chosen[match[1]], text) + "\n",
        hidden={"answer": _decimal(calculation.result)},
        gold=calculation.text,
        metadata={"steps": steps, "values": values},
    )


@cache
def _problems(split: str, difficulty: int) -> LazyExamples:
    return generated_examples("Arithmetic", split, difficulty, *_TEMPLATES[difficulty], _draw)


def problems(split: str, difficulty: int = 1) -> LazyExamples:
    """The examples of a split, cached: the same arguments give the same object."""
    check_options(split, difficulty, DIFFICULTIES)
    return _problems(split, difficulty)


def wrong(example: Example) -> str:
    """The answer plus one."""
    return _decimal(Fraction(example.hidden["answer"]) + 1)


def demonstrate(example: Example, rng: Random) -> tuple[str, str]:
    """One demonstration of the imperfect teacher, and its label.

    * `right`: the gold answer;
    * `operation`: one step calculated with another operation, the later steps with what came out;
    * `slip`: the last result is off by one or ten;
    * `short`: the last of several steps is missing.

    What an example does not allow (leaving out the only step) becomes a `slip`.
    """
    label = rng.choices(list(TEACHER), list(TEACHER.values()))[0]
    if label == "right":
        return example.gold, label
    if label == "operation":
        text = _other_operation(example, rng)
        if text is not None:
            return text, label
    steps, _, last = example.gold.rpartition("; ")
    if label == "short" and steps and Fraction(steps.rpartition(" ")[2]) != Fraction(example.hidden["answer"]):
        return steps, label
    body, _, result = example.gold.rpartition(" ")
    off = rng.choice([by for by in (-10, -1, 1, 10) if Fraction(result) + by > 0])
    return f"{body} {_decimal(Fraction(result) + off)}", "slip"


def _other_operation(example: Example, rng: Random) -> str | None:
    steps = example.metadata["steps"].split("; ")
    number = rng.randrange(len(steps))
    left, operator, right = steps[number].split()
    steps[number] = f"{left} {rng.choice(_OTHER_OPERATIONS[operator])} {right}"
    calculation = calculate("; ".join(steps), example.metadata["values"], example.metadata["difficulty"] < 3)
    fits = calculation is not None and len(calculation.text) < MAX_NEW_TOKENS[example.metadata["difficulty"]]
    if calculation is None or not fits or calculation.result == Fraction(example.hidden["answer"]):
        return None
    return calculation.text


def make_task(difficulty: int = 1) -> Task:
    """The task `Arithmetic`: `difficulty` 1 (one step), 2 (two or three steps) or 3 (percents and decimals)."""
    check_options("train", difficulty, DIFFICULTIES)
    return Task(
        name="Arithmetic",
        problems=partial(problems, difficulty=difficulty),
        splits=SPLITS,
        verifier="numeric",
        # In a word problem "25%" and "25 percent" are the same answer.
        verifier_options={"percent": "ignore"},
        wrong=wrong,
        demonstrate=lambda example, rng: demonstrate(example, rng)[0],
        max_new_tokens=MAX_NEW_TOKENS[difficulty],
        judge_unfinished=False,
    )

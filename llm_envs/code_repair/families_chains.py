"""Longer functions: several short ones, one after the other in one body.

A family is named by its last step; the steps before it are drawn. Each step is the body of a program of a short family,
the last line rewritten from `return E` to `xs = E`; the oracle is the chain of their oracles. What a step is given may
lie outside what its own family draws (a sorted list, no empty one), so inputs that an oracle refuses are left out, and
a chain that differs from its oracle anywhere is thrown away.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from llm_envs.code_repair import (  # noqa: F401 - all short families, in their order
    families_digits,
    families_lists,
    families_numbers,
    families_ordering,
    families_sequences,
    families_strings,
    families_tables,
    families_text,
)
from llm_envs.code_repair.execute import clone, failures
from llm_envs.code_repair.program import CHAIN_FAMILIES, FAMILIES, Args, Family, Program, family

LINES = range(10, 21)
LONGEST_SOURCE = 480
_MOST_STEPS = 4
_FIRST = {
    "xs": "keep_compared map_each ends every_kth replace_value partition running_total rotate at_most_k_of_each "
    "points_inside windows top_k",
    "s": "remove_letter replace_letter repeat_letters uppercase_some shift_letters reverse_part",
}
_LAST = {
    "xs": "count_compared sum_compared best_within extreme_with_limit adjacent_gaps weighted_sum first_compared "
    "windows running_total next_free partition count_by_remainder at_most_k_of_each points_inside replace_value "
    "every_kth last_compared longest_run mirror_pairs",
    "s": "count_letter letter_runs remove_letter repeat_letters letter_counts letter_position prefix_suffix",
}
_LONGEST_INPUT = 40  # in print


def chain(rng: Random, last: Family, argument: str) -> Program:
    """A function whose last step is of the family `last` and whose argument is called `argument`."""
    while True:
        steps = [_first(rng, argument), last.draw(rng)]
        while _source("f", argument, steps).count("\n") + 1 < LINES.start:
            steps.insert(0, _first(rng, argument))
        reference = partial(_in_turn, [step.reference for step in steps])
        inputs = _inputs(steps, reference, rng)
        names = [step.name for step in steps]
        name = "_then_".join(names)
        source = _source(name, argument, steps)
        if len(inputs) < 12 or len(source) > LONGEST_SOURCE or source.count("\n") + 1 not in LINES:
            continue
        if len(steps) > _MOST_STEPS or len(set(names)) < len(names) or not _all_matter(steps, inputs):
            continue
        if not failures(source, name, inputs, [reference(*map(clone, args)) for args in inputs]):
            return Program(name, source, reference, inputs)


def _first(rng: Random, argument: str) -> Program:
    """A step that gives what it takes, and whose only `return` is its last line."""
    kind = list if argument == "xs" else str
    while True:
        step = FAMILIES[rng.choice(_FIRST[argument].split())].draw(rng)
        returns = [node for node in ast.walk(ast.parse(step.source)) if isinstance(node, ast.Return)]
        values = [step.reference(*map(clone, args)) for args in step.inputs]
        plain = all(type(value) is kind for value in values)
        if len(returns) == 1 and plain and (kind is str or all(type(x) is int for value in values for x in value)):
            return step


def _source(name: str, argument: str, steps: Sequence[Program]) -> str:
    *early, final = [ast.parse(step.source) for step in steps]
    (function,) = final.body
    assert isinstance(function, ast.FunctionDef)
    body: list[ast.stmt] = []
    for tree in early:
        (step,) = tree.body
        assert isinstance(step, ast.FunctionDef)
        *statements, last = step.body
        assert isinstance(last, ast.Return)
        assert last.value is not None
        body += statements
        if ast.unparse(last.value) != argument:
            body.append(ast.Assign([ast.Name(argument, ast.Store())], last.value, lineno=0))
    function.name, function.body = name, [*body, *function.body]
    return ast.unparse(final)


def _all_matter(steps: Sequence[Program], inputs: Sequence[Args]) -> bool:
    """Whether every step changes what it is given, for one input at least."""
    values = [args[0] for args in inputs]
    for step in steps:
        before, values = values, [step.reference(clone(value)) for value in values]
        if values == before:
            return False
    return True


def _in_turn(references: Sequence[Callable[..., Any]], value: Any) -> Any:
    for reference in references:
        value = reference(clone(value))
    return value


def _inputs(steps: Sequence[Program], reference: Callable[..., Any], rng: Random) -> list[Args]:
    """Inputs of all steps for which every oracle has an answer, mixed."""
    drawn = [args for step in steps for args in step.inputs if len(repr(args)) <= _LONGEST_INPUT]
    rng.shuffle(drawn)
    inputs = []
    for args in drawn:
        try:
            reference(*map(clone, args))
        except (ValueError, IndexError, ZeroDivisionError):
            continue
        inputs.append(args)
    return inputs


for _argument, _names in _LAST.items():
    for _name in _names.split():
        _family = FAMILIES[_name]
        family(f"then_{_name}", _family.theme, _family.held_out, CHAIN_FAMILIES)(
            partial(chain, last=_family, argument=_argument)
        )

"""Programs of three files: two modules with a function each, and a `main.py` that puts them to work.

Where types allow it is a pipeline, `main.run` gives the second what the first returns:

    from a import keep_above_7
    from b import sum_of_3_largest


    def run(xs):
        return sum_of_3_largest(keep_above_7(xs))

Its oracle is the chain of both oracles, and it is proven right, and with the bug proven wrong, like any program. The
second function must be given nothing that its own family would not draw (`is_like`, and no family that draws sorted
lists): what it does beyond that, its name does not promise. Where no partner fits, `main.run` calls either function by
name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from llm_envs.code_repair.execute import clone, failures, is_plain
from llm_envs.code_repair.program import Args, Program, lines_of
from llm_envs.code_repair.repairs import SHOWN, Repair, divide

_FEWEST_INPUTS = 8
_TAKE_SORTED = ("insert_in_order", "lower_bound", "sort_by_key")
_PIPELINE = "from a import {0}\nfrom b import {1}\n\n\ndef run({2}):\n    return {1}({0}({2}))\n"
_DISPATCHER = (
    "from a import {0}\nfrom b import {1}\n\n\n"
    "def run(name, *args):\n    return {{{0!r}: {0}, {1!r}: {1}}}[name](*args)\n"
)

Files = dict[str, str]


def three_files(repair: Repair, partners: Iterable[Repair], buggy_first: bool) -> tuple[Repair, Files, Files]:
    """The program, called by `run`, as a repair; its buggy files and its repaired ones.

    Args:
        repair: the function with the bug.
        partners: candidates for the other one, which must not be empty; the first that fits is taken.
        buggy_first: the order to try first.
    """
    last = repair
    for partner in partners:
        if partner.name == repair.name:
            continue
        last = partner
        for first in (buggy_first, not buggy_first):
            whole = _pipeline(repair, partner, first)
            if whole is not None:
                return whole
    in_order = repair.name < last.name  # an order that does not tell which of them is buggy
    return _dispatched(repair), *_files(_DISPATCHER, repair, last, in_order)


def one_file(files: Mapping[str, str]) -> str:
    """The program as one text that runs in-process: its modules, then `main.py` without the imports."""
    modules = [text for name, text in files.items() if name != "main.py"]
    lines = lines_of(files["main.py"])
    return "".join([*modules, *(f"{line}\n" for line in lines if not line.startswith("from "))])


def _files(main: str, repair: Repair, other: Repair, first: bool) -> tuple[Files, Files]:
    """Buggy and repaired files; `first` says whether the buggy function is in `a.py`."""
    start, end = (repair, other) if first else (other, repair)
    (function,) = ast.parse(start.original).body
    assert isinstance(function, ast.FunctionDef)
    arguments = ", ".join(argument.arg for argument in function.args.args)
    main = main.format(start.name, end.name, arguments)
    fixed = {"main.py": main, "a.py": start.original, "b.py": end.original}
    return fixed | {"a.py" if first else "b.py": repair.buggy}, fixed


def _dispatched(repair: Repair) -> Repair:
    """The same calls, with the name of the function before the arguments."""
    return replace(
        repair,
        shown=tuple(((repair.name, *args), expected, outcome) for args, expected, outcome in repair.shown),
        tests=tuple({**test, "args": [repair.name, *test["args"]]} for test in repair.tests),
    )


def _pipeline(repair: Repair, other: Repair, first: bool) -> tuple[Repair, Files, Files] | None:
    """The pipeline; None where the two do not fit, or the bug does not show at the end."""
    start, end = (repair.program, other.program) if first else (other.program, repair.program)
    if (other if first else repair).family in _TAKE_SORTED:
        return None
    inputs = [args for args in start.inputs if fits(start.reference(*map(clone, args)), end)]
    if len(inputs) < _FEWEST_INPUTS:
        return None
    files, fixed = _files(_PIPELINE, repair, other, first)
    program = Program("run", one_file(fixed), partial(_in_turn, start.reference, end.reference), inputs)
    expected = [program.reference(*map(clone, args)) for args in inputs]
    if failures(program.source, "run", inputs, expected) or not _both_matter(start, inputs, expected):
        return None
    wrong = failures(one_file(files), "run", inputs, expected)
    if len(wrong) < SHOWN or not all(is_plain(outcome.value) for outcome in wrong.values()):
        return None
    shown, tests = divide(program, expected, [wrong], SHOWN)
    return replace(repair, shown=shown, tests=tests, program=program), files, fixed


def _both_matter(start: Program, inputs: Sequence[Args], expected: Sequence[Any]) -> bool:
    """Whether results differ, and the second function changes what the first returns."""
    handed_on = [start.reference(*map(clone, args)) for args in inputs]
    return handed_on != expected and len(set(map(repr, expected))) > 1


def _in_turn(start: Callable[..., Any], end: Callable[..., Any], *args: Any) -> Any:
    return end(start(*args))


def fits(value: Any, program: Program) -> bool:
    """Whether a program may be called with this one value."""
    return all(len(args) == 1 for args in program.inputs) and is_like(value, [args[0] for args in program.inputs])


def is_like(value: Any, samples: Sequence[Any]) -> bool:
    """Whether a number, a text or a flat list lies between the samples and is made of the same things.

    Nothing nested: a matrix may have to be square, or a row must not be missing.
    """
    samples = [sample for sample in samples if type(sample) is type(value)]
    if type(value) is int:
        return bool(samples) and min(samples) <= value <= max(samples)
    if not isinstance(value, (str, list)) or not samples:
        return False
    parts = [part for sample in samples for part in sample]
    sizes = [len(sample) for sample in samples]
    if isinstance(value, str):
        inside = set(value) <= set(parts)
    else:
        inside = all(not isinstance(part, list) and is_like(part, parts) for part in value)
    return min(sizes) <= len(value) <= max(sizes) and inside

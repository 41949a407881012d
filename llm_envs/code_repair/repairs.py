"""Repairs: an original, a proven-wrong variant of it, and the calls or scripts that tell them apart.

Each (family, split, difficulty) has its own endless deterministic stream of distinct repairs; the k-th is built when
somebody asks for it. A repair's split follows from its original's abstract hash alone, so all mutants of an original,
and all programs that differ only in names, stay together.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from random import Random
from typing import Any

from llm_envs.code_repair.execute import Outcome, clone, failures, is_plain, same
from llm_envs.code_repair.line_edit import edit_between, write_edit
from llm_envs.code_repair.mutate import Edit, apply, edits
from llm_envs.code_repair.program import (
    ALL_FAMILIES,
    CHAIN_FAMILIES,
    CLASS_FAMILIES,
    FAMILIES,
    Family,
    Program,
    abstract_hash,
)
from llm_envs.code_repair.scripts import as_test, cut, is_class, of_test, play
from llm_envs.error import OptionError, unknown
from llm_envs.lazy import LazyStream

SPLITS = ("train", "validation", "test")
VALIDATION_PERCENT = 15
SHOWN = 2  # failing calls in the prompt, with three bugs and more one for each
MAX_TESTS = 14
# Prompt and longest edit of a longer program in characters: both fit into the default `max_length` of 1024 bytes.
LONGEST_EPISODE = 1000
_LINE_NUMBER = 3  # characters of a line's number and bar, at most
_AROUND_CALL = 10  # characters of ` == ` and ` not ` and the end of the line
# Longest gold edit in characters, by number of bugs: a few mutations re-indent half the function, and a token budget
# that fits them would be paid by every episode.
MAX_EDIT_LENGTH = {1: 96, 2: 144, 3: 192, 4: 240}
_TRIES = 3_000  # draws without a new repair after which a family counts as exhausted
_MUTANT_TRIES = 8


@dataclass(frozen=True)
class Repair:
    """A buggy program and everything needed to present and judge it.

    Attributes:
        family, theme: where the program comes from.
        name: the name of the function or class.
        original, buggy: canonical sources.
        kinds: the kinds of its bugs, all different.
        original_hash: abstract hash of the original.
        shown: (arguments, expected value, what the buggy program gives) for the prompt; of a class (script up to its
            first wrong call, what that call should give, what it gives).
        tests: `{"args": [...], "expected": value}` for the verifier; of a class see `scripts.as_test`.
        program: the original with its oracle and all its inputs.
    """

    family: str
    theme: str
    name: str
    original: str
    buggy: str
    kinds: tuple[str, ...]
    original_hash: str
    shown: tuple[tuple[tuple[Any, ...], Any, Outcome], ...]
    tests: tuple[Mapping[str, Any], ...]
    program: Program


def split_of(original_hash: str, held_out: bool) -> str:
    """The one split in which an original and all its mutants live."""
    if held_out:
        return "test"
    return "validation" if int(original_hash, 16) % 100 < VALIDATION_PERCENT else "train"


_CORE_NAMES = (
    "multiple_test repeat_letters count_by_remainder map_cells split_numbers multiples_up_to digits_compared any_all "
    "partition remove_letter sum_compared sum_range next_free interval_overlap map_each insert_in_order cut_or_pad "
    "change_values words_by_letter rotate values_compared points_inside digits_in_base every_kth count_compared "
    "common_divisor top_k"
)
CORE = frozenset(_CORE_NAMES.split())
"""Training families kept for the tiny policy: chosen by its pass rates on `validation`, see benchmarks/README.md."""
FAMILY_CHOICES = ("core", "all")
PROGRAMS = ("functions", "classes")


def registry_of(programs: str, difficulty: int) -> Mapping[str, Family]:
    """The families of a kind of program that have room for `difficulty` bugs."""
    if programs == "classes":
        return CLASS_FAMILIES
    return FAMILIES if difficulty <= 2 else CHAIN_FAMILIES


def families_of(split: str, families: str = "all", programs: str = "functions", difficulty: int = 1) -> list[Family]:
    """The families that feed a split, in order of registration: `core` ones only, or `all`; `test` has its own."""
    if split not in SPLITS:
        raise OptionError(unknown("split", split, SPLITS))
    registry = registry_of(programs, difficulty)
    fed = [family for family in registry.values() if family.held_out == (split == "test")]
    return [family for family in fed if families == "all" or split == "test" or family.name in CORE]


@cache
def stream(family_name: str, split: str, difficulty: int) -> LazyStream[Repair]:
    """The distinct repairs of one family; one stream per process, shared by all tasks."""
    family = ALL_FAMILIES[family_name]
    rng = Random(f"{family_name}/{split}/{difficulty}")

    def draw(seen: set[str]) -> tuple[str, Repair] | None:
        program = family.draw(rng)
        original_hash = abstract_hash(program.source)
        if split_of(original_hash, family.held_out) != split:
            return None
        repair = break_program(family, program, original_hash, difficulty, rng, seen)
        return None if repair is None else (repair.buggy, repair)

    return LazyStream(f"family {family_name!r}, split {split!r}, difficulty {difficulty}", draw, _TRIES)


def break_program(
    family: Family, program: Program, original_hash: str, difficulty: int, rng: Random, seen: set[str]
) -> Repair | None:
    """A repair made from `program` whose buggy source is not in `seen`; None when a few tries find none."""
    expected = prove(program)
    tree = ast.parse(program.source)
    choices = edits(tree)
    for _ in range(_MUTANT_TRIES):
        bugs = _draw_bugs(choices, difficulty, rng)
        buggy = apply(tree, *bugs)
        if buggy == program.source or buggy in seen:
            continue
        if len(write_edit(edit_between(buggy, program.source))) > MAX_EDIT_LENGTH[difficulty]:
            continue
        wrong = failures(buggy, program.name, program.inputs, expected)
        if len(wrong) < SHOWN or not all(is_plain(outcome.value) for outcome in wrong.values()):
            continue
        alone = _failures_alone(tree, bugs, buggy, program, expected)
        if len(bugs) < difficulty or not all(alone):
            continue
        shown, tests = divide(program, expected, [wrong, *alone], max(SHOWN, difficulty))
        if family.name not in FAMILIES:
            shown = _fitting(shown, LONGEST_EPISODE - MAX_EDIT_LENGTH[difficulty] - _numbered_length(buggy))
            if not shown:
                continue
        return Repair(
            family=family.name,
            theme=family.theme,
            name=program.name,
            original=program.source,
            buggy=buggy,
            kinds=tuple(bug.kind for bug in bugs),
            original_hash=original_hash,
            shown=shown,
            tests=tests,
            program=program,
        )
    return None


def prove(program: Program) -> list[Any]:
    """The expected values; raises if the program and its oracle disagree anywhere."""
    if is_class(program.source):
        expected = [play(program.reference, script) for script in program.inputs]
    else:
        expected = [program.reference(*(clone(arg) for arg in args)) for args in program.inputs]
    wrong = failures(program.source, program.name, program.inputs, expected)
    if wrong:
        number, outcome = next(iter(wrong.items()))
        call = f"{program.name}{program.inputs[number]}"
        raise AssertionError(f"{call} gives {outcome}, its oracle {expected[number]!r}:\n{program.source}")
    return expected


def _draw_bugs(choices: list[Edit], difficulty: int, rng: Random) -> list[Edit]:
    """Edits of different kinds; the kind is drawn first, so that rare kinds are not drowned by frequent ones."""
    kinds = list(dict.fromkeys(edit.kind for edit in choices))
    chosen = rng.sample(kinds, min(difficulty, len(kinds)))
    return [rng.choice([edit for edit in choices if edit.kind == kind]) for kind in chosen]


def _failures_alone(
    tree: ast.Module, bugs: list[Edit], buggy: str, program: Program, expected: list[Any]
) -> list[dict[int, Outcome]]:
    """What some of several bugs break without the others: an empty entry means that not all of them need repair."""
    found = []
    for count in range(1, len(bugs)):
        for some in combinations(bugs, count):
            source = apply(tree, *some)
            fewer = source in (buggy, program.source)
            found.append({} if fewer else failures(source, program.name, program.inputs, expected))
            if not found[-1]:
                return found
    return found


def divide(
    program: Program, expected: list[Any], wrong: list[dict[int, Outcome]], shown_count: int
) -> tuple[tuple, tuple]:
    """The failing calls to show (shortest in print) and the hidden tests.

    Args:
        program: the original.
        expected: its values.
        wrong: what the buggy program gets wrong, then what it would with some of its bugs repaired.
        shown_count: how many to show, if there are as many distinct ones.

    Hidden tests are all other inputs. If that left the buggy program or one that is half repaired without a failing
    test, the shown calls are hidden tests too: tests that pass a bug are worse than tests that overlap the prompt.
    """
    failing_calls = {number: _failing_call(program, number, expected, outcome) for number, outcome in wrong[0].items()}

    def length(number: int) -> int:
        args, value, outcome = failing_calls[number]
        return len(repr(args)) + len(repr(value)) + len(str(outcome))

    def rarity(number: int) -> int:
        return min((len(failing) for failing in wrong if number in failing), default=len(program.inputs))

    # Scripts cut at their first wrong call may be the same.
    distinct = {repr(failing_calls[number][0]): number for number in sorted(failing_calls, key=length, reverse=True)}
    shown = sorted(distinct.values(), key=length)[:shown_count]
    kept_back = shown if all(failing.keys() - shown for failing in wrong) else []
    rest = sorted((number for number in range(len(program.inputs)) if number not in kept_back), key=rarity)
    tests = tuple(_test(program, n, expected) for n in sorted(rest[:MAX_TESTS]))
    return tuple(failing_calls[n] for n in shown), tests


def _numbered_length(source: str) -> int:
    return len(source) + _LINE_NUMBER * source.count("\n")


def _fitting(shown: tuple, room: int) -> tuple:
    """The first of the calls to show, as many as there is room for. (A script is never longer than its `repr`.)"""
    lengths = [len(repr(args)) + len(repr(value)) + len(str(outcome)) + _AROUND_CALL for args, value, outcome in shown]
    return tuple(call for number, call in enumerate(shown, 1) if sum(lengths[:number]) <= room)


def _failing_call(program: Program, number: int, expected: list[Any], outcome: Outcome) -> tuple[Any, Any, Outcome]:
    """One entry of `Repair.shown`."""
    if not is_class(program.source):
        return program.inputs[number], expected[number], outcome
    given = outcome.value
    first = next((i for i, value in enumerate(given) if not same(expected[number][i], value)), len(given))
    script, value = cut(program.inputs[number], expected[number], first)
    return script, value, Outcome(given[first]) if first < len(given) else Outcome(None, outcome.error)


def _test(program: Program, number: int, expected: list[Any]) -> Mapping[str, Any]:
    """One hidden test."""
    if is_class(program.source):
        return as_test(program.inputs[number], expected[number])
    return {"args": list(program.inputs[number]), "expected": expected[number]}


def public_tests(repair: Repair) -> list[Mapping[str, Any]]:
    """What is shown, as tests."""
    if is_class(repair.original):
        return [as_test(script, play(repair.program.reference, script)) for script, _, _ in repair.shown]
    return [{"args": list(args), "expected": expected} for args, expected, _ in repair.shown]


def passes(source: str, entry: str, tests: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a program of ours (not a policy's answer!) passes hidden tests, judged in-process."""
    if is_class(source):
        inputs, expected = zip(*map(of_test, tests), strict=True)
    else:
        inputs, expected = zip(*((test["args"], test["expected"]) for test in tests), strict=True)
    try:
        return not failures(source, entry, inputs, expected)
    except SyntaxError:
        return False

"""Repairs: an original, a proven-wrong variant of it, and the calls that tell them apart.

Each (family, split, difficulty) has its own endless deterministic stream of distinct repairs; the k-th is built when
somebody asks for it. A repair's split follows from its original's abstract hash alone, so all mutants of an original,
and all programs that differ only in names, stay together.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from llm_envs.code_repair.execute import Outcome, clone, failures, is_plain
from llm_envs.code_repair.line_edit import edit_between, write_edit
from llm_envs.code_repair.mutate import Edit, apply, edits
from llm_envs.code_repair.program import FAMILIES, Family, Program, abstract_hash
from llm_envs.error import OptionError, unknown
from llm_envs.lazy import LazyStream

SPLITS = ("train", "validation", "test")
VALIDATION_PERCENT = 15
SHOWN = 2
MAX_TESTS = 14
# Longest gold edit in characters, by number of bugs: a few mutations re-indent half the function, and a token budget
# that fits them would be paid by every episode.
MAX_EDIT_LENGTH = {1: 96, 2: 144}
_TRIES = 3_000  # draws without a new repair after which a family counts as exhausted
_MUTANT_TRIES = 8


@dataclass(frozen=True)
class Repair:
    """A buggy function and everything needed to present and judge it.

    Attributes:
        family, theme: where the program comes from.
        name: the function's name.
        original, buggy: canonical sources.
        kinds: the kinds of its bugs, one or two.
        original_hash: abstract hash of the original.
        shown: (arguments, expected value, what the buggy function gives) for the prompt.
        tests: `{"args": [...], "expected": value}` for the verifier.
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


def families_of(split: str, families: str = "all") -> list[Family]:
    """The families that feed a split, in order of registration: `core` ones only, or `all`; `test` has its own."""
    if split not in SPLITS:
        raise OptionError(unknown("split", split, SPLITS))
    fed = [family for family in FAMILIES.values() if family.held_out == (split == "test")]
    return [family for family in fed if families == "all" or split == "test" or family.name in CORE]


@cache
def stream(family_name: str, split: str, difficulty: int) -> LazyStream[Repair]:
    """The distinct repairs of one family; one stream per process, shared by all tasks."""
    family = FAMILIES[family_name]
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
        shown, tests = _divide(program, expected, [wrong, *alone])
        kinds = tuple(bug.kind for bug in bugs)
        return Repair(
            family.name, family.theme, program.name, program.source, buggy, kinds, original_hash, shown, tests
        )
    return None


def prove(program: Program) -> list[Any]:
    """The expected values; raises if the program and its oracle disagree anywhere."""
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
    """What each of several bugs breaks on its own: an empty entry means that it need not be repaired."""
    if len(bugs) < 2:
        return []
    sources = [apply(tree, bug) for bug in bugs]
    return [
        {} if source in (buggy, program.source) else failures(source, program.name, program.inputs, expected)
        for source in sources
    ]


def _divide(program: Program, expected: list[Any], wrong: list[dict[int, Outcome]]) -> tuple[tuple, tuple]:
    """The failing calls to show (shortest in print) and the hidden tests.

    Args:
        program: the original.
        expected: its values.
        wrong: what the buggy program gets wrong, then what each of its bugs would on its own.

    Hidden tests are all other inputs. If that left the buggy program or one that is half repaired without a failing
    test, the shown calls are hidden tests too: tests that pass a bug are worse than tests that overlap the prompt.
    """
    outcomes = wrong[0]

    def length(number: int) -> int:
        return len(repr(program.inputs[number])) + len(repr(expected[number])) + len(str(outcomes[number]))

    def rarity(number: int) -> int:
        return min((len(failing) for failing in wrong if number in failing), default=len(program.inputs))

    shown = sorted(outcomes, key=length)[:SHOWN]
    kept_back = shown if all(failing.keys() - shown for failing in wrong) else []
    rest = sorted((number for number in range(len(program.inputs)) if number not in kept_back), key=rarity)
    tests = tuple({"args": list(program.inputs[n]), "expected": expected[n]} for n in sorted(rest[:MAX_TESTS]))
    return tuple((program.inputs[n], expected[n], outcomes[n]) for n in shown), tests


def passes(source: str, entry: str, tests: tuple[Mapping[str, Any], ...]) -> bool:
    """Whether a program of ours (not a policy's answer!) passes hidden tests, judged in-process."""
    inputs, expected = [test["args"] for test in tests], [test["expected"] for test in tests]
    try:
        return not failures(source, entry, inputs, expected)
    except SyntaxError:
        return False

"""Code repair: "repair this buggy Python program", judged by hidden function tests.

**A problem** starts from a *family*: a recipe for small programs (`families_*.py`, `classes_*.py`, registered by
theme) with constants, operators, directions and loop styles to vary. A drawn program comes with an independent oracle
and inputs, and is *proven right* on them. `mutate` injects as many bugs of named kinds as the difficulty says, 1 to 4;
the result is *proven wrong* on at least two inputs, and the program with any smaller part of its bugs on at least one,
else it is thrown away. The program's name says what it should do, parameters included (`count_above_7`), so name and
failing calls together pose the problem well.

**Programs** are `functions` or `classes`, whatever the difficulty: an option of its own, since "kind" already means the
kind of a bug and a class with one bug is not harder than a function with three. They come from three sets of families:

| | families | held out | lines | difficulty |
|---|---|---|---|---|
| short functions | 70 | 9 | 2-8 | 1, 2 |
| chains: several short functions in one body | 22 | 4 | 10-20 | 3, 4 |
| classes: a stack, an account, a matrix, ... | 15 | 3 | 11-25 | 1 to 4 |

Few short functions have room for three bugs, so difficulty 3 and 4 leave them out.

**What the policy sees** (`compact`; `chat` says it in English):

    1|def count_above_7(xs):
    2|    n = 0
    3|    for x in xs:
    4|        if x >= 7:
    5|            n += 1
    6|    return n
    f([7]) == 0 not 1
    f([9, 7]) == 1 not 2

A class is tried out by scripts, each shown up to its first wrong call (see `scripts`):

    o = C(); o.push(1); o.pop() == 1 not 0

**What it answers**: format `edit`: `4|        if x > 7:` (see `line_edit`), or format `function`: all of it,
function or class.

**Splits** are disjoint by content: the hash of the original's AST with names abstracted decides between `train` (85%)
and `validation` (15%), so all mutants of an original stay together; held-out families make up `test`.
`families="core"` keeps 27 of the 70 short training families, those a tiny policy learns within minutes.
A chain held out for `test` ends in a held-out family; its first steps are of training families.
Content hashes speak of originals: a mutant in one split may well look like an original in another (`>` for `>=`),
under another name.

**Everything is built on demand** and deterministic: example i is the (i // F)-th distinct repair of family i % F,
drawn from a stream seeded by family, split and difficulty alone. Texts come from `ast.unparse`, so another version of
Python may print (and thereby draw) a few programs differently.

**Modules**, lowest first: `program` (Program, Family, canonical text, hash), `scripts` (how a class is called),
`inputs`, `families_*`, `classes_*`, `bug_rules` and `mutate`, `execute` (fuel, in-process proof), `line_edit`,
`repairs` (proven problems, splits), `formats` (prompts, gold), `problems` (examples, answers), `teacher` (imperfect
demonstrations for a warm-up), `task`; for the task with tools `pipeline` (three files that work together),
`workspace` and `tool_task`.
"""

from llm_envs.code_repair import (  # noqa: F401 - importing registers the families; the order is that of examples
    classes_algebra,
    classes_containers,
    classes_counters,
    classes_held_out,
    classes_records,
    families_chains,
    families_digits,
    families_lists,
    families_numbers,
    families_ordering,
    families_sequences,
    families_strings,
    families_tables,
    families_text,
)
from llm_envs.code_repair.mutate import KINDS, Mutant, mutants
from llm_envs.code_repair.problems import SIZES, extract, problems
from llm_envs.code_repair.program import (
    CHAIN_FAMILIES,
    CLASS_FAMILIES,
    FAMILIES,
    Family,
    Program,
    abstract_hash,
    family,
)
from llm_envs.code_repair.task import make_task
from llm_envs.code_repair.teacher import TEACHER, teacher_message

__all__ = [
    "CHAIN_FAMILIES",
    "CLASS_FAMILIES",
    "FAMILIES",
    "KINDS",
    "SIZES",
    "TEACHER",
    "Family",
    "Mutant",
    "Program",
    "abstract_hash",
    "extract",
    "family",
    "make_task",
    "mutants",
    "problems",
    "teacher_message",
]

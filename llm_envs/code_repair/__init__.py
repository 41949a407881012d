"""Code repair: "repair this buggy Python function", judged by hidden function tests.

**A problem** starts from a *family*: a recipe for small functions (`families_*.py`, registered by theme) with
constants, operators, directions and loop styles to vary. A drawn program comes with an independent oracle and inputs,
and is *proven right* on them. `mutate` injects one bug (difficulty 1) or two (difficulty 2, each alone still wrong)
of a named kind; the result is *proven wrong* on at least two inputs, else thrown away. The function's name says what
it should do, parameters included (`count_above_7`), so name and failing calls together pose the problem well.

**What the policy sees** (`compact`; `chat` says it in English):

    1|def count_above_7(xs):
    2|    n = 0
    3|    for x in xs:
    4|        if x >= 7:
    5|            n += 1
    6|    return n
    f([7]) == 0 not 1
    f([9, 7]) == 1 not 2

**What it answers**: format `edit`: `4|        if x > 7:` (see `line_edit`), or format `function`: all of it.

**Splits** are disjoint by content: the hash of the original's AST with names abstracted decides between `train` (85%)
and `validation` (15%), so all mutants of an original stay together; nine held-out families make up `test`.
`families="core"` keeps 27 of the 70 training families, those a tiny policy learns within minutes.
Content hashes speak of originals: a mutant in one split may well look like an original in another (`>` for `>=`),
under another name.

**Everything is built on demand** and deterministic: example i is the (i // F)-th distinct repair of family i % F,
drawn from a stream seeded by family, split and difficulty alone. Texts come from `ast.unparse`, so another version of
Python may print (and thereby draw) a few programs differently.

**Modules**, lowest first: `program` (Program, Family, canonical text, hash), `inputs`, `families_*`, `bug_rules` and
`mutate`, `execute` (fuel, in-process proof), `line_edit`, `repairs` (proven problems, splits), `formats`
(prompts, gold), `problems` (examples, answers), `teacher` (imperfect demonstrations for a warm-up), `task`.
"""

from llm_envs.code_repair import (  # noqa: F401 - importing registers the families; the order is that of examples
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
from llm_envs.code_repair.program import FAMILIES, Family, Program, abstract_hash, family
from llm_envs.code_repair.task import make_task
from llm_envs.code_repair.teacher import TEACHER, teacher_message

__all__ = [
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

import ast
from collections import Counter
from random import Random

import pytest

from llm_envs.code_repair import FAMILIES, KINDS, mutants
from llm_envs.code_repair.mutate import apply, edits
from llm_envs.code_repair.program import normalise

COUNT = """def count_above_7(xs):
    n = 0
    for x in xs:
        if x > 7:
            n += 1
    return n
"""


def by_kind(source: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for mutant in mutants(source):
        found.setdefault(mutant.kind, []).append(mutant.source)
    return found


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("comparison", "x > 7", "x < 7"),
        ("boundary", "x > 7", "x >= 7"),
        ("constant", "x > 7", "x > 8"),
        ("wrong_variable", "return n", "return xs"),
        ("wrong_accumulator", "n += 1", "n -= 1"),
        ("wrong_accumulator", "n = 0", "n = 1"),
        ("negated_condition", "if x > 7", "if not x > 7"),
        ("early_return", "    return n", "        return n"),
        ("missing_branch", "        if x > 7:\n            n += 1", "        n += 1"),
    ],
)
def test_each_kind_makes_its_bug(kind, old, new):
    assert COUNT.replace(old, new) in by_kind(COUNT)[kind]


@pytest.mark.parametrize(
    ("kind", "source", "mutant"),
    [
        ("operator", "return x + 1", "return x - 1"),
        ("operator", "return x > 1 and x < 5", "return x > 1 or x < 5"),
        ("boundary", "return [i for i in range(x)]", "return [i for i in range(x + 1)]"),
        ("boundary", "return x[:2]", "return x[:3]"),
        ("swapped_arguments", "return x - 1", "return 1 - x"),
        ("swapped_arguments", "return x.replace('a', 'b')", "return x.replace('b', 'a')"),
        ("wrong_builtin", "return min(x)", "return max(x)"),
        ("wrong_builtin", "return x.lower()", "return x.upper()"),
        ("constant", "return sorted(x, reverse=True)", "return sorted(x, reverse=False)"),
        ("missing_branch", "return [y for y in x if y > 1]", "return [y for y in x]"),
    ],
)
def test_kinds_of_single_expressions(kind, source, mutant):
    assert normalise(f"def f(x):\n    {mutant}") in by_kind(normalise(f"def f(x):\n    {source}"))[kind]


def test_mutants_are_distinct_and_in_a_fixed_order():
    found = mutants(COUNT)
    assert found == mutants(COUNT)
    sources = [mutant.source for mutant in found]
    assert len(set(sources)) == len(sources)
    assert COUNT not in sources


def test_applying_an_edit_leaves_the_tree_as_it_was():
    tree = ast.parse(COUNT)
    for edit in edits(tree):
        apply(tree, edit)
        assert ast.unparse(tree) + "\n" == COUNT


def test_mutants_of_all_families_are_canonical_and_harmless():
    kinds: Counter[str] = Counter()
    for name, family in FAMILIES.items():
        rng = Random(name)
        for _ in range(2):
            for mutant in mutants(family.draw(rng).source):
                kinds[mutant.kind] += 1
                assert normalise(mutant.source) == mutant.source
                assert "**" not in mutant.source
                assert "<<" not in mutant.source
    print(dict(kinds))
    assert set(kinds) == set(KINDS)

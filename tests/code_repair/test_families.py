import ast
from random import Random

import pytest

from llm_envs.code_repair import FAMILIES, abstract_hash
from llm_envs.code_repair.program import Program, normalise
from llm_envs.code_repair.repairs import prove

DRAWS = 60


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[Program]]:
    return {
        name: [family.draw(rng) for _ in range(DRAWS)] for name, family in FAMILIES.items() if (rng := Random(name))
    }


@pytest.fixture(scope="module")
def hashes(drawn) -> dict[str, set[str]]:
    return {name: {abstract_hash(program.source) for program in programs} for name, programs in drawn.items()}


@pytest.mark.parametrize("name", FAMILIES)
def test_originals_are_proven_right(name, drawn):
    for program in drawn[name]:
        prove(program)


@pytest.mark.parametrize("name", FAMILIES)
def test_sources_are_short_and_canonical(name, drawn):
    for program in drawn[name]:
        assert normalise(program.source) == program.source
        assert 2 <= program.source.count("\n") <= 8
        assert len(program.source) <= 220
        assert " set(" not in program.source  # its order would differ between processes
        (function,) = ast.parse(program.source).body
        assert isinstance(function, ast.FunctionDef)
        assert function.name == program.name


@pytest.mark.parametrize("name", FAMILIES)
def test_inputs_are_many_distinct_and_short(name, drawn):
    for program in drawn[name]:
        shown = [repr(args) for args in program.inputs]
        assert 10 <= len(shown) == len(set(shown)) <= 16
        assert max(map(len, shown)) <= 50


@pytest.mark.parametrize("name", FAMILIES)
def test_families_vary_beyond_names(name, hashes):
    assert len(hashes[name]) >= 20


def test_the_number_of_distinct_originals_is_in_the_thousands(hashes):
    total = len(set().union(*hashes.values()))
    print(f"{len(FAMILIES)} families, {total} distinct originals among {DRAWS} draws of each")
    assert total > 3000


def test_held_out_families_share_no_original_with_the_others(hashes):
    held_out = {name for name, family in FAMILIES.items() if family.held_out}
    assert 8 <= len(held_out) <= 10
    inside = set().union(*(hashes[name] for name in held_out))
    outside = set().union(*(hashes[name] for name in FAMILIES if name not in held_out))
    assert not inside & outside


def test_function_names_belong_to_one_family(drawn):
    owner: dict[str, str] = {}
    for family, programs in drawn.items():
        for program in programs:
            assert owner.setdefault(program.name, family) == family


def test_one_function_name_means_one_thing(drawn):
    """Two programs of the same name are the same function, so that the name poses the problem."""
    for programs in drawn.values():
        first: dict[str, Program] = {}
        for program in programs:
            other = first.setdefault(program.name, program)
            for args in program.inputs[:6]:
                assert other.reference(*args) == program.reference(*args), program.name


def test_abstract_hash_ignores_own_names_only():
    plain = normalise("def f(x):\n    n = len(x)\n    return x.count('x') + n")
    assert abstract_hash(plain) == abstract_hash(normalise("def g(a):\n    b = len(a)\n    return a.count('x') + b"))
    assert abstract_hash(plain) != abstract_hash(normalise("def f(x):\n    n = sum(x)\n    return x.count('x') + n"))
    assert abstract_hash(plain) != abstract_hash(normalise("def f(x):\n    n = len(x)\n    return x.index('x') + n"))
    assert abstract_hash(plain) != abstract_hash(normalise("def f(x):\n    n = len(x)\n    return x.count('a') + n"))
    assert abstract_hash(plain) != abstract_hash(normalise("def f(x):\n    n = len(x)\n    return n.count('x') + x"))

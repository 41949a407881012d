"""Functions with three and four bugs, and classes: the same promises as for short functions."""

import os
import subprocess
import sys
from itertools import combinations
from random import Random
from typing import Any

import pytest

from llm_envs.code_repair import FAMILIES, abstract_hash, extract, make_task, problems, teacher_message
from llm_envs.code_repair.families_chains import LINES, LONGEST_SOURCE
from llm_envs.code_repair.problems import max_new_tokens
from llm_envs.code_repair.program import ALL_FAMILIES, CHAIN_FAMILIES, CLASS_FAMILIES, Program, normalise
from llm_envs.code_repair.repairs import SPLITS, families_of, passes, prove
from llm_envs.code_repair.scripts import play
from llm_envs.task import AnswerFormatError

DRAWS = 40
LARGER = {**CHAIN_FAMILIES, **CLASS_FAMILIES}
VARIANTS = [("functions", 3), ("classes", 1), ("classes", 3)]
MORE = [("functions", 4), ("classes", 2), ("classes", 4)]
MARKED = [*VARIANTS, *(pytest.param(*variant, marks=pytest.mark.slow) for variant in MORE)]


def some(split: str, programs: str, difficulty: int, rounds: int = 2, **options: Any):
    """The first examples of every family of the split."""
    count = len(families_of(split, "all", programs, difficulty))
    return problems(split, difficulty, programs=programs, **options)[: rounds * count]


def works(example, message: str) -> bool:
    return passes(extract(example, message).text, example.hidden["entry"], example.hidden["tests"])


# ---- families ----


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[Program]]:
    return {name: [family.draw(rng) for _ in range(DRAWS)] for name, family in LARGER.items() if (rng := Random(name))}


def test_how_many_families_there_are():
    def counts(registry):
        return [sum(family.held_out is held_out for family in registry.values()) for held_out in (False, True)]

    assert counts(FAMILIES) == [70, 9]
    assert counts(CHAIN_FAMILIES) == [22, 4]
    assert counts(CLASS_FAMILIES) == [15, 3]
    assert len(ALL_FAMILIES) == 70 + 9 + 22 + 4 + 15 + 3


@pytest.mark.parametrize("name", LARGER)
def test_originals_are_proven_right_canonical_and_various(name, drawn):
    for program in drawn[name]:
        prove(program)
        assert normalise(program.source) == program.source
        assert "\n\n" not in program.source
        assert 12 <= len(program.inputs) <= 16
        assert " set(" not in program.source
        assert len(program.source) < 660
    assert len({abstract_hash(program.source) for program in drawn[name]}) >= 20


@pytest.mark.parametrize("name", CHAIN_FAMILIES)
def test_chains_have_the_promised_size(name, drawn):
    for program in drawn[name]:
        assert program.source.count("\n") in LINES  # the last line ends with one
        assert len(program.source) <= LONGEST_SOURCE
        assert "_then_" in program.name


def test_names_belong_to_one_family_and_mean_one_thing(drawn):
    owner: dict[str, str] = {}
    first: dict[str, Program] = {}
    for family, programs in drawn.items():
        for program in programs:
            assert owner.setdefault(program.name, family) == family
            other = first.setdefault(program.name, program)
            if family in CHAIN_FAMILIES:
                for args in program.inputs[:4]:
                    assert other.reference(*args) == program.reference(*args), program.name
            else:
                for init, calls in program.inputs[:6]:
                    both = (init, tuple(call for call in calls if hasattr(other.reference, call[0])))
                    assert play(other.reference, both) == play(program.reference, both), program.name


def test_held_out_originals_are_in_no_other_family(drawn):
    hashes = {name: {abstract_hash(program.source) for program in programs} for name, programs in drawn.items()}
    inside = set().union(*(found for name, found in hashes.items() if LARGER[name].held_out))
    outside = set().union(*(found for name, found in hashes.items() if not LARGER[name].held_out))
    assert not inside & outside


def test_the_hash_of_a_class_ignores_its_own_names_only():
    one = normalise("class A:\n  def f(self, x):\n    self.n = x.count('n')\n    return self.n")
    other = one.replace("A", "B").replace("f", "g", 1).replace("self.n", "self.k")
    assert abstract_hash(one) == abstract_hash(normalise(one.replace("self.n", "self.k").replace("class A", "class B")))
    assert abstract_hash(one) == abstract_hash(one.replace(" f(", " g("))
    assert abstract_hash(one) != abstract_hash(one.replace("count", "index"))
    assert other != one


# ---- examples ----


@pytest.mark.parametrize("answer_format", ["edit", "function"])
@pytest.mark.parametrize(("programs", "difficulty"), MARKED)
def test_gold_restores_the_original_and_wrong_leaves_the_bugs(programs, difficulty, answer_format):
    task = make_task(difficulty, programs=programs, answer_format=answer_format)
    assert task.max_new_tokens == max_new_tokens(answer_format, difficulty, programs)
    for split in SPLITS:
        for example in some(split, programs, difficulty, answer_format=answer_format):
            assert extract(example, example.gold).text == example.metadata["original"]
            assert works(example, example.gold)
            assert extract(example, task.wrong(example)).text == example.metadata["buggy"]
            assert not works(example, task.wrong(example))
            assert len(example.gold) < task.max_new_tokens
            assert len(set(example.metadata["bug_kinds"])) == difficulty


@pytest.mark.parametrize(("programs", "difficulty"), MARKED)
def test_splits_are_disjoint_by_content(programs, difficulty):
    examples = {split: some(split, programs, difficulty) for split in SPLITS}
    for key in ("original_hash", "original", "buggy"):
        found = {split: {example.metadata[key] for example in examples[split]} for split in SPLITS}
        assert not found["train"] & found["validation"]
        assert not (found["train"] | found["validation"]) & found["test"]
    held_out = {example.metadata["family"] for example in examples["test"]}
    assert len(held_out) >= 3
    assert all(ALL_FAMILIES[name].held_out for name in held_out)
    trained = {example.metadata["family"] for example in examples["train"]}
    assert len(trained) >= 15
    assert trained == {example.metadata["family"] for example in examples["validation"]}


@pytest.mark.parametrize(("programs", "difficulty"), MARKED)
def test_every_bug_must_be_repaired(programs, difficulty):
    """Where the gold edit has a line for each bug, no smaller part of it repairs the program."""
    parts = 0
    for example in some("train", programs, difficulty):
        lines = example.gold.splitlines()
        if len(lines) != difficulty or len({line.split("|")[0] for line in lines}) < difficulty:
            continue
        for count in range(1, difficulty):
            for some_lines in combinations(lines, count):
                parts += 1
                assert not works(example, "\n".join(some_lines))
    assert parts > 20 or difficulty == 1


@pytest.mark.parametrize(("programs", "difficulty"), MARKED)
def test_prompts_are_short_and_show_failing_calls(programs, difficulty):
    start, head = ("f(", "1|def ") if programs == "functions" else ("o = C(", "1|class ")
    for split in SPLITS:
        for example in some(split, programs, difficulty):
            assert example.prompt.startswith(head + example.hidden["entry"])
            assert len(example.prompt) < 900
            assert len(example.prompt) + max_new_tokens("edit", difficulty) <= 1024
            calls = [line for line in example.prompt.splitlines() if line.startswith(start)]
            assert 1 <= len(calls) == len(set(calls)) <= max(2, difficulty)
            assert all(" == " in call and " not " in call for call in calls)
            assert 6 <= len(example.hidden["tests"]) <= 14


def test_what_a_class_gives_is_told_truly():
    """The script in the prompt, run as Python, gives what the prompt says on the right and on the buggy class."""
    for example in some("train", "classes", 1, rounds=1):
        for line in example.prompt.splitlines():
            if not line.startswith("o = C("):
                continue
            script, told = line.rsplit(" == ", 1)
            *setup, question = script.split("; ")
            right, wrong = told.split(" not ")
            for source, value in ((example.metadata["original"], right), (example.metadata["buggy"], wrong)):
                if not wrong.endswith("Error") and wrong != "timeout" or value == right:
                    scope: dict[str, Any] = {}
                    exec(source, scope)
                    scope["C"] = scope[example.hidden["entry"]]
                    exec("; ".join(setup), scope)
                    assert repr(eval(question, scope)) == value


@pytest.mark.parametrize("answer_format", ["edit", "function"])
def test_chat_prompts_speak_of_a_class_and_answers_define_it(answer_format):
    example = problems("train", 2, programs="classes", answer_format=answer_format, style="chat")[0]
    assert not isinstance(example.prompt, str)
    (message,) = example.prompt
    entry = example.hidden["entry"]
    assert "The Python class below has 2 bugs" in message["content"]
    assert f"o = {entry}(" in message["content"]
    assert extract(example, f"Here:\n```python\n{example.gold}\n```").text == example.metadata["original"]
    if answer_format == "function":
        with pytest.raises(AnswerFormatError, match=f"whole corrected class, starting with `class {entry}`"):
            extract(example, "def f(x):\n    return x")


@pytest.mark.parametrize("answer_format", ["edit", "function"])
@pytest.mark.parametrize(("programs", "difficulty"), [("functions", 3), ("classes", 1)])
def test_the_teacher_knows_larger_programs(programs, difficulty, answer_format):
    rng, labels = Random(0), set()
    for example in some("train", programs, difficulty, rounds=3, answer_format=answer_format):
        for _ in range(3):
            message, label = teacher_message(example, rng)
            labels.add(label)
            assert works(example, message) == (label == "right")
            assert (extract(example, message).text == example.metadata["buggy"]) == (label == "copy")
    assert labels == {"right", "copy", "other"}


@pytest.mark.slow
@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize(("programs", "difficulty"), [*VARIANTS, *MORE])
def test_every_family_gives_as_many_examples_as_the_split_promises(programs, difficulty, split):
    examples = list(problems(split, difficulty, programs=programs))
    assert len({example.metadata["buggy"] for example in examples}) == len(examples)
    assert max(len(example.prompt) for example in examples) < min(900, 1024 - max_new_tokens("edit", difficulty))


_DIGEST = """
import hashlib
from llm_envs.code_repair import problems
from llm_envs.code_repair.tool_task import make_task
splits = [problems("train", 3), problems("test", 4), problems("validation", 2, programs="classes")]
splits.append(make_task(3).problems("train"))
for i in {order}:
    text = repr([(e.id, e.prompt, e.gold, e.hidden, e.metadata) for e in (examples[i] for examples in splits)])
    print(i, hashlib.sha256(text.encode()).hexdigest())
"""


def test_examples_do_not_depend_on_the_process_or_the_order():
    digests = []
    for seed, order in (("1", "range(0, 40, 4)"), ("2", "range(36, -1, -4)")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.getcwd()}
        command = [sys.executable, "-c", _DIGEST.format(order=order)]
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        digests.append(sorted(output.splitlines()))
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 10

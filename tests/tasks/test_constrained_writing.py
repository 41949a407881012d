import re

import pytest

from llm_envs.tasks.constrained_writing import FORMS, FORMS_TEST, make_task, problems
from llm_envs.tasks.sentences import ITEMS, LEXICON, QUESTIONS, STATEMENTS, fix_articles
from verifiers import Answer, get_verifier


@pytest.mark.parametrize(("difficulty", "fewest", "most"), [(1, 3, 4), (2, 6, 8)])
def test_number_of_constraints(difficulty, fewest, most):
    for split in ("train", "test"):
        for example in problems(split, difficulty)[:300]:
            constraints = example.hidden["constraints"]
            assert fewest <= len(constraints) <= most
            kinds = [constraint["kind"] for constraint in constraints]
            assert len(set(kinds)) == len(kinds)
            assert "contains" in kinds
            # What is asked for and what is checked are the same number of things.
            asked = len(str(example.prompt).splitlines())
            assert asked == len(kinds)


def test_gold_answers_read_like_sentences():
    for example in problems("train", 1)[:800]:
        gold = example.gold
        if example.metadata["kind"] == "list":
            assert all(re.fullmatch(r"[A-Z][a-z ]+", line) for line in gold.split("\n")), gold
        elif example.metadata["kind"] == "small_letters":
            assert re.fullmatch(r"[a-z ,]+\.", gold), gold
        else:
            assert re.fullmatch(r"([A-Z][a-zS ,]+[.!?]( |\Z))+", gold), gold
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", gold), gold


def test_the_score_is_graded():
    judge = get_verifier("constraints")
    example = next(e for e in problems("train", 2) if e.metadata["kind"] == "shout")
    spoiled = judge.verify(example, Answer(example.gold[:-1] + "."))
    total = len(example.hidden["constraints"])
    assert spoiled.score == pytest.approx((total - 1) / total)
    assert spoiled.components["ends_with"] == 0.0
    assert sum(spoiled.components.values()) == total - 1


def test_required_words_alone_do_not_pass():
    judge = get_verifier("constraints")
    passed = 0
    for example in problems("train", 1)[:400]:
        required = next(c["words"] for c in example.hidden["constraints"] if c["kind"] == "contains")
        passed += judge.verify(example, Answer(" ".join(required) + ".")).passed
    assert passed == 0


def test_the_grammar_has_no_loose_ends():
    for pattern in (*STATEMENTS, *QUESTIONS, *ITEMS):
        assert set(re.findall(r"\{(\w+)\}", pattern)) <= set(LEXICON)
    assert fix_articles("A old lamp and a red one") == "An old lamp and a red one"
    assert not set(FORMS) & set(FORMS_TEST)
    assert make_task().verifier == "constraints"

import re

import gymnasium as gym

import llm_envs  # noqa: F401 - registers
from llm_envs.tasks.continuation import NEUTRAL, POSITIVE, problems, wrong
from verifiers import Answer, Verdict, Verifier, get_verifier
from verifiers.text.word_list import POSITIVE as LISTED
from verifiers.text.writing import words_of


def test_prompts_are_neutral_and_break_off():
    for split in ("train", "validation", "test"):
        for difficulty in (1, 2):
            for example in problems(split, difficulty)[:300]:
                assert not set(words_of(str(example.prompt))) & set(LISTED)
                assert re.search(r"[a-z,]\Z", str(example.prompt))
                assert example.gold[0] == " "
                assert example.gold[-1] == "."


def test_a_neutral_continuation_earns_nothing():
    judge = get_verifier("word_list")
    for example in problems("test", 1)[:100]:
        assert judge.verify(example, Answer(wrong(example))).score == 0.0
    assert len(POSITIVE) >= 4
    assert len(NEUTRAL) >= 2


class Length(Verifier):
    """A verifier of a person's own: the share of 50 characters."""

    def verify(self, example, answer):
        score = min(1.0, len(answer.text) / 50)
        return Verdict(score, score == 1.0, "passed" if score == 1.0 else "wrong")


def test_any_verifier_can_score_it():
    env = gym.make("llm_envs/ContinuationText-v0", verifier=Length(), extra_verifiers=["word_list"])
    env.reset(seed=0)
    _, reward, *_, info = env.step(" and so on" * 2)
    assert reward == len("and so on and so on") / 50
    assert info["extra_verdicts"]["word_list"]["score"] == 0.0


def test_the_default_verifier_takes_a_list_of_ones_own():
    env = gym.make("llm_envs/ContinuationText-v0", verifier_options={"words": ["sea", "shore"], "target": 0.1})
    env.reset(seed=0)
    assert env.step(" the sea was grey.")[1] == 1.0


def test_a_continuation_cut_off_by_the_budget_is_judged():
    env = gym.make("llm_envs/Continuation-v0", max_new_tokens=4)
    env.reset(seed=0)
    for token in b" joy":
        _, reward, terminated, _, info = env.step(token)
    assert terminated
    assert info["stop_reason"] == "length"
    assert reward == 0.5

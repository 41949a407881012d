"""The text level: drawing, judging, and what `info` says."""

import copy
from dataclasses import replace
from random import Random
from typing import Any

import gymnasium as gym
import pytest
from small_tasks import Share, make_task

from llm_envs import EpisodeError, Message, OptionError, TextEnv, VerifierError
from verifiers import Limits

TASK = make_task()


def play(env, message, index=0):
    _, first = env.reset(options={"index": index})
    return first, env.step(message)


def test_an_episode():
    env = TextEnv(TASK)
    first, (observation, reward, terminated, truncated, info) = play(env, "tac")
    assert first == {"example_id": "train/cat", "task": "Reverse", "split": "train"}
    assert (observation, reward, terminated, truncated) == ("", 1.0, True, False)
    assert info == {
        **first,
        "stop_reason": "stop",
        "metadata": {"size": 3, "at": [0]},
        "verdict": {
            "score": 1.0,
            "passed": True,
            "kind": "passed",
            "components": {"hits": 1.0},
            "feedback": "compared",
            "forgeable": False,
        },
    }


def test_reset_draws_every_example():
    env = TextEnv(TASK, split="test")
    env.reset(seed=0)
    assert {env.reset()[1]["example_id"] for _ in range(60)} == {
        f"test/{word}" for word in ("cat", "horse", "bee", "giraffe", "ox")
    }
    assert env.num_examples == 5


def test_bad_format_is_not_judged():
    judge = Share()
    _, (_, reward, terminated, _, info) = play(TextEnv(TASK, verifier=judge), "? tac")
    assert (reward, terminated, info["verdict"]["kind"], judge.calls) == (0.0, True, "bad_format", [])
    assert info["verdict"]["feedback"] == "an answer never starts with a question mark"


@pytest.mark.parametrize(("judge_unfinished", "reward", "kind"), [(True, 1.0, "passed"), (False, 0.0, "unfinished")])
def test_cut_off_messages(judge_unfinished, reward, kind):
    env = TextEnv(make_task(judge_unfinished))
    _, (_, got, terminated, truncated, info) = play(env, Message("tac", "length"))
    assert (got, terminated, truncated) == (reward, True, False)
    assert (info["verdict"]["kind"], info["stop_reason"]) == (kind, "length")
    assert info["verdict"]["score"] == reward


def test_broken_judge():
    with pytest.raises(VerifierError):
        play(TextEnv(TASK), "crash")
    _, (_, reward, terminated, truncated, info) = play(TextEnv(TASK, on_verifier_error="unscored"), "crash")
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["unscored"] is True
    assert info["verifier_error"] == "the judge broke"
    assert "verdict" not in info


def test_extra_verifiers_only_write_info():
    half = Share(weight=0.5)
    env = TextEnv(TASK, extra_verifiers={"half": half, "again": Share()})
    _, (_, reward, _, _, info) = play(env, "tac")
    assert reward == 1.0
    assert {name: verdict["score"] for name, verdict in info["extra_verdicts"].items()} == {"half": 0.5, "again": 1.0}
    assert play(env, "?")[1][4]["extra_verdicts"]["half"]["kind"] == "bad_format"
    assert list(play(TextEnv(TASK, extra_verifiers=[half]), "x")[1][4]["extra_verdicts"]) == ["Share"]
    unscored = TextEnv(TASK, extra_verifiers=[half], on_verifier_error="unscored")
    assert play(unscored, "crash")[1][4]["extra_verdicts"] == {"Share": None}


def test_chat_prompts_show_the_newest_message():
    task = make_task()
    example = replace(
        task.problems("train")[0],
        prompt=[{"role": "system", "content": "be brief"}, {"role": "user", "content": "spell cat"}],
    )
    seen = []

    class Reader(Share):
        def verify(self, example, answer):
            seen.append(answer.transcript)
            return super().verify(example, answer)

    env = TextEnv(replace(task, problems=lambda split: [example]), verifier=Reader())
    assert env.reset()[0] == "spell cat"
    env.step("tac")
    assert [message["role"] for message in seen[0]] == ["system", "user", "assistant"]
    assert seen[0] == env.messages


def test_step_outside_an_episode():
    env = TextEnv(TASK)
    with pytest.raises(EpisodeError, match="before reset"):
        env.step("")
    play(env, "tac")
    with pytest.raises(EpisodeError, match="after the episode ended"):
        env.step("")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"split": "trian"}, "split of task 'Reverse' 'trian': did you mean 'train'"),
        ({"on_verifier_error": "unscore"}, "did you mean 'unscored'"),
        ({"verifier": "exact_match", "verifier_options": {"cas": 1}}, "cannot build verifier 'exact_match'"),
        ({"verifier": Share(), "verifier_options": {"weight": 2}}, "given by name"),
        ({"extra_verifiers": [Share(), Share()]}, "share a name"),
        ({"extra_verifiers": "exact_match"}, "must be a list"),
    ],
)
def test_unknown_options(arguments, words):
    with pytest.raises(OptionError, match=words):
        TextEnv(TASK, **arguments)


@pytest.mark.parametrize("index", [-1, 5, 1.5, "0"])
def test_index_out_of_range(index):
    with pytest.raises(OptionError, match="integer from 0 to 4"):
        TextEnv(TASK).reset(options={"index": index})


def test_deep_copies_share_the_judge_and_info_owns_its_data():
    judge = Share()
    env = TextEnv(TASK, verifier=judge)
    info = play(env, "tac")[1][4]
    info["metadata"]["at"].append(1)
    assert play(env, "tac")[1][4]["metadata"]["at"] == [0]
    assert copy.deepcopy(env).verifier is judge


def test_judges_by_name_are_shared_and_stay_open():
    first, second = (
        TextEnv(TASK, verifier="small_tasks:Share", verifier_options={"weight": 2.0}, extra_verifiers=["exact_match"])
        for _ in range(2)
    )
    first.close()
    assert first.verifier is second.verifier
    assert isinstance(second.verifier, Share)
    assert (second.verifier.weight, second.verifier.closed) == (2.0, 0)
    assert first.extra_verifiers["exact_match"] is second.extra_verifiers["exact_match"]


def test_a_task_without_a_teacher_demonstrates_its_gold_answer():
    task = make_task()
    example = task.problems("train")[3]
    assert task.demonstrate(example, Random(0)) == example.gold
    assert task.solution(example) == [example.gold]


def test_the_last_environment_to_close_frees_the_workers_of_a_named_verifier():
    from verifiers.sandbox.pool import shared_pool

    options: dict[str, Any] = {"verifier_options": {"limits": {"cpu_s": 0.7}, "workers": 1}}
    envs = [gym.make("llm_envs/CodeRepairText-v0", **options) for _ in range(2)]
    vector = gym.make_vec("llm_envs/CodeRepair-v0", num_envs=3, **options)
    pool = shared_pool(Limits(cpu_s=0.7), workers=1)

    def judge(env: Any) -> None:
        env.reset(options={"index": 0})
        assert env.step("1|pass")[4]["verdict"]["kind"]

    judge(envs[0])
    envs[0].close()
    envs[0].close()
    vector.close()
    assert len(pool._alive) == 1, "another environment has it"
    judge(envs[1])
    envs[1].close()
    assert len(pool._alive) == 0


def test_a_verifier_object_is_left_open():
    verifier = Share()
    env = TextEnv(make_task(verifier=verifier))
    TextEnv(make_task(), extra_verifiers=[verifier]).close()
    env.close()
    assert verifier.closed == 0

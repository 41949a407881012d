"""Our environments in Gymnasium's vector environments, constructors and wrappers."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, utils

from llm_envs import OptionError, TextEnv, TokenVectorEnv, UnicodeText

EOS = 257


def text_env():
    return gym.make("llm_envs/ReverseText-v0")


def token_env():
    return gym.make("llm_envs/Reverse-v0", constraint="regex:[a-z]*", max_length=300)


def test_messages_do_not_fit_into_shared_memory():
    """Without our refusal Gymnasium returns strings of zeros, and says nothing."""
    for make in (
        lambda: AsyncVectorEnv([text_env] * 2),
        lambda: gym.make_vec("llm_envs/ReverseText-v0", 2, vectorization_mode="async"),
        lambda: utils.create_shared_memory(UnicodeText(5), 2),
        lambda: utils.create_shared_memory(gym.spaces.Dict(message=UnicodeText(5)), 2),
    ):
        with pytest.raises(OptionError, match="shared memory, .*; give shared_memory=False"):
            make()


@pytest.mark.parametrize("kind", ["sync", "async", "make_vec"])
def test_vectors_of_messages(kind):
    if kind == "make_vec":
        env = gym.make_vec(
            "llm_envs/ReverseText-v0", 2, vectorization_mode="async", vector_kwargs={"shared_memory": False}
        )
    else:
        env = SyncVectorEnv([text_env] * 2) if kind == "sync" else AsyncVectorEnv([text_env] * 2, shared_memory=False)
    observations, _ = env.reset(seed=0, options={"index": 0})
    assert observations == ("spell cat\n", "spell cat\n")
    observations, rewards, terminated, _, infos = env.step(("tac", "ta"))
    assert observations == ("", "")
    assert rewards.tolist() == [1.0, 2 / 3]
    assert terminated.all()
    assert infos["verdict"]["kind"].tolist() == ["passed", "wrong"]
    env.close()


@pytest.mark.parametrize("shared_memory", [True, False])
def test_tokens_in_processes(shared_memory):
    env, sync = AsyncVectorEnv([token_env] * 2, shared_memory=shared_memory), SyncVectorEnv([token_env] * 2)
    results: list[Any] = [each.reset(seed=3) for each in (env, sync)]
    for token in [*b"tac", EOS]:
        for key in results[0][0]:
            np.testing.assert_array_equal(results[0][0][key], results[1][0][key])
        np.testing.assert_array_equal(env.call("action_masks"), sync.call("action_masks"))
        results = [each.step(np.full(2, token)) for each in (env, sync)]
    assert results[0][1].tolist() == results[1][1].tolist()
    assert results[0][4]["reencoding_differs"].tolist() == [False, False]
    env.close()
    sync.close()


def test_gymnasium_vector_wrappers_apply():
    env = gym.wrappers.vector.RecordEpisodeStatistics(gym.make_vec("llm_envs/Reverse-v0", 2))
    env.reset(options={"index": 0})
    env.step(np.array([65, 65]))
    infos = env.step(np.array([EOS, 65]))[4]
    assert infos["episode"]["l"].tolist() == [2, 0]
    assert infos["verdict"][0]["kind"] == "wrong"


def test_rows_share_one_verifier_and_task():
    env = gym.make_vec("llm_envs:llm_envs/Reverse-v0", num_envs=4)
    assert isinstance(env, TokenVectorEnv)
    rows = [row for row in env.envs if isinstance(row, TextEnv)]
    assert len(rows) == 4
    assert len({id(row.verifier) for row in rows}) == len({id(row.task) for row in rows}) == 1
    env.close()

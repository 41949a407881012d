"""A closed environment is not used again, and leaves no worker behind."""

import gc
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from small_tasks import Echo, Share, make_task, make_tool_task

from llm_envs import ClosedError, TextEnv, TokenEnv, TokenVectorEnv, ToolEnv

EOS = 257
SMALL: dict[str, Any] = {"max_length": 64, "max_new_tokens": 8}

MAKE: dict[str, Any] = {
    "text": lambda: TextEnv(make_task()),
    "tools": lambda: ToolEnv(make_tool_task()),
    "token": lambda: TokenEnv(TextEnv(make_task()), **SMALL),
    "foreign": lambda: TokenEnv(Echo(), **SMALL),
    "vector": lambda: TokenVectorEnv([lambda: TextEnv(make_task())] * 2, **SMALL),
    "foreign vector": lambda: TokenVectorEnv([Echo] * 2, **SMALL),
}
ACTIONS = {"text": "tac", "tools": "s", "token": 65, "foreign": 65}


@pytest.mark.parametrize("kind", MAKE)
def test_reset_and_step_after_close_are_refused(kind):
    env = MAKE[kind]()
    env.reset(seed=0)
    env.close()
    env.close()
    with pytest.raises(ClosedError, match=r"Env.reset called after close; make a new environment"):
        env.reset(seed=0)
    with pytest.raises(gym.error.ClosedEnvironmentError, match=r"Env.step called after close"):
        env.step(ACTIONS.get(kind, np.array([65, 65])))
    if "vector" in kind:
        for use in (lambda: env.send([0], [[65]]), lambda: env.play([[65]] * 2), env.recv):
            with pytest.raises(ClosedError, match="called after close"):
                use()


def test_what_was_written_can_still_be_rendered():
    env = TokenEnv(TextEnv(make_task()), **SMALL, render_mode="ansi")
    env.reset(options={"index": 0})
    env.step(np.int64(65))
    env.close()
    assert env.render().endswith("[assistant]\nA")


def test_copies_of_a_closed_environment_are_closed():
    env = gym.make("llm_envs/ReverseText-v0").unwrapped
    env.reset(seed=0)
    env.close()
    with pytest.raises(ClosedError):
        pickle.loads(pickle.dumps(env)).reset()


class Watched(Share):
    """Knows whether it holds workers; in the class, since environments make one of their own."""

    works = False

    def verify(self, example, answer):
        Watched.works = True
        return super().verify(example, answer)

    def close(self):
        Watched.works = False


@pytest.mark.parametrize("id", ["llm_envs/ReverseText-v0", "llm_envs/Reverse-v0"])
def test_an_environment_that_was_closed_used_and_deleted_leaves_no_worker(id):
    env: Any = gym.make(id, verifier="test_after_close:Watched")
    env.reset(options={"index": 0})
    action = "tac" if "Text" in id else np.int64(EOS)
    assert env.step(action)[2]
    assert Watched.works
    env.close()
    with pytest.raises(ClosedError):
        env.reset(options={"index": 0})
    with pytest.raises(ClosedError):
        env.step(action)
    del env
    gc.collect()
    assert not Watched.works

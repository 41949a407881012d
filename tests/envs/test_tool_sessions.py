"""What a tool environment does with its session and its sandbox when something goes wrong or ends."""

import dataclasses
from typing import Any

import gymnasium as gym
import pytest

from llm_envs import EpisodeError, Example, ToolEnv
from verifiers.sandbox import pool


def make_env(**options: Any) -> ToolEnv:
    sizes = {"train": 70, "validation": 70, "test": 30}
    env = gym.make("llm_envs/CodeRepairToolsText-v0", sizes=sizes, **options).unwrapped
    assert isinstance(env, ToolEnv)
    return env


def test_after_a_failed_reset_nothing_is_judged():
    env = make_env(tool_format="lines")
    env.reset(options={"index": 0})

    def refuse(example: Example) -> Any:
        raise RuntimeError("no session")

    tools, env.task = env.task.tools, dataclasses.replace(env.task, tools=refuse)
    with pytest.raises(RuntimeError, match="no session"):
        env.reset(options={"index": 1})
    with pytest.raises(EpisodeError, match="call reset first"):
        env.step("@submit")
    env.task = dataclasses.replace(env.task, tools=tools)
    env.reset(options={"index": 1})
    assert env.step("@submit")[2]


def alive() -> set[Any]:
    return {worker for shared in pool._pools.values() for worker in shared._alive}


def test_the_sandbox_of_the_tools_own_is_freed():
    env = make_env(tool_format="lines", verifier="small_tasks:Share")
    env.reset(seed=0)
    before = alive()
    assert "not" in env.step("@run_tests")[0]
    assert alive() <= before

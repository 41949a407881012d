"""What a tool environment does with its session and its sandbox when something goes wrong or ends."""

import dataclasses
from functools import partial
from typing import Any

import gymnasium as gym
import pytest
from small_tasks import make_tool_task

from llm_envs import Answer, EpisodeError, Example, OptionError, ToolEnv
from llm_envs.tools import ToolBox
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


class Undescribed:
    submitted = False

    def __init__(self, tools: Any) -> None:
        self._tools = tools

    def tools(self, verifier: Any) -> Any:
        return self._tools

    def answer(self) -> Answer:
        return Answer("")


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ({"look": lambda: ""}, "the tool 'look' needs a docstring that says what it does"),
        ({"look": 5}, "the tool 'look' must be a function, got 5"),
        ({5: print}, "tools must be a dict with names for keys"),
        ([print], "tools must be a dict with names for keys"),
        ({"look": partial(print, end="")}, "the tool 'look' "),
        ({"look": dict}, "the tool 'look' "),
    ],
)
def test_tools_without_a_schema_are_refused_before_the_first_step(tools, words):
    with pytest.raises(OptionError, match=words):
        ToolBox(tools)
    env = ToolEnv(dataclasses.replace(make_tool_task(), tools=lambda example: Undescribed(tools)))
    with pytest.raises(OptionError, match=words):
        env.reset(seed=0)
    with pytest.raises(EpisodeError, match="call reset first"):
        env.step("s")


def test_arguments_without_names():
    def many(*words: str) -> str:
        """Takes many."""
        return ""

    def first(word: str, /) -> str:
        """Takes one.

        Args:
            word: A word.
        """
        return ""

    for tool in (many, first):
        with pytest.raises(OptionError, match=f"the tool '{tool.__name__}' must take its arguments by name, not as"):
            ToolBox({tool.__name__: tool})


@pytest.mark.parametrize("session", [None, object(), {}])
def test_what_is_no_session_is_refused_at_reset(session):
    env = ToolEnv(dataclasses.replace(make_tool_task(), tools=lambda example: session))
    with pytest.raises(
        OptionError, match="tools of task 'Reverse' must give a session with submitted, tools and answer"
    ):
        env.reset(seed=0)

"""Options and arguments of the wrong type: one sentence with what was expected and what was given."""

import dataclasses
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from small_tasks import Share, make_task, make_tool_task

from llm_envs import (
    LLMEnvsError,
    Message,
    OptionError,
    Task,
    TextEnv,
    TokenEnv,
    TokenError,
    TokenVectorEnv,
    ToolCall,
    ToolEnv,
    register_task,
)
from llm_envs.task import load_task

EOS = 257
TASK = make_task()
SMALL: dict[str, Any] = {"max_length": 64, "max_new_tokens": 8}


def refused(words: str, error: type[LLMEnvsError] = OptionError) -> Any:
    return pytest.raises(error, match=re.escape(words))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stop_token_ids": "12"}, "stop_token_ids must be ids from 0 to 257, in a list, got '12'"),
        ({"stop_token_ids": [1.7]}, "stop_token_ids must be ids from 0 to 257, in a list, got [1.7]"),
        ({"stop_token_ids": 5}, "stop_token_ids must be ids from 0 to 257, in a list, got 5"),
        ({"stop_token_ids": [True]}, "got [True]"),
        ({"allowed_tokens": "act"}, "allowed_tokens must be ids from 0 to 257, in a list, got 'act'"),
        ({"allowed_tokens": {1: 2}}, "in a list, got {1: 2}"),
        ({"allowed_tokens": [None]}, "in a list, got [None]"),
        ({"strict": "no"}, "strict must be True or False, got 'no'"),
        ({"strict": 1}, "strict must be True or False, got 1"),
        ({"min_new_tokens": "2"}, "min_new_tokens must be an integer of at least 0, got '2'"),
        ({"min_new_tokens": True}, "min_new_tokens must be an integer of at least 0, got True"),
        ({"message_format": ["chat"]}, "unknown message_format ['chat']"),
        ({"tokenizer": ""}, "tokenizer must be None, 'byte', a folder, a file, a model name, or"),
        ({"tokenizer": 5}, "tokenizers or transformers tokenizer, got 5"),
        ({"constraint": "regex:\ud800"}, "cannot be compiled: 'utf-8' codec can't encode"),
        ({"constraint": 'json_schema:{"const": "\udc00"}'}, "cannot be compiled: Value is not JSON"),
        ({"max_length": True}, "max_length must be a positive integer, got True"),
    ],
)
def test_options_of_the_token_level(options, words):
    for make in (
        lambda: TokenEnv(TextEnv(TASK), **{**SMALL, **options}),
        lambda: TokenVectorEnv([lambda: TextEnv(TASK)], **{**SMALL, **options}),
    ):
        with refused(words):
            make()


def test_what_stays_allowed():
    many: tuple[Any, ...] = ((65, EOS), np.array([65, EOS]), range(65, 67), {65}, [np.int32(65)])
    for ids in many:
        assert TokenEnv(TextEnv(TASK), **SMALL, stop_token_ids=ids).stop_token_ids == tuple(map(int, ids))
        assert TokenEnv(TextEnv(TASK), **SMALL, allowed_tokens=ids).action_masks()[65]
    of_numpy: dict[str, Any] = {"strict": np.bool_(True), "min_new_tokens": np.int64(1)}
    assert TokenEnv(TextEnv(TASK), **SMALL, **of_numpy).format.strict is True


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"verifier": "nope"}, "cannot build verifier 'nope': unknown verifier 'nope'"),
        ({"verifier": 5}, "cannot build verifier 5: expected a verifier's name"),
        ({"verifier": "exact_match", "verifier_options": {"cas": 1}}, "with verifier_options={'cas': 1}"),
        ({"verifier_options": "cas"}, "verifier_options must be a dict with names for keys, got 'cas'"),
        ({"verifier": "exact_match", "verifier_options": {1: 2}}, "verifier_options must be a dict with names"),
        ({"extra_verifiers": [5]}, "cannot build the extra verifier 'int' from 5: expected a verifier's name"),
        ({"extra_verifiers": {"other": "exact_mtch"}}, "cannot build the extra verifier 'other' from 'exact_mtch'"),
        ({"extra_verifiers": {5: "exact_match"}}, "extra_verifiers must be a dict with names for keys"),
        ({"extra_verifiers": 5}, "extra_verifiers must be a list of verifiers or a dict of named ones, got 5"),
        ({"split": 5}, "unknown split of task 'Reverse' 5"),
        ({"render_mode": 5}, "unknown render_mode 5"),
    ],
)
def test_options_of_the_text_level(options, words):
    with refused(words):
        TextEnv(TASK, **options)


def test_something_else_for_a_task_or_an_environment():
    with refused("task must be a Task, got 'Reverse'"):
        TextEnv("Reverse")  # type: ignore[arg-type]
    with refused("the token level needs a Gymnasium environment, got 5"):
        TokenEnv(5)  # type: ignore[arg-type]
    for env_fns in (5, [], [TextEnv(TASK)], "ab"):
        with refused("env_fns must be a list of functions, at least one"):
            TokenVectorEnv(env_fns)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_turns": "3"}, "max_turns of task 'CodeRepairTools' must be a positive integer, got '3'"),
        ({"max_turns": 0}, "max_turns of task 'CodeRepairTools' must be a positive integer, got 0"),
        ({"max_new_tokens": 1.5}, "max_new_tokens of task 'CodeRepairTools' must be a positive integer, got 1.5"),
        ({"difficulty": [1]}, "difficulty must be an integer from 1 to 3, got [1]"),
        ({"difficulty": True}, "difficulty must be an integer from 1 to 3, got True"),
        ({"programs": ["classes"]}, "unknown programs ['classes']"),
        ({"style": 5}, "unknown style 5"),
        ({"sizes": {"train": "70"}}, "sizes['train'] must be a positive integer, got '70'"),
        ({"sizes": {"tarin": 70}}, "unknown split in sizes 'tarin': did you mean 'train'"),
        ({"sizes": [70]}, "sizes must be a dict with names for keys, got [70]"),
    ],
)
def test_options_of_code_repair_tools(options, words):
    with refused(words):
        gym.make("llm_envs/CodeRepairToolsText-v0", **options)


@pytest.mark.parametrize(
    ("id", "options", "words"),
    [
        ("CodeRepair", {"difficulty": 1.0}, "difficulty, the number of bugs, must be an integer from 1 to 4, got 1.0"),
        ("CodeRepair", {"instruction": ["fix"]}, "instruction must be a string (str), got ['fix']"),
        ("CodeRepair", {"sizes": {"train": 0}}, "sizes['train'] must be a positive integer, got 0"),
        ("CodeRepair", {"families": {"core"}}, "unknown families {'core'}"),
        (
            "Transform",
            {"difficulty": True},
            "difficulty, the number of transformations, must be an integer from 1 to 2",
        ),
        ("Arithmetic", {"difficulty": "1"}, "difficulty must be one of 1 (one step)"),
        ("Reverse", {"task": 5}, "a task that is no Task object must be a string (str), got 5"),
        ("Reverse", {"task": ":make_task"}, "unknown task ':make_task'"),
        ("Reverse", {"task": "small_tasks:WORDS"}, "the task 'small_tasks:WORDS' must be a Task or a function"),
        ("Reverse", {"task": "small_tasks:Echo"}, "the function of the task 'small_tasks:Echo' must return a Task"),
        ("Reverse", {"task": "small_tasks:extract"}, "'small_tasks:extract' cannot be called: missing a required arg"),
        ("Reverse", {"judge_unfinished": "no"}, "judge_unfinished of task 'Reverse' must be True or False, got 'no'"),
    ],
)
def test_options_of_tasks(id, options, words):
    with refused(words):
        gym.make(f"llm_envs/{id}-v0", **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_new_tokens": "8"}, "max_new_tokens of task 'Typed' must be a positive integer, got '8'"),
        ({"max_turns": None}, "max_turns of task 'Typed' must be a positive integer, got None"),
        ({"extract": "strip"}, "extract of task 'Typed' must be a function, got 'strip'"),
        ({"wrong": "nothing"}, "wrong of task 'Typed' must be a function"),
        ({"tools": ["view"]}, "tools of task 'Typed' must be a function, got ['view']"),
        ({"judge_unfinished": 0}, "judge_unfinished of task 'Typed' must be True or False, got 0"),
        ({"verifier": 5}, "verifier of task 'Typed' must be a verifier or the name of one, got 5"),
        ({"verifier": Share}, "verifier of task 'Typed' must be a verifier or the name of one"),
        ({"verifier_options": 3}, "verifier_options of task 'Typed' must be a dict"),
    ],
)
def test_tasks_of_problems(options, words):
    with refused(words):
        register_task("Typed", problems=[{"id": "a", "prompt": "?", "hidden": {"answer": "b"}}], **options)
    assert "llm_envs/Typed-v0" not in gym.registry


@pytest.mark.parametrize("task", [5, ["small_tasks:make_task"]])
def test_tasks_that_are_none(task):
    with refused('takes a Task, a function that makes one, or "module:function", got'):
        register_task("Typed", task)
    assert "llm_envs/Typed-v0" not in gym.registry


def test_tasks_that_are_written_out():
    with refused("splits of task 'T' must be the names of its splits, got 'train'"):
        Task("T", lambda split: [], "train")  # type: ignore[arg-type]
    with refused("problems of task 'T' must be a function"):
        Task("T", [])  # type: ignore[arg-type]
    with refused("the options of a task must be a dict with names for keys, got [1]"):
        load_task("small_tasks:make_task", [1])  # type: ignore[arg-type]


@pytest.mark.parametrize("num_envs", ["3", 0, 2.0, None, True])
def test_num_envs(num_envs):
    with refused("num_envs must be a positive integer, got"):
        gym.make_vec("llm_envs/Reverse-v0", num_envs=num_envs)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seed": "5"}, "seed (unless it is a list of one per row) must be an integer of at least 0, got '5'"),
        ({"seed": "abc"}, "must be an integer of at least 0, got 'abc'"),
        ({"seed": 1.5}, "must be an integer of at least 0, got 1.5"),
        ({"seed": True}, "must be an integer of at least 0, got True"),
        ({"seed": -1}, "must be an integer of at least 0, got -1"),
        ({"seed": [1, 2.5, 3]}, "a seed must be an integer of at least 0, got 2.5"),
        ({"seed": [1, -2, 3]}, "a seed must be an integer of at least 0, got -2"),
        ({"seed": [1]}, "a list of seeds must have length num_envs=3, got 1"),
        ({"options": [1]}, "the options of reset must be a dict with names for keys, got [1]"),
        ({"options": "index"}, "the options of reset must be a dict with names for keys, got 'index'"),
        ({"options": {"index": "abc"}}, "options['index'] must be an integer from 0 to 4"),
        ({"options": {"index": [1, [2], 3]}}, "options['index'] must be an integer from 0 to 4"),
        ({"options": {"index": {"a": 1}}}, "options['index'] must be an integer from 0 to 4"),
        ({"options": {"reset_mask": "all"}}, "options['reset_mask'] must be a bool array of shape (3,)"),
    ],
)
def test_reset_of_rows(arguments, words):
    env = TokenVectorEnv([lambda: TextEnv(TASK)] * 3, **SMALL)
    with refused(words):
        env.reset(**arguments)
    fine: Any = np.int64(3)
    assert env.reset(seed=fine)[0]["tokens"].shape == (3, 64)


@pytest.mark.parametrize("options", [5, "index", [("index", 1)], {1: 2}])
def test_reset_options(options):
    for env in (TextEnv(TASK), TokenEnv(TextEnv(TASK), **SMALL)):
        with refused("the options of reset must be a dict with names for keys"):
            env.reset(options=options)


@pytest.mark.parametrize(
    ("rows", "turns", "words"),
    [
        ([0.7], [[65]], "a row must be an integer, got 0.7"),
        (["0"], [[65]], "a row must be an integer, got '0'"),
        ("0", [[65]], "a row must be an integer, got '0'"),
        ([True], [[65]], "a row must be an integer, got True"),
        (0, [[65]], "send needs a list of rows and a list of turns, got 0"),
        ([0], 65, "send needs a list of rows and a list of turns, got [0] and 65"),
        ([0], [65], "the turn of row 0 must be a 1-D integer array, got int64 ()"),
        ([0], [[65, [66]]], "the turn of row 0 must be a 1-D integer array"),
        ([0], ["hi"], "the turn of row 0 must be a 1-D integer array"),
        ([0], [[True]], "the turn of row 0 must be a 1-D integer array, got bool (1,)"),
        ([0, 1], [[65]], "send needs one turn for each of 2 different rows, got 1"),
    ],
)
def test_turns(rows, turns, words):
    env = TokenVectorEnv([lambda: TextEnv(TASK)] * 3, **SMALL)
    env.reset(seed=0)
    with refused(words, TokenError):
        env.send(rows, turns)
    with refused("actions must be a 1-D integer array", TokenError):
        env.step([1, [2], 3])  # type: ignore[arg-type]
    assert env.play([[65, EOS]] * 3)[2].all()


@pytest.mark.parametrize("action", [1.5, None, "65", True, [65], np.array([65, 66]), np.float64(3)])
def test_actions(action):
    env = TokenEnv(TextEnv(TASK), **SMALL)
    env.reset(seed=0)
    with refused("an action must be one token id (an integer), got", TokenError):
        env.step(action)
    for right in (65, np.int64(65), np.array(65)):
        assert env.step(right)[1:4] == (0.0, False, False)  # type: ignore[arg-type]


def test_prefixes():
    env = TokenEnv(TextEnv(TASK), **SMALL, constraint="regex:[a-z]*")
    with refused("a prefix must be a 1-D integer array, got float64 (1,)", TokenError):
        env.next_token_mask([[97.5]])
    with refused("token 300 is out of range", TokenError):
        env.next_token_mask([[300]])


def test_messages():
    with refused("unknown stop_reason 'lenght': did you mean 'length'?"):
        Message("a", "lenght")  # type: ignore[arg-type]
    with refused("the text of a message must be a string (str), got b'a'"):
        Message(b"a")  # type: ignore[arg-type]
    env, tools = TextEnv(TASK), ToolEnv(make_tool_task())
    for each in (env, tools):
        each.reset(seed=0)
        with refused("a message must be a string (str), got 5"):
            each.step(5)  # type: ignore[arg-type]
        assert len(each.messages) == 1
    assert env.step(np.str_("tac"))[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("view", "view", 5), "the arguments of view must be a dict with names for keys, got 5"),
        (("view", "view", None), "the arguments of view must be a dict with names for keys, got None"),
        (("view", "view", {1: 2}), "the arguments of view must be a dict with names for keys"),
        (("view", 5, {}), "the name of a tool must be a string (str), got 5"),
        ((5, "view", {}), "the text of a call must be a string (str), got 5"),
    ],
)
def test_tool_calls(arguments, words):
    with refused(words):
        ToolCall(*arguments)


def test_answers_that_are_none():
    env = TextEnv(dataclasses.replace(TASK, extract=lambda example, message: message.strip()))  # type: ignore[arg-type, return-value]
    env.reset(seed=0)
    with refused("extract of task 'Reverse' must return an Answer, got 'tac'"):
        env.step("tac")
    tools = ToolEnv(make_tool_task())
    tools.reset(seed=0)
    tools._session.answer = lambda: "tac"  # type: ignore[union-attr, method-assign, assignment, return-value]
    with refused("answer() of the session of tools of task 'Reverse' must return an Answer, got 'tac'"):
        tools.step("s")

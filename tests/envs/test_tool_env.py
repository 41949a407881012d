"""Tasks with tools at the text level and at the token level."""

import copy
import pickle
from random import Random
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import SyncVectorEnv

from llm_envs import OptionError, ToolCall, ToolEnv, load_task
from llm_envs.text_env import Message
from verifiers import Answer, Example, Verdict, Verifier

TASK = "llm_envs.code_repair.tool_task:make_task"
ID, TEXT_ID = "llm_envs/CodeRepairTools-v0", "llm_envs/CodeRepairToolsText-v0"
DIFFICULTIES, FORMATS = (1, 2, 3), ("json", "lines")
EOS = 257
FEW = {"train": 70, "validation": 70, "test": 30}  # drawing the thousandth example builds those before it


def make(**options: Any) -> ToolEnv:
    env = gym.make(TEXT_ID, **{"sizes": FEW, **options}).unwrapped
    assert isinstance(env, ToolEnv)
    return env


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_solution_passes_and_submitting_the_bug_does_not(split, difficulty, format):
    env = make(split=split, difficulty=difficulty, tool_format=format)
    for index in range(4):
        env.reset(options={"index": index})
        messages = env.task.solution(env.example)
        for message in messages[:-1]:
            observation, reward, terminated, truncated, info = env.step(str(message))
            assert (reward, terminated, truncated, info["tool_error"]) == (0.0, False, False, False)
            assert observation.endswith("\n")
        observation, reward, terminated, truncated, info = env.step(str(messages[-1]))
        assert (observation, reward, terminated, truncated) == ("", 1.0, True, False)
        assert (info["turn"], info["tool"], info["stop_reason"]) == (len(messages), "submit", "stop")
        env.reset(options={"index": index})
        assert env.step(env.task.wrong(env.example))[4]["verdict"]["passed"] is False


@pytest.mark.parametrize("difficulty", [1, 2])
@pytest.mark.parametrize("split", ["train", "test"])
def test_classes_are_repaired_with_tools(split, difficulty):
    env = make(split=split, difficulty=difficulty, programs="classes", tool_format="lines")
    for index in range(3):
        prompt, _ = env.reset(options={"index": index})
        shown = prompt.splitlines()[1:]
        assert all(line.startswith(f"o = {env.example.hidden['entry']}(") for line in shown)
        for line, told in zip(shown, env.step("@run_tests")[0].splitlines(), strict=True):
            assert line == told or line.rsplit(" not ", 1)[1].endswith(("Error", "timeout"))
        *changes, submit = env.task.solution(env.example)
        for message in changes:
            env.step(str(message))
        assert all(line.endswith(" ok") for line in env.step("@run_tests")[0].splitlines())
        assert env.step(str(submit))[1] == 1.0
        env.reset(options={"index": index})
        assert env.step(env.task.wrong(env.example))[4]["verdict"]["passed"] is False


@pytest.mark.parametrize("options", [{"difficulty": 3}, {"difficulty": 1, "programs": "classes"}])
def test_demonstrations_are_well_formed_whatever_the_program(options):
    env, rng = make(tool_format="lines", **options), Random(1)
    labels = set()
    for index in range(30):
        env.reset(options={"index": index})
        for message in env.task.demonstrate(env.example, rng):
            *_, info = env.step(message)
            assert not info["tool_error"]
        labels.add(info["verdict"]["passed"])
    assert labels == {True, False}


def test_tool_calls_are_not_parsed():
    env = make(tool_format="json")
    env.reset(seed=3)
    assert env.action_space.contains(ToolCall("anything", "view", {"path": "main.py"}))
    observation, *_, info = env.step(ToolCall("anything", "view", {"path": "main.py"}))
    assert observation.startswith("1|def ")
    assert (info["tool"], info["turn"]) == ("view", 1)
    assert [message["role"] for message in env.messages] == ["user", "assistant", "tool"]


def test_run_tests_shows_public_examples_and_no_hidden_ones():
    env = make(tool_format="lines")
    prompt, _ = env.reset(options={"index": 4})
    shown = prompt.splitlines()[1:]
    assert env.step("@run_tests")[0].splitlines() == shown
    for message in env.task.solution(env.example)[:-1]:
        env.step(str(message))
    assert all(line.endswith(" ok") for line in env.step("@run_tests")[0].splitlines())
    hidden = [str(test["args"]) for test in env.example.hidden["tests"]]
    assert not any(args in str(env.messages) for args in hidden if args not in str(env.example.metadata["public"]))


def test_hostile_code_is_contained_by_run_tests():
    env = make(tool_format="lines")
    env.reset(options={"index": 4})
    name = env.example.hidden["entry"]
    for body, told in [
        ("import os; os._exit(0)", "died"),
        ("while True: pass", "timeout"),
        ("return open('/etc/passwd').read()", "FileNotFoundError"),
        ("return object()", "unserialisable"),
        ("raise type('Secret', (Exception,), {})", "not"),
    ]:
        env.step("@view main.py")
        lines = len(env.messages[-1]["content"].splitlines())
        env.step(f"@replace_lines main.py 1 {lines}\ndef {name}(*args):\n    {body}")
        assert told in env.step("@run_tests")[0]
        env._turn = 0
    env.step("@submit")


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("I do not know", "the message calls no tool; there are view, replace_lines, run_tests, submit. @submit"),
        ("@veiw main.py", "unknown tool 'veiw': did you mean 'view'?"),
        ("@view other.py", "there is no file 'other.py'; there are main.py"),
        ("@replace_lines main.py 0 1\nx", "main.py has lines 1 to"),
        ("@replace_lines main.py 1", "replace_lines needs the argument 'last'"),
    ],
)
def test_malformed_calls_get_a_helpful_observation(message, told):
    env = make(tool_format="lines")
    env.reset(seed=1)
    observation, reward, terminated, _, info = env.step(message)
    assert observation.startswith("error: ")
    assert told in observation
    assert (reward, terminated, info["tool_error"]) == (0.0, False, True)


def test_turns_are_limited_and_the_state_is_judged():
    env = make(tool_format="lines", max_turns=3)
    env.reset(options={"index": 2})
    view, *changes, _ = env.task.solution(env.example)
    env.step(view)
    env.step(changes[0])
    _, reward, terminated, truncated, info = env.step("@run_tests")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert (info["stop_reason"], info["verdict"]["kind"]) == ("length", "passed")


def test_a_message_that_was_cut_off_is_not_carried_out():
    env = make(tool_format="lines")
    env.reset(options={"index": 2})
    _, _, terminated, _, info = env.step(Message("@submit", "length"))
    assert terminated
    assert (info["tool"], info["stop_reason"], info["verdict"]["passed"]) == ("", "length", False)
    env.reset(options={"index": 2})
    assert env.step(Message("@submit", "invalid_action"))[4]["verdict"]["kind"] == "invalid_action"


def test_copies_and_pickles_go_on_alone():
    env = make(tool_format="lines")
    env.reset(seed=5)
    env.step("@replace_lines main.py 1 1\n# mine")
    for duplicate in (copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))):
        other = duplicate(env)
        assert data_equivalence(env.step("@view main.py"), other.step("@view main.py"), exact=True)
        other.step("@replace_lines main.py 1 1\n# other")
        assert "# mine" in env.step("@view main.py")[0]


def test_unknown_options():
    with pytest.raises(OptionError, match="one class in one file"):
        make(difficulty=3, programs="classes")
    for option, value in [
        ("difficulty", 4),
        ("programs", "clas"),
        ("families", "cor"),
        ("style", "caht"),
        ("tool_format", "jsn"),
    ]:
        with pytest.raises(OptionError, match=str(value)):
            make(**{option: value})


def test_demonstrations_are_right_as_often_as_the_teacher_says():
    task = load_task(TASK, {"tool_format": "lines", "families": "core"})
    env = make(tool_format="lines", families="core")
    rng, passed = Random(0), 0
    for index in range(60):
        env.reset(options={"index": index})
        for message in task.demonstrate(env.example, rng):
            *_, info = env.step(message)
        passed += info["verdict"]["passed"]
    assert 15 <= passed <= 40  # of 60, right with probability 0.43 for most kinds of bug


# ---- tokens ----


def text_level(env: Any) -> ToolEnv:
    return env.unwrapped.env


def write(env, text):
    """Write a message byte by byte; returns the last step and how many tokens were written."""
    ids = [*text.encode(), EOS]
    for token in ids:
        step = env.step(np.int64(token))
    return step, len(ids)


def test_inserted_tokens_are_the_growth_beyond_the_action():
    env = gym.make(ID, tool_format="lines", max_length=2048)
    observation, _ = env.reset(options={"index": 2})
    length, mask = int(observation["length"][0]), []
    messages = text_level(env).task.solution(text_level(env).example)
    for message in messages:
        (observation, reward, terminated, _, info), written = write(env, message)
        grown = int(observation["length"][0]) - length
        mask += [True] * written + [False] * (grown - written)
        length += grown
        assert terminated == (message is messages[-1])
    assert (reward, info["verdict"]["passed"]) == (1.0, True)
    tokens = observation["tokens"][length - len(mask) : length]
    policy = bytes(int(token) for token, own in zip(tokens, mask, strict=True) if own and token < 256).decode()
    inserted = bytes(int(token) for token, own in zip(tokens, mask, strict=True) if not own).decode()
    assert policy == "".join(messages)
    assert inserted.startswith("1|def ")
    assert inserted.endswith("ok\n")


def test_budget_counts_the_policys_tokens_only():
    env = gym.make(ID, tool_format="lines", max_length=2048, max_new_tokens=40)
    observation, _ = env.reset(options={"index": 2})
    assert observation["remaining"] == [40]
    (observation, *_), written = write(env, "@view main.py")
    assert observation["remaining"] == [40 - written]
    with_result = int(observation["length"][0])
    for token in b"@" * (40 - written):
        observation, _, terminated, _, info = env.step(np.int64(token))
    assert terminated
    assert (info["stop_reason"], info["verdict"]["passed"]) == ("length", False)
    assert observation["length"] == [with_result + 40 - written]


def test_result_that_does_not_fit_ends_the_episode():
    env = gym.make(ID, tool_format="lines", max_length=250, max_new_tokens=120)
    env.reset(options={"index": 2})
    write(env, "@replace_lines main.py 1 1\n# gone")
    (observation, reward, terminated, truncated, info), _ = write(env, "@view main.py")
    assert (reward, terminated, truncated, info["stop_reason"]) == (0.0, True, False, "length")
    assert info["verdict"]["kind"] == "syntax_error"


def test_vector_rows_equal_single_environments():
    options: dict[str, Any] = {"sizes": FEW, "tool_format": "lines", "max_length": 1024, "max_new_tokens": 100}
    vector = gym.make_vec(ID, num_envs=3, **options)
    single = SyncVectorEnv([lambda: gym.make(ID, **options)] * 3)
    texts = [b"@view main.py", b"@run_tests", b"@submit"]
    for env in (vector, single):
        env.reset(seed=11)
    for step in range(40):
        actions = np.array([(text + bytes(99))[step] if step < len(text) else EOS for text in texts])
        ours, theirs = vector.step(actions), single.step(actions)
        assert data_equivalence(ours[0], theirs[0])
        for mine, other in zip(ours[1:4], theirs[1:4], strict=True):
            assert np.array_equal(mine, other)
    vector.close()


def test_whole_turns_equal_single_tokens():
    options: dict[str, Any] = {"sizes": FEW, "tool_format": "lines", "max_length": 1024, "max_new_tokens": 100}
    turns: Any = gym.make_vec(ID, num_envs=2, **options)
    tokens = gym.make_vec(ID, num_envs=2, **options)
    for env in (turns, tokens):
        env.reset(seed=4)
    for text in (b"@view main.py", b"@replace_lines main.py 1 1\n# gone", b"@submit"):
        ids = np.array([*text, EOS])
        ours = turns.play([ids, ids])
        for token in ids:
            theirs = tokens.step(np.array([token, token]))
        assert data_equivalence(ours[0], theirs[0])
        assert np.array_equal(ours[1], theirs[1])
        assert np.array_equal(ours[2], theirs[2])
    assert ours[2].all()


class Last(Verifier):
    def verify(self, example: Example, answer: Answer) -> Verdict:
        return Verdict(0.5, False, "wrong", feedback=str(sorted(answer.files)))


def test_another_verifier_judges_the_files():
    env = make(tool_format="lines", verifier=Last(), difficulty=3)
    env.reset(seed=0)
    assert "not" in env.step("@run_tests")[0]
    assert env.step("@submit")[4]["verdict"]["feedback"] == "['a.py', 'b.py', 'main.py']"

"""The agents that need no model: what a script may be, seeded draws, and checkpoints that are whole or not there."""

import json

import gymnasium as gym
import numpy as np
import pytest

import agents
import llm_envs  # noqa: F401  (registers the environments)
from agents.base import AgentError
from agents.files import whole_folder
from agents.random_agent import RandomAgent
from agents.scripted import ScriptedAgent
from agents.two_arms import TwoArms

TEXT, TOOLS = "llm_envs/TransformText-v0", "llm_envs/CodeRepairToolsText-v0"


def gold(env):
    return env.get_wrapper_attr("example").gold


def solutions():
    """{example id: its gold answer} of the first problems."""
    env, found = gym.make(TEXT), {}
    for index in range(3):
        env.reset(options={"index": index})
        found[env.get_wrapper_attr("example").id] = gold(env)
    return found


def scores(agent):
    return [episode.score for episode in agent.play(TEXT, range(3), rows=1)]


# Scripts


def test_one_string_is_one_message():
    assert scores(ScriptedAgent(solutions())) == [1.0, 1.0, 1.0]
    assert scores(ScriptedAgent({name: [answer] for name, answer in solutions().items()})) == [1.0, 1.0, 1.0]
    assert scores(ScriptedAgent(gold)) == [1.0, 1.0, 1.0]
    assert scores(ScriptedAgent(lambda env: [gold(env)])) == [1.0, 1.0, 1.0]
    assert scores(ScriptedAgent(lambda env: iter([gold(env)]))) == [1.0, 1.0, 1.0]


def test_one_tool_call_is_one_message_and_stays_a_call():
    env = gym.make(TOOLS, disable_env_checker=True)
    env.reset(seed=0)
    call = env.get_wrapper_attr("tool_format").call("submit")
    assert ScriptedAgent(lambda env: call).begin(env)("")[0] is call


@pytest.mark.parametrize("script", [5, ["a", "b"], None, True])
def test_what_is_no_script_is_refused_when_the_agent_is_built(script):
    with pytest.raises(AgentError, match="script must be a name, a mapping .* or a function, got "):
        agents.make("scripted", TEXT, script=script)


@pytest.mark.parametrize("given", [5, None, ["a", 5], b"a"])
def test_messages_that_are_none_are_refused(given):
    env = gym.make(TEXT)
    env.reset(options={"index": 0})
    for script in (lambda env: given, {env.get_wrapper_attr("example").id: given}):
        with pytest.raises(AgentError, match="a script must give a message or several, all of them str, got "):
            ScriptedAgent(script).begin(env)
    with pytest.raises(AgentError, match="no message for this episode"):
        ScriptedAgent(lambda env: []).begin(env)


# Draws


def test_the_draws_of_the_random_agent_depend_on_the_seed_alone():
    agent, (observation, _) = RandomAgent(1000), TwoArms(2, [0]).reset(seed=0)

    def drawn(seed):
        agent.seed(seed)
        return [int(agent.predict(observation)[0]) for _ in range(5)]

    first = drawn(7)
    assert drawn(8) != first
    assert drawn(7) == first
    made = RandomAgent(1000, seed=7)
    assert [int(made.predict(observation)[0]) for _ in range(5)] == first


# Checkpoints


def agents_of():
    return RandomAgent(8), ScriptedAgent({"a": "b", "c": ["d", "e"]})


def test_saved_agents_are_loaded(tmp_path):
    random, scripted = agents_of()
    observation, _ = TwoArms(2, [0]).reset(seed=0)
    random.save(tmp_path / "random")
    again = RandomAgent.load(tmp_path / "random", lambda: TwoArms(2, [0]))
    np.testing.assert_equal(
        [again.predict(observation)[0] for _ in range(9)], [random.predict(observation)[0] for _ in range(9)]
    )
    scripted.save(tmp_path / "scripted")
    assert ScriptedAgent.load(tmp_path / "scripted", TEXT).script == scripted.script
    with pytest.raises(AgentError, match="has 8 actions, the environment 258"):
        RandomAgent.load(tmp_path / "random", "llm_envs/Transform-v0")


def test_checkpoints_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    for number, agent in enumerate(agents_of()):
        agent.save(tmp_path / str(number))
        with pytest.raises(FileExistsError, match="give a new one"):
            agent.save(tmp_path / str(number))

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    for agent in agents_of():
        with pytest.raises(OSError, match="No space left"):
            agent.save(tmp_path / "deep" / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "deep"]
    assert list((tmp_path / "deep").iterdir()) == []


def test_a_folder_has_its_name_only_when_it_is_whole(tmp_path):
    (tmp_path / "new.unfinished").mkdir()
    (tmp_path / "new.unfinished" / "of a process that died").touch()
    with whole_folder(tmp_path / "new") as unfinished:
        (unfinished / "file").touch()
        assert not (tmp_path / "new").exists()
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "file"]


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", '{"n_actions": 8, "rng": 5}'])
def test_folders_without_a_whole_checkpoint_are_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "random.json").write_text(content)
    with pytest.raises(AgentError, match="is no checkpoint of a random agent: random.json is missing or damaged"):
        RandomAgent.load(tmp_path, lambda: TwoArms(2, [0]))


@pytest.mark.parametrize("content", [None, "", "{", json.dumps(5)])
def test_folders_without_a_script_are_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "scripted.json").write_text(content)
    with pytest.raises(AgentError, match="scripted.json is missing or damaged|script must be"):
        ScriptedAgent.load(tmp_path, TEXT)

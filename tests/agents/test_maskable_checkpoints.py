"""Checkpoints of MaskablePPO."""

import json
import shutil

import gymnasium as gym
import pytest

import agents
from agents.__main__ import Evaluate, options_of
from agents.base import AgentError
from agents.checkpoint import read_summary
from agents.maskable_ppo import MaskablePPOAgent
from agents.random_agent import RandomAgent
from agents.two_arms import TwoArms
from tests.agents.small import VOCABULARY, Letters, same, snapshot
from tests.agents.test_maskable_ppo import SMALL, NoLength, letters_env, make


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agents") / "deep" / "checkpoint"
    agent = make(learning_rate=1e-2).learn(64)
    agent.save(folder)
    return agent, folder


def test_a_loaded_agent_acts_the_same_and_goes_on(saved):
    agent, folder = saved
    again = agents.load("maskable_ppo", folder, letters_env)
    assert same(snapshot(agent.algorithm.policy), snapshot(again.algorithm.policy))
    assert again.num_timesteps == 64
    assert again.settings == agent.settings
    observation, _ = letters_env().reset(seed=1)
    for deterministic in (True, False, False, False, False):
        assert agent.predict(observation, deterministic=deterministic) == again.predict(
            observation, deterministic=deterministic
        )
    moments = again.algorithm.policy.optimizer.state_dict()["state"]
    assert len(moments) == len(agent.algorithm.policy.optimizer.state_dict()["state"]) > 0
    assert again.learn(96).num_timesteps == 96
    assert not same(snapshot(agent.algorithm.policy), snapshot(again.algorithm.policy))


def test_stable_baselines_reads_the_checkpoint(saved):
    from sb3_contrib import MaskablePPO

    agent, folder = saved
    algorithm = MaskablePPO.load(folder / "model.zip")
    assert same(snapshot(agent.algorithm.policy), snapshot(algorithm.policy))


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (lambda: letters_env(max_length=41), r"trained with observation_space Dict\(.*\(40,\).*environment has .*41"),
        (lambda: TwoArms(2, [0]), "trained with observation_space"),
        (NoLength, "expected observations with"),
    ],
)
def test_a_checkpoint_of_other_spaces_is_refused_before_any_work(saved, monkeypatch, env, sentence):
    monkeypatch.setattr(MaskablePPOAgent, "make", None)
    with pytest.raises(AgentError, match=sentence):
        MaskablePPOAgent.load(saved[1], env)


def test_other_folders_are_refused(saved, tmp_path):
    RandomAgent(VOCABULARY).save(tmp_path / "random")
    for folder in (tmp_path / "random", tmp_path / "missing"):
        with pytest.raises(AgentError, match="is not a checkpoint: checkpoint.json is missing"):
            MaskablePPOAgent.load(folder, letters_env)
    (tmp_path / "ppo").mkdir()
    (tmp_path / "ppo" / "checkpoint.json").write_text(json.dumps({"agent": "ppo"}))
    with pytest.raises(AgentError, match="is a checkpoint of agent 'ppo', expected 'maskable_ppo'"):
        MaskablePPOAgent.load(tmp_path / "ppo", letters_env)
    with pytest.raises(FileExistsError, match="give a new one"):
        saved[0].save(saved[1])


def test_a_checkpoint_is_written_whole_or_not_at_all(saved, tmp_path, monkeypatch):
    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("agents.files.sync", full)
    with pytest.raises(OSError, match="No space left"):
        saved[0].save(tmp_path / "checkpoint")
    assert list(tmp_path.iterdir()) == []


def test_a_schedule_is_not_saved_and_must_be_given_again(tmp_path):
    def schedule(left):
        return 1e-3 * left

    make(learning_rate=schedule).save(tmp_path / "checkpoint")
    with pytest.raises(AgentError, match="cannot hold the settings learning_rate: pass them to load"):
        MaskablePPOAgent.load(tmp_path / "checkpoint", letters_env)
    agent = MaskablePPOAgent.load(tmp_path / "checkpoint", letters_env, learning_rate=schedule)
    assert agent.algorithm.learning_rate(0.5) == 5e-4


@pytest.mark.parametrize("name", ["model.zip", "rng.pt"])
def test_a_damaged_checkpoint_says_what_is_damaged(saved, tmp_path, name):
    folder = shutil.copytree(saved[1], tmp_path / "checkpoint")
    whole = (folder / name).read_bytes()
    for damaged in (whole[: len(whole) // 2], b""):
        (folder / name).write_bytes(damaged)
        with pytest.raises(AgentError, match=f"checkpoint is damaged: {name} cannot be read"):
            MaskablePPOAgent.load(folder, letters_env)
    (folder / name).unlink()
    with pytest.raises(AgentError, match=f"checkpoint is damaged: {name} is missing"):
        MaskablePPOAgent.load(folder, letters_env)


def test_a_summary_that_lacks_something_is_damaged(tmp_path):
    (tmp_path / "checkpoint.json").write_text(json.dumps({"agent": "maskable_ppo", "num_timesteps": 0}))
    with pytest.raises(AgentError, match="checkpoint.json lacks"):
        MaskablePPOAgent.load(tmp_path, letters_env)


def test_weights_of_another_shape_are_refused(saved):
    with pytest.raises(AgentError, match="holds the weights of a policy with {'width': 8}, got {'width': 16}"):
        MaskablePPOAgent.load(saved[1], letters_env, width=16)


def test_the_summary_says_what_evaluate_asks_of_it(tmp_path):
    environment, given = "llm_envs/Transform-v0", {"split": "train", "difficulty": 2, "max_new_tokens": 7}
    agent = agents.make("maskable_ppo", environment, env_options={**given, "tokenizer": "byte"}, **SMALL)
    agent.save(tmp_path / "before")
    agent.learn(32).save(tmp_path / "after")
    before, after = (read_summary(tmp_path / name) for name in ("before", "after"))
    expected = {"difficulty": 2, "max_new_tokens": 7, "tokenizer": "byte"}
    assert after["env"]["id"] == environment
    assert expected.items() <= after["env"]["options"].items()
    assert not after["env"]["options"].keys() & {"split", "task"}
    assert before["weights"] != after["weights"]
    agents.load("maskable_ppo", tmp_path / "after", environment, env_options=after["env"]["options"])
    args = Evaluate("maskable_ppo", environment, checkpoint=tmp_path / "after")
    assert expected.items() <= options_of(args).items()


def test_an_environment_without_an_id_or_with_a_tokenizer_object(tmp_path):
    make().save(tmp_path / "checkpoint")
    assert read_summary(tmp_path / "checkpoint")["env"] == {"id": None, "options": {}}
    agent = make(lambda: gym.make("llm_envs/Transform-v0", tokenizer=Letters()))
    agent.save(tmp_path / "object")
    assert "tokenizer" not in read_summary(tmp_path / "object")["env"]["options"]

"""What raises while a Recorder watches, and what differs every time, does not spoil a recording."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import llm_envs
from llm_envs import OptionError, Recorder, ToolCall, replay_file
from llm_envs.recording import read_recording

EOS = 257


def test_what_is_no_action_is_refused_before_the_step_is_taken(tmp_path):
    path = tmp_path / "r.jsonl"
    with Recorder(gym.make("llm_envs/CodeRepairToolsText-v0"), path) as env:
        env.reset(seed=1)
        for action in (None, 2.5, ToolCall("x", "view", {"path": {1, 2}}), ToolCall("x", "view", {"line": 10**5000})):
            with pytest.raises(OptionError, match="Recorder needs"):
                env.step(action)
        text: Any = env.unwrapped
        assert len(text.messages) == 1
        env.step("done")
    assert len(read_recording(path).episodes[0]["steps"]) == 1
    assert replay_file(path) == 0


def test_a_step_that_raised_is_not_recorded(tmp_path):
    path = tmp_path / "r.jsonl"
    with Recorder(gym.make("llm_envs/Reverse-v0"), path) as env:
        env.reset(seed=1)
        with pytest.raises(llm_envs.TokenError):
            env.step(999)
        env.step(65)
        env.reset()
        env.step(EOS)
    first, second = read_recording(path).episodes
    assert [step["action"] for step in first["steps"]] == [65]
    assert second["seed"] is not None  # whatever the step that raised has drawn
    assert replay_file(path) == 0


def test_resets_that_were_refused_do_not_shift_later_draws(tmp_path):
    drawn = []
    for name in ("one", "two"):
        path = tmp_path / name
        with Recorder(gym.make("llm_envs/ArithmeticText-v0"), path) as env:
            env.reset(seed=3)
            for options in ({"index": -1}, {"indx": 1}, {"index": {1}}):
                with pytest.raises(OptionError):
                    env.reset(seed=4, options=options)
                env.step("1") if options == {"index": {1}} else None  # not plain: refused before anything happened
                env.reset()
            drawn.append([env.reset()[0] for _ in range(5)])
        assert replay_file(path) == 0
        episodes = read_recording(path).episodes
        assert len(episodes) == 9
        assert [episode["seed"] is not None for episode in episodes] == [True, True, True, False, *[False] * 5]
    assert drawn[0] == drawn[1]  # a seed that was given decides the later ones


class Unplain(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Draws in every step, and answers the letter B with what JSON cannot hold."""

    def __init__(self, env):
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.env.unwrapped.np_random.random()
        return observation, reward, terminated, truncated, {**info, "odd": object() if action == ord("B") else 0}


def test_an_info_that_is_not_plain_ends_the_record_of_its_episode(tmp_path):
    path = tmp_path / "r.jsonl"
    with Recorder(Unplain(gym.make("llm_envs/Reverse-v0")), path) as env:
        env.reset(seed=1)
        env.step(65)
        with pytest.raises(OptionError, match="infos of plain values, got <object"):
            env.step(66)
        env.step(67)
        env.reset()
        env.step(65)
    first, second = read_recording(path).episodes
    assert [step["action"] for step in first["steps"]] == [65]
    assert second["seed"] is not None
    assert replay_file(path, trust=True) == 0


def test_seeds_of_numpy_are_written_and_what_is_none_is_refused(tmp_path):
    with Recorder(gym.make("FrozenLake-v1"), tmp_path / "r.jsonl") as env:
        with pytest.raises(OptionError, match="seed must be an integer or None, got 'x'"):
            env.reset(seed="x")  # type: ignore[arg-type]
        env.reset(seed=2)
        env.step(1)
        env.step(np.int64(2))
    assert replay_file(tmp_path / "r.jsonl") == 0


def test_the_time_of_an_episode_is_not_recorded(tmp_path):
    path = tmp_path / "r.jsonl"
    with Recorder(gym.wrappers.RecordEpisodeStatistics(gym.make("llm_envs/Reverse-v0")), path) as env:
        env.reset(seed=0)
        info = env.step(EOS)[4]
    assert set(info["episode"]) == {"r", "l", "t"}
    assert read_recording(path).episodes[0]["steps"][0]["info"]["episode"] == {"r": 0.0, "l": 1}
    assert replay_file(path) == 0
    path.write_text(path.read_text().replace('"l": 1', '"l": 1, "t": 5.0'))
    assert replay_file(path) == 0  # of a file that has it


def test_folders_are_created_and_what_cannot_be_a_file_is_one_sentence(tmp_path):
    env = gym.make("llm_envs/Reverse-v0")
    Recorder(env, tmp_path / "new" / "folder" / "r.jsonl").close()
    for path in (tmp_path / "new" / "folder" / "r.jsonl" / "x", "a\0b"):
        with pytest.raises(OptionError, match="Recorder cannot create|does not exist") as caught:
            Recorder(env, path)
        assert "\n" not in str(caught.value)
    with pytest.raises(OptionError, match="does not exist"):
        Recorder(env, tmp_path)
    with pytest.raises(OptionError, match="the path of a file to write, got None"):
        Recorder(env, None)  # type: ignore[arg-type]


def test_wrappers_that_cannot_be_made_again_are_refused_when_recording_begins(tmp_path):
    class Forgetful(gym.Wrapper[Any, Any, Any, Any]):
        pass

    with pytest.raises(OptionError, match="wrappers that can be made again, and Forgetful keeps no arguments"):
        Recorder(Forgetful(gym.make("llm_envs/Reverse-v0")), tmp_path / "r.jsonl")
    assert not list(tmp_path.iterdir())


def test_nothing_is_recorded_after_close(tmp_path):
    env = Recorder(gym.make("llm_envs/Reverse-v0"), tmp_path / "r.jsonl")
    env.reset(seed=0)
    env.close()
    for call in (env.reset, lambda: env.step(65)):
        with pytest.raises(llm_envs.ClosedError, match="is closed"):
            call()
    assert replay_file(tmp_path / "r.jsonl") == 0

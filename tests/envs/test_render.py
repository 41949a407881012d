"""Render modes of all levels, and Gymnasium's wrappers around them."""

import sys
import types
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from small_tasks import Echo, make_task

from llm_envs import Message, OptionError, TextEnv, TokenEnv, TokenVectorEnv
from llm_envs.render import Block, as_image, as_text, visible

EOS = 257
OPTIONS: dict[str, Any] = {"max_length": 40}
ANSWERED = "[user]\nspell cat\n\n\n[assistant]\ntac\n\n[verdict]\npassed (stop): score 1\ncompared"


def tokens(env, text, *last):
    for token in [*text.encode(), *last]:
        env.step(np.int64(token))


@pytest.mark.parametrize("id", ["llm_envs/Reverse-v0", "llm_envs/ReverseText-v0"])
@pytest.mark.parametrize("mode", ["human", "ansi", "rgb_array"])
@pytest.mark.filterwarnings("error")
def test_gymnasium_makes_every_mode(id, mode):
    env = gym.make(id, render_mode=mode)
    check_env(env.unwrapped)
    env.reset(seed=0)
    env.step(env.action_space.sample())
    env.render()
    env.close()


def test_text_level():
    env = TextEnv(make_task(), render_mode="ansi")
    env.reset(options={"index": 0})
    assert env.render() == "[user]\nspell cat\n"
    env.step("tac")
    assert env.render() == ANSWERED
    env.reset(options={"index": 0})
    assert env.render() == "[user]\nspell cat\n"


def test_token_level_shows_the_turn_under_way_and_then_the_verdict():
    env = TokenEnv(TextEnv(make_task()), **OPTIONS, render_mode="ansi")
    env.reset(options={"index": 0})
    tokens(env, "ta")
    assert env.render() == "[user]\nspell cat\n\n\n[assistant]\nta"
    tokens(env, "c", EOS)
    assert env.render() == ANSWERED


def test_a_judge_that_broke_and_a_message_cut_off():
    env = TextEnv(make_task(judge_unfinished=False), render_mode="ansi", on_verifier_error="unscored")
    env.reset(options={"index": 0})
    env.step("crash")
    assert env.render().endswith("[verdict]\nunscored (stop): the judge broke")
    env.reset(options={"index": 0})
    env.step(Message("ta", "length"))
    assert "[verdict]\nunfinished (length): score 0\n" in env.render()


def test_an_environment_of_someone_elses_shows_its_prefix():
    env = TokenEnv(Echo(), **OPTIONS, max_new_tokens=20, render_mode="ansi")
    env.reset(seed=0)
    tokens(env, "hey", EOS, *b"yo")
    assert env.render().endswith("\nheyagain a\nyo")


def test_tool_results():
    env = gym.make(
        "llm_envs/CodeRepairToolsText-v0", render_mode="ansi", sizes={"train": 70, "validation": 70, "test": 30}
    )
    env.reset(options={"index": 0})
    env.step("what?")
    assert "\n\n[assistant]\nwhat?\n\n[tool]\nerror: the message calls no tool" in str(env.render())


def test_vector_environments_show_every_row():
    options = {"index": [0, 4]}
    env = TokenVectorEnv([lambda: TextEnv(make_task())] * 2, **OPTIONS, render_mode="ansi", max_episode_steps=1)
    env.reset(options=options)
    env.step(np.array([65, 66]))
    assert env.render() == ("[user]\nspell cat\n\n\n[assistant]\nA", "[user]\nspell ox\n\n\n[assistant]\nB")
    pictures: Any = gym.make_vec("llm_envs/Reverse-v0", 2, render_mode="rgb_array")
    pictures.reset(options=options)
    assert [frame.shape for frame in pictures.render()] == [(480, 640, 3)] * 2
    assert (pictures.render()[0] != pictures.render()[1]).any()
    assert TokenVectorEnv([lambda: TextEnv(make_task())], **OPTIONS).render() is None
    for each in (env, pictures):
        each.close()


def test_human_prints_what_is_new_and_prints_it_once(capsys):
    env = TokenEnv(TextEnv(make_task()), **OPTIONS, render_mode="human")
    env.reset(options={"index": 0})
    assert capsys.readouterr().out == "[user]\nspell cat\n\n"
    tokens(env, "t")
    assert env.render() is None
    assert capsys.readouterr().out == "[assistant]\nt\n"
    tokens(env, "ac", EOS)
    assert capsys.readouterr().out == "ac\n[verdict]\npassed (stop): score 1\ncompared\n"
    env.render()
    assert capsys.readouterr().out == ""
    env.reset(options={"index": 4})
    assert capsys.readouterr().out == "[user]\nspell ox\n\n"


def test_human_without_rich(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    env = TextEnv(make_task(), render_mode="human")
    env.reset(options={"index": 0})
    env.step("tac")
    assert capsys.readouterr().out == ANSWERED.replace("\n\n[", "\n[") + "\n"


def test_what_a_policy_writes_cannot_move_the_cursor():
    assert visible("a\x1b[2J\r\x08\x7f\x9bb\tc\nd \ud800 é") == "a␛[2J␍␈␡\ufffdb\tc\nd \ufffd é"
    assert "\x1b" not in as_text([Block("assistant", "\x1b]0;title\x07")])


def test_pictures_have_one_size_and_show_the_end():
    empty = as_image([])
    few = as_image([Block("user", "spell cat")])
    many = as_image([Block("user", "x" * 5000 + "\n" * 50 + "naïve 日本")])
    assert {(frame.shape, str(frame.dtype)) for frame in (empty, few, many)} == {((480, 640, 3), "uint8")}
    assert (few != empty).any()
    np.testing.assert_array_equal(many, as_image([Block("user", "y" * 9000 + "\n" * 50 + "naïve 日本")]))
    assert (many != as_image([Block("user", "x" * 5000 + "\n" * 50 + "naive 日本")])).any()


def test_without_pillow_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    env = TextEnv(make_task(), render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.raises(gym.error.DependencyNotInstalled, match="pip install pillow"):
        env.render()


def test_unknown_modes():
    with pytest.raises(OptionError, match="did you mean 'ansi'"):
        TextEnv(make_task(), render_mode="asni")
    with pytest.raises(OptionError, match="render_mode 'human'"):
        TokenVectorEnv([lambda: TextEnv(make_task())], **OPTIONS, render_mode="human")


@pytest.mark.parametrize("id", ["llm_envs/Reverse-v0", "llm_envs/ReverseText-v0"])
@pytest.mark.parametrize("mode", ["ansi_list", "rgb_array_list"])
@pytest.mark.filterwarnings("error")
def test_gymnasium_collects_what_is_rendered(id, mode):
    env: Any = gym.make(id, render_mode=mode)
    env.reset(options={"index": 0})
    env.step(np.int64(65) if "Text" not in id else "tac")
    first, last = env.render()
    assert env.render() == []
    if mode == "ansi_list":
        assert first == "[user]\nspell cat\n"
        assert last.startswith(first + "\n\n[assistant]\n")
    else:
        assert first.shape == last.shape == (480, 640, 3)
        assert (first != last).any()
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    again.reset(seed=0)
    assert len(again.render()) == 1  # type: ignore[arg-type]
    for each in (env, again):
        each.close()


class FakeClip:
    """What MoviePy is asked for: a file of frames of one size."""

    written: list[tuple[str, set]] = []

    def __init__(self, frames, fps):
        self.sizes = {frame.shape for frame in frames}

    def write_videofile(self, path, logger=None):
        self.written.append((path, self.sizes))


def test_record_video(tmp_path, monkeypatch):
    for name in ("moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["moviepy.video.io.ImageSequenceClip"].ImageSequenceClip = FakeClip  # type: ignore[attr-defined]
    env = gym.make("llm_envs/Reverse-v0", render_mode="rgb_array")
    env = gym.wrappers.RecordVideo(env, str(tmp_path / "videos"), episode_trigger=lambda episode: True)
    env.reset(seed=0)
    tokens(env, "tac", EOS)
    env.close()
    assert FakeClip.written == [(str(tmp_path / "videos" / "rl-video-episode-0.mp4"), {(480, 640, 3)})]


def test_rendering_wrappers_apply(monkeypatch):
    def make():
        return gym.make("llm_envs/ReverseText-v0", render_mode="rgb_array")

    noisy, frames, human = gym.wrappers.AddWhiteNoise(make(), 0.1), gym.wrappers.RenderCollection(make()), make()
    shown = []
    monkeypatch.setattr(gym.wrappers.HumanRendering, "_render_frame", lambda self: shown.append(self.env.render()))
    for env in (noisy, frames, gym.wrappers.HumanRendering(human)):  # a window needs pygame and a screen
        env.reset(seed=0)
        env.step("tac")
    assert {frame.shape for frame in (noisy.render(), *frames.render(), *shown)} == {(480, 640, 3)}
    assert len(shown) == 2

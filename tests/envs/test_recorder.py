"""Recordings: they play again exactly, and what has changed is found."""

import importlib.util
import json
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from small_tasks import Share

import llm_envs
from llm_envs import Message, OptionError, Recorder, RecordingError, TextEnv, ToolCall, replay_file
from llm_envs.recorder import replay
from llm_envs.recording import read_recording

IDS = sorted(
    id
    for id, spec in gym.registry.items()
    if id.startswith("llm_envs/") and importlib.util.find_spec(spec.kwargs["task"].partition(":")[0])
)
EOS = 257


def record(path, id="llm_envs/Reverse-v0", episodes=((b"tac", EOS), (b"xx", EOS)), **options):
    with Recorder(gym.make(id, **options), path) as env:
        for index, (text, last) in enumerate(episodes):
            env.reset(seed=5 if index == 0 else None, options={"index": index})
            for token in [*text, last]:
                env.step(np.int64(token))
    return path


def changed(path, change):
    """The same recording, with one episode changed."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("id", IDS)
def test_every_built_in_environment_plays_again(id, tmp_path, capsys):
    path = tmp_path / "episodes.jsonl"
    rng = np.random.default_rng(0)
    with Recorder(gym.make(id), path) as env:
        for _ in range(2):  # the first reset has no seed; the second goes on with the same generator
            env.reset()
            inner: Any = env.unwrapped
            text: TextEnv = inner if "Text-v" in id else inner.env
            messages = text.task.solution(text.example) if rng.random() < 0.5 else ["a", "b"]
            for action in messages if "Text-v" in id else [*messages[0].encode()[:8], EOS]:
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    break
    assert replay_file(path) == 0
    assert capsys.readouterr().out.endswith(" 0 differences\n")
    assert len(read_recording(path).episodes) == 2


def test_what_a_line_holds(tmp_path):
    path = record(tmp_path / "r.jsonl", split="test")
    header, first, second = map(json.loads, path.read_text().splitlines())
    assert (header["kind"], header["version"], header["spec"]["kwargs"]["split"]) == ("recording", 1, "test")
    assert (first["seed"], first["options"], second["seed"]) == (5, {"index": 0}, None)
    assert [step["action"] for step in first["steps"]] == [*b"tac", EOS]
    assert [step["reward"] for step in first["steps"]] == [0.0, 0.0, 0.0, 1.0]
    assert first["steps"][-1]["terminated"] is True
    assert first["steps"][-1]["info"]["verdict"]["components"] == {"hits": 1.0}
    assert len(first["first"]["observation"]) == 16


def test_messages_keep_their_reasons_and_tool_calls(tmp_path):
    path = tmp_path / "r.jsonl"
    sizes = {"train": 70, "validation": 70, "test": 30}
    with Recorder(gym.make("llm_envs/CodeRepairToolsText-v0", sizes=sizes), path) as env:
        env.reset(seed=1)
        env.step(ToolCall("anything", "view", {"path": "main.py"}))
        env.step(Message("lone \ud800 surrogate", "length"))
    assert replay_file(path) == 0
    actions = [step["action"] for step in read_recording(path).episodes[0]["steps"]]
    assert actions[0] == {"text": "anything", "name": "view", "arguments": {"path": "main.py"}}
    assert actions[1] == {"text": "lone \ud800 surrogate", "stop_reason": "length"}


def test_an_episode_is_written_when_it_ends_and_an_unfinished_one_at_the_next_reset(tmp_path):
    path = tmp_path / "r.jsonl"
    env = Recorder(gym.make("llm_envs/ReverseText-v0"), path)
    count = lambda: path.read_text().count("\n")  # noqa: E731
    assert count() == 1
    env.reset(seed=0)
    assert count() == 1
    env.step("tac")
    assert count() == 2
    env.reset()
    env.reset()
    assert count() == 3
    env.close()
    env.close()
    assert count() == 4
    assert replay_file(path) == 0


def test_time_limits_are_part_of_the_recording(tmp_path):
    path = tmp_path / "r.jsonl"
    with Recorder(gym.make("llm_envs/Reverse-v0", max_episode_steps=2), path) as env:
        env.reset(seed=0)
        env.step(65)
        assert env.step(65)[3]
    assert read_recording(path).episodes[0]["steps"][-1]["truncated"]
    assert replay_file(path) == 0


def differences(path, **kwargs: Any):
    recording = read_recording(path)
    recording.spec.kwargs.update(kwargs)
    return list(replay(recording))


def test_a_changed_verifier_is_found(tmp_path):
    path = record(tmp_path / "r.jsonl")
    found = differences(path, verifier=Share(weight=0.5))
    assert found[0] == "episode 0, step 4: reward was 1.0 and is 0.5"
    assert found[1].startswith("episode 0, step 4: info['verdict'] was {")
    assert len(found) == 2  # 0 points are 0 points


def test_a_changed_tokenizer_is_found(tmp_path):
    path = record(tmp_path / "r.jsonl")
    assert any("observation was" in line for line in differences(path, max_length=512))

    class Upper(llm_envs.ByteTokenizer):
        def decode(self, ids):
            return super().decode(ids).upper()

    found = differences(path, tokenizer=Upper())
    assert "episode 0, step 4: reward was 1.0 and is 0.0" in found
    assert "episode 0, step 4: info['reencoding_differs'] was false and is true" in found


def test_changed_examples_and_ends_are_found(tmp_path, capsys):
    path = record(tmp_path / "r.jsonl")
    found = differences(path, split="test")
    assert 'episode 0, reset: info[\'example_id\'] was "train/cat" and is "test/cat"' in found
    found = differences(path, max_new_tokens=2)
    assert any("remaining" in line or "observation was" in line for line in found)
    assert "episode 0, step 2: the episode ends here now, and had 4 steps" in found
    assert any("is missing" not in line and "was missing and is" in line for line in found)
    path = changed(path, lambda lines: lines[1]["steps"][0].update(action=999))
    assert replay_file(path) == 1
    assert "episode 0, step 1: raises TokenError: token 999 is out of range" in capsys.readouterr().out


def test_an_environment_that_is_gone_is_found(tmp_path, capsys):
    path = changed(record(tmp_path / "r.jsonl"), lambda lines: lines[0]["spec"]["kwargs"].update(task="gone:task"))
    assert replay_file(path, trust=True) == 1
    assert "llm_envs/Reverse-v0 cannot be made any more: OptionError: cannot load the task" in capsys.readouterr().out


def test_a_line_that_is_cut_off_is_reported_and_the_others_are_played(tmp_path, capsys):
    path = record(tmp_path / "r.jsonl")
    path.write_text(path.read_text()[:-30])
    assert replay_file(path) == 1
    out = capsys.readouterr().out
    assert "is cut off: the recording stopped while it was written" in out
    assert "1 episodes, 4 steps, 0 differences" in out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: must say that this is a recording"),
        ('{"kind": "recording", "version": 2}\n', "recording of version 1"),
        ("{\n", "line 1: is not JSON"),
        ("[]\n", "line 1: must be a JSON object"),
        ('{"kind": "recording", "version": 1, "spec": {}}\n', r"line 1: spec\['id'\] is missing"),
    ],
)
def test_files_that_are_no_recordings(tmp_path, capsys, text, words):
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    assert replay_file(path) == 2
    assert re.search(words, capsys.readouterr().err)
    with pytest.raises(RecordingError, match=words):
        read_recording(path)


def test_a_line_in_the_middle_that_is_no_episode(tmp_path):
    path = record(tmp_path / "r.jsonl")
    header, first, second = path.read_text().splitlines(keepends=True)
    path.write_text(header + first[:40] + "\n" + second)
    with pytest.raises(RecordingError, match="line 2: is not JSON"):
        read_recording(path)
    path.write_text(header + "{}\n" + second)
    with pytest.raises(RecordingError, match="line 2: must be an episode"):
        read_recording(path)


def test_no_file_is_no_recording(tmp_path, capsys):
    assert replay_file(tmp_path / "none") == 2
    assert "error: " in capsys.readouterr().err


def test_what_cannot_be_recorded(tmp_path):
    path = tmp_path / "r.jsonl"
    with pytest.raises(OptionError, match="made by gymnasium.make"):
        Recorder(TextEnv(llm_envs.load_task("small_tasks:make_task")), path)
    with pytest.raises(OptionError, match="options by name or as plain values"):
        Recorder(gym.make("llm_envs/Reverse-v0", verifier=Share()), path)
    with pytest.raises(OptionError, match="messages or tokens"):
        Recorder(gym.make("Pendulum-v1"), path)
    assert not path.exists()
    record(path)
    with pytest.raises(OptionError, match="a file that does not exist"):
        Recorder(gym.make("llm_envs/Reverse-v0"), path)

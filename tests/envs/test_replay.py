"""Recordings are data: what is malformed is one sentence with the line, and no file can name code to run."""

import json
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from llm_envs import Recorder, register_task, replay_file
from llm_envs.__main__ import main

EOS = 257


def lines_of(path, id="llm_envs/Reverse-v0", **options):
    with Recorder(gym.make(id, **options), path) as env:
        env.reset(seed=5)
        env.step(65)
        env.step(EOS)
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path, lines):
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def put(lines, where, value):
    *path, last = where
    inner = lines
    for key in path:
        inner = inner[key]
    inner[last] = value


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        ((0, "spec"), None, "line 1: spec must be an object, got None"),
        ((0, "spec", "id"), 3, "line 1: spec['id'] must be text, got 3"),
        ((0, "spec", "id"), "a b/c d", "line 1: spec['id'] is no environment's"),
        ((0, "spec", "kwargs"), [], "line 1: spec['kwargs'] must be an object, got []"),
        ((0, "spec", "max_episode_steps"), "9", "line 1: spec['max_episode_steps'] must be a positive integer or null"),
        ((0, "spec", "max_episode_steps"), -9, "line 1: spec['max_episode_steps'] must be a positive integer or null"),
        ((0, "spec", "order_enforce"), None, "line 1: spec['order_enforce'] must be true or false"),
        ((0, "spec", "additional_wrappers"), None, "line 1: spec['additional_wrappers'] must be a list"),
        ((0, "spec", "additional_wrappers"), [3], "line 1: spec['additional_wrappers'][0] must be an object, got 3"),
        ((0, "version"), 2, "line 1: must say that this is a recording of version 1"),
        ((1, "kind"), "recording", "line 2: must be an episode"),
        ((1, "seed"), "5", "line 2: seed must be an integer or null, got '5'"),
        ((1, "seed"), True, "line 2: seed must be an integer or null, got True"),
        ((1, "options"), 3, "line 2: options must be an object or null"),
        ((1, "first"), None, "line 2: first must be an object, got None"),
        ((1, "first"), {"observation": "x"}, "line 2: first['info'] is missing, expected an object"),
        ((1, "steps"), None, "line 2: steps must be a list, got None"),
        ((1, "steps"), [None], "line 2: steps[0] must be an object"),
        ((1, "steps", 1), {}, "line 2: steps[1]['action'] is missing"),
        ((1, "steps", 1, "info"), None, "line 2: steps[1]['info'] must be an object, got None"),
        ((1, "steps", 1, "reward"), "1", "line 2: steps[1]['reward'] must be a number, got '1'"),
        ((1, "steps", 1, "terminated"), 1, "line 2: steps[1]['terminated'] must be true or false, got 1"),
        ((1, "steps", 1, "action"), None, "line 2: steps[1]['action'] must be a token, a text or an object"),
        ((1, "steps", 1, "action"), {"text": "x"}, "line 2: steps[1]['action']['stop_reason'] is missing"),
        ((1, "steps", 1, "action"), {"text": "x", "name": 3}, "line 2: steps[1]['action']['name'] must be text"),
        ((1,), [], "line 2: must be a JSON object, got []"),
        ((1,), "[" * 200_000, "line 2: is nested too deeply"),
        ((1,), '{"seed": ' + "1" * 5000 + "}", "line 2: is not JSON"),
        ((1,), '{"kind": "episode", "seed": ' + "[" * 900 + "]" * 900 + "}", "line 2: "),
    ],
)
def test_malformed_recordings_are_one_sentence_with_the_line(tmp_path, capsys, where, value, words):
    path = tmp_path / "r.jsonl"
    lines = lines_of(path)
    put(lines, where, value)
    assert main(["replay", str(write(path, lines))]) == 2
    captured = capsys.readouterr()
    assert f"error: {path}, {words}" in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_deep_nest_that_is_json_is_a_difference_at_most(tmp_path, capsys):
    path = tmp_path / "r.jsonl"
    lines = lines_of(path)
    deep = json.loads("[" * 300 + "]" * 300)
    lines[1]["steps"][0]["info"]["deep"] = deep
    assert replay_file(write(path, lines)) == 1
    assert "info['deep'] was [[[" in capsys.readouterr().out


MARKED = """
import pathlib
pathlib.Path(__file__).with_suffix(".ran").touch()
from llm_envs import Verifier, Verdict
import gymnasium as gym

class Judge(Verifier):
    def verify(self, example, answer):
        return Verdict(0.0, False, "wrong")

class Wrapper(gym.Wrapper):
    pass

def make(**kwargs):
    raise RuntimeError
"""


@pytest.fixture
def marked(tmp_path, monkeypatch):
    (tmp_path / "marked_module.py").write_text(MARKED)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "marked_module.ran"
    sys.modules.pop("marked_module", None)


WRAPPER = {"name": "W", "entry_point": "marked_module:Wrapper", "kwargs": {}}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("verifier", "marked_module:Judge", "kwargs['verifier'] is 'marked_module:Judge'"),
        ("verifier", "marked_module: Judge", "kwargs['verifier'] is"),
        ("extra_verifiers", {"gold": "marked_module:Judge"}, "kwargs['extra_verifiers']['gold'] is"),
        ("extra_verifiers", ["numeric", "marked_module:Judge"], "kwargs['extra_verifiers'][1] is"),
        ("verifier_options", {"parts": [{"of": "marked_module:Judge"}]}, "['parts'][0]['of'] is"),
        ("task", "marked_module:make", "kwargs['task'] is"),
        ("anything", "marked_module:make", "kwargs['anything'] is"),
        ("verifier_options", {"sandbox": "process"}, "kwargs['verifier_options']['sandbox'] is 'process'"),
        ("constraint", "marked_module:make", "kwargs['constraint'] is"),
    ],
)
def test_options_that_name_code_are_refused_unless_trusted(tmp_path, capsys, marked, field, value, words):
    path = tmp_path / "r.jsonl"
    lines = lines_of(path)
    lines[0]["spec"]["kwargs"][field] = value
    assert main(["replay", str(write(path, lines))]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "--trust" in error
    assert error.count("\n") == 1
    assert not marked.exists()


def test_what_a_person_trusts_is_played(tmp_path, capsys, marked):
    path = tmp_path / "r.jsonl"
    lines_of(path, verifier="marked_module:Judge")
    assert main(["replay", str(path)]) == 2
    assert main(["replay", "--trust", str(path)]) == 0


def test_wrappers_of_a_file_are_those_of_gymnasium_unless_trusted(tmp_path, capsys, marked):
    path = tmp_path / "r.jsonl"
    lines = lines_of(path)
    for entry_point in ("marked_module:Wrapper", "gymnasium.wrappers.common:deepcopy", "gymnasium.wrappers.nothing:X"):
        lines[0]["spec"]["additional_wrappers"] = [{**WRAPPER, "entry_point": entry_point}]
        assert replay_file(write(path, lines)) == 2
        assert f"the wrapper 'W' is {entry_point!r}" in capsys.readouterr().err
    assert not marked.exists()


def test_entry_points_of_a_file_are_never_used(tmp_path, marked):
    path = tmp_path / "r.jsonl"
    lines = lines_of(path)
    lines[0]["spec"].update(entry_point="marked_module:make", vector_entry_point="marked_module:make")
    for trust in (False, True):
        assert replay_file(write(path, lines), trust) == 0
    assert not marked.exists()


def test_grammars_and_references_of_the_registered_id_name_no_code(tmp_path):
    lines = lines_of(tmp_path / "r.jsonl")
    assert lines[0]["spec"]["kwargs"]["task"] == "small_tasks:make_task"
    pytest.importorskip("llguidance")
    lines_of(tmp_path / "s.jsonl", constraint="regex:A*")
    assert replay_file(tmp_path / "s.jsonl") == 0


def test_an_id_that_is_not_registered_says_what_to_import(tmp_path, capsys, monkeypatch):
    path = tmp_path / "r.jsonl"
    register_task("Recorded", problems={"train": [{"prompt": "p", "answer": "a"}]})
    lines_of(path, "llm_envs/Recorded-v0")
    for id in ("llm_envs/Recorded-v0", "llm_envs/RecordedText-v0"):
        del gym.registry[id]
    assert main(["replay", str(path)]) == 2
    assert (
        f"error: {path}, line 1: the environment 'llm_envs/Recorded-v0' is not registered here; import the package "
        "that registers it (--import MODULE)\n"
    ) == capsys.readouterr().err
    (tmp_path / "registers_it.py").write_text(
        "import llm_envs\nllm_envs.register_task('Recorded', problems={'train': [{'prompt': 'p', 'answer': 'a'}]})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["replay", str(path), "--import", "registers_it"]) == 0
    for name, words in (("", "takes the name of a module"), (".x", "takes the name"), ("no_such", "No module named")):
        assert main(["replay", str(path), "--import", name]) == 2
        assert words in capsys.readouterr().err


def test_a_folder_and_a_binary_file_are_no_recordings(tmp_path, capsys):
    assert replay_file(tmp_path) == 2
    (tmp_path / "x").write_bytes(bytes(range(256)) + b"\n")
    assert replay_file(Path(tmp_path / "x")) == 2
    assert "line 1: is not JSON" in capsys.readouterr().err

"""The example script on a task that a person registered: chat prompts, other split names, a verifier of their own."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import tyro

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "train_ppo.py"

MODULE = """
from functools import cache
from llm_envs import Example, Task, Verdict, Verifier, register_task

@cache
def problems(split):
    words = [a + b for a in "abcdefgh" for b in "xyz"]
    words = words[: len(words) // 2] if split == "lessons" else words[len(words) // 2 :]
    chat = [[{"role": "system", "content": "echo"}, {"role": "user", "content": f"say {w}: "}] for w in words]
    return [Example(f"{split}/{w}", prompt, {"word": w}, gold=w) for w, prompt in zip(words, chat)]

class Letters(Verifier):
    def verify(self, example, answer):
        hits = sum(a == b for a, b in zip(example.hidden["word"], answer.text)) / 2
        return Verdict(hits, hits == 1, "passed" if hits == 1 else "wrong", {"letters": hits})

register_task("Echo", Task("Echo", problems, splits=("lessons", "exam"), verifier=Letters(), max_new_tokens=4))
"""


@pytest.fixture
def example(monkeypatch):
    """The script as a module, without running it."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return importlib.import_module("train_ppo")


def test_a_registered_task_trains_with_its_own_splits_prompts_and_verifier(tmp_path):
    (tmp_path / "my_tasks.py").write_text(MODULE)
    out = tmp_path / "run"
    command = [
        sys.executable, SCRIPT, "--env", "my_tasks:llm_envs/Echo-v0", "--preset", "smoke", "--split", "lessons",
        "--verifier", "my_tasks:Letters", "--total-tokens", "200", "--seed", "3", "--out", out,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    record = json.loads((out / "record.json").read_text())
    assert set(record["held_out"]["after"]) == {"exam"}
    assert "components/letters" in record["reward_components"]
    settings = json.loads((out / "config.json").read_text())["args"]
    assert [settings["seed"], settings["ppo"]["seed"], settings["sft"]["seed"]] == [3, 3, 3]


def test_presets_are_chosen_by_what_is_trained(example):
    chosen = {
        "": "code-repair",
        "--env llm_envs/CodeRepair-v0": "code-repair",
        "--env llm_envs/CodeRepairTools-v0": "code-repair-tools",
        "--env llm_envs/Transform-v0": "transform",
        "--env llm_envs/Arithmetic-v0": "other",
        "--env my_tasks:llm_envs/Echo-v0": "other",
        "--model gpt2": "pretrained",
        "--model gpt2 --preset smoke": "smoke",
    }
    assert {line: example.preset_name(line.split()) for line in chosen} == chosen


def test_environment_options_of_readme_are_accepted_by_the_default_preset(example):
    args_class, presets = example.Args, example.PRESETS
    line = ["--env-options", "families", "all", "difficulty", "2"]
    args = tyro.cli(args_class, args=line, default=presets["code-repair"](args_class))
    assert args.env_options == ("families", "all", "difficulty", "2")
    with pytest.raises(ValueError, match="pairs of a name and a value"):
        args_class(env_options=("families",))


def test_a_context_shorter_than_the_longest_sequence_is_refused(example, tmp_path, monkeypatch):
    args = example.PRESETS["smoke"](example.Args)
    tokenizer = example.train_tokenizer(["some text"], 300)
    example.build_tiny(tokenizer, args.tiny, 64, seed=0).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    args.model, args.env = str(tmp_path), "llm_envs/Transform-v0"
    with pytest.raises(ValueError, match="max_length is 256, but the model's context is 64 tokens"):
        example.build(args)

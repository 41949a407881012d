"""README's Python blocks run as they stand, and the files, ids and commands it names exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import llm_envs  # noqa: F401 - registers
from llm_envs.code_repair import FAMILIES
from llm_envs.code_repair.repairs import CORE

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("code", BLOCKS, ids=[f"block{i}" for i in range(len(BLOCKS))])
def test_python_blocks_run(code):
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_second_example_is_a_file_and_solves_its_task():
    path = ROOT / "examples" / "register_task.py"
    assert path.read_text() == BLOCKS[1]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "The capital of Japan is Tokyo 1.0\n", done.stderr


def test_there_are_examples_of_both_levels():
    assert len(BLOCKS) >= 2
    assert all(any(f"llm_envs/{name}" in code for code in BLOCKS) for name in ("CodeRepairText-v0", "Transform-v0"))


def test_the_table_of_ids_is_complete():
    named = set(re.findall(r"^\| `(llm_envs/[\w-]+)`", README, re.MULTILINE))
    assert named == {
        id
        for id, spec in gym.registry.items()
        if id.startswith("llm_envs/")
        and ":make_task" in spec.kwargs["task"]
        and spec.kwargs["task"].startswith("llm_envs.")
    }


def test_files_and_numbers_that_readme_names():
    tree = README.split("## How the code reads")[1].split("## Licence")[0]
    paths = re.findall(r"^    (\S+/\S+\.py)", tree, re.MULTILINE)
    assert len(paths) > 15
    for path in paths:
        assert list(ROOT.glob(path)), path
    held_out = sum(family.held_out for family in FAMILIES.values())
    assert f"the {len(CORE)} families" in README
    assert f"problems from {len(CORE)} families" in README
    assert f"`all` {len(FAMILIES) - held_out}" in README
    assert held_out == 9  # "nine families"
    assert "nine families" in README


def test_every_make_target_that_readme_names_exists():
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"\bmake ([a-z][a-z-]*)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("make test")

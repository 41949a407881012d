"""Tasks of installed packages."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import llm_envs

ROOT = Path(llm_envs.__file__).parents[1]
PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "riddles"
version = "1.0"
[tool.setuptools]
py-modules = ["riddles"]
[project.entry-points."llm_envs.tasks"]
Riddles = "riddles:make_task"
Gone = "no_such_module:make_task"
Transform = "riddles:make_task"
Half = "riddles"
"a b" = "riddles:make_task"
"""
MODULE = """
from llm_envs import build_task

def make_task(size=1):
    records = [{"prompt": f"{n} feet\\n", "answer": "a table"} for n in range(size)]
    return build_task("Riddles", {"train": records}, verifier="exact_match")
"""
SEEN = """
import sys, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import llm_envs
import gymnasium as gym
print(*sorted(str(w.message) for w in caught), sep="\\n")
print("imported", "riddles" in sys.modules, "torch" in sys.modules)
env = gym.make("llm_envs/RiddlesText-v0", size=3)
print(env.unwrapped.num_examples, env.reset(seed=0)[1]["task"], env.step("a table")[1])
print(gym.spec("llm_envs/Transform-v0").kwargs)
try:
    gym.make("llm_envs/Gone-v0")
except llm_envs.OptionError as error:
    print(error)
"""


def run(target: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{target}"}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=120, env=environment)


def test_an_installed_package_adds_ids_and_a_broken_entry_only_a_warning(tmp_path):
    package, target = tmp_path / "package", tmp_path / "target"
    package.mkdir()
    (package / "pyproject.toml").write_text(PYPROJECT)
    (package / "riddles.py").write_text(MODULE)
    pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--target",
        str(target),
    ]
    installed = run(tmp_path, *pip, str(package))
    assert installed.returncode == 0, installed.stderr
    done = run(target, "-c", SEEN)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "the task 'Half' = 'riddles' of riddles is left out: the value must be \"module:function\"",
        "the task 'Transform' = 'riddles:make_task' of riddles is left out: "
        "llm_envs/Transform-v0 is registered already",
        "the task 'a b' = 'riddles:make_task' of riddles is left out: "
        "a name has only letters, digits, '-', '_' and '.'",
    ]
    assert lines[3:6] == ["imported False False", "3 Riddles 1.0", "{'task': 'llm_envs.tasks.transform:make_task'}"]
    assert lines[6].startswith("cannot load the task 'no_such_module:make_task': No module named 'no_such_module'")
    listed = run(target, "-m", "llm_envs", "list")
    assert "llm_envs/RiddlesText-v0" in listed.stdout
    assert "cannot be built" in next(line for line in listed.stdout.splitlines() if line.startswith("llm_envs/Gone-v0"))


def test_metadata_that_cannot_be_read_is_only_a_warning(tmp_path):
    code = """
        import importlib.metadata, warnings
        def entry_points(**params):
            if params.get("group") == "llm_envs.tasks":
                raise ValueError("a broken package")
            return original(**params)
        original, importlib.metadata.entry_points = importlib.metadata.entry_points, entry_points
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import llm_envs
        print([str(w.message) for w in caught])
    """
    done = run(tmp_path, "-c", textwrap.dedent(code))
    assert done.stdout.strip() == "['cannot look for tasks of installed packages: a broken package']", done.stderr

"""`python -m llm_envs`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import llm_envs
from llm_envs.__main__ import main, pairs, row
from llm_envs.registration import registered_ids

ROOT = Path(llm_envs.__file__).parents[1]
MODULE = """
from llm_envs import register_task

def judge(example, answer):
    return answer.text == example.hidden["answer"]

def register(name, gold):
    records = [{"prompt": f"{n}: ", "answer": str(n), "gold": gold or str(n)} for n in range(5)]
    register_task(name, problems={"train": records}, verifier=judge)

register("Fine", "")
register("Flawed", "wrong")
"""


def run(*arguments, cwd=ROOT):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "llm_envs", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )


def test_list_is_a_plain_table_of_every_id(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["id", "splits", "verifier", "tokens", "turns"]
    assert [line.split()[0] for line in lines[1:]] == registered_ids()
    cells = {line.split()[0]: " ".join(line.split()[1:]) for line in lines}
    assert cells["llm_envs/ArithmeticText-v0"] == "train 8000, validation 500, test 500 numeric 24 1"


def test_list_on_a_terminal_has_lines(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["list"]) == 0
    assert "┃" in capsys.readouterr().out


def test_check_prints_the_report(capsys):
    assert main(["check", "llm_envs/Transform-v0", "difficulty", "2", "--limit", "2", "split", "test"]) == 0
    out = capsys.readouterr().out
    assert "test: 2 of 500 examples checked" in out
    assert "nothing is wrong" in out


def test_check_imports_a_module_and_fails_for_a_bad_task(tmp_path):
    (tmp_path / "my_tasks.py").write_text(MODULE)
    fine = run("check", "my_tasks:llm_envs/Fine-v0", cwd=tmp_path)
    assert fine.returncode == 0, fine.stderr
    flawed = run("check", "my_tasks:llm_envs/Flawed-v0", cwd=tmp_path)
    assert flawed.returncode == 1
    assert "wrong: train: the gold answer does not score 1: 'train/0', score 0" in flawed.stdout
    assert "1 thing is wrong" in flawed.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["check", "llm_envs/Transfrm-v0"],
            "unknown environment 'llm_envs/Transfrm-v0': did you mean 'llm_envs/Transform",
        ),
        (["check", "llm_envs/Transform-v0", "dificulty", "2"], "unknown option 'dificulty': did you mean 'difficulty'"),
        (
            ["check", "llm_envs/Transform-v0", "max_lenght", "2"],
            "unknown option 'max_lenght': did you mean 'max_length'",
        ),
        (["check", "llm_envs/Transform-v0", "difficulty"], "pairs of a name and a value"),
        (["check", "no_such_module:llm_envs/X-v0"], "No module named 'no_such_module'"),
        (["check", "nope"], "unknown task 'nope': (known: Arithmetic, ArithmeticText, "),
        (["check", "Aritmetic"], "unknown task 'Aritmetic': did you mean 'Arithmetic'?"),
        (["check", "small_tasks:"], "unknown task 'small_tasks:': (known: Arithmetic, "),
        (["check", "llm_envs/Transform-v0", "split", "tset"], "unknown split of task 'Transform' 'tset': did you mean"),
        (["check", "llm_envs/Transform-v0", "split", "[1]"], "unknown split of task 'Transform' [1]"),
        (["check", "llm_envs/Transform-v0", "task", "x"], "'task' is no option of an environment: the task is the id"),
        (["check", "llm_envs/Transform-v0", "limit", "5"], "'limit' is no option of an environment: write --limit N"),
        (["check", "llm_envs/Transform-v0", "seconds", "5"], "'seconds' is no option .* write --seconds N"),
        (["check", "llm_envs/Transform-v0", "rebuild", "0"], "'rebuild' is no option of an environment"),
        (["check", "x", "split", "test", "split", "train"], "the option 'split' is given twice: 'test' and 'train'"),
        (["replay", "no-such-file"], "no-such-file"),
    ],
)
def test_bad_arguments_are_one_sentence(words, message, capsys):
    assert main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err + captured.out or re.search(message, captured.err)
    assert (captured.err + captured.out).count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["list", "x"],
        ["check", "id", "--limit", "0"],
        ["check", "id", "--limit", "\u00b2"],
        ["check", "id", "--limt", "2"],
        ["check", "id", "difficulty", "2", "--limt", "2"],
        *(["check", "id", "--seconds", value] for value in ("nan", "inf", "0", "-1", "1e300", "soon")),
        ["replay", "file", "--trusted"],
        [],
    ],
)
def test_usage(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "usage: python -m llm_envs" in capsys.readouterr().err


def test_values_are_json_where_they_can_be():
    assert pairs(["a", "1", "b", "x", "c", '{"d": true}']) == {"a": 1, "b": "x", "c": {"d": True}}
    long, deep = "1" * 5000, "[" * 200_000
    assert pairs(["long", long, "deep", deep]) == {"long": long, "deep": deep}


def test_a_task_that_cannot_be_built_does_not_hide_the_others():
    assert row("llm_envs/Nothing-v0")[1].startswith("cannot be built: unknown environment")


def test_a_task_is_checked_by_its_name(capsys):
    assert main(["check", "Transform", "--limit", "1", "split", "test"]) == 0
    assert "Transform: verifier ExactMatch" in capsys.readouterr().out

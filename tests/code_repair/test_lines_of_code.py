"""What a line of code is: what Python calls one, and not what `str.splitlines` does."""

import ast
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_envs.code_repair.formats import numbered
from llm_envs.code_repair.line_edit import apply_edit, copy_between, edit_between, parse_edit, write_edit
from llm_envs.code_repair.program import lines_of

ODD = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
"""Characters at which `str.splitlines` breaks a line and Python does not."""

SOURCE = f"def f(xs):\n    return '{ODD}'\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\n", ["a", ""]),
        ("a\r\nb\rc\n", ["a", "b", "c"]),
        (f"a{ODD}b\n", [f"a{ODD}b"]),
    ],
)
def test_lines(text, lines):
    assert lines_of(text) == lines


@given(st.lists(st.text(st.sampled_from("ab '" + ODD), max_size=6), max_size=5), st.sampled_from(["\n", "\r\n", "\r"]))
def test_lines_are_what_was_joined(lines, end):
    assert lines_of("".join(line + end for line in lines)) == lines


def test_python_counts_them_alike():
    assert ast.parse(SOURCE + "x = 1\n").body[-1].lineno == len(lines_of(SOURCE)) + 1


def test_edits():
    assert numbered(SOURCE) == f"1|def f(xs):\n2|    return '{ODD}'\n"
    assert parse_edit(f"2|    return '{ODD}'\r\n3|x\r\n") == [(2, f"    return '{ODD}'"), (3, "x")]
    assert apply_edit(SOURCE, f"2|    return '{ODD}!'") == SOURCE.replace(ODD, ODD + "!")
    fixed = SOURCE.replace(ODD, f"{ODD} {ODD}")
    edit = edit_between(SOURCE, fixed)
    assert edit == [(2, f"    return '{ODD} {ODD}'")]
    assert apply_edit(SOURCE, write_edit(edit)) == fixed
    assert apply_edit(SOURCE, write_edit(copy_between(SOURCE, fixed))) == SOURCE


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"x = '{ODD}'", [f"x = '{ODD}'"]),
        ("x = 1\r\ny = 2", ["x = 1", "y = 2"]),
        ("x = 1\n", ["x = 1"]),
        ("x = 1\n\n", ["x = 1", ""]),
        ("\n", [""]),
        ("", []),
    ],
)
def test_the_working_copy(text, shown):
    env: Any = gym.make("llm_envs/CodeRepairToolsText-v0", sizes={"train": 5, "validation": 5, "test": 5}).unwrapped
    env.reset(options={"index": 2})
    before = env.example.metadata["files"]["main.py"].split("\n")[:-1]
    env.step(env.tool_format.call("replace_lines", path="main.py", first=1, last=1, text=text))
    lines = [*shown, *before[1:]]
    view = env.step(env.tool_format.call("view", path="main.py"))[0]
    assert view == "".join(f"{number}|{line}\n" for number, line in enumerate(lines, 1))
    last = len(lines)
    env.step(env.tool_format.call("replace_lines", path="main.py", first=last, last=last, text="pass"))
    assert env.step(env.tool_format.call("view", path="main.py"))[0].endswith(f"\n{last}|pass\n")
    env.close()

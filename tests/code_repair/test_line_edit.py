import pytest

from llm_envs.code_repair.line_edit import apply_edit, copy_between, edit_between, write_edit
from llm_envs.task import AnswerFormatError

SOURCE = "def f(x):\n    n = 1\n    return n\n"


@pytest.mark.parametrize(
    ("message", "patched"),
    [
        ("2|    n = 2", "def f(x):\n    n = 2\n    return n\n"),
        ("2|    n = 2\n3|    return x", "def f(x):\n    n = 2\n    return x\n"),
        ("2|    n = 1\n2|    n += x", "def f(x):\n    n = 1\n    n += x\n    return n\n"),
        ("3|    return x\n2|", "def f(x):\n    return x\n"),
        ("2|   ", "def f(x):\n    return n\n"),
        ("\n 2|    n = 2  \n\n", "def f(x):\n    n = 2\n    return n\n"),
        ("```\n2|    n = 2\n```", "def f(x):\n    n = 2\n    return n\n"),
        ("Sure:\n```python\n2|    n = 2\n```\nDone.", "def f(x):\n    n = 2\n    return n\n"),
        ("2|    n = x | 2", "def f(x):\n    n = x | 2\n    return n\n"),
    ],
)
def test_edits_replace_insert_and_delete(message, patched):
    assert apply_edit(SOURCE, message) == patched


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("n = 2", "not of the form"),
        ("2|    n = 2\nreturn n", "not of the form"),
        ("two|    n = 2", "not of the form"),
        ("0|x", "no line 0"),
        ("4|    return n", "lines 1 to 3"),
        ("999999999|x", "not of the form"),
    ],
)
def test_malformed_edits_say_what_is_wrong(message, hint):
    with pytest.raises(AnswerFormatError, match=hint):
        apply_edit(SOURCE, message)


@pytest.mark.parametrize(
    ("buggy", "fixed", "edit"),
    [
        ("a\nb\nc\n", "a\nB\nc\n", [(2, "B")]),
        ("a\nc\n", "a\nb\nc\n", [(1, "a"), (1, "b")]),
        ("a\nb\nc\n", "a\nc\n", [(2, "")]),
        ("a\nb\nc\n", "a\nB\nB2\nc\n", [(2, "B"), (2, "B2")]),
        ("a\nb\nc\nd\n", "a\nX\nd\n", [(2, "X"), (3, "")]),
        ("a\nb\n", "a\nb\nc\n", [(2, "b"), (2, "c")]),
    ],
)
def test_edit_between_two_programs(buggy, fixed, edit):
    assert edit_between(buggy, fixed) == edit
    assert apply_edit(buggy, write_edit(edit)) == fixed
    assert apply_edit(buggy, write_edit(copy_between(buggy, fixed))) == buggy

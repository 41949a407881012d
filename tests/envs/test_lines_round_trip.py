"""Both formats of a tool call: what is written is read as the same call, or refused when it is written."""

import math
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_envs import OptionError, tool_schema
from llm_envs.tool_format import JsonTags, Lines, ToolFormat

FORMATS = pytest.mark.parametrize("format", [JsonTags(), Lines()], ids=["json", "lines"])


def edit(path: str, first: int, text: str) -> str:
    """Edit.

    Args:
        path: A file.
        first: A line.
        text: What stands there.
    """
    return ""


def store(entry: dict, note: str | None = None, tags: list[str] | None = None) -> str:
    """Store.

    Args:
        entry: What to store.
        note: About it.
        tags: More about it.
    """
    return ""


def find(word: str, kind: Literal["name", "text"] = "text", inside: str = "", limit: float = 1.5) -> str:
    """Find.

    Args:
        word: What to look for.
        kind: Where.
        inside: Where, too.
        limit: How long.
    """
    return ""


SCHEMAS = [tool_schema(tool) for tool in (edit, store, find)]

texts = st.one_of(
    st.text(max_size=20),
    st.text(alphabet='ab"\\ \n\r\t\x0c\u2028@', max_size=8),
    st.sampled_from(["a\n", "\n", "", " ", "null", "true", "3", '"', '"a"', "</tool_call>", "<tool_call>", "\ud800"]),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
entries = st.dictionaries(texts, values, max_size=3)
ARGUMENTS: list[tuple[str, dict[str, Any]]] = [
    ("edit", {"path": texts, "first": st.integers(), "text": texts}),
    ("store", {"entry": entries}),
    ("store", {"entry": entries, "note": st.none() | texts}),
    ("store", {"entry": entries, "note": st.none() | texts, "tags": st.none() | st.lists(texts, max_size=3)}),
    ("find", {"word": texts}),
    ("find", {"word": texts, "kind": texts}),
    ("find", {"word": texts, "kind": texts, "inside": texts}),
    ("find", {"word": texts, "kind": texts, "inside": texts, "limit": st.floats(0, 9)}),
]


@st.composite
def calls(draw: Any) -> tuple[str, dict[str, Any]]:
    """A tool and its arguments, in its order."""
    name, arguments = draw(st.sampled_from(ARGUMENTS))
    return name, {argument: draw(value) for argument, value in arguments.items()}


def same(left: Any, right: Any) -> bool:
    """Equal, 1 and True and 1.0 being three things."""
    return left == right and repr(left) == repr(right)


@FORMATS
@given(calls())
def test_what_is_written_is_read_as_the_same_call(format: ToolFormat, call):
    name, arguments = call
    try:
        written = format.call(name, **arguments)
    except OptionError:
        return  # two halves of one character, which JSON joins
    for message in (str(written), f"I will do this.\n{written}"):
        read = format.read(message, SCHEMAS)
        assert read is not None
        assert read.name == name
        assert same(dict(read.arguments), arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "written"),
    [
        ("edit", {"path": "a.py", "first": 1, "text": "x = 1\n"}, "@edit a.py 1\nx = 1\n\n"),
        ("edit", {"path": "a.py", "first": 1, "text": "  x\ny"}, "@edit a.py 1\n  x\ny"),
        ("edit", {"path": "a.py", "first": 1, "text": "x"}, "@edit a.py 1 x"),
        ("edit", {"path": "a.py", "first": 1, "text": ""}, '@edit a.py 1 ""'),
        ("edit", {"path": "a.py", "first": 1, "text": "\n"}, '@edit a.py 1 "\\n"'),
        ("edit", {"path": "my file", "first": 1, "text": "x"}, '@edit "my\\u0020file" 1 x'),
        ("store", {"entry": {"a b": [1, "c d"]}}, '@store {"a\\u0020b":[1,"c\\u0020d"]}'),
        ("find", {"word": "two words"}, "@find\ntwo words"),
    ],
)
def test_how_lines_are_written(name, arguments, written):
    assert Lines().call(name, **arguments) == written
    read = Lines().read(written, SCHEMAS)
    assert read is not None
    assert read.arguments == arguments


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("@edit a.py 1\n", {"path": "a.py", "first": 1, "text": ""}),
        ("@edit a.py 1\nx\n", {"path": "a.py", "first": 1, "text": "x"}),
        ("@edit a.py 1\nx\n\n", {"path": "a.py", "first": 1, "text": "x\n"}),
        ('@edit "a.py" 1 "', {"path": "a.py", "first": 1, "text": '"'}),
        ("@find total\n", {"word": "total"}),
        ("@find null", {"word": "null"}),
        ("@store {} null", {"entry": {}, "note": None}),
        ('@store {} "null"', {"entry": {}, "note": "null"}),
    ],
)
def test_how_lines_are_read(message, arguments):
    read = Lines().read(message, SCHEMAS)
    assert read is not None
    assert read.arguments == arguments


@FORMATS
@pytest.mark.parametrize("value", [(1, 2), {1: 2}, math.nan, math.inf, {3}, b"a", object()])
def test_values_that_cannot_be_written(format: ToolFormat, value):
    with pytest.raises(OptionError, match="must have a form in JSON that reads as the same value, got"):
        format.call("store", entry=value, note=None)


def test_names_that_cannot_be_written():
    for name in ("two words", "", "a\n"):
        with pytest.raises(OptionError, match="must be one word to be written after @"):
            Lines().call(name)

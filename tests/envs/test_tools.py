"""Tools: their schemas, the two formats of a call, and what a policy reads when something is wrong."""

import copy
import json
import pickle
import subprocess
import sys
import time
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_envs import OptionError, ToolCall, ToolError, tool_schema
from llm_envs.tool_format import JsonTags, Lines, ToolFormat, as_tool_format
from llm_envs.tools import ToolBox


def replace_lines(path: str, first: int, last: int, text: str) -> str:
    """Replace lines of a file.

    Args:
        path: Name of the file.
        first: Number of the first line,
            from 1.
        last: Number of the last line.
        text: What stands there afterwards.
    """
    return f"{path} {first} {last} {text!r}"


def search(
    word: str, kind: Literal["name", "text"] = "text", files: list[str] | None = None, limit: float = 1.5
) -> str:
    """Look for a word.

    Over two lines.

    Args:
        word: What to look for.
        kind: Where to look.
        files: In which files.
        limit: How long.
    """
    return f"{word} {kind} {files} {limit}"


def submit() -> str:
    """Hand in."""
    return "submitted"


def broken(path: str) -> str:
    """Always refuses.

    Args:
        path: Name of the file.
    """
    raise ToolError(f"there is no file {path!r}")


def slow() -> str:
    """Takes its time."""
    time.sleep(0.5)
    return "late"


TOOLS: dict[str, Any] = {tool.__name__: tool for tool in (replace_lines, search, submit, broken)}
SCHEMAS = [tool_schema(tool) for tool in TOOLS.values()]


@pytest.mark.parametrize("tool", TOOLS.values())
def test_schema_is_that_of_transformers(tool):
    from transformers.utils import get_json_schema

    theirs = get_json_schema(tool)
    theirs["function"].pop("return", None)
    ours = tool_schema(tool)
    if "enum" not in json.dumps(ours):  # which transformers writes from the docstring
        assert ours == theirs
    assert ours["function"]["parameters"]["type"] == "object"


def test_tool_without_description():
    def silent(x: int) -> str:
        return ""

    def half(x: int) -> str:
        """Does something."""
        return ""

    def odd(x: complex) -> str:
        """Does something.

        Args:
            x: A number.
        """
        return ""

    with pytest.raises(OptionError, match="'silent' needs a docstring"):
        tool_schema(silent)
    with pytest.raises(OptionError, match="'x' of the tool 'half' needs a line under `Args:`"):
        tool_schema(half)
    with pytest.raises(OptionError, match="'odd' takes .*complex"):
        tool_schema(odd)


CALLS = [
    ("replace_lines", {"path": "a.py", "first": 1, "last": 2, "text": "    if x > 7:\n        return 'é'"}),
    ("replace_lines", {"path": "a.py", "first": 1, "last": 2, "text": ""}),
    ("replace_lines", {"path": "a.py", "first": 1, "last": 2, "text": "x"}),
    ("search", {"word": "total"}),
    ("submit", {}),
]


@pytest.mark.parametrize("format", [JsonTags(), Lines()], ids=["json", "lines"])
@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_what_is_written_can_be_read(format: ToolFormat, name: str, arguments: dict[str, Any]):
    call = format.call(name, **arguments)
    assert isinstance(call, str)
    assert (call.name, call.arguments, call.stop_reason) == (name, arguments, "stop")
    read = format.read(str(call), SCHEMAS)
    assert read is not None
    assert (read.name, read.arguments) == (name, arguments)


@pytest.mark.parametrize("format", [JsonTags(), Lines()], ids=["json", "lines"])
@given(st.text(max_size=60))
def test_any_message_is_a_call_or_none_or_an_error(format, message):
    for text in (message, f"<tool_call>{message}", f"@{message}", f"@replace_lines {message}"):
        try:
            call = format.read(text, SCHEMAS)
        except ToolError:
            continue
        assert call is None or isinstance(call, ToolCall)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ('<tool_call>{"name": "submit"}</tool_call><tool_call>{"name": "submit"}', "one tool call per message, got 2"),
        ("<tool_call>submit</tool_call>", "not valid JSON"),
        ("<tool_call>[1]</tool_call>", 'must be {"name"'),
        ('<tool_call>{"name": "submit", "arguments": 3}', '"arguments" must be an object, got 3'),
        ('<tool_call>{"name": "submit", "arguments": {"x": NaN}}', "NaN is not JSON"),
        ("<tool_call>" + "[" * 100_000, "not valid JSON"),
        ("</tool_call>", "without <tool_call>"),
    ],
)
def test_unreadable_json(message, complaint):
    with pytest.raises(ToolError, match=complaint.replace("{", r"\{")):
        JsonTags().read(message, SCHEMAS)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ("@sumbit", "did you mean 'submit'"),
        ("@submit now", "submit takes 0 values, got 1"),
        ("@replace_lines a.py one 2\nx", "'one' for 'first' of replace_lines is not a JSON value"),
    ],
)
def test_unreadable_lines(message, complaint):
    with pytest.raises(ToolError, match=complaint):
        Lines().read(message, SCHEMAS)


def test_messages_without_a_call():
    assert JsonTags().read("I think it is done.", SCHEMAS) is None
    assert Lines().read("mail me at a@b.c", SCHEMAS) is None
    for format, text in ((Lines(), "First I look.\n@submit"), (JsonTags(), 'Now: <tool_call>{"name": "submit"}')):
        call = format.read(text, SCHEMAS)
        assert call is not None
        assert (call.name, call.arguments) == ("submit", {})


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("submit", {}, "submitted"),
        ("search", {"word": "x", "kind": "name", "files": ["a"], "limit": 2}, "x name ['a'] 2"),
        ("search", {"word": "x", "files": None}, "x text None 1.5"),
        ("search", {"word": "x", "kind": "nmae"}, "error: the argument 'kind' of search must be one of"),
        ("search", {"word": 3}, "error: the argument 'word' of search must be of type string, got 3"),
        ("search", {"word": "x", "limit": True}, "error: the argument 'limit' of search must be of type number"),
        ("search", {"word": "x", "files": [1]}, "error: the argument 'files' of search must be of type array"),
        ("search", {}, "error: search needs the argument 'word'"),
        ("search", {"wrod": "x"}, "error: unknown argument of search 'wrod': did you mean 'word'?"),
        ("serach", {}, "error: unknown tool 'serach': did you mean 'search'?"),
        ("broken", {"path": "b"}, "error: there is no file 'b'"),
    ],
)
def test_calling_a_tool(name, arguments, result):
    assert ToolBox(TOOLS).call(name, arguments).startswith(result)


def test_late_and_long_results():
    assert ToolBox({"slow": slow}, timeout_s=0.05).call("slow", {}) == "error: slow took longer than 0.05 s"
    cut = ToolBox(TOOLS, max_chars=10).call("search", {"word": "y" * 30})
    assert cut.startswith("yyyyy\n... ")
    assert "characters left out" in cut


def test_a_tool_must_return_text():
    def count() -> Any:
        """Counts."""
        return 3

    with pytest.raises(OptionError, match="'count' must return a str, got int"):
        ToolBox({"count": count}).call("count", {})


def test_formats_by_name():
    assert isinstance(as_tool_format("lines"), Lines)
    with pytest.raises(OptionError, match="did you mean 'json'"):
        as_tool_format("jsn")
    with pytest.raises(OptionError, match="or a ToolFormat, got 3"):
        as_tool_format(3)  # type: ignore[arg-type]


def test_descriptions_name_every_tool():
    assert "@replace_lines <path> <first> <last> <text>" in Lines().describe(SCHEMAS)
    assert '"replace_lines"' in JsonTags().describe(SCHEMAS)


def counted(counts: dict[str, int], name: str = "", level: Literal[1, 2] = 1) -> str:
    """Counts.

    Args:
        counts: Numbers by word.
        name: Whose they are.
        level: How deep.
    """
    return f"{counts} {name} {level}"


def test_a_call_can_be_copied():
    call = JsonTags().call("search", word="x")
    for again in (copy.copy(call), copy.deepcopy(call), pickle.loads(pickle.dumps(call))):
        assert (again, again.name, again.arguments, again.stop_reason) == (call, "search", {"word": "x"}, "stop")


def test_a_tool_that_hangs_does_not_keep_the_process():
    code = """if True:
        import threading
        from llm_envs.tools import ToolBox
        def hang() -> str:
            "Hangs."
            threading.Event().wait()
        print(ToolBox({"hang": hang}, timeout_s=0.1).call("hang", {}))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert done.stdout == "error: hang took longer than 0.1 s\n", done.stderr


def test_a_tools_own_timeout_is_not_the_boxs():
    def asks() -> str:
        """Asks a server."""
        raise TimeoutError("no answer from the server")

    with pytest.raises(TimeoutError, match="no answer from the server"):
        ToolBox({"asks": asks}).call("asks", {})


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ({"counts": {"a": 1}, "name": "me", "level": 2}, "{'a': 1} me 2"),
        ({"counts": {"a": "1"}}, "error: the argument 'counts' of count must be of type object"),
        ({"counts": {}, "level": True}, "error: the argument 'level' of count must be one of [1, 2]"),
        ({"counts": {}, "level": 1.0}, "error: the argument 'level' of count must be one of [1, 2]"),
    ],
)
def test_values_are_checked_and_the_name_is_that_of_the_mapping(arguments, result):
    box = ToolBox({"count": counted})
    assert [schema["function"]["name"] for schema in box.schemas] == ["count"]
    assert box.call("count", arguments).startswith(result)


@pytest.mark.parametrize("format", [JsonTags(), Lines()], ids=["json", "lines"])
def test_an_argument_may_be_called_name(format: ToolFormat):
    call = format.call("count", counts={}, name="me")
    assert (call.name, call.arguments) == ("count", {"counts": {}, "name": "me"})


@pytest.mark.parametrize("name", ["submit", "x" * 100_000])
def test_errors_are_short(name):
    assert len(ToolBox(TOOLS).call(name, {"y" * 100_000: 1})) < 300
    with pytest.raises(ToolError) as error:
        Lines().read(f"@{'z' * 100_000}", SCHEMAS)
    assert len(str(error.value)) < 300
    assert len(ToolBox(TOOLS).call("broken", {"path": "p" * 100_000})) < 4100

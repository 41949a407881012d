"""How a tool call is written in a message, and what the policy is told when it cannot be read.

`json` is what most chat templates with tools use (Hermes, Qwen, SmolLM): JSON in tags. `lines` is for small models that
read every character. A format of one's own is an object with the three methods of `ToolFormat`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from llm_envs import validate
from llm_envs.error import OptionError, unknown
from llm_envs.tools import ToolCall, ToolError, short


@runtime_checkable
class ToolFormat(Protocol):
    """Writes and reads tool calls."""

    def describe(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """What a policy must know to call these tools; for prompts of models whose chat template does not say it."""

    def call(self, name: str, /, **arguments: Any) -> ToolCall:
        """A call, with the text that stands for it."""

    def read(self, message: str, schemas: Sequence[Mapping[str, Any]]) -> ToolCall | None:
        """The call in a message, None when there is none; raises `ToolError` for one that cannot be read."""


class JsonTags:
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, anywhere in the message; the end tag may be missing.

    One call per message: a second one is an error, since its result would come too late for the first.
    """

    _CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)

    def describe(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """The schemas, in the words of the usual chat templates."""
        listed = "\n".join(json.dumps(schema) for schema in schemas)
        example = '<tool_call>\n{"name": <name>, "arguments": <object of arguments>}\n</tool_call>'
        return f"You can call one of these tools per message:\n{listed}\n\nTo call one, write\n{example}"

    def call(self, name: str, /, **arguments: Any) -> ToolCall:
        """The call in tags."""
        content = {"name": validate.text("the name of a tool", name), "arguments": arguments}
        body = _as_json(content, f"the arguments of {short(name)}", ensure_ascii=False)
        body = body.replace("</tool_call>", "<\\/tool_call>")  # the same JSON, without what would end the call
        return ToolCall(f"<tool_call>\n{body}\n</tool_call>", name, arguments)

    def read(self, message: str, schemas: Sequence[Mapping[str, Any]]) -> ToolCall | None:
        """The call between the tags."""
        found = self._CALL.findall(message)
        if not found:
            if "</tool_call>" in message:
                raise ToolError("</tool_call> without <tool_call> before it")
            return None
        if len(found) > 1:
            raise ToolError(f"one tool call per message, got {len(found)}")
        try:
            content = json.loads(found[0], parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ToolError(f"the text in <tool_call> is not valid JSON: {error}") from None
        if not isinstance(content, dict) or not isinstance(content.get("name"), str):
            raise ToolError('the JSON in <tool_call> must be {"name": ..., "arguments": {...}}')
        arguments = content.get("arguments", {})
        if not isinstance(arguments, dict):
            raise ToolError(f'"arguments" must be an object, got {arguments!r:.80}')
        return ToolCall(message, content["name"], arguments)


class Lines:
    """`@name value value`, at the start of a line; the last string argument of a tool is the rest of the message.

        @replace_lines 3 3
            return total

    Values are separated by single spaces and given in the order of the tool's arguments; those with defaults may be
    left out at the end. Strings are written as they are, everything else as JSON without spaces, and so is a string
    that would be misread: with spaces in it, empty, `null`, or in quotation marks. If the next argument is a string,
    the text after the first line is its value, one line end at the end removed (for an argument with a default that is
    not the tool's last: unless the text is blank).
    """

    _WORD = re.compile(r"(?!null$)[^\s\"]\S*")

    def describe(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """One line per tool."""
        return "\n".join(
            " ".join([f"@{tool['name']}", *(f"<{name}>" for name in tool["parameters"]["properties"])])
            for tool in (schema["function"] for schema in schemas)
        )

    def call(self, name: str, /, **arguments: Any) -> ToolCall:
        """The call, its arguments in the order of the tool's; a last string with spaces in it goes on the lines below.

        Raises:
            OptionError: a value has no JSON form that is read as the same value (a tuple, NaN), or a name has spaces.
        """
        if not re.fullmatch(r"\S+", validate.text("the name of a tool", name)):
            raise OptionError(f"a name of a tool must be one word to be written after @, got {name!r:.80}")
        words, text = [f"@{name}"], ""
        for position, (argument, value) in enumerate(arguments.items(), start=1):
            if isinstance(value, str) and self._WORD.fullmatch(value):
                words.append(value)
            elif isinstance(value, str) and value.strip() and position == len(arguments):
                text = f"\n{value}\n" if value.endswith("\n") else f"\n{value}"
            else:
                words.append(_as_json(value, f"the value for {argument!r} of {short(name)}").replace(" ", r"\u0020"))
        return ToolCall(" ".join(words) + text, name, arguments)

    def read(self, message: str, schemas: Sequence[Mapping[str, Any]]) -> ToolCall | None:
        """The first line that starts with @."""
        start = re.search(r"^@", message, re.MULTILINE)
        if start is None:
            return None
        head, line_end, text = message[start.end() :].partition("\n")
        name, *words = head.rstrip().split(" ")
        parameters = _parameters(name, schemas)
        properties = parameters["properties"]
        if len(words) > len(properties):
            raise ToolError(f"{name} takes {len(properties)} values, got {len(words)}")
        values = {
            argument: _value(word, properties[argument], f"{argument!r} of {name}")
            for argument, word in zip(properties, words, strict=False)
        }
        following = next((argument for argument in properties if argument not in values), None)
        if line_end and following is not None and properties[following]["type"] == "string":
            last = following == list(properties)[-1]
            if last or following in parameters.get("required", ()) or text.strip():
                values[following] = text.removesuffix("\n")
        return ToolCall(message, name, values)


def _parameters(name: str, schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    known = {schema["function"]["name"]: schema["function"]["parameters"] for schema in schemas}
    if name not in known:
        raise ToolError(unknown("tool", short(name), known))
    return known[name]


def _value(word: str, expected: Mapping[str, Any], what: str) -> Any:
    """What a word stands for: a string for itself, unless it is quoted (or null, where that is allowed)."""
    is_text = expected["type"] == "string"
    if is_text and not word.startswith('"') and not (word == "null" and expected.get("nullable")):
        return word
    try:
        return json.loads(word, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        if is_text:
            return word
        raise ToolError(f"the value {word!r:.80} for {what} is not a JSON value") from None


def _as_json(value: Any, what: str, ensure_ascii: bool = True) -> str:
    """JSON that reads as the same value; raises `OptionError` where there is none."""
    separators = (",", ":") if ensure_ascii else None
    try:
        text = json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False, separators=separators)
        same = json.loads(text) == value
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise OptionError(f"{what} must have a form in JSON that reads as the same value, got {value!r:.80}")
    return text


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


TOOL_FORMATS: dict[str, type[ToolFormat]] = {"json": JsonTags, "lines": Lines}


def as_tool_format(format: str | ToolFormat) -> ToolFormat:
    """A built-in format by name, or an object of one's own; raises `OptionError` for anything else."""
    if isinstance(format, str):
        if format not in TOOL_FORMATS:
            raise OptionError(unknown("tool_format", format, TOOL_FORMATS))
        return TOOL_FORMATS[format]()
    if not isinstance(format, ToolFormat):
        raise OptionError(f"tool_format must be one of {', '.join(TOOL_FORMATS)} or a ToolFormat, got {format!r}")
    return format

"""How a tool call is written in a message, and what the policy is told when it cannot be read.

`json` is what most chat templates with tools use (Hermes, Qwen, SmolLM): JSON in tags. `lines` is for small models that
read every character. A format of one's own is an object with the three methods of `ToolFormat`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

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
        body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
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

    Values are separated by single spaces and given in the order of the tool's arguments. A tool whose last argument is
    a string takes the text after the first line for it, line ends at the end removed, if the first line holds no more
    values; an argument with a default may be left out at the end.
    """

    def describe(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """One line per tool."""
        return "\n".join(
            " ".join([f"@{tool['name']}", *(f"<{name}>" for name in tool["parameters"]["properties"])])
            for tool in (schema["function"] for schema in schemas)
        )

    def call(self, name: str, /, **arguments: Any) -> ToolCall:
        """The call on one line; strings with a line end, or at the end with a space, on the lines below."""
        words, text = [f"@{name}"], ""
        for position, value in enumerate(arguments.values()):
            last = position == len(arguments) - 1
            if last and isinstance(value, str) and re.search(r"\s", value) or value == "":
                text = f"\n{value}"
            else:
                words.append(value if isinstance(value, str) else json.dumps(value))
        return ToolCall(" ".join(words) + text, name, arguments)

    def read(self, message: str, schemas: Sequence[Mapping[str, Any]]) -> ToolCall | None:
        """The first line that starts with @."""
        start = re.search(r"^@", message, re.MULTILINE)
        if start is None:
            return None
        head, line_end, text = message[start.end() :].partition("\n")
        name, *words = head.rstrip().split(" ")
        properties = _properties(name, schemas)
        values: list[Any] = []
        for argument, word in zip(properties, words, strict=False):
            values.append(word if properties[argument]["type"] == "string" else _number(word, argument, name))
        if len(words) > len(properties):
            raise ToolError(f"{name} takes {len(properties)} values, got {len(words)}")
        if line_end and len(values) == len(properties) - 1 and properties[list(properties)[-1]]["type"] == "string":
            values.append(text.rstrip("\n"))
        return ToolCall(message, name, dict(zip(properties, values, strict=False)))


def _properties(name: str, schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    known = {schema["function"]["name"]: schema["function"]["parameters"]["properties"] for schema in schemas}
    if name not in known:
        raise ToolError(unknown("tool", short(name), known))
    return known[name]


def _number(word: str, argument: str, name: str) -> Any:
    try:
        return json.loads(word, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ToolError(f"the value {word!r:.80} for {argument!r} of {name} is not a JSON value") from None


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

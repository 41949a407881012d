"""Tools: plain functions that a policy calls in the middle of an episode.

    def view(path: str) -> str:
        \"\"\"Show a file with numbered lines.

        Args:
            path: name of the file.
        \"\"\"

A tool's schema is derived from its annotations and its docstring, as `transformers` does it, so every chat template
that takes tools takes these.
"""

from __future__ import annotations

import inspect
import queue
import re
import threading
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, Union, runtime_checkable

from llm_envs import validate
from llm_envs.error import OptionError, unknown
from llm_envs.text_env import Message
from verifiers import Answer, Verifier

_JSON_TYPES: dict[Any, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object", type(None): "null",
}  # fmt: skip
_ARGUMENT_DOC = re.compile(r"^ {4}(\w+)(?: \([^)]*\))?: (.*(?:\n {8,}\S.*)*)", re.MULTILINE)


class ToolError(ValueError):
    """A call that cannot be carried out; its message is what the policy reads."""


class ToolCall(Message):
    """A message that calls a tool; for agents that do not write tokens.

    Its text is what the policy would have written, so it lies in the action space and stays in the transcript.
    `ToolFormat.call` makes one.
    """

    name: str
    arguments: Mapping[str, Any]

    def __new__(cls, text: str, name: str, arguments: Mapping[str, Any]) -> ToolCall:  # type: ignore[override]
        """Attach the call to its text; raises `OptionError` for a name that is no string or arguments that are none."""
        call = str.__new__(cls, validate.text("the text of a call", text))
        call.stop_reason, call.name = "stop", validate.text("the name of a tool", name)
        call.arguments = validate.mapping(f"the arguments of {short(name)}", arguments)
        return call

    def __getnewargs__(self) -> tuple[str, str, Mapping[str, Any]]:  # type: ignore[override]
        """What copies and pickles are made from."""
        return str(self), self.name, self.arguments


@runtime_checkable
class ToolSession(Protocol):
    """The state that the tools of one episode work on; picklable, made anew at every `reset`.

    Attributes:
        submitted: whether a tool has ended the episode.
    """

    submitted: bool

    def tools(self, verifier: Verifier) -> Mapping[str, Callable[..., str]]:
        """The functions a policy may call, by name; `verifier` is the environment's, for tools that run code."""

    def answer(self) -> Answer:
        """What is judged at the end."""


def tool_schema(function: Callable[..., Any], name: str | None = None) -> dict[str, Any]:
    """JSON schema of a tool, in the shape chat templates take.

    Args:
        function: the tool.
        name: by which it is called; None for the function's own.

    Raises:
        OptionError: the docstring or an annotation is missing, a type has no JSON counterpart, or it is no function
            whose arguments have names.
    """
    name = name or str(getattr(function, "__name__", type(function).__name__))
    validate.function(f"the tool {name!r}", function)
    text = inspect.getdoc(function)
    if not text:
        raise OptionError(f"the tool {name!r} needs a docstring that says what it does")
    summary, _, rest = text.partition("\nArgs:\n")
    described = {word: " ".join(what.split()) for word, what in _ARGUMENT_DOC.findall(rest.partition("\n\n")[0])}
    try:
        hints, signature = typing.get_type_hints(function), inspect.signature(function)
    except (NameError, TypeError, ValueError) as error:  # a partial, something written in C, an unknown name
        raise OptionError(f"the tool {name!r} must be a plain function with annotations: {error}") from error
    properties, required = {}, []
    for argument, parameter in signature.parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise OptionError(f"the tool {name!r} must take its arguments by name, not as {parameter}")
        if argument not in hints or argument not in described:
            missing = "an annotation" if argument not in hints else "a line under `Args:`"
            raise OptionError(f"the argument {argument!r} of the tool {name!r} needs {missing}")
        properties[argument] = {**_json_type(hints[argument], name), "description": described[argument]}
        if parameter.default is parameter.empty:
            required.append(argument)
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = required
    return {"type": "function", "function": {"name": name, "description": summary.strip(), "parameters": parameters}}


def _json_type(hint: Any, tool: str) -> dict[str, Any]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in _JSON_TYPES:
        return {"type": _JSON_TYPES[hint]}
    if origin is Literal and len({type(choice) for choice in inner}) == 1 and type(inner[0]) in _JSON_TYPES:
        return {"type": _JSON_TYPES[type(inner[0])], "enum": list(inner)}
    if origin is list and len(inner) == 1:
        return {"type": "array", "items": _json_type(inner[0], tool)}
    if origin is dict and len(inner) == 2:
        return {"type": "object", "additionalProperties": _json_type(inner[1], tool)}
    if origin in (Union, types.UnionType) and len(inner) == 2 and type(None) in inner:
        return {**_json_type(next(kind for kind in inner if kind is not type(None)), tool), "nullable": True}
    raise OptionError(f"the tool {tool!r} takes {hint}, which has no JSON type")


class ToolBox:
    """Calls tools by name and turns everything that goes wrong into a sentence for the policy.

    Args:
        functions: the tools.
        timeout_s: wall-clock seconds a call may take. The thread of a late call cannot be stopped, only left alone:
            a tool that runs untrusted code must use a sandbox, whose limits do stop it.
        max_chars: longer results are cut in the middle, with a note.

    Raises:
        OptionError: one of the tools has no schema, see `tool_schema`.
    """

    def __init__(self, functions: Mapping[str, Callable[..., str]], timeout_s: float = 30.0, max_chars: int = 4000):
        self._functions, self._timeout_s, self._max_chars = validate.mapping("tools", functions), timeout_s, max_chars
        self._schemas = {name: tool_schema(function, name) for name, function in self._functions.items()}

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """One schema per tool."""
        return list(self._schemas.values())

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The tool's result, or what is wrong with the call; any error but `ToolError` is raised as the tool raised it.

        A tool whose own judge broke, for example, raises `VerifierError`.
        """
        try:
            if name not in self._functions:
                raise ToolError(unknown("tool", short(name), self._functions))
            function = self._functions[name]
            result = self._in_time(name, function, _checked(self._schemas[name], arguments))
        except ToolError as error:
            return _cut(f"error: {error}", self._max_chars)
        if not isinstance(result, str):
            raise OptionError(f"the tool {name!r} must return a str, got {type(result).__name__}")
        return _cut(result, self._max_chars)

    def _in_time(self, name: str, function: Callable[..., str], arguments: dict[str, Any]) -> str:
        outcome: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        def run() -> None:
            try:
                outcome.put((function(**arguments), None))
            except BaseException as error:  # raised again below
                outcome.put((None, error))

        # A daemon of its own, since the threads of an executor are waited for when the process ends.
        threading.Thread(target=run, name="tool", daemon=True).start()
        try:
            result, error = outcome.get(timeout=self._timeout_s)
        except queue.Empty:
            raise ToolError(f"{name} took longer than {self._timeout_s:g} s") from None
        if error is not None:
            raise error
        return result


def short(name: str) -> str:
    """A name as error sentences quote it; a policy may write one of any length."""
    return name if len(name) <= 60 else f"{name[:57]}..."


def _checked(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, if they fit the schema; raises `ToolError` in the policy's own words."""
    name, parameters = schema["function"]["name"], schema["function"]["parameters"]
    if not isinstance(arguments, Mapping):
        raise ToolError(f"the arguments of {name} must be an object, got {arguments!r:.80}")
    for argument in arguments:
        if argument not in parameters["properties"]:
            raise ToolError(unknown(f"argument of {name}", short(str(argument)), parameters["properties"]))
    for argument in parameters.get("required", ()):
        if argument not in arguments:
            raise ToolError(f"{name} needs the argument {argument!r}")
    for argument, value in arguments.items():
        if not _fits(value, parameters["properties"][argument]):
            expected = parameters["properties"][argument]
            what = f"one of {expected['enum']}" if "enum" in expected else f"of type {expected['type']}"
            raise ToolError(f"the argument {argument!r} of {name} must be {what}, got {value!r:.80}")
    return dict(arguments)


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    if value is None:
        return schema.get("nullable", False) or schema["type"] == "null"
    if "enum" in schema:
        return any(type(value) is type(choice) and value == choice for choice in schema["enum"])
    kinds: dict[str, Any] = {kind: python for python, kind in _JSON_TYPES.items()} | {"number": (int, float)}
    if not isinstance(value, kinds[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean"):
        return False
    inner = schema.get("items", schema.get("additionalProperties"))
    items: Iterable[Any] = value.values() if isinstance(value, dict) else value
    return inner is None or all(_fits(item, inner) for item in items)


def _cut(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"

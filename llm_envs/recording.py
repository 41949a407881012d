"""What a recording of episodes says, as plain values: lines of JSON, read and checked.

    {"kind": "recording", "version": 1, "spec": {"id": "llm_envs/Arithmetic-v0", ...}}
    {"kind": "episode", "seed": 7, "options": null, "first": {"observation": "9c1f...", "info": {...}}, "steps": [...]}

A recording is data: what it names as code is refused, see `spec_to_make`.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, WrapperSpec

from llm_envs.error import RecordingError

VERSION = 1

_JUDGES = ("task", "verifier", "verifier_options", "extra_verifiers")
_IMPORTS = re.compile(r"\s*[^\s:]+\s*:")  # `importlib` runs the module before anybody looks for what is in it
_REFERENCE = re.compile(r"[^\s:]+:\S+")
_GRAMMAR = re.compile(r"(regex|json_schema):")
_CONTAINERS = ("auto", "bubblewrap", "namespaces")
_GYMNASIUM = re.compile(r"gymnasium\.wrappers(\.\w+)*:\w+")


class Recording(NamedTuple):
    """A file that was read."""

    spec: EnvSpec
    """As the file has it, without entry points; `spec_to_make` adds them."""
    episodes: list[dict[str, Any]]
    cut_off: bool
    """Whether a last line was dropped because it is incomplete."""
    path: str = "the recording"
    """For messages."""


def read_recording(path: str | Path) -> Recording:
    """Read a file that a `Recorder` wrote; raises `RecordingError`, which names the line, for any other."""
    *complete, rest = Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    if not complete:
        raise RecordingError(f"{path}, line 1: must say that this is a recording of version {VERSION}")
    spec = _read_line(f"{path}, line 1", complete[0], _spec)
    episodes = [
        _read_line(f"{path}, line {number}", line, _episode) for number, line in enumerate(complete[1:], start=2)
    ]
    return Recording(spec, episodes, bool(rest), str(path))


def _read_line(place: str, line: str, read: Any) -> Any:
    try:
        return read(_Fields(place, "", _parsed(place, line)))
    except RecursionError:
        raise RecordingError(f"{place}: is nested too deeply") from None


def _parsed(place: str, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise RecordingError(f"{place}: is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise RecordingError(f"{place}: must be a JSON object, got {value!r:.80}")
    return value


class _Fields:
    """An object of a line, whose fields are taken by type; the error names the line and the field."""

    def __init__(self, place: str, name: str, values: dict[str, Any]) -> None:
        self.place, self.name, self.values = place, name, values

    def take(self, field: str, expected: str, *kinds: type | None) -> Any:
        """The value of a field if it is of one of the types (None: null); a bool is no int."""
        name = f"{self.name}[{field!r}]" if self.name else field
        if field not in self.values:
            raise RecordingError(f"{self.place}: {name} is missing, expected {expected}")
        value = self.values[field]
        if not any(value is None if kind is None else type(value) is kind for kind in kinds):
            raise RecordingError(f"{self.place}: {name} must be {expected}, got {value!r:.80}")
        return value

    def inside(self, field: str) -> _Fields:
        """The fields of an object in a field."""
        value = self.take(field, "an object", dict)
        return _Fields(self.place, f"{self.name}[{field!r}]" if self.name else field, value)

    def items(self, field: str) -> Iterator[_Fields]:
        """The objects in a list."""
        name = f"{self.name}[{field!r}]" if self.name else field
        for index, value in enumerate(self.take(field, "a list", list)):
            if not isinstance(value, dict):
                raise RecordingError(f"{self.place}: {name}[{index}] must be an object, got {value!r:.80}")
            yield _Fields(self.place, f"{name}[{index}]", value)


def _spec(line: _Fields) -> EnvSpec:
    if line.values.get("kind") != "recording" or line.values.get("version") != VERSION:
        raise RecordingError(f"{line.place}: must say that this is a recording of version {VERSION}")
    fields = line.inside("spec")
    id = fields.take("id", "text", str)
    kwargs = fields.take("kwargs", "an object", dict)
    steps = fields.take("max_episode_steps", "a positive integer or null", int, None)
    if steps is not None and steps < 1:
        raise RecordingError(
            f"{line.place}: spec['max_episode_steps'] must be a positive integer or null, got {steps!r:.80}"
        )
    flags = {name: fields.take(name, "true or false", bool) for name in ("order_enforce", "disable_env_checker")}
    wrappers = tuple(
        WrapperSpec(
            wrapper.take("name", "text", str),
            wrapper.take("entry_point", "text", str),
            wrapper.take("kwargs", "an object or null", dict, None),
        )
        for wrapper in fields.items("additional_wrappers")
    )
    try:
        return EnvSpec(id, max_episode_steps=steps, kwargs=kwargs, additional_wrappers=wrappers, **flags)
    except gym.error.Error as error:
        raise RecordingError(f"{line.place}: spec['id'] is no environment's: {error}") from error


def _episode(line: _Fields) -> dict[str, Any]:
    if line.values.get("kind") != "episode":
        raise RecordingError(f"{line.place}: must be an episode with seed, options, first and steps")
    line.take("seed", "an integer or null", int, None)
    line.take("options", "an object or null", dict, None)
    first = line.inside("first")
    first.take("observation", "a hash", str)
    first.take("info", "an object", dict)
    for step in line.items("steps"):
        _action(step)
        step.take("observation", "a hash", str)
        step.take("reward", "a number", int, float)
        step.take("terminated", "true or false", bool)
        step.take("truncated", "true or false", bool)
        step.take("info", "an object", dict)
    return line.values


def _action(step: _Fields) -> None:
    action = step.take("action", "a token, a text or an object", int, str, dict)
    if isinstance(action, dict):
        fields = step.inside("action")
        fields.take("text", "text", str)
        if "name" in action:
            fields.take("name", "text", str)
            fields.take("arguments", "an object", dict)
        else:
            fields.take("stop_reason", "text", str)


def spec_to_make(recording: Recording, trust: bool = False) -> EnvSpec:
    """What to make the environment of a recording from: options are the file's, code is that of the registered id.

    Args:
        recording: a file that was read.
        trust: whether options may name code of their own ("module:Class", a wrapper, judging without a container).

    Raises:
        RecordingError: the id is not registered; or, without `trust`, something in the file names code.
    """
    spec, place = recording.spec, f"{recording.path}, line 1"
    registered = gym.registry.get(spec.id)
    if registered is None:
        raise RecordingError(
            f"{place}: the environment {spec.id!r} is not registered here; import the package that registers it "
            "(--import MODULE)"
        )
    if not trust:
        for where, text in _named_code(spec, registered):
            raise RecordingError(
                f"{place}: {where} is {text!r:.80}, which may run code that the file chose; "
                "replay it with --trust (trust=True) if you know where the file comes from"
            )
    return EnvSpec(
        spec.id,
        registered.entry_point,
        max_episode_steps=spec.max_episode_steps,
        order_enforce=spec.order_enforce,
        disable_env_checker=spec.disable_env_checker,
        kwargs={name: value for name, value in spec.kwargs.items() if name != "render_mode"},
        additional_wrappers=spec.additional_wrappers,
    )


def _named_code(spec: EnvSpec, registered: EnvSpec) -> Iterator[tuple[str, str]]:
    """Where a recording names code that the registered id does not name itself."""
    for name, value in spec.kwargs.items():
        if name not in registered.kwargs or registered.kwargs[name] != value:
            yield from _references(f"kwargs[{name!r}]", value, name)
    for wrapper in spec.additional_wrappers:
        if wrapper not in registered.additional_wrappers:
            if not _is_gymnasium_wrapper(wrapper.entry_point):
                yield f"the wrapper {wrapper.name!r}", wrapper.entry_point
            yield from _references(f"kwargs of the wrapper {wrapper.name!r}", wrapper.kwargs, "")


def _references(where: str, value: Any, option: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name == "sandbox" and item not in _CONTAINERS:
                yield f"{where}['sandbox']", str(item)
            yield from _references(f"{where}[{name!r}]", item, option)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _references(f"{where}[{index}]", item, option)
    elif isinstance(value, str) and _may_name_code(value, option):
        yield where, value


def _may_name_code(text: str, option: str) -> bool:
    if option == "constraint" and _GRAMMAR.match(text):
        return False
    return bool(_IMPORTS.match(text) if option in _JUDGES else _REFERENCE.fullmatch(text))


def _is_gymnasium_wrapper(entry_point: str) -> bool:
    if not _GYMNASIUM.fullmatch(entry_point):
        return False
    module, _, name = entry_point.partition(":")
    try:
        wrapper = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return False
    return isinstance(wrapper, type) and issubclass(wrapper, gym.Wrapper)

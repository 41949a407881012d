"""Actions, observations and infos as a recording holds them: plain values, and hashes."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from llm_envs.error import OptionError
from llm_envs.text_env import Message
from llm_envs.tools import ToolCall


def answer(result: tuple[Any, Any, bool, bool, dict[str, Any]]) -> dict[str, Any]:
    """What a step gave; raises `OptionError` for an info that JSON cannot hold."""
    observation, reward, terminated, truncated, info = result
    return {
        "observation": observation_hash(observation),
        "reward": float(reward),
        "terminated": bool(terminated),
        "truncated": bool(truncated),
        "info": plain(untimed(info)),
    }


def untimed(info: Mapping[str, Any]) -> dict[str, Any]:
    """An info without wall-clock time, the `t` beside the return `r` and the length `l` in statistics of an episode."""
    return {
        name: {key: item for key, item in value.items() if key != "t"}
        if isinstance(value, Mapping) and {"r", "l", "t"} <= set(value)
        else value
        for name, value in info.items()
    }


def observation_hash(observation: Any) -> str:
    """Hash of a string, an array, or a dict of them."""
    digest = hashlib.sha256()
    parts = sorted(observation.items()) if isinstance(observation, Mapping) else [("", observation)]
    for name, value in parts:
        if isinstance(value, str):
            digest.update(f"{name}:str:".encode() + value.encode("utf-8", "surrogatepass"))
        else:
            array = np.asarray(value)
            digest.update(f"{name}:{array.dtype}{array.shape}:".encode() + array.tobytes())
    return digest.hexdigest()[:16]


def action_as_json(action: Any) -> Any:
    """A message or a token as JSON has it; raises `OptionError` for anything else."""
    if isinstance(action, ToolCall):
        written: Any = {"text": str(action), "name": action.name, "arguments": action.arguments}
    elif isinstance(action, Message):
        written = {"text": str(action), "stop_reason": action.stop_reason}
    elif isinstance(action, str):
        return str(action)
    else:
        try:
            return operator.index(action) + 0  # a plain integer, also for True
        except TypeError:
            raise OptionError(f"Recorder needs an action that is a message or a token, got {action!r:.80}") from None
    return json.loads(encoded(written))


def action_from_json(action: Any) -> Any:
    """The message or token that `action_as_json` wrote."""
    if not isinstance(action, dict):
        return action
    if "name" in action:
        return ToolCall(action["text"], action["name"], action["arguments"])
    return Message(action["text"], action["stop_reason"])


def encoded(value: Any) -> str:
    """The value as JSON text; raises `OptionError` for what JSON has not."""
    needs = "Recorder needs options, arguments and infos of plain values"
    try:
        return json.dumps(plain(value))
    except OptionError:
        raise
    except RecursionError:
        raise OptionError(f"{needs}, got one that is nested too deeply") from None
    except ValueError as error:  # an integer of thousands of digits
        raise OptionError(f"{needs}: {error}") from error


def plain(value: Any) -> Any:
    """The value as JSON has it; raises `OptionError` for what it has not."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise OptionError(f"Recorder needs options, arguments and infos of plain values, got {value!r:.80}")

"""Recordings of episodes that can be played again and compared.

A recording is a file of JSON lines. The first holds the environment's spec, every other one an episode: seed, options,
actions (messages with their stop reasons and tool calls, or token ids), and what the environment answered: hashes of
observations, rewards, ends and infos.

    {"kind": "recording", "version": 1, "spec": {"id": "llm_envs/Arithmetic-v0", ...}}
    {"kind": "episode", "seed": 7, "options": null, "first": {"observation": "9c1f...", "info": {...}}, "steps": [...]}

Vector environments are not recorded. What an environment raised is not, either: the step counts as not taken.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from llm_envs.error import OptionError, RecordingError
from llm_envs.text_env import Message
from llm_envs.tools import ToolCall

_VERSION = 1
_SHOWN = 200  # characters of a value in a report


class Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Writes every episode of a text-level or token-level environment to a file.

    A line is written at the end of its episode, or at the next `reset` or `close`, and flushed. The first `reset` gets
    a seed if it is given none, since what an environment draws without one cannot be drawn again.

    Example:
        >>> env = gym.make("llm_envs/Arithmetic-v0")  # doctest: +SKIP
        >>> env = Recorder(env, "episodes.jsonl")  # doctest: +SKIP
    """

    def __init__(self, env: gym.Env[Any, Any], path: str | Path) -> None:
        """Create the file.

        Args:
            env: made by `gymnasium.make`, with options that are plain values or names.
            path: a file that does not exist.
        """
        super().__init__(env)
        if not isinstance(env.action_space, (gym.spaces.Text, gym.spaces.Discrete)):
            raise OptionError(
                f"Recorder needs an environment whose actions are messages or tokens, got {env.action_space}"
            )
        header = {"kind": "recording", "version": _VERSION, "spec": _spec_as_json(env)}
        self.path = Path(path)
        try:
            self._file = self.path.open("x", encoding="ascii")
        except FileExistsError:
            raise OptionError(f"Recorder writes to a file that does not exist, got {str(path)!r}") from None
        self._episode: dict[str, Any] | None = None
        self._seeded = False
        self._write(header)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, and its line."""
        self._end_line()
        if seed is None and not self._seeded:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        plain_options = _plain(options)
        observation, info = self.env.reset(seed=seed, options=options)
        self._seeded = True
        first = {"observation": observation_hash(observation), "info": _plain(info)}
        self._episode = {"kind": "episode", "seed": seed, "options": plain_options, "first": first, "steps": []}
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step and note it."""
        result = self.env.step(action)
        if self._episode is not None:
            self._episode["steps"].append({"action": _action_as_json(action), **_answer(result)})
            if result[2] or result[3]:
                self._end_line()
        return result

    def close(self) -> None:
        """Write the episode under way, and close the file and the environment."""
        if not self._file.closed:
            self._end_line()
            self._file.close()
        super().close()

    def _end_line(self) -> None:
        if self._episode is not None:
            episode, self._episode = self._episode, None
            self._write(episode)

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def replay_file(path: str | Path) -> int:
    """Play a recording again and print every difference.

    Returns:
        an exit status: 0 if the environment answers as it did, 1 if it does not or the recording is cut off, 2 if the
        file cannot be read as a recording.
    """
    try:
        recording = read_recording(path)
    except (OSError, RecordingError) as error:
        print(f"error: {error}")
        return 2
    count = 0
    for difference in replay(recording):
        print(difference)
        count += 1
    if recording.cut_off:
        print(f"the last line of {path} is cut off: the recording stopped while it was written")
    steps = sum(len(episode["steps"]) for episode in recording.episodes)
    print(f"{recording.spec.id}: {len(recording.episodes)} episodes, {steps} steps, {count} differences")
    return 1 if count or recording.cut_off else 0


class Recording(NamedTuple):
    """A file that was read."""

    spec: EnvSpec
    episodes: list[dict[str, Any]]
    cut_off: bool
    """Whether a last line was dropped because it is incomplete."""


def read_recording(path: str | Path) -> Recording:
    """Read a file that a `Recorder` wrote; raises `RecordingError`, which names the line, for any other."""
    lines = Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    complete, rest = lines[:-1], lines[-1]
    read = [_read_line(path, number, line) for number, line in enumerate(complete, start=1)]
    if not read or read[0].get("kind") != "recording" or read[0].get("version") != _VERSION:
        raise RecordingError(f"{path}, line 1: must say that this is a recording of version {_VERSION}")
    for number, episode in enumerate(read[1:], start=2):
        if not {"seed", "options", "first", "steps"} <= set(episode):
            raise RecordingError(f"{path}, line {number}: must be an episode with seed, options, first and steps")
    try:
        spec = EnvSpec.from_json(json.dumps(read[0]["spec"]))
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(f"{path}, line 1: its spec cannot be read: {error}") from error
    return Recording(spec, read[1:], bool(rest))


def replay(recording: Recording) -> Iterator[str]:
    """Play all episodes in order; yields one sentence per difference."""
    spec = recording.spec
    spec.kwargs.pop("render_mode", None)
    try:
        env = gym.make(spec)
    except Exception as error:  # whatever it is, it was possible once
        yield f"{spec.id} cannot be made any more: {type(error).__name__}: {error}"
        return
    for number, episode in enumerate(recording.episodes):
        yield from (f"episode {number}, {difference}" for difference in _replay_episode(env, episode))
    env.close()


def _replay_episode(env: gym.Env[Any, Any], episode: dict[str, Any]) -> Iterator[str]:
    step, steps = 0, episode["steps"]
    try:
        observation, info = env.reset(seed=episode["seed"], options=episode["options"])
        now = {"observation": observation_hash(observation), "info": _plain(info)}
        yield from _compare("reset", episode["first"], now)
        for step, recorded in enumerate(steps, start=1):
            result = env.step(_action_from_json(recorded["action"]))
            before = {name: value for name, value in recorded.items() if name != "action"}
            yield from _compare(f"step {step}", before, _answer(result))
            if (result[2] or result[3]) and step < len(steps):
                yield f"step {step}: the episode ends here now, and had {len(steps)} steps"
                return
    except Exception as error:  # whatever it is, it did not happen when the episode was recorded
        yield f"{f'step {step}' if step else 'reset'}: raises {type(error).__name__}: {error}"


def _compare(where: str, before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    before, now = (_by_name(answer) for answer in (before, json.loads(json.dumps(now))))
    for name in [*before, *(name for name in now if name not in before)]:
        was, is_now = (_shown(answer[name]) if name in answer else "missing" for answer in (before, now))
        if was != is_now:
            yield f"{where}: {name} was {was[:_SHOWN]} and is {is_now[:_SHOWN]}"


def _by_name(answer: dict[str, Any]) -> dict[str, Any]:
    infos = {f"info[{name!r}]": value for name, value in answer["info"].items()}
    return {**{name: value for name, value in answer.items() if name != "info"}, **infos}


def _shown(value: Any) -> str:
    return json.dumps(value, sort_keys=True)  # as text, NaN equals NaN and 1 differs from 1.0 and from true


def _answer(result: tuple[Any, Any, bool, bool, dict[str, Any]]) -> dict[str, Any]:
    observation, reward, terminated, truncated, info = result
    return {
        "observation": observation_hash(observation),
        "reward": float(reward),
        "terminated": bool(terminated),
        "truncated": bool(truncated),
        "info": _plain(info),
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


def _action_as_json(action: Any) -> Any:
    if isinstance(action, ToolCall):
        return {"text": str(action), "name": action.name, "arguments": _plain(action.arguments)}
    if isinstance(action, Message):
        return {"text": str(action), "stop_reason": action.stop_reason}
    return str(action) if isinstance(action, str) else int(action)


def _action_from_json(action: Any) -> Any:
    if not isinstance(action, dict):
        return action
    if "name" in action:
        return ToolCall(action["text"], action["name"], action["arguments"])
    return Message(action["text"], action["stop_reason"])


def _plain(value: Any) -> Any:
    """The value as JSON has it; raises `OptionError` for what it has not."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise OptionError(f"Recorder needs options, arguments and infos of plain values, got {value!r:.80}")


def _spec_as_json(env: gym.Env[Any, Any]) -> dict[str, Any]:
    if env.spec is None:
        raise OptionError("Recorder needs an environment made by gymnasium.make, got one without a spec")
    try:
        return json.loads(env.spec.to_json())
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"Recorder needs options by name or as plain values to make the environment again: {error}"
        ) from error


def _read_line(path: str | Path, number: int, line: str) -> dict[str, Any]:
    try:
        read = json.loads(line)
    except ValueError as error:
        raise RecordingError(f"{path}, line {number}: is not JSON: {error}") from error
    if not isinstance(read, dict):
        raise RecordingError(f"{path}, line {number}: must be a JSON object, got {read!r:.80}")
    return read

"""Recordings of episodes that can be played again and compared.

A recording is a file of JSON lines. The first holds the environment's spec, every other one an episode: seed, options,
actions (messages with their stop reasons and tool calls, or token ids), and what the environment answered: hashes of
observations, rewards, ends and infos. `llm_envs.recording` reads it.

Vector environments are not recorded. What an environment raised is not, either: the step or the reset counts as not
taken. Nor is the time that an episode took, which Gymnasium's `RecordEpisodeStatistics` puts into `info`.
"""

from __future__ import annotations

import copy
import json
import operator
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from llm_envs.error import ClosedError, OptionError, RecordingError
from llm_envs.recorded_values import (
    action_as_json,
    action_from_json,
    answer,
    encoded,
    observation_hash,
    plain,
    untimed,
)
from llm_envs.recording import VERSION, Recording, read_recording, spec_to_make

_SHOWN = 200  # characters of a value in a report


class Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Writes every episode of a text-level or token-level environment to a file.

    A line is written at the end of its episode, or at the next `reset` or `close`, and flushed. What an environment
    draws without a seed cannot be drawn again, so a `reset` without one gets one where nothing else says what the
    generator holds: the first `reset`, and the next one after a `reset` or `step` that raised. The latter seed follows
    from the last one that was given, so equal runs stay equal.

    Example:
        >>> env = gym.make("llm_envs/Arithmetic-v0")  # doctest: +SKIP
        >>> env = Recorder(env, "episodes.jsonl")  # doctest: +SKIP
    """

    def __init__(self, env: gym.Env[Any, Any], path: str | Path) -> None:
        """Create the file.

        Args:
            env: made by `gymnasium.make`, with options that are plain values or names.
            path: a file that does not exist; folders that are missing are created.

        Raises:
            OptionError: the environment could not be made again, or the file cannot be created.
        """
        super().__init__(env)
        if not isinstance(env.action_space, (gym.spaces.Text, gym.spaces.Discrete)):
            raise OptionError(
                f"Recorder needs an environment whose actions are messages or tokens, got {env.action_space}"
            )
        if not isinstance(path, (str, os.PathLike)):
            raise OptionError(f"Recorder needs the path of a file to write, got {path!r:.80}")
        header = encoded({"kind": "recording", "version": VERSION, "spec": _spec_as_json(env)})
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("x", encoding="ascii")
        except FileExistsError:
            raise OptionError(f"Recorder writes to a file that does not exist, got {str(path)!r}") from None
        except (OSError, ValueError) as error:  # ValueError: a null character
            raise OptionError(f"Recorder cannot create {str(path)!r}: {error}") from error
        self._begun = ""  # the line of the episode under way up to its steps; "" when there is none
        self._steps: list[str] = []
        self._seeds = np.random.SeedSequence()
        self._known = False  # whether a replay arrives at the generator's present state
        self._write(header)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, and its line."""
        self._check_open()
        plain_options = encoded(options)
        given = None if seed is None else _integer(seed)
        self._end_line()
        if seed is None and not self._known:
            seed = int(self._seeds.spawn(1)[0].generate_state(1)[0])
        self._known = False
        observation, info = self.env.reset(seed=seed, options=options)
        first = encoded({"observation": observation_hash(observation), "info": untimed(info)})
        if given is not None:
            self._seeds = np.random.SeedSequence(abs(given))
        self._begun = (
            f'{{"kind": "episode", "seed": {encoded(seed if given is None else given)}, "options": {plain_options}, '
            f'"first": {first}, "steps": ['
        )
        self._known = True
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step and note it."""
        self._check_open()
        plain_action = action_as_json(action)
        known, self._known = self._known, False
        result = self.env.step(action)
        if self._begun:
            try:
                self._steps.append(encoded({"action": plain_action, **answer(result)}))
            except Exception:
                self._end_line()  # the step was taken, so no later one follows the last that was noted
                raise
            if result[2] or result[3]:
                self._end_line()
        self._known = known
        return result

    def close(self) -> None:
        """Write the episode under way, and close the file and the environment."""
        if not self._file.closed:
            self._end_line()
            self._file.close()
        super().close()

    def _check_open(self) -> None:
        if self._file.closed:
            raise ClosedError(f"the Recorder of {str(self.path)!r} is closed; make another one with another file")

    def _end_line(self) -> None:
        if self._begun:
            line = f"{self._begun}{', '.join(self._steps)}]}}"
            self._begun, self._steps = "", []
            self._write(line)

    def _write(self, line: str) -> None:
        self._file.write(line + "\n")
        self._file.flush()


def replay_file(path: str | Path, trust: bool = False) -> int:
    """Play a recording again and print every difference.

    Args:
        path: what a `Recorder` wrote.
        trust: whether the file may name code to run, see `recording.spec_to_make`.

    Returns:
        an exit status: 0 if the environment answers as it did, 1 if it does not or the recording is cut off, 2 if the
        file cannot be read as a recording or may not be played.
    """
    count = 0
    try:
        recording = read_recording(path)
        for difference in replay(recording, trust):
            print(difference)
            count += 1
    except (OSError, RecordingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if recording.cut_off:
        print(f"the last line of {path} is cut off: the recording stopped while it was written")
    steps = sum(len(episode["steps"]) for episode in recording.episodes)
    print(f"{recording.spec.id}: {len(recording.episodes)} episodes, {steps} steps, {count} differences")
    return 1 if count or recording.cut_off else 0


def replay(recording: Recording, trust: bool = False) -> Iterator[str]:
    """Play all episodes in order; yields one sentence per difference, raises `RecordingError` where it may not."""
    spec = spec_to_make(recording, trust)
    try:
        env = gym.make(spec)
    except Exception as error:  # whatever it is, it was possible once
        yield f"{spec.id} cannot be made any more: {type(error).__name__}: {error}"
        return
    try:
        for number, episode in enumerate(recording.episodes):
            yield from (f"episode {number}, {difference}" for difference in _replay_episode(env, episode))
    finally:
        env.close()


def _replay_episode(env: gym.Env[Any, Any], episode: dict[str, Any]) -> Iterator[str]:
    step, steps = 0, episode["steps"]
    try:
        observation, info = env.reset(seed=episode["seed"], options=episode["options"])
        now = {"observation": observation_hash(observation), "info": plain(untimed(info))}
        yield from _compare("reset", episode["first"], now)
        for step, recorded in enumerate(steps, start=1):
            result = env.step(action_from_json(recorded["action"]))
            before = {name: value for name, value in recorded.items() if name != "action"}
            yield from _compare(f"step {step}", before, answer(result))
            if (result[2] or result[3]) and step < len(steps):
                yield f"step {step}: the episode ends here now, and had {len(steps)} steps"
                return
    except Exception as error:  # whatever it is, it did not happen when the episode was recorded
        yield f"{f'step {step}' if step else 'reset'}: raises {type(error).__name__}: {error}"


def _compare(where: str, before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    before, now = (_by_name(given) for given in (before, json.loads(json.dumps(now))))
    for name in [*before, *(name for name in now if name not in before)]:
        was, is_now = (_shown(given[name]) if name in given else "missing" for given in (before, now))
        if was != is_now:
            yield f"{where}: {name} was {was[:_SHOWN]} and is {is_now[:_SHOWN]}"


def _by_name(given: dict[str, Any]) -> dict[str, Any]:
    infos = {f"info[{name!r}]": value for name, value in untimed(given["info"]).items()}
    return {**{name: value for name, value in given.items() if name != "info"}, **infos}


def _shown(value: Any) -> str:
    return json.dumps(value, sort_keys=True)  # as text, NaN equals NaN and 1 differs from 1.0 and from true


def _integer(seed: Any) -> int:
    try:
        return operator.index(seed)
    except TypeError:
        raise OptionError(f"seed must be an integer or None, got {seed!r:.80}") from None


def _spec_as_json(env: gym.Env[Any, Any]) -> dict[str, Any]:
    if env.spec is None:
        raise OptionError("Recorder needs an environment made by gymnasium.make, got one without a spec")
    spec = copy.copy(env.spec)
    for wrapper in spec.additional_wrappers:
        if wrapper.kwargs is None:
            raise OptionError(
                f"Recorder needs wrappers that can be made again, and {wrapper.name} keeps no arguments: "
                "derive it from gymnasium.utils.RecordConstructorArgs, or put it around the Recorder"
            )
    if callable(spec.entry_point):
        spec.entry_point = None  # a replay takes that of the registered id anyway
    if callable(spec.vector_entry_point):
        spec.vector_entry_point = None
    try:
        return json.loads(spec.to_json())
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(
            f"Recorder needs options by name or as plain values to make the environment again: {error}"
        ) from error

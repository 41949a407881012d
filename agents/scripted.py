"""An agent that plays given messages: the ceiling (gold answers) and the floors (untouched bug, nothing) of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.base import Agent, AgentError, EnvSource
from agents.files import whole_folder
from agents.play import make_text

FILE = "scripted.json"
Messages = str | Iterable[str]
"""Of one episode; a string is the only one."""
Script = str | Mapping[str, Messages] | Callable[[gym.Env], Messages]


class ScriptedAgent(Agent):
    """Plays a script, one message per step; the last one again when the episode asks for more.

    Args:
        script: `"gold"`, `"wrong"` or `"empty"`, which environments of llm_envs know (`TextEnv.script`); a mapping from
            example id to messages; or a function of the environment, called after `reset`. Messages may be tool calls;
            a string in place of several is the only one.

    Raises:
        AgentError: the script is none of these.
    """

    name, level, learns = "scripted", "text", False

    def __init__(self, script: Script = "gold") -> None:
        if not isinstance(script, str | Mapping) and not callable(script):
            raise AgentError(
                f"script must be a name, a mapping from example id to messages or a function, got {script!r}"
            )
        self.script = script

    @classmethod
    def make(
        cls, env: EnvSource, *, env_options: Mapping[str, Any] | None = None, script: Script = "gold"
    ) -> ScriptedAgent:
        """Build it for a text-level environment."""
        make_text(env, dict(env_options or {})).close()
        return cls(script)

    def learn(self, total_timesteps: int) -> ScriptedAgent:
        """Nothing to learn."""
        return self

    def begin(self, env: gym.Env) -> Callable[..., tuple[str, Any]]:
        """The agent of one episode: a function with `predict`'s arguments that knows what comes next."""
        given = self._script(env)
        messages = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
        if not all(isinstance(message, str) for message in messages):
            raise AgentError(f"a script must give a message or several, all of them str, got {given!r}")
        if not messages:
            raise AgentError("the script has no message for this episode")
        remaining = iter(messages)

        def predict(observation: str, state: Any = None, deterministic: bool = False) -> tuple[str, Any]:
            return next(remaining, messages[-1]), state

        return predict

    def predict(self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False,
                action_masks: Any = None) -> tuple[Any, Any]:  # fmt: skip
        """Refused: what comes next depends on the episode; use `begin(env)` after each reset, or `play`."""
        raise AgentError("a scripted agent has to know the episode: use begin(env) after reset, or play(...)")

    def _script(self, env: gym.Env) -> Messages:
        if callable(self.script):
            return self.script(env)
        if isinstance(self.script, str):
            if not env.has_wrapper_attr("script"):
                raise AgentError(f"script {self.script!r} needs an environment of llm_envs; give a mapping or function")
            return env.get_wrapper_attr("script")(self.script)
        example_id = env.get_wrapper_attr("example").id
        if example_id not in self.script:
            raise AgentError(f"the script has no messages for example {example_id!r}")
        return self.script[example_id]

    def save(self, folder: str | Path) -> None:
        """Write the script; one that is a function cannot be written."""
        if callable(self.script):
            raise AgentError("a script that is a function cannot be saved")
        with whole_folder(folder) as unfinished:
            (unfinished / FILE).write_text(json.dumps(self.script))

    @classmethod
    def load(cls, folder: str | Path, env: EnvSource, **options: Any) -> ScriptedAgent:
        """Read it back."""
        try:
            script = json.loads((Path(folder) / FILE).read_text())
        except (OSError, ValueError):
            raise AgentError(f"{folder} is no checkpoint of a scripted agent: {FILE} is missing or damaged") from None
        return cls.make(env, script=script, **options)

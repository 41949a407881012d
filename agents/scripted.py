"""An agent that plays given messages: the ceiling (gold answers) and the floors (untouched bug, nothing) of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.base import Agent, AgentError, EnvSource
from agents.play import make_text

Script = str | Mapping[str, Sequence[str]] | Callable[[gym.Env], Sequence[str]]


class ScriptedAgent(Agent):
    """Plays a script, one message per step; the last one again when the episode asks for more.

    Args:
        script: `"gold"`, `"wrong"` or `"empty"`, which environments of llm_envs know (`TextEnv.script`); a mapping from
            example id to messages; or a function of the environment, called after `reset`. Messages may be tool calls.
    """

    name, level, learns = "scripted", "text", False

    def __init__(self, script: Script = "gold") -> None:
        self.script = script
        self._messages: list[str] = []

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
        messages = list(self._script(env))
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

    def _script(self, env: gym.Env) -> Sequence[str]:
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
        Path(folder).mkdir(parents=True)
        (Path(folder) / "scripted.json").write_text(json.dumps(self.script))

    @classmethod
    def load(cls, folder: str | Path, env: EnvSource, **options: Any) -> ScriptedAgent:
        """Read it back."""
        path = Path(folder) / "scripted.json"
        if not path.exists():
            raise AgentError(f"{folder} is no checkpoint of a scripted agent: {path.name} is missing")
        return cls.make(env, script=json.loads(path.read_text()), **options)

"""Agents by name: `agents.make("ppo", "llm_envs/CodeRepair-v0", ...)`.

A package adds its own by declaring it in the entry-point group `llm_envs.agents`; in a program, `register` does.

    [project.entry-points."llm_envs.agents"]
    mine = "my_package.agent:MyAgent"
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from importlib.metadata import entry_points
from typing import Any

from agents.base import Agent, EnvSource

GROUP = "llm_envs.agents"
BUILT_IN = {
    "ppo": "agents.ppo:PPO",
    "grpo": "agents.grpo:GRPO",
    "reinforce": "agents.reinforce:Reinforce",
    "maskable_ppo": "agents.maskable_ppo:MaskablePPOAgent",
    "random": "agents.random_agent:RandomAgent",
    "scripted": "agents.scripted:ScriptedAgent",
    "chat": "agents.chat:ChatAgent",
}
_registered: dict[str, type[Agent] | str] = {}


def make(name: str, env: EnvSource, **options: Any) -> Any:
    """An agent by name; see `Agent.make` of its class for the options.

    Raises:
        ValueError: an unknown name.
        AgentError: the environment is none it can act in.
    """
    return find(name).make(env, **options)


def load(name: str, folder: Any, env: EnvSource, **options: Any) -> Any:
    """An agent of that name from its checkpoint."""
    return find(name).load(folder, env, **options)


def register(name: str, agent: type[Agent] | str) -> None:
    """Make an agent known by a name in this process: a class, or `"module:Class"`.

    Raises:
        ValueError: the name is taken by another agent.
    """
    if name in names() and _registered.get(name) != agent:
        raise ValueError(f"the agent {name!r} is there already; choose another name")
    _registered[name] = agent


def names() -> list[str]:
    """All names, sorted."""
    return sorted({*BUILT_IN, *_registered, *(entry.name for entry in entry_points(group=GROUP))})


def find(name: str) -> type[Agent]:
    """The class behind a name or behind `"module:Class"`.

    Raises:
        ValueError: an unknown name, or one that leads to no agent.
    """
    declared = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    target = {**declared, **BUILT_IN, **_registered}.get(name, name if ":" in name else None)
    if target is None:
        known = {other.lower(): other for other in names()}
        close = difflib.get_close_matches(name.lower(), known, n=1)
        hint = f"; did you mean {known[close[0]]!r}?" if close else ""
        raise ValueError(f"unknown agent {name!r}, expected one of {', '.join(names())}, or 'module:Class'{hint}")
    found: Any = target
    if isinstance(target, str):
        module, _, attribute = target.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"the agent {name!r} ({target}) cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise ValueError(f"{target} is not an Agent class, got {found!r}")
    if inspect.isabstract(found):
        raise ValueError(f"{target} is an abstract class, it lacks {', '.join(sorted(found.__abstractmethods__))}")
    if not isinstance(getattr(found, "name", None), str):
        raise ValueError(f"{target} has no name: set `name`, which checkpoints call it, to a str")
    return found

"""Tasks as registered Gymnasium environments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from llm_envs.error import OptionError, unknown
from llm_envs.share import unshare
from llm_envs.task import Task, TaskFactory, factory_options, find_factory, load_task, remember_task
from llm_envs.text_env import TextEnv
from llm_envs.token_env import TokenEnv
from llm_envs.vector_env import TokenVectorEnv

Options = dict[str, Any]


def _parameters(function: Callable[..., Any], *without: str) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name not in without)


_TEXT_OPTIONS = _parameters(TextEnv, "task")
_TOKEN_OPTIONS = _parameters(TokenEnv, "env")
_VECTOR_OPTIONS = _parameters(TokenVectorEnv, "env_fns")


def register_task(name: str, task: Task | TaskFactory | str) -> None:
    """Register `llm_envs/{name}-v0` (token level) and `llm_envs/{name}Text-v0` (text level).

    Keyword arguments of `gymnasium.make` that are no options of `TextEnv` or `TokenEnv` go to the factory.

    Args:
        name: letters, digits, `-`, `_` and `.`.
        task: a `Task`, a function that returns one, or `"module:function"` for one to be imported when needed. With
            the last, an environment's spec works in any process; the others need this call there, too.
    """
    reference = task if isinstance(task, str) else name
    if not isinstance(task, str):
        remember_task(name, task)
    for id in (f"llm_envs/{name}-v0", f"llm_envs/{name}Text-v0"):
        gym.registry.pop(id, None)  # registering a name again replaces it, without Gymnasium's warning
    gym.register(
        id=f"llm_envs/{name}-v0",
        entry_point="llm_envs.registration:make_token_env",
        vector_entry_point="llm_envs.registration:make_token_vector_env",
        kwargs={"task": reference},
    )
    gym.register(
        id=f"llm_envs/{name}Text-v0",
        entry_point="llm_envs.registration:make_text_env",
        kwargs={"task": reference},
    )


def make_text_env(task: str | Task, **kwargs: Any) -> TextEnv:
    """Entry point of the text level: options of `TextEnv` and of the task's factory."""
    (text,), loaded = _split(task, kwargs, _TEXT_OPTIONS)
    return TextEnv(loaded, **text)


def make_token_env(task: str | Task, **kwargs: Any) -> TokenEnv:
    """Entry point of the token level: options of `TokenEnv`, `TextEnv` and the task's factory."""
    (token, text), loaded = _split(task, kwargs, _TOKEN_OPTIONS, _TEXT_OPTIONS)
    return TokenEnv(TextEnv(loaded, **text), **token)


def make_token_vector_env(task: str | Task, num_envs: int = 1, **kwargs: Any) -> TokenVectorEnv:
    """Entry point of `gymnasium.make_vec`: options of `TokenVectorEnv`, `TextEnv` and the task's factory."""
    if num_envs < 1:
        raise OptionError(f"num_envs must be a positive integer, got {num_envs!r}")
    (vector, text), loaded = _split(task, kwargs, _VECTOR_OPTIONS, _TEXT_OPTIONS)
    return TokenVectorEnv([lambda: TextEnv(loaded, **text)] * num_envs, **vector)


def _split(task: str | Task, kwargs: Options, *levels: tuple[str, ...]) -> tuple[list[Options], Task]:
    """Deal keyword arguments out to the levels, first come first served; what is left goes to the task's factory."""
    kwargs = unshare(kwargs)
    dealt = []
    for options in levels:
        dealt.append({name: kwargs.pop(name) for name in options if name in kwargs})
    factory = find_factory(task)
    takes = [] if isinstance(factory, Task) else factory_options(factory)
    if takes is not None:
        known = sorted({name for options in levels for name in options} | set(takes))
        for name in kwargs:
            if name not in takes:
                raise OptionError(unknown("option", name, known))
    return dealt, load_task(task, kwargs)

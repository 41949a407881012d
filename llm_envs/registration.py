"""Tasks as registered Gymnasium environments."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

import gymnasium as gym

from llm_envs import validate
from llm_envs.build_task import TASK_OPTIONS, build_task
from llm_envs.error import OptionError, unknown
from llm_envs.records import Records, Template
from llm_envs.share import unshare
from llm_envs.task import Task, TaskFactory, factory_options, find_factory, load_task, remember_task
from llm_envs.text_env import TextEnv
from llm_envs.token_env import TokenEnv
from llm_envs.tool_env import ToolEnv
from llm_envs.vector_env import TokenVectorEnv

Options = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


def _parameters(function: Callable[..., Any], *without: str) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name not in without)


_TEXT_OPTIONS = _parameters(TextEnv, "task")
_TOKEN_OPTIONS = _parameters(TokenEnv, "env")
_VECTOR_OPTIONS = _parameters(TokenVectorEnv, "env_fns")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_owners: dict[str, str] = {}  # id -> name of the task that it was registered for


def register_task(
    name: str,
    task: Task | TaskFactory | str | None = None,
    *,
    problems: Any = None,
    prompt: Template | None = None,
    hidden: Any = None,
    gold: Template | None = None,
    splits: Any = None,
    **options: Any,
) -> None:
    """Register `llm_envs/{name}-v0` (token level) and `llm_envs/{name}Text-v0` (text level).

    Either of problems, which is the short way:

        register_task("Capitals", problems="capitals.jsonl", prompt="{country}: ", verifier="exact_match")

    or of a task that is written out: `register_task("Capitals", make_task)`.

    Keyword arguments of `gymnasium.make` that are no options of `TextEnv` or `TokenEnv` go to the factory.

    Args:
        name: letters, digits, `-`, `_` and `.`.
        task: a `Task`, a function that returns one, or `"module:function"` for one to be imported when needed. With
            the last, an environment's spec works in any process; everything else needs this call there, too.
        problems, prompt, hidden, gold, splits: instead of a task, see `build_task.build_task`.
        options: of the task (with `problems`: any field of `Task`, such as `verifier` or `max_new_tokens`), and options
            that the two ids have unless `gymnasium.make` says otherwise, such as a split or `max_length`; those of the
            token level alone are left out of the text level.
    """
    _check_name(name)
    parts = {"prompt": prompt, "hidden": hidden, "gold": gold, "splits": splits}
    if task is None:
        task, options = _task_of_problems(name, problems, parts, options)
    elif problems is not None or any(value is not None for value in parts.values()):
        raise OptionError(f"register_task({name!r}) takes a task, or problems (with prompt, hidden, gold, splits)")
    _register(name, task, options)


def _ids(name: str) -> tuple[str, str]:
    return f"llm_envs/{name}-v0", f"llm_envs/{name}Text-v0"


def _check_name(name: str) -> None:
    """Raise `OptionError` for what is no name, and for one whose ids are another task's."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise OptionError(f"a task's name has only letters, digits, '-', '_' and '.', got {name!r}")
    for id in _ids(name):
        if id in gym.registry and _owners.get(id) != name:
            owner = f"the task {_owners[id]!r}" if id in _owners else "another environment"
            raise OptionError(f"register_task({name!r}): {id} belongs to {owner}; choose another name")


def _task_of_problems(name: str, problems: Any, parts: Options, options: Options) -> tuple[Task, Options]:
    """The task that `register_task(problems=...)` describes, and the options that are not the task's."""
    if problems is None:
        raise OptionError(f"register_task({name!r}) needs a task or problems")
    known = dict.fromkeys((*parts, *TASK_OPTIONS, *_TEXT_OPTIONS, *_TOKEN_OPTIONS))
    for option in options:
        if option not in known:
            raise OptionError(unknown(f"option of register_task({name!r})", option, known))
    of_task = {option: value for option, value in options.items() if option in TASK_OPTIONS}
    task = build_task(name, problems, **parts, **of_task)
    return task, {option: value for option, value in options.items() if option not in TASK_OPTIONS}


def _register(name: str, task: Task | TaskFactory | str, defaults: Options) -> None:
    if not isinstance(task, (Task, str)) and not callable(task):
        raise OptionError(
            f'register_task({name!r}) takes a Task, a function that makes one, or "module:function", got {task!r:.80}'
        )
    reference = task if isinstance(task, str) else name
    if not isinstance(task, str):
        remember_task(name, task)
    for_text = {key: value for key, value in defaults.items() if key in _TEXT_OPTIONS or key not in _TOKEN_OPTIONS}
    token_id, text_id = _ids(name)
    for id in (token_id, text_id):
        gym.registry.pop(id, None)  # registering a name again replaces it, without Gymnasium's warning
        _owners[id] = name
    gym.register(
        id=token_id,
        entry_point="llm_envs.registration:make_token_env",
        vector_entry_point="llm_envs.registration:make_token_vector_env",
        kwargs={"task": reference, **defaults},
    )
    gym.register(
        id=text_id,
        entry_point="llm_envs.registration:make_text_env",
        kwargs={"task": reference, **for_text},
    )


def _shows_metadata_of(env_class: type[gym.Env[Any, Any]]) -> Callable[[F], F]:
    """Gymnasium reads the render modes off the entry point, and applies its wrapper for `rgb_array_list` only then."""

    def decorate(entry_point: F) -> F:
        entry_point.metadata = env_class.metadata  # type: ignore[attr-defined]
        return entry_point

    return decorate


@_shows_metadata_of(TextEnv)
def make_text_env(task: str | Task, **kwargs: Any) -> TextEnv:
    """Entry point of the text level: options of `TextEnv` and of the task's factory."""
    (text,), rest = _split(task, kwargs, _TEXT_OPTIONS)
    return text_env(load_task(task, rest), text)


@_shows_metadata_of(TokenEnv)
def make_token_env(task: str | Task, **kwargs: Any) -> TokenEnv:
    """Entry point of the token level: options of `TokenEnv`, `TextEnv` and the task's factory."""
    (token, text), rest = _split(task, kwargs, _TOKEN_OPTIONS, _TEXT_OPTIONS)
    level = text_env(load_task(task, rest), text)
    with ExitStack() as on_error:
        on_error.callback(level.close)
        env = TokenEnv(level, **token)
        on_error.pop_all()
    return env


def make_token_vector_env(task: str | Task, num_envs: int = 1, **kwargs: Any) -> TokenVectorEnv:
    """Entry point of `gymnasium.make_vec`: options of `TokenVectorEnv`, `TextEnv` and the task's factory."""
    num_envs = validate.positive("num_envs", num_envs)
    (vector, text), rest = _split(task, kwargs, _VECTOR_OPTIONS, _TEXT_OPTIONS)
    loaded = load_task(task, rest)
    with ExitStack() as on_error:

        def make_row() -> TextEnv:
            row = text_env(loaded, text)
            on_error.callback(row.close)
            return row

        env = TokenVectorEnv([make_row] * num_envs, **vector)
        on_error.pop_all()
    return env


def text_env(task: Task, options: Options) -> TextEnv:
    """The text level of a task, with tools or without; problems from files are checked by the verifier that judges."""
    env = TextEnv(task, **options) if task.tools is None else ToolEnv(task, **options)
    with ExitStack() as on_error:
        on_error.callback(env.close)
        examples = task.problems(env.split)
        if isinstance(examples, Records):
            examples.validate(env.verifier)
        on_error.pop_all()
    return env


def find_task(id: str, options: Options) -> tuple[str | Task, Options]:
    """The task behind a registered id (or a reference to one), and all options: those of the id, then `options`.

    Args:
        id: `llm_envs/Name-v0`, also `module:llm_envs/Name-v0` where importing the module registers it; a name given to
            `register_task`, or `"module:function"`.
        options: override those that the id was registered with.
    """
    if "/" not in id:
        return id, options
    module, _, name = id.rpartition(":")
    if module:
        importlib.import_module(module)
    spec = gym.registry.get(name)
    if spec is None or "task" not in spec.kwargs:
        raise OptionError(unknown("environment", name, registered_ids()))
    kwargs = dict(unshare(spec.kwargs))
    return kwargs.pop("task"), {**kwargs, **options}


def registered_ids() -> list[str]:
    """All ids of this package's environments, sorted."""
    return sorted(id for id, spec in gym.registry.items() if id.startswith("llm_envs/") and "task" in spec.kwargs)


def task_options(task: str | Task, options: Options) -> Options:
    """Those of the options that go to the task's factory; raises `OptionError` for one that nobody takes."""
    return _split(task, options, _TOKEN_OPTIONS, _TEXT_OPTIONS)[1]


def _split(task: str | Task, kwargs: Options, *levels: tuple[str, ...]) -> tuple[list[Options], Options]:
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
    return dealt, kwargs

"""What a task is: examples by split, how an answer is cut out of a message, who judges it, and the budgets."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from llm_envs import validate
from llm_envs.error import OptionError, unknown
from verifiers import Answer, Example, Verifier


class AnswerFormatError(ValueError):
    """The message holds no answer in the asked-for format; judged as score 0, kind `bad_format`, without a verifier."""


def whole_message(example: Example, message: str) -> Answer:
    """The default extraction: the message itself, surrounding whitespace removed, is the answer."""
    return Answer(text=message.strip())


def empty_message(example: Example) -> str:
    """The default message that must not pass: nothing at all."""
    return ""


@dataclass(frozen=True)
class Task:
    """A named family of examples with splits, a verifier and budgets.

    Attributes:
        name: `Name` in the ids `llm_envs/Name-v0` and `llm_envs/NameText-v0`.
        problems: split name -> examples; cheap to call twice (cached), and reading one example must not build them all.
        splits: the split names `problems` accepts; disjoint by content.
        verifier: name for `verifiers.get_verifier`, or a `Verifier` object.
        verifier_options: keyword arguments for a verifier given by name.
        extract: (example, message) -> Answer; raises `AnswerFormatError` when the message holds none.
        solution: example -> the messages that must score 1; the gold answer unless given.
        wrong: example -> a message that must not pass (for code repair, one that leaves the bug untouched).
        demonstrate: (example, rng) -> a message for a supervised warm-up to imitate, or several for a task with tools;
            the gold answer unless given.
        max_new_tokens: tokens the policy may write in one episode, stop token included.
        tools: example -> the session whose tools the policy may call, see `tools.ToolSession`; None for a task of one
            message, whose answer `extract` cuts out.
        tool_format: how a call is written: `json`, `lines` or a `tool_format.ToolFormat`.
        max_turns: messages the policy may write in one episode, with tools.
        judge_unfinished: whether an answer cut off by the budget is judged (True) or scores 0 unasked (False).
        source: the reference and options `load_task` built it from; a pickled task is rebuilt from them.
    """

    name: str
    problems: Callable[[str], Sequence[Example]]
    splits: tuple[str, ...] = ("train", "validation", "test")
    verifier: str | Verifier = "exact_match"
    verifier_options: Mapping[str, Any] = field(default_factory=dict)
    extract: Callable[[Example, str], Answer] = whole_message
    solution: Callable[[Example], Sequence[str]] = lambda example: [example.gold]
    wrong: Callable[[Example], str] = empty_message
    demonstrate: Callable[[Example, Random], str | Sequence[str]] = lambda example, rng: example.gold
    max_new_tokens: int = 256
    tools: Callable[[Example], Any] | None = None
    tool_format: Any = "json"
    max_turns: int = 16
    judge_unfinished: bool = True
    source: tuple[str, dict[str, Any]] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        of = f"of task {validate.text('the name of a task', self.name)!r}"
        for name in ("problems", "extract", "solution", "wrong", "demonstrate"):
            validate.function(f"{name} {of}", getattr(self, name))
        if self.tools is not None:
            validate.function(f"tools {of}", self.tools)
        for name in ("max_new_tokens", "max_turns"):
            validate.positive(f"{name} {of}", getattr(self, name))
        validate.flag(f"judge_unfinished {of}", self.judge_unfinished)
        validate.mapping(f"verifier_options {of}", self.verifier_options)
        if isinstance(self.splits, str) or not self.splits or not all(isinstance(split, str) for split in self.splits):
            raise OptionError(f"splits {of} must be the names of its splits, got {self.splits!r:.80}")
        judges = isinstance(self.verifier, (str, Verifier)) or callable(self.verifier)
        if isinstance(self.verifier, type) or not judges:
            raise OptionError(f"verifier {of} must be a verifier or the name of one, got {self.verifier!r:.80}")

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.source is not None:
            return load_task, self.source
        return super().__reduce_ex__(protocol)


TaskFactory = Callable[..., Task]

_REFERENCE = re.compile(r"\w+(\.\w+)*:\w+")
_registered: dict[str, Task | TaskFactory] = {}
_loaded: dict[tuple[str, str], Task] = {}


def remember_task(name: str, task: Task | TaskFactory) -> None:
    """Make `name` a reference that `load_task` understands in this process."""
    _registered[name] = task
    for key in [key for key in _loaded if key[0] == name]:
        del _loaded[key]


def load_task(reference: str | Task, options: Mapping[str, Any] | None = None) -> Task:
    """Build a task, or return the one built before from the same reference and options.

    Args:
        reference: `"module:function"`, a name given to `register_task`, or a task object.
        options: keyword arguments for the factory.
    """
    options = validate.mapping("the options of a task", options, optional=True)
    factory = find_factory(reference)
    known = [] if isinstance(factory, Task) else factory_options(factory)
    if known is not None:
        for option in options:
            if option not in known:
                raise OptionError(unknown(f"option of task {reference!r}", option, known))
    if isinstance(reference, Task):
        return reference
    key = (reference, repr(sorted(options.items())))
    if key not in _loaded:
        task = factory if isinstance(factory, Task) else _make(reference, factory, options)
        # `source` keeps the options alive, without which an object's address in the key could be reused.
        _loaded[key] = replace(task, source=(reference, options))
    return _loaded[key]


def _make(reference: str, factory: TaskFactory, options: Mapping[str, Any]) -> Task:
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise OptionError(f"the function of the task {reference!r} cannot be called: {error}") from error
    task = factory(**options)
    if not isinstance(task, Task):
        raise OptionError(f"the function of the task {reference!r} must return a Task, got {task!r:.80}")
    return task


def find_factory(reference: str | Task) -> Task | TaskFactory:
    """The task object or the factory that a reference stands for; imports its module if need be."""
    if isinstance(reference, Task):
        return reference
    if validate.text("a task that is no Task object", reference) in _registered:
        return _registered[reference]
    module, _, function = reference.partition(":")
    if not _REFERENCE.fullmatch(reference):
        raise OptionError(unknown("task", reference, sorted(_registered)) + '; or give "module:function"')
    try:
        found = getattr(importlib.import_module(module), function)
    except (ModuleNotFoundError, AttributeError) as error:
        raise OptionError(f"cannot load the task {reference!r}: {error}") from error
    if not isinstance(found, Task) and not callable(found):
        raise OptionError(f"the task {reference!r} must be a Task or a function that makes one, got {found!r:.80}")
    return found


def factory_options(factory: TaskFactory) -> list[str] | None:
    """The keyword arguments a factory takes, or None when it takes any."""
    parameters = inspect.signature(factory).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters]


def content_hash(content: str) -> str:
    """Short stable hash by which splits are kept disjoint."""
    return hashlib.sha256(content.encode()).hexdigest()[:16]

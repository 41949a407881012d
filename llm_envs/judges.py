"""Build the verifiers of an environment from what the user gave: nothing, a name, or an object."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import verifiers
from llm_envs import validate
from llm_envs.error import OptionError
from llm_envs.task import Task
from verifiers import Verifier

ExtraVerifiers = Mapping[str, str | Verifier] | Sequence[str | Verifier]


def build_verifier(task: Task, spec: str | Verifier | None, options: Mapping[str, Any] | None) -> Verifier:
    """The verifier that rewards: the task's own unless `spec` names or is another one.

    `options` go to a verifier given by name; for the task's own they override the task's options one by one.
    """
    options = dict(options or {})
    if spec is None or spec == task.verifier:
        spec = task.verifier
        if isinstance(spec, str):
            options = {**task.verifier_options, **options}
    if isinstance(spec, Verifier):
        if options:
            raise OptionError(f"verifier_options={options} need a verifier given by name, not the object {spec!r}")
        return spec
    return _named("verifier", spec, options)


def _named(what: str, spec: Any, options: Mapping[str, Any]) -> Verifier:
    """A verifier by name, or of a function; raises `OptionError` for what the registry or the class refuses."""
    try:
        return verifiers.get_verifier(spec, **options)
    except (TypeError, ValueError) as error:
        given = f" with verifier_options={options}" if options else ""
        raise OptionError(f"cannot build {what} {spec!r:.80}{given}: {error}") from error


def build_extra_verifiers(extra: ExtraVerifiers) -> dict[str, Verifier]:
    """Verifiers that judge beside the one that rewards, by the name under which `info` reports them."""
    if isinstance(extra, str) or not isinstance(extra, (Mapping, Sequence)):
        raise OptionError(f"extra_verifiers must be a list of verifiers or a dict of named ones, got {extra!r}")
    if not isinstance(extra, Mapping):
        names = [spec if isinstance(spec, str) else getattr(spec, "__name__", type(spec).__name__) for spec in extra]
        if len(set(names)) < len(names):
            raise OptionError(f"extra_verifiers {names} share a name; give a dict of named verifiers instead")
        extra = dict(zip(names, extra, strict=True))
    named = validate.mapping("extra_verifiers", extra)
    return {
        name: spec if isinstance(spec, Verifier) else _named(f"the extra verifier {name!r} from", spec, {})
        for name, spec in named.items()
    }


class Loan:
    """Verifiers that environments share because they named them alike; the last environment to close frees them.

    A loan that is forgotten is given back. A verifier object that a person made is theirs to close.
    """

    _users: ClassVar[Counter[int]] = Counter()
    _lock = threading.Lock()

    def __init__(self, named: Iterable[Verifier]) -> None:
        self._named = list(named)
        self._owed = list(self._named)
        with self._lock:
            self._users.update(map(id, self._owed))
        weakref.finalize(self, self._forget, self._owed).atexit = False  # at exit, sandboxes end by themselves

    def end(self) -> None:
        """Give the verifiers back. They start again if somebody asks them nevertheless; the next call frees that."""
        self._settle(self._owed, self._named)

    @classmethod
    def _settle(cls, owed: list[Verifier], named: Sequence[Verifier]) -> None:
        with cls._lock:
            cls._users.subtract(map(id, owed))
            owed.clear()
            free = [verifier for verifier in named if cls._users[id(verifier)] <= 0]
        for verifier in free:
            verifier.close()

    @classmethod
    def _forget(cls, owed: list[Verifier]) -> None:
        """Give back what is owed, in a thread: a garbage collection may come while its thread holds any lock."""
        if owed:
            threading.Thread(target=cls._settle, args=(owed, list(owed)), daemon=True).start()

"""Runs in the trusted process beside pytest: a module that looks like the submission, which runs elsewhere.

Functions can be called and constants read, with plain values both ways (see `codec.py`). What a call did to lists,
dicts and sets among its arguments is done to the caller's own. Exceptions keep their most derived builtin class; all
others, SystemExit and pytest's own among them, become `RemoteError`. A class of exceptions made by the submission
therefore never reaches pytest.

Two things can go wrong, and they are kept apart:

* `Refused`: the tests want something that cannot be carried. Their fault, whatever the submission does; only whether
  the text of an exception is looked at (see `pytest_text.py`) can depend on what it raises.
* `Failed`: the submission did not answer with a plain value. Its fault; a test in which that happens cannot pass, even
  if it catches the exception.

Lists, dicts and sets among the constants that were read are brought up to date after every call, as the same objects.

Not covered: classes, objects, generators, coroutines, callbacks; the text of exceptions, and their attributes such as
`errno`; results, constants or nested arguments that share an object with another, or a constant given as an argument
and changed: the submission changes a copy; which names a module has (`dir`).
"""

from __future__ import annotations

import builtins
import logging
import os
import re
import socket
import sys
import threading
import types
import warnings
from typing import Any, NamedTuple, NoReturn

from verifiers.code.in_place import containers, has_foreign_type, shares_a_container, update
from verifiers.code.pytest_text import exception_of
from verifiers.sandbox.codec import MAX_BYTES, Unserialisable, decode, encode

_CLASS_NAME = re.compile(r"_*[A-Z]\w*[a-z]\w*")
_PROBES = ("__", "_pytest", "pytest", "_mock")
"""How names begin for which pytest and the import system ask any object."""
_ENDS = frozenset({"timeout", "died", "bad_frame"})


class Refused(BaseException):
    """The tests ask for something that a proxy cannot do."""


class Failed(BaseException):
    """The submission failed in a way that no test may expect."""


class _Constant(NamedTuple):
    """A list, dict, set, or a tuple of such, that was read from the module."""

    value: Any
    """The tests' copy."""
    here: bytes
    """The copy's encoding, as far as the tests have not changed it."""
    there: bytes
    """The encoding of what the submission last had."""


class Submission:
    """The trusted end of the channel, and what is known about who did what.

    Args:
        channel: to the judge.
        functions: names that the tests call, so that a function is what they must expect there.

    Attributes:
        refusal: the first refusal, "" if there was none.
        heard: whether the submission has said anything that could change what the tests do.
        failures: kinds of the failures since they were last cleared.
        raised: exceptions raised in its name since they were last cleared, with the kind of verdict they lead to.
    """

    def __init__(self, channel: socket.socket, functions: frozenset[str]):
        self.functions = functions
        self._channel, self._lock, self._pid = channel, threading.Lock(), os.getpid()
        self._ended = ""
        self._world = _world()
        self._constants: dict[int, _Constant] = {}
        self.refusal, self.heard = "", False
        self.failures: list[str] = []
        self.raised: list[tuple[BaseException, str]] = []

    def refuse(self, reason: str) -> NoReturn:
        """Say that the tests cannot be judged this way."""
        self.refusal = self.refusal or reason
        raise Refused(reason)

    def fail(self, kind: str) -> NoReturn:
        """Blame the submission."""
        self.heard = True
        self.failures.append(kind)
        raise Failed(kind)

    def read(self, name: str) -> Any:
        """The module's attribute: a plain value, or a `RemoteFunction`."""
        if _CLASS_NAME.fullmatch(name):
            self.refuse(f"{name} is named like a class, and classes cannot cross")
        kind, value, _ = self._ask("read", name, (), {}, True)
        if kind in ("function", "class"):
            self.heard |= kind == "class" or name not in self.functions
            return RemoteFunction(self, name)
        if kind == "exception":
            error = exception_of(value, self.refuse)
            self.raised.append((error, "load" if isinstance(error, AttributeError) else "exception"))
            raise error
        if kind != "value":
            self.fail(kind)
        value, held, _ = value
        return self._keep(value, held) if containers(value) else value

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function; lists, dicts and sets among the arguments are changed as the call changed its own."""
        shared = shares_a_container((args, kwargs))
        kind, value, after = self._ask("call", name, args, kwargs, True)
        if kind not in ("value", "exception"):
            self.fail(kind)
        result, args_after, kwargs_after = (value, *after) if kind == "exception" else value
        changed = self._update_arguments((args, kwargs), (args_after, kwargs_after), shared)
        self._update_constants(changed)
        if kind == "exception":
            error = exception_of(result, self.refuse)
            self.raised.append((error, "exception"))
            raise error
        return result

    def _update_arguments(
        self,
        before: tuple[tuple[Any, ...], dict[str, Any]],
        after: tuple[tuple[Any, ...], dict[str, Any]],
        shared: bool,
    ) -> frozenset[int]:
        """Returns which constants were among what has changed."""
        (args, kwargs), (args_after, kwargs_after) = before, after
        if len(args_after) != len(args) or kwargs_after.keys() != kwargs.keys():
            self.fail("bad_frame")
        if _code((args_after, kwargs_after)) != _code((args, kwargs)):
            if shared and (args_after, kwargs_after) != (args, kwargs):
                self.fail("wrong")  # what it would have done to one object given twice is not known
            update(args, args_after)
            update(kwargs, kwargs_after)
        changed = frozenset(held for held, known in self._constants.items() if _code(known.value) != known.here)
        for held in changed:
            self._constants[held] = self._constants[held]._replace(here=_code(self._constants[held].value))
        return changed

    def _keep(self, value: Any, held: tuple[Any, ...]) -> Any:
        """The test's own copy of a constant; `held` has the number of the submission's object."""
        if len(held) != 1 or type(held[0]) is not int:
            self.fail("bad_frame")
        known = self._constants.get(held[0])
        if known is not None and type(known.value) is type(value):
            if _code(value) == known.there:
                return known.value
            value = update(known.value, value)
        self._constants[held[0]] = _Constant(value, _code(value), _code(value))
        return value

    def _update_constants(self, changed: frozenset[int]) -> None:
        """Do to the tests' copies what the call did to the submission's; `changed` were changed as arguments."""
        for held, known in list(self._constants.items()):
            kind, value, _ = self._ask("held", str(held), (), {}, False)
            if kind != "value":
                self.fail("bad_frame" if kind == "exception" else kind)
            there = _code(value)
            if there == known.there:
                continue
            if type(value) is not type(known.value):
                self.fail("bad_frame")
            if held in changed:
                self.fail("wrong")  # here two copies changed in two ways, there it would be one object
            now = update(known.value, value)
            if now is not known.value:
                self.fail("unserialisable")
            self._constants[held] = _Constant(now, _code(now), there)

    def check_constants(self) -> None:
        """Fail tests that changed what they read: the submission did not see it.

        Not a refusal, since what was read may decide whether it is changed; plain cases are refused beforehand.
        """
        if any(_code(known.value) != known.here for known in self._constants.values()):
            self._constants.clear()
            self.fail("wrong")

    def _is_unexpected(self, value: Any) -> bool:
        """Whether the submission has a function where the tests may expect a value."""
        return type(value) is RemoteFunction and value.__name__ not in self.functions

    def _ask(self, verb: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], want_after: bool) -> Any:
        if os.getpid() != self._pid:
            self.refuse("the submission is called from another process")
        self.check_constants()
        for what, now in _world().items():
            if now != self._world[what]:
                self.refuse(f"the test changes {what}, which the submission would not notice")
        try:
            request = encode((verb, name, args, kwargs, want_after), MAX_BYTES - 64)
        except Unserialisable:
            if self.heard and not has_foreign_type((args, kwargs), self._is_unexpected):
                self.fail("too_large")  # perhaps made of what it had returned
            self.refuse(f"an argument of {name} is no plain value, too large, or nested too deeply")
        with self._lock:
            if self._ended:
                self.fail(self._ended)
            kind, value, after = self._exchange(request)
            self._ended = kind if kind in _ENDS else ""
        self.heard |= kind not in ("function", "class")
        return kind, value, after

    def _exchange(self, request: bytes) -> Any:
        self._channel.sendall(len(request).to_bytes(4, "big") + request)
        size = int.from_bytes(self._receive(4), "big")
        return decode(self._receive(size))

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._channel.recv(size - len(data))
            if not chunk:
                os._exit(1)  # the judge is gone
            data += chunk
        return bytes(data)


class RemoteFunction:
    """A function of the submission: it can be called, and has a name."""

    __slots__ = ("__name__", "_submission")

    def __init__(self, submission: Submission, name: str):
        object.__setattr__(self, "_submission", submission)
        object.__setattr__(self, "__name__", name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the submission's."""
        return self._submission.call(self.__name__, args, kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)  # as a function in a class would do

    def __eq__(self, other: object) -> bool:
        return type(other) is RemoteFunction and other.__name__ == self.__name__

    def __hash__(self) -> int:
        return hash(self.__name__)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(_PROBES):
            raise AttributeError(name)
        if self.__name__ not in self._submission.functions:
            self._submission.fail("wrong")  # perhaps it should have been a value
        self._submission.refuse(f"{self.__name__}.{name} is not carried")

    def __setattr__(self, name: str, value: Any) -> None:
        self._submission.refuse(f"setting {self.__name__}.{name}: the submission would not notice")


class RemoteModule(types.ModuleType):
    """The module that the tests import."""

    _submission_: Submission

    def __init__(self, submission: Submission, name: str):
        super().__init__(name)
        object.__setattr__(self, "_submission_", submission)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(_PROBES):
            raise AttributeError(name)
        return self._submission_.read(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("__spec__", "__loader__", "__package__", "__file__"):  # the import system's own
            self._submission_.refuse(f"setting {name}: the submission would not notice")

    def __delattr__(self, name: str) -> None:
        self._submission_.refuse(f"deleting {name}: the submission would not notice")

    def __dir__(self) -> list[str]:
        self._submission_.refuse("the names of the module are not carried")


def _world() -> dict[str, Any]:
    """What code sees of its process without being told: tests that change it mean the submission to notice."""
    return {
        "sys.stdin, stdout or stderr": (sys.stdin, sys.stdout, sys.stderr),
        "sys.argv": list(sys.argv),
        "os.environ": {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "the working directory": os.getcwd(),
        "builtins": dict(vars(builtins)),
        "the handling of warnings": warnings._showwarnmsg_impl,  # type: ignore[attr-defined]
        "the root logger": list(logging.root.handlers),
    }


def _code(value: Any) -> bytes:
    """The encoding, whatever its size: the judge has capped what came, and a test may have added to it."""
    try:
        return encode(value, sys.maxsize)
    except Unserialisable:
        return b""  # the test put an object in: equal to nothing that came

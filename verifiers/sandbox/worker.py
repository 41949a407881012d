"""Runs inside the sandbox: loads one submission and answers, request by request, "the value of call i".

That is all it can say. Tests, expected values and the comparison stay outside, so a submission that takes this process
over gains nothing: it could always have returned the same value.

Frames are four bytes of length and one encoded value. The host sends `("module", source, entry, files)`, then one
request `(verb, name, arguments, keywords, want_after)` at a time:

    call        the function `name`, or `Class.method` on a fresh `Class()`
    new         makes an object of the class `name`; it stays until the next `new`
    method      calls the method `name` of that object
    attribute   reads the attribute `name` of that object
    read        reads the module's attribute `name`; with `want_after` the arguments of the answer are the number under
                which a list, dict, set or tuple is kept, the same for the same object
    held        the object of the number `name`, as it is now

Every answer is a pair `(kind, detail)`:

    ready           written before the source is read: whatever fails earlier is the sandbox's fault
    loaded
    syntax_error    detail: name of the exception and line number
    load            the module raised, or has no callable of that name; detail: names of the exception
    value           detail: the value; with `want_after`, the value, then arguments and keywords as the call left them
    function, class detail: None; what `read` found cannot cross the border
    exception       detail: names of the exception's class and its bases, itself first; with `want_after` (and not for
                    MemoryError) these names, then arguments and keywords as the call left them
    unserialisable, too_large

`files` (name -> text) lie in the working folder, from where the source can import them.

`("program", source, "", files)` runs the source as `__main__` instead: after "loaded", what follows on the one pipe is
its standard input, and what follows on the other its standard output.
"""

from __future__ import annotations

import builtins
import math
import os
import random
import resource
import sys
import types
from collections.abc import Mapping
from os import _exit, read, write  # by name: a submission may patch the module
from typing import Any, NoReturn

from verifiers.sandbox.codec import TooLarge, Unserialisable, decode, encode

MODULE_NAME = "solution"
FILE_NAME = "<submission>"

_MAX_NAMES, _MAX_NAME = 16, 100
# Read past a metaclass, which may run code of its own to answer.
_class_name = type.__dict__["__name__"].__get__  # type: ignore[attr-defined]
_class_bases = type.__dict__["__mro__"].__get__  # type: ignore[attr-defined]


def serve(requests: int, results: int, result_bytes: int) -> NoReturn:
    """Load one submission and answer until the host closes the pipe.

    Args:
        requests: file descriptor from which the host's frames are read.
        results: file descriptor to which answers are written.
        result_bytes: cap on one encoded result, bytes.

    Raises:
        SystemExit: the submission was a program, and has ended.
    """
    send(results, encode(("ready", None)))
    what, source, entry, files = _receive(requests)
    sys.argv = [FILE_NAME]
    for name, text in files.items():
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
    if files:
        sys.path.insert(0, os.getcwd())
    random.seed(0)  # equal answers get equal verdicts, as far as that lies with us
    try:
        code = compile(source, FILE_NAME, "exec", dont_inherit=True)
    except BaseException as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        send(results, encode(("syntax_error", (_names(error)[:1], line or 0))))
        _exit(0)
    if what == "program":
        send(results, encode(("loaded", None)))
        _run_program(code, requests, results)
    submission = _Submission()
    send(results, encode(submission.load(code, entry)))
    while True:
        size = int.from_bytes(_read_exactly(requests, 4), "big")
        request = decode(_read_exactly(requests, size))
        # Arguments that come back must not count as part of the result.
        send(results, submission.answer(request, result_bytes + (size if request[4] else 0)))


class _Submission:
    """The loaded module and the object that is being tested, if any."""

    def __init__(self) -> None:
        self._module = _new_module(MODULE_NAME)
        self._object: Any = None
        self._held: list[Any] = []

    def load(self, code: types.CodeType, entry: str) -> tuple[str, Any]:
        """Run the module; `entry` must then be a callable, or a method of a class; "" for none."""
        try:
            exec(code, self._module.__dict__)
            if entry and not callable(self._find(entry, on_class=True)):
                raise TypeError
        except BaseException as error:
            return "load", _names(error)
        return "loaded", None

    def answer(self, request: tuple[Any, ...], result_bytes: int) -> bytes:
        """Do what one request says; returns an encoded answer, whatever the submission does."""
        verb, name, arguments, keywords, want_after = request
        try:
            if verb == "read" or verb == "attribute":
                value = getattr(self._module if verb == "read" else self._object, name)
                if verb == "read" and callable(value):
                    return encode(("class" if isinstance(value, type) else "function", None))
                if verb == "read" and want_after:
                    arguments = self._hold(value)
            elif verb == "held":
                value = self._held[int(name)]
            else:
                function = getattr(self._object, name) if verb == "method" else self._find(name)
                value = function(*arguments, **keywords)
                if verb == "new":
                    self._object, value = value, None
            kind = "value"
        except BaseException as error:
            kind, value = "exception", _names(error)
            want_after = want_after and value[:1] != ("MemoryError",)  # what filled the memory may be the arguments
        try:
            return encode((kind, (value, arguments, keywords) if want_after else value), result_bytes)
        except TooLarge:
            return encode(("too_large", None))
        except Unserialisable:
            return encode(("unserialisable", None))

    def _hold(self, value: Any) -> tuple[int, ...]:
        if type(value) not in (list, dict, set, tuple):
            return ()
        for number, held in enumerate(self._held):
            if held is value:
                return (number,)
        self._held.append(value)
        return (len(self._held) - 1,)

    def _find(self, name: str, on_class: bool = False) -> Any:
        owner, dot, method = name.partition(".")
        found = self._module.__dict__[owner]
        if not dot:
            return found
        return getattr(found if on_class else found(), method)


def _new_module(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__file__ = FILE_NAME
    module.__dict__["__builtins__"] = vars(builtins)  # the ordinary ones, not the private copy that this module has
    sys.modules[name] = module
    return module


def _run_program(code: types.CodeType, requests: int, results: int) -> NoReturn:
    """Run a program on the pipes, then let the interpreter end as after any script: threads, atexit, open files.

    `results` stays open, so that the host sees the end of the pipe when the process ends, not when it closes stdout.
    """
    os.dup2(requests, 0)
    os.dup2(results, 1)
    os.close(requests)
    try:
        exec(code, _new_module("__main__").__dict__)
    except SystemExit:
        raise
    except BaseException:
        raise SystemExit(1) from None
    raise SystemExit(0)


def _names(error: BaseException) -> tuple[str, ...]:
    """Names of the exception's class and its bases up to BaseException; runs no foreign code."""
    names = [_class_name(kind) for kind in _class_bases(type(error))[:_MAX_NAMES]]
    return tuple(name for name in names if type(name) is str and len(name) <= _MAX_NAME and name != "object")


def _receive(requests: int) -> Any:
    size = int.from_bytes(_read_exactly(requests, 4), "big")
    return decode(_read_exactly(requests, size))


def _read_exactly(requests: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = read(requests, size - len(data))
        if not chunk:
            _exit(0)
        data += chunk
    return bytes(data)


def send(results: int, data: bytes) -> None:
    """Write one frame: four bytes of length, then the data."""
    data = len(data).to_bytes(4, "big") + data
    while data:
        data = data[write(results, data) :]


def set_limits(limits: Mapping[str, float]) -> None:
    """Apply the limits that the kernel keeps per process (or, for `processes`, per user).

    Keys are the fields of `limits.Limits`; one that is missing is left as it is. Soft and hard limits are equal: the
    CPU limit then kills, where a soft one could be caught.
    """
    values = {
        "memory_mb": (resource.RLIMIT_AS, 1 << 20),
        "cpu_s": (resource.RLIMIT_CPU, 1),
        "file_mb": (resource.RLIMIT_FSIZE, 1 << 20),
        "open_files": (resource.RLIMIT_NOFILE, 1),
        "processes": (resource.RLIMIT_NPROC, 1),
    }
    for name, (limit, unit) in values.items():
        if name in limits:
            resource.setrlimit(limit, (math.ceil(limits[name]) * unit,) * 2)  # the kernel counts whole seconds
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

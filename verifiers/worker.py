"""Runs inside the sandbox: loads one submission and answers, call by call, "the value of call i".

That is all it can say. Tests, expected values and the comparison stay outside, so a submission that takes this process
over gains nothing: it could always have returned the same value.

Frames are four bytes of length and one encoded value. The host sends `(source, entry)` and then one tuple of arguments
per call; every answer is a pair `(kind, detail)`:

    ready           written before the source is read: whatever fails earlier is the sandbox's fault
    loaded
    syntax_error    detail: name of the builtin exception and line number
    load            the module raised, or has no callable of that name; detail: name of the builtin exception
    value           detail: the value
    exception       detail: name of the builtin exception
    unserialisable, too_large

Only names of builtin exceptions leave: a class made up by the submission could carry a test's arguments in its name.
"""

from __future__ import annotations

import builtins
import json
import math
import random
import resource
import sys
import types
from collections.abc import Callable, Mapping
from os import _exit, read, write  # by name: a submission may patch the module
from typing import Any, NoReturn

from verifiers.codec import TooLarge, Unserialisable, decode, encode

MODULE_NAME = "solution"
FILE_NAME = "<submission>"

_EXCEPTIONS = [(item, name) for name, item in vars(builtins).items() if isinstance(item, type)]


def serve(requests: int, results: int, result_bytes: int) -> NoReturn:
    """Load one submission and answer calls until the host closes the pipe.

    Args:
        requests: file descriptor from which the host's frames are read.
        results: file descriptor to which answers are written.
        result_bytes: cap on one encoded result, bytes.
    """
    send(results, encode(("ready", None)))
    source, entry = _receive(requests)
    sys.argv = [FILE_NAME]
    random.seed(0)  # equal answers get equal verdicts, as far as that lies with us
    answer, function = _load(source, entry)
    send(results, encode(answer))
    while True:
        arguments = _receive(requests)
        send(results, _call(function, arguments, result_bytes))


def _load(source: str, entry: str) -> tuple[tuple[str, Any], Callable[..., Any] | None]:
    try:
        code = compile(source, FILE_NAME, "exec", dont_inherit=True)
    except BaseException as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        return ("syntax_error", (_name(error), line or 0)), None
    module = types.ModuleType(MODULE_NAME)
    module.__file__ = FILE_NAME
    module.__dict__["__builtins__"] = vars(builtins)  # the ordinary ones, not the private copy that this module has
    sys.modules[MODULE_NAME] = module
    try:
        exec(code, module.__dict__)
        function = module.__dict__[entry]
        if not callable(function):
            raise TypeError
    except BaseException as error:
        return ("load", _name(error)), None
    return ("loaded", None), function


def _call(function: Callable[..., Any] | None, arguments: tuple[Any, ...], result_bytes: int) -> bytes:
    try:
        value = function(*arguments)  # type: ignore[misc]
    except BaseException as error:
        return encode(("exception", _name(error)))
    try:
        return encode(("value", value), result_bytes)
    except TooLarge:
        return encode(("too_large", None))
    except Unserialisable:
        return encode(("unserialisable", None))


def _name(error: BaseException) -> str:
    """The name of a builtin exception type, "" for any other; compares by identity, so runs no foreign code."""
    kind = type(error)
    return next((name for item, name in _EXCEPTIONS if item is kind), "")


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

    Keys are the fields of `verifiers.limits.Limits`; one that is missing is left as it is. Soft and hard limits are
    equal: the CPU limit then kills, where a soft one could be caught.
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


def main(requests: str, results: str, limits: str) -> NoReturn:
    """Serve one submission in this process (the `sandbox="process"` rung); arguments come from the command line."""
    settings = json.loads(limits)
    result_bytes = settings["result_bytes"]
    del settings["processes"]  # counted per user, over the whole machine: an ordinary account is above it already
    if sys.platform == "darwin":
        del settings["memory_mb"]  # the kernel refuses RLIMIT_AS there
    set_limits(settings)
    serve(int(requests), int(results), result_bytes)

"""The host's end of one execution: frames to and from the untrusted worker, under a deadline.

Everything read here was written by the submission, or could have been. It is decoded to plain builtins or rejected.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from verifiers.sandbox.codec import BadFrame, decode, encode
from verifiers.sandbox.limits import Limits

START_S = 60.0
"""How long the sandbox may take to start or to end, wall-clock seconds: for starved machines, not a limit."""

_FRAME_MARGIN = 64  # bytes that a result frame may need beyond the encoded value


class WorkerLost(Exception):  # noqa: N818 - an event, handled by the pool
    """The sandbox itself failed, before or beside the submission; says nothing about the answer."""


class Report(NamedTuple):
    """How an execution ended, according to the sandbox."""

    reason: str
    """"cpu", "memory", or "" when no limit was seen to end it."""
    cpu_s: float
    """CPU time used, seconds."""
    status: int
    """Exit status of its first process, or minus the signal that ended it."""
    idle: bool = False
    """Whether it did nothing but wait, and not for a core: then a busy machine did not delay it."""


class Reply(NamedTuple):
    """What came back: `kind` is "loaded", "value", "output", "function", "class" or the kind of the failing verdict."""

    kind: str
    value: Any = None
    """By kind. value: the result, see `ask`. output: (standard output as bytes, exit status). exception, load: names of
    the exception's class and its bases. syntax_error: ((name,), line)."""
    after: tuple[tuple[Any, ...], dict[str, Any]] | None = None
    """For an exception with `want_after`: arguments and keywords as the call left them."""


_ANSWERS = frozenset({"value", "exception", "unserialisable", "too_large"})
_READINGS = _ANSWERS | {"function", "class"}
_ENDED_BY = {"cpu": "timeout", "memory": "memory"}
_LOADED = frozenset({"loaded", "load", "syntax_error"})


class Execution:
    """One submission in one sandbox: load it once, then call it.

    Args:
        requests: writable descriptor; closed by `close`.
        results: readable descriptor; closed by `close`.
        limits: the execution's limits (`wall_s` and `result_bytes` are enforced here).
        end: kills the execution, waits until everything in it is dead, and reports.

    Attributes:
        wall_expired: whether the wall-clock backstop was reached, which on a busy machine may be nobody's fault.
        waited_s: how long the host then had waited for this one answer, seconds; little, if the host itself was late.
    """

    def __init__(self, requests: int, results: int, limits: Limits, end: Callable[[], Report]):
        self._requests, self._results, self._limits, self._end = requests, results, limits, end
        self._buffer = bytearray()
        self._deadline = time.monotonic() + START_S
        self._closed = False
        self.wall_expired = False
        self.waited_s = 0.0
        self._report = Report("", 0.0, 0)
        os.set_blocking(requests, False)
        os.set_blocking(results, False)

    def load(self, source: str, entry: str, files: Mapping[str, str] | None = None) -> Reply:
        """Load a module; kinds loaded, load, syntax_error, memory, timeout, died, bad_frame.

        Args:
            source: the submission.
            entry: name of a function or `Class.method` that must be there, "" for none.
            files: names and texts of files in its working folder, modules that it imports.

        Raises:
            WorkerLost: the sandbox did not come up.
        """
        self._await_ready()
        return self._exchange(("module", source, entry, dict(files or {})), _LOADED)

    def ask(
        self,
        verb: str,
        name: str,
        arguments: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
        want_after: bool = False,
    ) -> Reply:
        """One request to the loaded module; the verbs are described in `worker.py`.

        Kinds: value, exception, memory, unserialisable, too_large, timeout, died, bad_frame; for "read" also function
        and class. After timeout, died and bad_frame the execution is over and must not be asked again. With
        `want_after` a value is the triple of the result, the arguments and the keywords as the call left them, for an
        exception the latter two are in `after`, and all of it may be longer than a result by the size of the request.
        """
        kinds = _READINGS if verb == "read" else _ANSWERS
        reply = self._exchange((verb, name, tuple(arguments), dict(keywords or {}), want_after), kinds, want_after)
        if want_after and reply.kind == "value" and not _is_call_record(reply.value):
            return Reply("bad_frame")
        if want_after and reply.kind == "exception" and reply.after is None:
            return Reply("bad_frame")
        return reply

    def program(self, source: str, stdin: bytes) -> Reply:
        """Run a program to its end; kinds output, syntax_error, memory, timeout, died, too_large, bad_frame.

        Raises:
            WorkerLost: the sandbox did not come up.
        """
        self._await_ready()
        reply = self._exchange(("program", source, "", {}), _LOADED)
        if reply.kind != "loaded":
            return reply
        try:
            output = self._converse(stdin)
        except TimeoutError:
            self.wall_expired = True
            return Reply("timeout")
        if output is None:
            return Reply("too_large")
        report = self.close()
        if report.reason or report.status < 0:
            return Reply(_ENDED_BY.get(report.reason, "died"))
        return Reply("output", (output, report.status))

    def close(self) -> Report:
        """Kill the execution and everything it started; may be called twice. Raises `WorkerLost`."""
        if not self._closed:
            self._closed = True
            if self._requests >= 0:
                os.close(self._requests)
            os.close(self._results)
            self._report = self._end()
        return self._report

    def _await_ready(self) -> None:
        try:
            ready = decode(self._receive())
        except (EOFError, BadFrame, TimeoutError) as error:
            raise WorkerLost(f"the worker was never ready ({type(error).__name__})") from None
        if ready != ("ready", None):
            raise WorkerLost(f"setting up the execution failed: {ready[1]}")
        self._deadline = time.monotonic() + self._limits.wall_s

    def _exchange(self, request: tuple[Any, ...], kinds: frozenset[str], want_after: bool = False) -> Reply:
        data = encode(request, sys.maxsize)  # the judge's own data, and sources whose size has been checked
        try:
            self._send(len(data).to_bytes(4, "big") + data)
            reply = decode(self._receive(len(data) if want_after else 0))
        except (EOFError, BrokenPipeError):
            return Reply(_ENDED_BY.get(self.close().reason, "died"))
        except TimeoutError:
            self.wall_expired = True
            return Reply("timeout")
        except BadFrame:
            return Reply("bad_frame")
        if type(reply) is not tuple or len(reply) != 2 or type(reply[0]) is not str or reply[0] not in kinds:
            return Reply("bad_frame")
        kind, detail = reply
        after = None
        if want_after and kind == "exception" and _is_call_record(detail):
            detail, *rest = detail
            after = rest[0], rest[1]
        if kind in ("exception", "load"):
            if type(detail) is not tuple or not all(type(name) is str for name in detail):
                return Reply("bad_frame")
            if detail[:1] == ("MemoryError",):
                return Reply("memory", detail)
        return Reply(kind, detail, after)

    def _converse(self, stdin: bytes) -> bytes | None:
        """Write the input and read the output until its end, both as they come; None when the output is too large."""
        output, self._buffer = self._buffer, bytearray()
        poller, unsent = select.poll(), memoryview(stdin)
        poller.register(self._results, select.POLLIN)
        poller.register(self._requests, select.POLLOUT)
        writing = True
        while len(output) <= self._limits.result_bytes:
            if writing and not unsent:
                writing = False
                poller.unregister(self._requests)
                os.close(self._requests)
                self._requests = -1
            ready = dict(self._poll(poller))
            if writing and self._requests in ready:
                try:
                    unsent = unsent[_write(self._requests, unsent) :]
                except BrokenPipeError:
                    unsent = unsent[:0]  # a program may leave its input unread
            if self._results in ready:
                chunk = _read(self._results)
                if chunk == b"":
                    return bytes(output)
                output += chunk or b""
        return None

    def _wait(self, descriptor: int, event: int) -> None:
        poller = select.poll()  # not select.select: a trainer may hold more than 1024 descriptors
        poller.register(descriptor, event)
        self._poll(poller)

    def _poll(self, poller: select.poll) -> list[tuple[int, int]]:
        left_s = max(0.0, self._deadline - time.monotonic())
        ready = poller.poll(left_s * 1000) if left_s else []  # a pipe kept ready for ever does not move the deadline
        if not ready:
            self.waited_s = left_s
            raise TimeoutError
        return ready

    def _send(self, data: bytes) -> None:
        while data:
            self._wait(self._requests, select.POLLOUT)
            data = data[_write(self._requests, data) :]

    def _receive(self, room: int = 0) -> bytes:
        size = int.from_bytes(self._take(4), "big")
        if size > self._limits.result_bytes + room + _FRAME_MARGIN:
            raise BadFrame("longer than a result may be")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._wait(self._results, select.POLLIN)
            chunk = _read(self._results)
            if chunk == b"":
                raise EOFError
            self._buffer += chunk or b""
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data


# A submission that runs as the judge's own user can open the pipes again through /proc, and fill or empty them between
# the poll that says "ready" and the call that follows. It gains nothing, but the call must not block or raise.


def _write(descriptor: int, data: bytes | memoryview) -> int:
    """How many bytes could be written."""
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0


def _read(descriptor: int) -> bytes | None:
    """What is there to be read, b"" at the end, None for nothing yet."""
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return None


def _is_call_record(value: Any) -> bool:
    return type(value) is tuple and len(value) == 3 and type(value[1]) is tuple and type(value[2]) is dict

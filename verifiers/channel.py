"""The host's end of one execution: frames to and from the untrusted worker, under a deadline.

Everything read here was written by the submission, or could have been. It is decoded to plain builtins or rejected.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from verifiers.codec import BadFrame, decode, encode
from verifiers.limits import Limits

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


class Reply(NamedTuple):
    """What came back: `kind` is "loaded", "value" or the kind of the failing verdict."""

    kind: str
    value: Any = None
    """The result of the call (kind "value"), or the exception's name, or (name, line) for a syntax error."""


_CALL_KINDS = frozenset({"value", "exception", "unserialisable", "too_large"})
_LOAD_KINDS = frozenset({"loaded", "load", "syntax_error"})


class Execution:
    """One submission in one sandbox: load it once, then call it.

    Args:
        requests: writable descriptor; closed by `close`.
        results: readable descriptor; closed by `close`.
        limits: the execution's limits (`wall_s` and `result_bytes` are enforced here).
        end: kills the execution, waits until everything in it is dead, and reports.

    Attributes:
        wall_expired: whether the wall-clock backstop was reached, which on a busy machine may be nobody's fault.
    """

    def __init__(self, requests: int, results: int, limits: Limits, end: Callable[[], Report]):
        self._requests, self._results, self._limits, self._end = requests, results, limits, end
        self._buffer = bytearray()
        self._deadline = time.monotonic() + START_S
        self._closed = False
        self.wall_expired = False
        self._report = Report("", 0.0)
        os.set_blocking(requests, False)
        os.set_blocking(results, False)

    def load(self, source: str, entry: str) -> Reply:
        """Load the submission; kinds loaded, load, syntax_error, memory, timeout, died, bad_frame.

        Raises:
            WorkerLost: the sandbox did not come up.
        """
        try:
            ready = decode(self._receive())
        except (EOFError, BadFrame, TimeoutError) as error:
            raise WorkerLost(f"the worker was never ready ({type(error).__name__})") from None
        if ready != ("ready", None):
            raise WorkerLost(f"setting up the execution failed: {ready[1]}")
        self._deadline = time.monotonic() + self._limits.wall_s
        return self._ask((source, entry), _LOAD_KINDS)

    def call(self, arguments: Sequence[Any]) -> Reply:
        """Call the loaded function.

        Kinds: value, exception, memory, unserialisable, too_large, timeout, died, bad_frame. After timeout, died and
        bad_frame the execution is over and must not be called again.
        """
        return self._ask(tuple(arguments), _CALL_KINDS)

    def close(self) -> Report:
        """Kill the execution and everything it started; may be called twice. Raises `WorkerLost`."""
        if not self._closed:
            self._closed = True
            os.close(self._requests)
            os.close(self._results)
            self._report = self._end()
        return self._report

    def _ask(self, request: tuple[Any, ...], kinds: frozenset[str]) -> Reply:
        data = encode(request)
        try:
            self._send(len(data).to_bytes(4, "big") + data)
            reply = decode(self._receive())
        except (EOFError, BrokenPipeError):
            reason = self.close().reason
            return Reply({"cpu": "timeout", "memory": "memory"}.get(reason, "died"))
        except TimeoutError:
            self.wall_expired = True
            return Reply("timeout")
        except BadFrame:
            return Reply("bad_frame")
        if type(reply) is not tuple or len(reply) != 2 or type(reply[0]) is not str or reply[0] not in kinds:
            return Reply("bad_frame")
        if reply[0] in ("exception", "load") and reply[1] == "MemoryError":
            return Reply("memory")
        return Reply(*reply)

    def _wait(self, descriptor: int, event: int) -> None:
        poller = select.poll()  # not select.select: a trainer may hold more than 1024 descriptors
        poller.register(descriptor, event)
        if not poller.poll(max(0.0, self._deadline - time.monotonic()) * 1000):
            raise TimeoutError

    def _send(self, data: bytes) -> None:
        while data:
            self._wait(self._requests, select.POLLOUT)
            data = data[os.write(self._requests, data) :]

    def _receive(self) -> bytes:
        size = int.from_bytes(self._take(4), "big")
        if size > self._limits.result_bytes + _FRAME_MARGIN:
            raise BadFrame("longer than a result may be")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._wait(self._results, select.POLLIN)
            chunk = os.read(self._results, 1 << 16)
            if not chunk:
                raise EOFError
            self._buffer += chunk
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

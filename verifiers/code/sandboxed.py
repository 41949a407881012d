"""What all judges of untrusted Python have in common: limits, a pool of sandboxes, and sources that can be compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from verifiers.base import Answer, Example, Verdict, Verifier
from verifiers.sandbox.limits import Limits
from verifiers.sandbox.pool import SandboxPool, shared_pool

FEEDBACK = {
    "wrong": "returned a wrong value",
    "exception": "raised an exception",
    "timeout": "ran out of time",
    "memory": "ran out of memory",
    "died": "ended the process",
    "unserialisable": "returned something other than plain values",
    "too_large": "returned too large a value",
    "bad_frame": "wrote into the judge's channel",
    "load": "the code could not be loaded",
    "syntax_error": "the code is not valid Python",
}
"""A sentence's end for every kind of verdict that a sandbox can lead to."""


class SandboxedVerifier(Verifier):
    """Base of the judges that run the answer.

    Args:
        limits: of one execution; a mapping of field names is accepted.
        sandbox: a rung of `sandbox.SANDBOXES`; "auto" for the strongest one that works here.
        workers: executions at one time; None for two per core. Shared by all judges with equal settings.
        packages: import names of third-party packages that answers may import, such as "numpy"; they must be installed
            here. An answer finds them already imported.

    Raises:
        SandboxUnavailable: the sandbox does not work on this machine (found out here, not at the first verdict).
    """

    def __init__(
        self,
        limits: Limits | Mapping[str, Any] = Limits(),  # noqa: B008 - frozen
        sandbox: str = "auto",
        workers: int | None = None,
        packages: Sequence[str] = (),
    ):
        self.limits = limits if isinstance(limits, Limits) else Limits(**limits)
        self._sandbox, self._workers, self._packages = sandbox, workers, tuple(packages)
        self._pool()

    def _pool(self) -> SandboxPool:
        """Looked up each time: after a fork, the child has a pool of its own."""
        return shared_pool(self.limits, self._sandbox, self._workers, self._packages)

    def verify_batch(self, pairs: Sequence[tuple[Example, Answer]]) -> list[Verdict]:
        """Judge several submissions, in order, on all workers."""
        return self._pool().map(lambda pair: self.verify(*pair), pairs)

    def close(self) -> None:
        """Stop idle workers; judging again starts new ones."""
        self._pool().close()

    def configuration(self) -> dict[str, Any]:
        """Limits and packages; the sandbox does not change what a right answer is."""
        return {"limits": asdict(self.limits), "packages": list(self._packages)}


def clean_source(text: str) -> str:
    """The source without a byte order mark, which editors write and compilers of `str` refuse."""
    return text.removeprefix("\ufeff")


def source_complaint(source: str, max_bytes: int) -> str:
    """Why a source cannot be sent to the compiler, "" if it can."""
    if "\0" in source:
        return "the code contains a NUL character"
    if len(source) > max_bytes:
        return "the code is too long"
    try:
        data = source.encode()
    except UnicodeEncodeError:
        return "the code contains a lone surrogate"
    return "the code is too long" if len(data) > max_bytes else ""

"""The words every other file uses: Example, Answer, Verdict, Verifier.

A Verifier judges one Answer to one Example and returns a Verdict. A bad answer is a Verdict with score 0 and a kind;
a broken judge is a `VerifierError`, never a silent zero.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class VerifierError(RuntimeError):
    """The judge itself failed (sandbox missing, worker lost twice, malformed tests): says nothing about the answer."""


@dataclass(frozen=True)
class Example:
    """One problem.

    Attributes:
        id: unique within its task.
        prompt: what the policy sees: plain text, or chat messages `{"role": ..., "content": ...}`.
        hidden: what only the verifier sees (tests, expected answer); must be made of plain JSON-like values.
        gold: a message that must score 1, written in the format the policy is asked for.
        metadata: anything else worth keeping (family, bug kind, content hash); never shown to the policy.
    """

    id: str
    prompt: str | Sequence[Mapping[str, str]]
    hidden: Mapping[str, Any]
    gold: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What is judged.

    Attributes:
        text: the answer extracted from the policy's message by the task (code fences and tags removed, edits applied).
        files: path -> content, for tasks whose answer is a working copy.
        transcript: the whole episode as chat messages, for judges that read the conversation.
    """

    text: str
    files: Mapping[str, str] = field(default_factory=dict)
    transcript: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class Verdict:
    """The result of judging one answer.

    Attributes:
        score: finite float; the environment's reward.
        passed: whether the answer is right (a graded score may be positive without passing).
        kind: passed, wrong, exception, timeout, died, syntax_error, bad_source, load, unserialisable, too_large, ...
        components: named parts of the score, floats.
        feedback: text a person or a policy can read; never contains hidden tests.
        seconds: wall-clock time of the judging, waiting for a worker included; kept out of comparison and of
            `as_info`, since two equal episodes must have equal infos.
        forgeable: whether the answer ran in the process that decided, so that a hostile one can have passed itself.
    """

    score: float
    passed: bool
    kind: str
    components: Mapping[str, float] = field(default_factory=dict)
    feedback: str = ""
    seconds: float = field(default=0.0, compare=False)
    forgeable: bool = False

    def __post_init__(self) -> None:
        if not math.isfinite(self.score):
            raise VerifierError(f"a verdict's score must be a finite number, got {self.score!r} (kind {self.kind!r})")

    def as_info(self) -> dict[str, Any]:
        """Plain dict for an environment's `info`: floats stay floats, no timings."""
        return {
            "score": float(self.score),
            "passed": bool(self.passed),
            "kind": self.kind,
            "components": {name: float(value) for name, value in self.components.items()},
            "feedback": self.feedback,
            "forgeable": bool(self.forgeable),
        }


class Verifier(ABC):
    """Judges answers. Instances are shared by many environments and may be called from several threads at once."""

    @abstractmethod
    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one answer; raises `VerifierError` if the judge itself is broken."""

    def validate(self, example: Example) -> None:  # noqa: B027 - a judge may have nothing to check
        """Check `example.hidden` before anything is judged; raises `VerifierError` that names the example and field."""

    def verify_batch(self, pairs: Sequence[tuple[Example, Answer]]) -> list[Verdict]:
        """Judge several answers, in order; judges with a pool or a device override this to work in parallel."""
        return [self.verify(example, answer) for example, answer in pairs]

    def configuration(self) -> Mapping[str, Any]:
        """Every option of this instance that can change a verdict, as JSON values; part of the fingerprint.

        A class with an `__init__` of its own must define it, so that two settings never pass for one judge.
        """
        return {}

    def fingerprint(self) -> str:
        """Names this judge for a cache that outlives it: class, configuration and a hash of the source.

        Equal fingerprints mean equal verdicts, as far as the class and the modules of its base classes decide them. A
        change in another module, a data file or a global is not seen: put a version of it into `configuration`.

        Raises:
            VerifierError: the class takes options and does not declare them, or has no source file to hash.
        """
        # Imported here: the module knows this class.
        from verifiers.fingerprint import describe

        return describe(self)

    def close(self) -> None:  # noqa: B027 - most judges hold nothing
        """Free workers and devices; may be called twice."""


def hidden_of(example: Example) -> Mapping[str, Any]:
    """`example.hidden`; raises `VerifierError` where it is no mapping, so that no judge fails with a bare TypeError."""
    if not isinstance(example.hidden, Mapping):
        raise VerifierError(f"example {example.id!r}: hidden must be a mapping, got {example.hidden!r}")
    return example.hidden

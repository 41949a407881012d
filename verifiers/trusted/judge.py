"""A judge whose work is done by one of our own functions that a hostile answer can make run for ever."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError
from verifiers.trusted.process import CallDied, CallTimeout, TrustedProcess

FEEDBACK = {
    "passed": "correct",
    "timeout": "judging the answer took too long",
    "died": "judging the answer took too much memory",
}


class TrustedJudge(Verifier):
    """Sends the question and the answer's text to a `TrustedProcess`.

    The function gets `{"question": self.question(example), "text": answer.text}` and returns `{"kind": ..., "feedback":
    ...}`, or `{"complaint": ...}` if the example is at fault. With text None it only checks the question: so is found
    out who is to blame for a call that ran out of time or memory.

    Args:
        process: its settings decide verdicts too, so they belong into `configuration`.
    """

    def __init__(self, process: TrustedProcess):
        self._process = process

    def configuration(self) -> dict[str, Any]:
        """The limits of one call."""
        return dict(self._process.limits)

    @abstractmethod
    def question(self, example: Example) -> dict[str, Any]:
        """What the function must know of the example; raises `VerifierError` for malformed hidden data."""

    def validate(self, example: Example) -> None:
        """Check the hidden data, as far as that goes without an answer; raises `VerifierError`."""
        self._check(example, self.question(example))

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one answer; kind timeout or died when judging it takes too much.

        Raises:
            VerifierError: the hidden data are malformed, or too much for the judge without any answer.
        """
        began = time.perf_counter()
        question = self.question(example)
        try:
            reply = self._call_patiently({"question": question, "text": answer.text})
        except (CallTimeout, CallDied) as error:
            self._check(example, question)
            reply = {"kind": "timeout" if isinstance(error, CallTimeout) else "died"}
        if "complaint" in reply:
            raise VerifierError(f"example {example.id!r}: {reply['complaint']}")
        passed = reply["kind"] == "passed"
        feedback = reply.get("feedback") or FEEDBACK[reply["kind"]]
        return Verdict(float(passed), passed, reply["kind"], feedback=feedback, seconds=time.perf_counter() - began)

    def verify_batch(self, pairs: Sequence[tuple[Example, Answer]]) -> list[Verdict]:
        """Judge several answers, in order, on as many threads as calls may run at one time."""
        with ThreadPoolExecutor(self._process.jobs, "trusted-judge") as threads:
            return list(threads.map(lambda pair: self.verify(*pair), pairs))

    def close(self) -> None:
        """End the helper process; judging again starts a new one."""
        self._process.close()

    def _check(self, example: Example, question: dict[str, Any]) -> None:
        try:
            reply = self._call_patiently({"question": question, "text": None})
        except (CallTimeout, CallDied) as error:
            raise VerifierError(f"example {example.id!r}: judging cannot even begin: {error}") from error
        if "complaint" in reply:
            raise VerifierError(f"example {example.id!r}: {reply['complaint']}")

    def _call_patiently(self, payload: dict[str, Any]) -> Any:
        """A call that meets the wall-clock backstop is repeated once, so that a busy machine changes no verdict."""
        try:
            return self._process.call(payload)
        except CallTimeout as error:
            if not error.wall:
                raise
        return self._process.call(payload)

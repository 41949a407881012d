"""The contract of a verifier, as a test for your own: `check_verifier(MyVerifier(), examples)`.

What Gymnasium's `check_env` is for environments. It judges every example's gold and a few odd answers several times
over and raises one `AssertionError` that lists all complaints.
"""

from __future__ import annotations

import copy
import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from verifiers.base import Answer, Example, Verdict, Verifier
from verifiers.fingerprint import SourceMissing

ODD_ANSWERS = {
    "an empty answer": "",
    "white space": " \n\t",
    "a NUL character": "4\x002",
    "a lone surrogate": "4\ud8002",
    "other scripts": "\u7b54\u6848 \u043e\u0442\u0432\u0435\u0442 \u062c\u0648\u0627\u0628 \U0001f642",
    "a very long answer": "x" * 200_000,
}
"""What policies do write; none of it may raise."""

_SHORTEST_LEAK = 4  # shorter hidden values occur in any text by chance

Pair = tuple[Example, Answer]


class _TooSlow(Exception):  # noqa: N818
    """A call did not come back in time; nothing more can be asked of this verifier."""


def check_verifier(
    verifier: Verifier,
    examples: Sequence[Example],
    *,
    answer: Callable[[Example], Answer] = lambda example: Answer(example.gold),
    gold_passes: bool = True,
    seconds: float = 60.0,
    tolerance: float = 0.0,
) -> None:
    """Raise an `AssertionError` that lists every breach of the contract of `Verifier`.

    Checked: `validate` accepts the examples; gold passes; no answer of `ODD_ANSWERS` raises; verdicts are well formed
    (finite score, positive if passed, kind a short word of lower case, components finite floats); the same question
    gets the same verdict again, from `verify_batch` (in order) and from several threads; the example is not changed;
    the fingerprint is stable; `close` may be called twice; every call comes back in time.

    Feedback is searched for hidden values: strings, numbers, lists and dicts of `example.hidden` that take at least
    four characters to write, as `str` or JSON, and occur neither in the prompt nor in the answer. This is a heuristic:
    it misses short and rephrased values.

    Args:
        verifier: closed at the end.
        examples: a few, with gold.
        answer: example -> the answer that its gold holds, where the policy is asked for more than the bare answer.
        gold_passes: False for judges that do not know the right answer (a reward model).
        seconds: for each call, wall-clock. One that takes longer ends the check, and its thread is left behind.
        tolerance: relative difference of scores and components that counts as equal.
    """
    if not examples:
        raise ValueError("check_verifier needs at least one example")
    check = _Check(verifier, examples, answer, seconds, tolerance)
    complaints: list[str] = []
    try:
        for step in (
            check.verdicts,
            check.gold if gold_passes else list,
            check.repetition,
            check.fingerprint,
            check.end,
        ):
            complaints += step()
    except _TooSlow as error:
        complaints.append(str(error))
    complaints = list(dict.fromkeys(complaints))
    if complaints:
        listing = "\n".join(f"  {number}. {complaint}" for number, complaint in enumerate(complaints, start=1))
        raise AssertionError(f"{type(verifier).__name__} breaks the contract of a Verifier:\n{listing}")


class _Check:
    """One run of `check_verifier`; every step yields complaints."""

    def __init__(
        self,
        verifier: Verifier,
        examples: Sequence[Example],
        answer: Callable[[Example], Answer],
        seconds: float,
        tolerance: float,
    ):
        self.verifier, self.examples, self.seconds, self.tolerance = verifier, examples, seconds, tolerance
        self.pairs: dict[str, Pair] = {}
        self.golds: dict[str, Pair] = {}
        for example in examples:
            if example.gold:
                self.golds[f"the gold of example {example.id!r}"] = example, answer(example)
            for name, text in ODD_ANSWERS.items():
                self.pairs[f"{name} to example {example.id!r}"] = example, Answer(text)
        self.pairs |= self.golds
        self.first: dict[str, Verdict] = {}

    def verdicts(self) -> Iterator[str]:
        """Every pair once: a well-formed verdict, and the example as it was."""
        for example in self.examples:
            _, error = self._timed("validate", partial(self.verifier.validate, example))
            if error:
                yield f"validate must accept example {example.id!r}, but it raised {error}"
        for name, (example, answer) in self.pairs.items():
            before = copy.deepcopy((example, answer))
            verdict, error = self._timed(f"verify of {name}", partial(self.verifier.verify, example, answer))
            if (example, answer) != before:
                yield f"verify must not change the example or the answer, but judging {name} did"
            if error:
                yield f"{name} must get a Verdict (score 0 and a kind, if it is bad), but verify raised {error}"
            elif not isinstance(verdict, Verdict):
                yield f"{name} must get a Verdict, but verify returned {verdict!r}"
            else:
                self.first[name] = verdict
                yield from (f"{complaint} ({name})" for complaint in _malformed(verdict))
                for leak in _leaks(verdict, example, answer):
                    yield f"feedback must not contain hidden values, but it contains {leak} ({name})"

    def gold(self) -> Iterator[str]:
        """The right answers pass."""
        if not self.golds:
            yield "at least one example must have a gold answer, to see that it passes; none has"
        for name in self.golds:
            verdict = self.first.get(name)
            if verdict is not None and not verdict.passed:
                yield f"{name} must pass, but its verdict is kind {verdict.kind!r} with score {verdict.score!r}"

    def repetition(self) -> Iterator[str]:
        """The same verdicts again: one by one, as a batch, and from several threads."""
        if len(self.first) < len(self.pairs):
            return  # what raises has been complained about
        pairs = list(self.pairs.values())
        verify = self.verifier.verify

        def from_threads() -> list[Verdict]:
            with ThreadPoolExecutor(4) as threads:
                return list(threads.map(lambda pair: verify(*pair), pairs))

        ways: dict[str, Callable[[], Sequence[Verdict]]] = {
            "verify a second time": lambda: [verify(*pair) for pair in pairs],
            "verify_batch": lambda: self.verifier.verify_batch(pairs),
            "verify from four threads": from_threads,
        }
        for way, call in ways.items():
            verdicts, error = self._timed(way, call, len(pairs))
            if error:
                yield f"{way} must judge as verify did, but it raised {error}"
            elif not isinstance(verdicts, list | tuple) or len(verdicts) != len(pairs):
                yield f"{way} must return {len(pairs)} verdicts in a list, got {_short(verdicts)}"
            else:
                for (name, expected), got in zip(self.first.items(), verdicts, strict=True):
                    if not self._same(expected, got):
                        yield f"{way} must judge {name} as verify did: expected {_short(expected)}, got {_short(got)}"
        batch, error = self._timed("verify_batch", lambda: self.verifier.verify_batch([]))
        if error or list(batch) != []:
            done = f"raised {error}" if error else f"returned {_short(batch)}"
            yield f"verify_batch([]) must return [], but it {done}"

    def fingerprint(self) -> Iterator[str]:
        """The same non-empty text twice."""

        def twice() -> list[str]:
            try:
                return [self.verifier.fingerprint() for _ in range(2)]
            except SourceMissing:
                return ["none"] * 2  # only a cache needs more

        texts, error = self._timed("fingerprint", twice)
        if error:
            yield f"fingerprint must return a string, but it raised {error}"
        elif not isinstance(texts[0], str) or not texts[0]:
            yield f"fingerprint must return a non-empty string, got {texts[0]!r}"
        elif texts[0] != texts[1]:
            yield f"fingerprint must be stable, got {texts[0]!r} and then {texts[1]!r}"

    def end(self) -> Iterator[str]:
        """Closing twice is allowed."""
        for times in ("once", "twice"):
            _, error = self._timed("close", self.verifier.close)
            if error:
                yield f"close may be called twice, but called {times} it raised {error}"
                return

    def _timed(self, name: str, call: Callable[[], Any], calls: int = 1) -> tuple[Any, str]:
        """The result and "", or None and the exception in words; raises `_TooSlow`."""
        outcome: list[tuple[Any, str]] = []

        def run() -> None:
            try:
                outcome.append((call(), ""))
            except Exception as error:
                outcome.append((None, f"{type(error).__name__}: {_short(error)}"))

        began = time.monotonic()
        thread = threading.Thread(target=run, daemon=True)  # a hanging one must not keep the interpreter alive
        thread.start()
        thread.join(self.seconds * calls)
        took = time.monotonic() - began
        if thread.is_alive() or took > self.seconds * calls:
            raise _TooSlow(f"{name} must come back within {self.seconds * calls:g} s, but it took longer")
        return outcome[0] if outcome else (None, "SystemExit")

    def _same(self, one: Verdict, other: Any) -> bool:
        if not isinstance(other, Verdict):
            return False
        words = [(verdict.passed, verdict.kind, sorted(verdict.components)) for verdict in (one, other)]
        return (
            words[0] == words[1]
            and self._near(one.score, other.score)
            and all(self._near(value, other.components[name]) for name, value in one.components.items())
            and (self.tolerance > 0 or one.feedback == other.feedback)
        )

    def _near(self, one: Any, other: Any) -> bool:
        if not (isinstance(one, float | int) and isinstance(other, float | int)):
            return one == other  # malformed, which is another complaint
        return math.isclose(one, other, rel_tol=self.tolerance, abs_tol=self.tolerance)


def _malformed(verdict: Verdict) -> Iterator[str]:
    """Complaints about a verdict's fields."""
    score = verdict.score
    if not isinstance(score, float | int) or isinstance(score, bool) or not math.isfinite(score):
        yield f"a score must be a finite float, got {score!r}"
    elif verdict.passed and not score > 0:
        yield f"a verdict that passed must have a positive score, got {score!r}"
    if not isinstance(verdict.passed, bool):
        yield f"passed must be a bool, got {verdict.passed!r}"
    if not isinstance(verdict.kind, str) or not re.fullmatch("[a-z][a-z0-9_]{0,29}", verdict.kind):
        yield f"a kind must be a short word like 'wrong' or 'syntax_error', got {_short(verdict.kind)}"
    for name, value in verdict.components.items():
        if not isinstance(name, str) or not isinstance(value, float) or not math.isfinite(value):
            yield f"components must be finite floats by name, got {name!r}: {value!r}"
    if not isinstance(verdict.feedback, str):
        yield f"feedback must be a string, got {_short(verdict.feedback)}"


def _leaks(verdict: Verdict, example: Example, answer: Answer) -> list[str]:
    """Hidden values that occur in the feedback and that the policy could not know."""
    public = f"{example.prompt} {answer.text}"
    written = {text for value in _values(example.hidden) for text in _spellings(value)}
    long = (text for text in sorted(written) if len(text) >= _SHORTEST_LEAK)
    return [_short(text) for text in long if text in str(verdict.feedback) and text not in public]


def _values(hidden: Any) -> Iterator[Any]:
    """All values inside, the containers among them; names of fields are no values."""
    for item in hidden.values() if hasattr(hidden, "values") else hidden:
        yield item
        if isinstance(item, list | tuple | set | frozenset) or hasattr(item, "values"):
            yield from _values(item)


def _spellings(value: Any) -> set[str]:
    if value is None or isinstance(value, bool):
        return set()
    try:
        return {str(value).strip(), json.dumps(value)}
    except (TypeError, ValueError):  # no JSON, or an integer too long to be written
        return set()


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, Exception) else repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."

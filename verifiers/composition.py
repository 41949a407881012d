"""Judges made of judges: WeightedSum, Gate and PerExample. For the fourth, Cached, see `cached.py`.

    WeightedSum({"tests": ("function_tests", 0.9), "style": (style_judge, 0.1)})
    Gate(first="json_schema", then=RewardModel("some/reward-model"))
    PerExample({"math": "math_equal", "text": "exact_match"})

A part is a `Verifier`, a function, or whatever else `get_verifier` takes. What a part said stays in the verdict's
components, under its name: `tests.score`, `tests.passed_fraction`.

All of them judge a batch by handing each part its whole share at once, so that pools and devices are used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError
from verifiers.function_verifier import Judge
from verifiers.registry import get_verifier

Pairs = Sequence[tuple[Example, Answer]]


class Composite(Verifier):
    """Judges with named parts; closing it closes them.

    Args:
        parts: name -> part. Names are words without dots, since they prefix components.

    Raises:
        ValueError: no parts, or a name that is none.
    """

    def __init__(self, parts: Mapping[str, str | Verifier | Judge]):
        if not parts:
            raise ValueError(f"{type(self).__name__} needs at least one part")
        for name in parts:
            if not isinstance(name, str) or not name or "." in name:
                raise ValueError(f"a part's name must be a non-empty string without dots, got {name!r}")
        self.parts = {name: get_verifier(part) for name, part in parts.items()}

    def configuration(self) -> dict[str, Any]:
        """Names and fingerprints of the parts."""
        return {"parts": {name: part.fingerprint() for name, part in self.parts.items()}}

    def validate(self, example: Example) -> None:
        """Have every part check the example."""
        for part in self.parts.values():
            part.validate(example)

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one answer; raises `VerifierError` where a part does."""
        return self.verify_batch([(example, answer)])[0]

    def close(self) -> None:
        """Close the parts."""
        for part in self.parts.values():
            part.close()


class WeightedSum(Composite):
    """Score is the weighted sum of the parts' scores; passes if every part passes.

    The kind is that of the first part that did not pass.

    Args:
        parts: name -> (part, weight); weights are positive and need not sum to 1. A penalty is a part whose scores are
            negative.
    """

    def __init__(self, parts: Mapping[str, tuple[str | Verifier | Judge, float]]):
        for name, item in parts.items():
            if not isinstance(item, Sequence) or isinstance(item, str) or len(item) != 2:
                raise ValueError(f"part {name!r} must be (verifier, weight), got {item!r}")
            if isinstance(item[1], bool) or not isinstance(item[1], int | float) or not 0 < item[1] < math.inf:
                raise ValueError(f"the weight of part {name!r} must be a positive finite number, got {item[1]!r}")
        super().__init__({name: part for name, (part, _) in parts.items()})
        self.weights = {name: float(weight) for name, (_, weight) in parts.items()}

    def configuration(self) -> dict[str, Any]:
        """The parts and their weights."""
        return {**super().configuration(), "weights": list(self.weights.items())}

    def verify_batch(self, pairs: Pairs) -> list[Verdict]:
        """Judge several answers, in order, one part after the other."""
        columns = {name: part.verify_batch(pairs) for name, part in self.parts.items()}
        return [self._sum({name: verdicts[row] for name, verdicts in columns.items()}) for row in range(len(pairs))]

    def _sum(self, verdicts: dict[str, Verdict]) -> Verdict:
        failed = [verdict for verdict in verdicts.values() if not verdict.passed]
        return Verdict(
            score=math.fsum(self.weights[name] * verdict.score for name, verdict in verdicts.items()),
            passed=not failed,
            kind=failed[0].kind if failed else "passed",
            components=_components(verdicts),
            feedback=_feedback(verdicts),
            seconds=sum(verdict.seconds for verdict in verdicts.values()),
            forgeable=any(verdict.forgeable for verdict in verdicts.values()),
        )


class Gate(Composite):
    """The second part is asked only if the first passes; otherwise score 0 with the first's kind and feedback.

    Args:
        first: the part that must pass. Its score does not count.
        then: the part whose verdict is the result.
    """

    def __init__(self, first: str | Verifier | Judge, then: str | Verifier | Judge):
        super().__init__({"first": first, "then": then})

    def configuration(self) -> dict[str, Any]:
        """The two parts."""
        return super().configuration()

    def verify_batch(self, pairs: Pairs) -> list[Verdict]:
        """Judge several answers, in order."""
        firsts = self.parts["first"].verify_batch(pairs)
        admitted = [row for row, verdict in enumerate(firsts) if verdict.passed]
        thens = dict(zip(admitted, _judged(self.parts["then"], [pairs[row] for row in admitted]), strict=True))
        return [self._gate(verdict, thens.get(row)) for row, verdict in enumerate(firsts)]

    def _gate(self, first: Verdict, then: Verdict | None) -> Verdict:
        if then is None:
            return replace(first, score=0.0, passed=False, components=_components({"first": first}))
        components = _components({"first": first, "then": then})
        forgeable = first.forgeable or then.forgeable
        return replace(then, components=components, seconds=first.seconds + then.seconds, forgeable=forgeable)


class PerExample(Composite):
    """`example.hidden["verifier"]` names the part that judges; it gets the other hidden fields.

    Args:
        parts: name -> part.
    """

    def validate(self, example: Example) -> None:
        """Have the part that is named check the example; raises `VerifierError` if it names none."""
        name, example = self._route(example)
        self.parts[name].validate(example)

    def verify_batch(self, pairs: Pairs) -> list[Verdict]:
        """Judge several answers, in order; raises `VerifierError` for an example that names no part."""
        routes = [self._route(example) for example, _ in pairs]
        verdicts: dict[int, Verdict] = {}
        for name, part in self.parts.items():
            rows = [row for row, route in enumerate(routes) if route[0] == name]
            for row, verdict in zip(
                rows, _judged(part, [(routes[row][1], pairs[row][1]) for row in rows]), strict=True
            ):
                verdicts[row] = replace(verdict, components=_components({name: verdict}))
        return [verdicts[row] for row in range(len(pairs))]

    def _route(self, example: Example) -> tuple[str, Example]:
        hidden = dict(example.hidden)
        name = hidden.pop("verifier", None)
        if not isinstance(name, str) or name not in self.parts:
            raise VerifierError(
                f"example {example.id!r}: hidden['verifier'] must be one of {', '.join(self.parts)}; got {name!r}"
            )
        return name, replace(example, hidden=hidden)


def _judged(part: Verifier, pairs: Pairs) -> list[Verdict]:
    """Nothing is asked of a part that has nothing to judge."""
    return part.verify_batch(pairs) if pairs else []


def _components(verdicts: Mapping[str, Verdict]) -> dict[str, float]:
    """`name.score`, and every component of the part as `name.component`."""
    components: dict[str, float] = {}
    for name, verdict in verdicts.items():
        components[f"{name}.score"] = float(verdict.score)
        components |= {f"{name}.{key}": float(value) for key, value in verdict.components.items()}
    return components


def _feedback(verdicts: Mapping[str, Verdict]) -> str:
    return "\n".join(f"{name}: {verdict.feedback}" for name, verdict in verdicts.items() if verdict.feedback)

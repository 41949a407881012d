r"""Judges mathematics by value: 1/2, 0.5 and \frac{2}{4} are one answer. Needs the extra `math` (math-verify, SymPy).

    example.hidden = {"answer": "\\frac{1}{2}"}
    answer.text = "0.5", "$\\frac12$", "so it is \\boxed{1/2}"

A text with $, \( or \[ or \boxed is read as it is, and so is one with words (three letters or more, names of functions
aside): its boxed or last formula counts. Any other text is read as one formula.

Everything runs in a helper process under limits: a computer algebra system cannot be told to give up on 9**9**9**9.

Not covered: 1e3 (read as 1 times e times 3; see `Numeric`), pi without its backslash, units, proofs, several answers.
Two formulas that are equal but too different for SymPy to see it are judged wrong. What else the two sides may look
like, math-verify decides, and it is lenient: of an equation the right side counts ("$6 = 5$" passes for 5), so do names
without case ("a" for "A"), and a set passes for a tuple (\{1,2\} for (1,2)).
"""

from __future__ import annotations

import re
from typing import Any

from verifiers.base import Example, VerifierError, hidden_of
from verifiers.trusted.judge import TrustedJudge
from verifiers.trusted.process import TrustedProcess

_DELIMITED = re.compile(r"\$|\\\(|\\\[|\\boxed")
_WORD = re.compile(
    r"(?<![\\A-Za-z])(?!(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?\b|(?:log|exp|sqrt|inf|max|min|mod)\b)[A-Za-z]{3,}"
)


class MathEqual(TrustedJudge):
    """Score 1 if the answer equals the expected expression; kinds passed, wrong, unparsable, timeout, died.

    Args:
        decimals: digits after the point to which decimal numbers are compared.
        cpu_s: CPU time of one judging, whole seconds.
        memory_mb: memory of one judging, MiB.

    Raises:
        ImportError: math-verify is not installed.
    """

    def __init__(self, decimals: int = 6, cpu_s: float = 5.0, memory_mb: int = 1024):
        from importlib.util import find_spec

        if find_spec("math_verify") is None:  # not imported: only the helper needs it
            raise ImportError("MathEqual needs the package math-verify: pip install 'llm-envs[math]'")
        self._decimals = decimals
        super().__init__(
            TrustedProcess(f"{__name__}:judge", cpu_s=cpu_s, memory_mb=memory_mb, warm_up=f"{__name__}:warm_up")
        )

    def configuration(self) -> dict[str, Any]:
        """Digits, limits, and the versions of what decides."""
        from importlib.metadata import version

        versions = {name: version(name) for name in ("math-verify", "latex2sympy2_extended", "sympy")}
        return {**super().configuration(), **versions, "decimals": self._decimals}

    def question(self, example: Example) -> dict[str, Any]:
        """The expected expression; raises `VerifierError` when it is no string."""
        expected = hidden_of(example).get("answer")
        if not isinstance(expected, str):
            raise VerifierError(f"example {example.id!r}: hidden['answer'] must be a string, got {expected!r}")
        return {"answer": expected, "decimals": self._decimals}


def warm_up() -> None:
    """In the helper, once: import SymPy, and fill the tables of the parser."""
    import logging

    logging.disable()  # math-verify warns at every call that its own time limit is off
    for text in (r"$\frac{1}{2} + \sqrt{x^2}$", "(1, 2)", "0.5", r"\boxed{\{1, 2\}}"):
        judge({"question": {"answer": text, "decimals": 6}, "text": text})


def judge(payload: dict[str, Any]) -> dict[str, str]:
    """In the helper: one verdict, as `TrustedJudge` describes."""
    from math_verify import verify

    expected = _parse(payload["question"]["answer"])
    if not expected:
        return {"complaint": f"hidden['answer'] is no mathematics: {payload['question']['answer']!r}"}
    # Without an answer, 0 stands for one: reading the expected value is easy, computing it may be what never ends.
    found = _parse("0" if payload["text"] is None else payload["text"])
    if not found:
        return {"kind": "unparsable", "feedback": "no formula could be read from the answer"}
    # 0 turns off a limit that works with SIGALRM; this process has limits of its own.
    equal = verify(expected, found, float_rounding=payload["question"]["decimals"], timeout_seconds=0)
    return {"kind": "passed"} if equal else {"kind": "wrong", "feedback": "not the expected value"}


def _parse(text: str) -> list[Any]:
    """What math-verify reads: an expression and the text it was read from; empty if it reads nothing."""
    from math_verify import parse

    if not _DELIMITED.search(text) and not _WORD.search(text) and text.strip():
        text = f"${text.strip()}$"
    return parse(text, parsing_timeout=0)

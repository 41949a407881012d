r"""Judges a number: the last one in the answer, or an answer that is nothing else.

    example.hidden = {"answer": "1,234.5"}      # or an int or a float

Read alike in the answer and in `hidden["answer"]`:

    42  -42  +42  −42                  integers of up to `MAX_DIGITS` digits; the sign stands directly before
    3.14  .5  5.                        decimals; the point is the decimal mark, always
    1,234,567.89  1 234 567.89          groups of three, all by the same comma or space (also no-break and thin spaces)
    3/4  -1 3/4                         fractions; mixed numbers have a proper fraction
    6.02e23  6.02 x 10^23               scientific notation; also with * or × or \times, ** for ^, braces
    45%                                 45/100, or with `percent="ignore"` 45
    $5  -€5  £5                         a currency sign in front
    **5**  __-5__  *5*                  Markdown's emphasis does not count, also around more than the number

A comma never is a decimal mark: "1,5" and "1,2345" are unparsable, not 1.5, 5 or 12345. So is whatever is glued to
another number: 1.2.3, 3/4/5, (3)/(4), 2^10, 2 ** 10, 10⁸, 2,3,5, 1_000, 1'000, 10:30, 0b101. In the last-number mode
such a thing is unparsable if it comes last; an earlier number is never taken in its place.

An exclamation mark after the last number is punctuation, since far more answers end in "it is 42!" than in a factorial:
5! is read as 5. Only before a letter, digit, bracket or operator it is a factorial, and unparsable: 5!x.

Not covered: hexadecimal, number words, ½, other digits than 0-9, LaTeX fractions (see `MathEqual`), units (ignored
after the last number; unparsable when the whole answer must be the number). "1 200" is 1200, also where a list was
meant. A minus directly after a digit or a letter is a dash: the last number of "3-5" is 5.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError, hidden_of

MAX_DIGITS = 10_000
"""Longest number that is written out, digits; 1e999999999 is refused rather than computed."""

_SPACES = " \u00a0\u202f\u2009"
_SIGN = "[+\\-\u2212]"
_CURRENCY = "[$\u20ac\u00a3\u00a5\u20b9]"
_NUMBER = re.compile(
    rf"""
    (?<![A-Za-z_0-9])  # "x2" is a name
    (?: (?<![\w)\]]) (?P<sign>{_SIGN}) )?
    (?: {_CURRENCY} (?P<late_sign>{_SIGN})? )?
    (?:
        (?: (?P<whole>[0-9]+) [{_SPACES}] )? (?P<numerator>[0-9]+) [ ]?[/\u2044][ ]? (?P<denominator>[0-9]+)
      |
        (?P<number>
            [0-9]{{1,3}} (?P<mark>[,{_SPACES}]) [0-9]{{3}} (?: (?P=mark) [0-9]{{3}} )* (?![0-9]) (?: \.[0-9]* )?
          | [0-9]+ (?: \.[0-9]* )?
          | \.[0-9]+
        )
        (?:
            [eE] (?P<exponent>{_SIGN}?[0-9]+)
          | [ ]?(?:[x*\u00d7]|\\times)[ ]?10[ ]?(?:\^|\*\*)[ ]?\{{?(?P<power>{_SIGN}?[0-9]+)\}}?
        )?
    )
    (?P<percent> \s{{0,2}}% )?
    """,
    re.VERBOSE,
)
# Not a number of its own, but a part of something longer.
_GLUED_BEFORE = re.compile(
    r"""
    (?: [0-9)\]}][.,]
      | [0-9.!)\]}]\s*[/\u2044][\s({\[]*
      | (?:\^|\*\*)[\s({\[]*
      | [0-9]['\u2019:]
      | [}\]]\{  # \frac{3}{4}
    ) [+\-\u2212]?\Z""",
    re.VERBOSE,
)
_GLUED_AFTER = re.compile(
    r"""
    [.,/\u2044'\u2019:]?[0-9] | \s*[/\u2044]\s*[0-9] | [)\]}]*\s*(?:\^|\*\*) | [\u00b2\u00b3\u00b9\u2070-\u2079]
    | [eExX][+\-]?[0-9] | [xX][A-Fa-f] | [bBoO][0-9] | _ | ![\w(^*/+=-]
    """,
    re.VERBOSE,
)
_MARKS = re.compile(r"\*+|_+|\n[ \t]*\n")  # then whether a mark may open or close a pair, beside another mark, too
_OPENS = re.compile(r"(?<![A-Za-z0-9)\]}])[*_]{1,6}(?=[^\s*_])")
_CLOSES = re.compile(r"(?<=\S)[*_]{1,6}(?![A-Za-z0-9(\[{*_])")


class _TooLarge(ValueError):
    """A number of more than `MAX_DIGITS` digits."""


class Numeric(Verifier):
    """Score 1 if the number equals the expected one, exactly or within a tolerance; else 0.

    Passes if |answer - expected| <= max(absolute, relative * |expected|). Everything is computed in exact fractions, so
    0.1 is one tenth, and equality at the border of the tolerance passes.

    Kinds: passed, wrong, unparsable (no number, or none of the forms of this module), too_large (over `MAX_DIGITS`).

    Args:
        mode: "last" number in the answer, or the "whole" answer (a final point is allowed).
        absolute: tolerance in units of the answer.
        relative: tolerance as a share of the expected number.
        percent: "hundredth" reads 45% as 0.45; "ignore" reads it as 45.
    """

    def __init__(self, mode: str = "last", absolute: float = 0.0, relative: float = 0.0, percent: str = "hundredth"):
        if mode not in ("last", "whole"):
            raise ValueError(f"mode must be 'last' or 'whole', got {mode!r}")
        if percent not in ("hundredth", "ignore"):
            raise ValueError(f"percent must be 'hundredth' or 'ignore', got {percent!r}")
        for name, value in (("absolute", absolute), ("relative", relative)):
            if type(value) not in (int, float) or not 0 <= value < math.inf:
                raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")
        self._options = {"mode": mode, "absolute": absolute, "relative": relative, "percent": percent}
        self._mode, self._per_cent = mode, Fraction(1, 100 if percent == "hundredth" else 1)
        # By way of the digits: a tolerance of 0.1 means one tenth, not the nearest binary fraction.
        self._absolute, self._relative = Fraction(repr(absolute)), Fraction(repr(relative))

    def configuration(self) -> dict[str, Any]:
        """Mode, tolerances and the meaning of the percent sign."""
        return self._options

    def validate(self, example: Example) -> None:
        """Raises `VerifierError` when `hidden["answer"]` is no finite number."""
        self._expected(example)

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Judge one answer; raises `VerifierError` as `validate` does."""
        expected = self._expected(example)
        try:
            number = self._read(answer.text, self._mode)
        except _TooLarge:
            return Verdict(0.0, False, "too_large", feedback=f"the number has more than {MAX_DIGITS} digits")
        if number is None:
            return Verdict(0.0, False, "unparsable", feedback="no number could be read from the answer")
        passed = abs(number - expected) <= max(self._absolute, self._relative * abs(expected))
        return Verdict(
            score=float(passed),
            passed=passed,
            kind="passed" if passed else "wrong",
            feedback="correct" if passed else "not the expected number",
        )

    def _expected(self, example: Example) -> Fraction:
        answer = hidden_of(example).get("answer")
        number = None
        if type(answer) is int:
            number = Fraction(answer)
        elif type(answer) is float and math.isfinite(answer):
            number = Fraction(repr(answer))
        elif isinstance(answer, str):
            try:
                number = self._read(answer, "whole")
            except _TooLarge:
                number = None
        if number is None:
            shown = "one that is too long" if type(answer) is int else repr(answer)
            raise VerifierError(f"example {example.id!r}: hidden['answer'] must be a finite number, got {shown}")
        return number

    def _read(self, text: str, mode: str) -> Fraction | None:
        """The number that decides, None if there is none; raises `_TooLarge`."""
        text = _without_emphasis(text)
        if mode == "whole":
            text = text.strip()
            match = _NUMBER.fullmatch(text)
            return None if match is None else _value(match, self._per_cent)
        last = None
        for match in _NUMBER.finditer(text):
            last = match
        if last is None or _is_glued(text, last):
            return None
        return _value(last, self._per_cent)


def _is_glued(text: str, match: re.Match[str]) -> bool:
    return bool(_GLUED_BEFORE.search(text, 0, match.start()) or _GLUED_AFTER.match(text, match.end()))


def _without_emphasis(text: str) -> str:
    """The text without Markdown's pairs of * and _.

    A pair never spans paragraphs. A mark beside a space becomes a line break: "Step 1 **234**" is not 1234.
    """
    pieces: dict[int, tuple[int, str]] = {}  # where a mark begins: its end, and what stands for it
    opened: dict[str, int] = {}
    for run in _MARKS.finditer(text):
        mark, start, end = run[0], run.start(), run.end()
        if mark[0] == "\n":
            opened.clear()
        elif mark in opened and _CLOSES.match(text, start):
            first = opened.pop(mark)
            pieces[first] = first + len(mark), "\n" if text[first - 1 : first].isspace() else ""
            pieces[start] = end, "\n" if text[end : end + 1].isspace() else ""
        elif _OPENS.match(text, start):
            opened[mark] = start
    kept: list[str] = []
    position = 0
    for start, (end, piece) in sorted(pieces.items()):
        kept += text[position:start], piece
        position = end
    return "".join(kept) + text[position:]


def _value(match: re.Match[str], per_cent: Fraction) -> Fraction | None:
    """The number that a match writes; None for a denominator of zero or an improper mixed number."""
    part = match.groupdict()
    if part["sign"] and part["late_sign"]:
        return None
    negative = (part["sign"] or part["late_sign"] or "+") != "+"
    if part["numerator"]:
        numerator, denominator = _integer(part["numerator"]), _integer(part["denominator"])
        if denominator == 0 or (part["whole"] and numerator >= denominator):
            return None
        value = _integer(part["whole"] or "0") + Fraction(numerator, denominator)
    else:
        value = _decimal(part)
    if part["percent"]:
        value *= per_cent
    return -value if negative else value


def _decimal(part: dict[str, str | None]) -> Fraction:
    whole, _, decimals = (part["number"] or "").partition(".")
    whole = re.sub("[^0-9]", "", whole)
    exponent_text = (part["exponent"] or part["power"] or "0").replace("\u2212", "-")
    digits = _integer(whole + decimals)
    if digits == 0:
        return Fraction(0)  # whatever the exponent
    if len(exponent_text.lstrip("+-").lstrip("0")) > len(str(MAX_DIGITS)):
        raise _TooLarge
    exponent = int(exponent_text)
    if abs(exponent) > MAX_DIGITS:
        raise _TooLarge
    exponent -= len(decimals)
    return digits * Fraction(10**exponent) if exponent >= 0 else Fraction(digits, 10**-exponent)


def _integer(digits: str) -> int:
    """`int(digits)` without Python's limit on digits, with one of our own."""
    digits = digits.lstrip("0") or "0"
    if len(digits) > MAX_DIGITS:
        raise _TooLarge
    return int(Decimal(digits))

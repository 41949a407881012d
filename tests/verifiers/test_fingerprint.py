from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from verifiers import (
    Answer,
    Cached,
    Contains,
    ExactMatch,
    Example,
    Gate,
    JsonSchema,
    MathEqual,
    Numeric,
    RegularExpression,
    Verdict,
    Verifier,
    VerifierError,
    get_verifier,
)
from verifiers.fingerprint import canonical, source_hash


class Plain(Verifier):
    def verify(self, example: Example, answer: Answer) -> Verdict:
        return Verdict(0.0, False, "wrong")


class Other(Plain):
    pass


class Forgetful(ExactMatch):
    def __init__(self, loud: bool):
        super().__init__()
        self.loud = loud


class Declared(Forgetful):
    def configuration(self) -> dict[str, Any]:
        return {"loud": self.loud}


class Unwritable(Plain):
    def configuration(self) -> dict[str, Any]:
        return {"set": {1, 2}}


def judge(example: Example, answer: Answer) -> bool:
    return True


def other_judge(example: Example, answer: Answer) -> bool:
    return True


def test_different_judges_differ_and_equal_ones_do_not():
    def make() -> list[Verifier]:
        return [
            *(Plain(), Other(), Declared(True), Declared(False)),
            *(ExactMatch(), ExactMatch(ignore_case=True), Contains(), Contains(require="any")),
            *(Numeric(), Numeric(relative=0.1), RegularExpression(), RegularExpression(full=False)),
            *(JsonSchema(), JsonSchema(cpu_s=1), MathEqual(), MathEqual(decimals=3)),
            *(Gate("numeric", "contains"), Cached("numeric"), get_verifier(judge), get_verifier(other_judge)),
        ]

    prints = [verifier.fingerprint() for verifier in make()]
    assert len(set(prints)) == len(prints)
    assert prints == [verifier.fingerprint() for verifier in make()]


def test_a_class_that_does_not_declare_its_options_says_so():
    with pytest.raises(VerifierError, match="Forgetful has an __init__ but no configuration"):
        Forgetful(True).fingerprint()
    with pytest.raises(VerifierError, match="Unwritable.*JSON"):
        Unwritable().fingerprint()


def test_a_function_that_depends_on_the_unseen_says_so():
    for function in (lambda example, answer: True, Plain().verify):
        with pytest.raises(VerifierError, match="no fingerprint"):
            get_verifier(function).fingerprint()


def test_a_change_of_the_source_changes_the_fingerprint(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    seen = set()
    for body in ("pass", "pass  # changed"):
        (tmp_path / "changing.py").write_text(f"from test_fingerprint import Plain\nclass Mine(Plain): {body}\n")
        source_hash.cache_clear()
        monkeypatch.delitem(sys.modules, "changing", raising=False)
        import changing

        seen.add(changing.Mine().fingerprint())
    assert len(seen) == 2


def test_a_class_without_a_source_file_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "typed_in", types.ModuleType("typed_in"))
    typed = type("Typed", (Plain,), {"__module__": "typed_in"})
    with pytest.raises(VerifierError, match="typed_in has no source file"):
        typed().fingerprint()


def test_canonical_text_tells_types_apart_and_needs_plain_values():
    values = [1, 1.0, True, "1", b"1", 1j, None, [1], (1,), {1}, frozenset({1}), {1: 1}, {"1": 1}, [[1]], "[int:1]"]
    values += [{"a": 1, "b": 2}, {"b": 2, "a": 1}, "\ud800", 10**5000, 10**5000 + 1, -0.0, 0.0, float("nan")]
    assert len({canonical(value) for value in values}) == len(values)
    assert canonical({3, 1, 2}) == canonical({2, 3, 1})
    with pytest.raises(TypeError):
        canonical([object()])

from __future__ import annotations

import importlib
import sys
import types
from typing import Any, cast

import numpy as np
import pytest

from verifiers import (
    Answer,
    ExactMatch,
    Example,
    FunctionTests,
    FunctionVerifier,
    Limits,
    Verdict,
    Verifier,
    VerifierError,
    get_verifier,
)
from verifiers.registry import BUILT_IN


class Shouting(ExactMatch):
    def __init__(self, loud: bool = False):
        self.loud = loud


def is_short(example: Example, answer: Answer) -> bool:
    return len(answer.text) < 3


@pytest.fixture(autouse=True)
def plugin(monkeypatch):
    module = types.ModuleType("shouting_plugin")
    monkeypatch.setattr(module, "Shouting", Shouting, raising=False)
    monkeypatch.setattr(module, "is_short", is_short, raising=False)
    monkeypatch.setitem(sys.modules, "shouting_plugin", module)


def test_built_in_names():
    assert type(get_verifier("exact_match")) is ExactMatch
    assert type(get_verifier("function_tests")) is FunctionTests


def test_equal_name_and_options_share_one_instance():
    assert get_verifier("function_tests") is get_verifier("function_tests")
    one = get_verifier("function_tests", limits=Limits(cpu_s=1))
    assert get_verifier("function_tests", limits=Limits(cpu_s=1)) is one
    assert get_verifier("function_tests") is not one
    assert get_verifier("shouting_plugin:Shouting", loud=True) is get_verifier("shouting_plugin:Shouting", loud=True)
    assert get_verifier("shouting_plugin:Shouting") is not get_verifier("shouting_plugin:Shouting", loud=True)


def test_an_object_is_returned_as_it_is():
    verifier = Shouting()
    assert get_verifier(verifier) is verifier
    with pytest.raises(TypeError, match="loud"):
        get_verifier(verifier, loud=True)
    with pytest.raises(TypeError, match="Verifier"):
        get_verifier(cast(Any, Shouting))


def test_unknown_name_suggests_and_lists():
    with pytest.raises(ValueError, match="Did you mean 'function_tests'") as caught:
        get_verifier("function_test")
    assert "exact_match" in str(caught.value)
    with pytest.raises(ValueError, match="unknown verifier 'zzz'. Known"):
        get_verifier("zzz")


@pytest.mark.parametrize("spec", ["shouting_plugin:Missing", "math:sqrt", "builtins:dict"])
def test_a_spec_must_name_a_verifier_class(spec: str):
    with pytest.raises(ValueError, match=spec):
        get_verifier(spec)


def test_unknown_options_are_refused():
    with pytest.raises(TypeError):
        get_verifier("function_tests", timeout=3)
    assert issubclass(Shouting, Verifier)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_built_in_name_leads_to_a_class_of_the_package(name: str):
    module, _, kind = BUILT_IN[name].partition(":")
    found = getattr(importlib.import_module(module), kind)
    assert issubclass(found, Verifier)
    assert found.__doc__


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("shouting_plugin:Shoutin", "has no 'Shoutin'. Did you mean 'Shouting'"),
        ("shouting_plugin:is_shrt", "Did you mean 'is_short'"),
        ("shouting_plugin:zzz", "has no 'zzz'.$"),
        ("no_such_module:Judge", "there is no module 'no_such_module'$"),
        ("verifiers.no_such:Judge", "there is no module 'verifiers.no_such'$"),
        ("math:pi", "neither a Verifier class nor a function"),
        (":Judge", "no module's name"),
        ("shouting_plugin:", "has no ''"),
    ],
)
def test_what_cannot_be_found_is_one_clear_error(spec: str, message: str):
    with pytest.raises(ValueError, match=message):
        get_verifier(spec)


def test_a_missing_import_of_an_existing_module_is_told_as_it_is(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "needs_more.py").write_text("import no_such_module_either")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_either"):
        get_verifier("needs_more:Judge")


def judged(function: Any) -> Verdict:
    return get_verifier(function).verify(Example("e", "", {}), Answer("text"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, (1.0, True, "passed")),
        (False, (0.0, False, "wrong")),
        (np.True_, (1.0, True, "passed")),
        (1, (1.0, True, "passed")),
        (0.5, (0.5, False, "partial")),
        (np.float32(0.5), (0.5, False, "partial")),
        (-2, (-2.0, False, "wrong")),
        (Verdict(0.3, False, "odd", {"x": 1.0}), (0.3, False, "odd")),
    ],
)
def test_a_function_returns_a_bool_a_number_or_a_verdict(value: Any, expected: tuple[float, bool, str]):
    verdict = judged(lambda example, answer: value)
    assert (verdict.score, verdict.passed, verdict.kind) == expected
    assert type(verdict.score) is float


def test_a_function_is_named_by_its_module():
    by_name = get_verifier("shouting_plugin:is_short")
    assert isinstance(by_name, FunctionVerifier)
    assert by_name is get_verifier("shouting_plugin:is_short")
    assert by_name.verify(Example("e", "", {}), Answer("ab")).passed
    with pytest.raises(TypeError, match="is a function"):
        get_verifier("shouting_plugin:is_short", loud=True)


def raising(example: Example, answer: Answer) -> bool:
    raise KeyError("secret")


@pytest.mark.parametrize(
    "value", [None, "yes", float("nan"), float("inf"), [1.0], np.zeros(2), np.float64("nan"), [10**5000]]
)
def test_a_function_that_returns_something_else_is_a_broken_judge(value: Any):
    with pytest.raises(
        VerifierError, match="'e'.*lambda.*must return a bool, a finite number or a Verdict, got "
    ) as caught:
        judged(lambda example, answer: value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("digits", [400, 5000])
def test_an_integer_beyond_the_floats_is_no_score(digits: int):
    with pytest.raises(VerifierError, match=r"lambda.*a finite number or a Verdict, got an integer of \d+ bits"):
        judged(lambda example, answer: -(10**digits))


def test_a_function_that_raises_is_a_broken_judge():
    with pytest.raises(VerifierError, match="'e'.*:raising raised KeyError"):
        judged(raising)


@pytest.mark.parametrize("function", [lambda: True, lambda example: True, lambda example, answer, more: True])
def test_a_function_must_take_an_example_and_an_answer(function: Any):
    with pytest.raises(TypeError, match=r"\(example, answer\)"):
        get_verifier(function)
    with pytest.raises(TypeError, match="loud"):
        get_verifier(is_short, loud=True)

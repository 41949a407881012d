from __future__ import annotations

import sys
import types
from typing import Any, cast

import pytest

from verifiers import ExactMatch, FunctionTests, Limits, Verifier, get_verifier


class Shouting(ExactMatch):
    def __init__(self, loud: bool = False):
        self.loud = loud


@pytest.fixture(autouse=True)
def plugin(monkeypatch):
    module = types.ModuleType("shouting_plugin")
    monkeypatch.setattr(module, "Shouting", Shouting, raising=False)
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

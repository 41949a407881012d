"""What `PytestFiles` is told about an example: `hidden`, checked before anything runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from verifiers.base import Example, VerifierError
from verifiers.code.function_spec import SCORINGS
from verifiers.code.pytest_refusals import find_refusals, syntax_complaint

MODES = ("proxy", "in_process")
MODULE_NAME = "solution"

_FIELDS = ("files", "module", "scoring", "tests")
_FILE_NAME = re.compile(r"([A-Za-z_]\w*/)*[A-Za-z_]\w*\.py", re.ASCII)
_TEST_FILE = re.compile(r"(.*/)?(test_\w*|\w*_test)\.py", re.ASCII)
_TAKEN = sys.stdlib_module_names | {"pytest", "_pytest", "pluggy", "verifiers", "conftest"}


@dataclass(frozen=True)
class PytestSpec:
    """`example.hidden`, checked.

    Attributes:
        files: relative path -> source of the tests and their helpers.
        module: name under which the tests import the submission.
        scoring: one of `SCORINGS`.
        tests: ids of tests that must be there, such as "test_x.py::test_add[1]"; empty when not given.
    """

    files: Mapping[str, str]
    module: str
    scoring: str
    tests: tuple[str, ...]


def read_spec(example: Example, mode: str) -> PytestSpec:
    """Check `example.hidden`; raises `VerifierError` that names the example and the field or file."""

    def complain(field: str, problem: str) -> VerifierError:
        return VerifierError(f"example {example.id!r}: hidden[{field!r}] {problem}")

    hidden = example.hidden
    unknown = sorted(map(str, set(hidden) - set(_FIELDS)))
    if unknown:
        raise complain(unknown[0], f"is not a field of pytest files; known are {', '.join(_FIELDS)}")
    files, module = hidden.get("files"), hidden.get("module", MODULE_NAME)
    scoring, tests = hidden.get("scoring", "all"), hidden.get("tests", ())
    if scoring not in SCORINGS:
        raise complain("scoring", f"must be one of {', '.join(SCORINGS)}; got {scoring!r}")
    if not isinstance(module, str) or not module.isidentifier() or module in _TAKEN:
        raise complain("module", f"must be the name of a module that is not taken, got {module!r}")
    if not isinstance(tests, list | tuple) or not all(isinstance(name, str) for name in tests):
        raise complain("tests", f"must be a list of test ids, got {tests!r}")
    if not isinstance(files, Mapping) or not all(isinstance(text, str) for pair in files.items() for text in pair):
        raise complain("files", f"must be a dict of file names and their texts, got {files!r}")
    if not any(map(_TEST_FILE.fullmatch, files)):
        raise complain("files", f"must have a file test_*.py or *_test.py, got {sorted(files)}")
    for name, text in files.items():
        problem = _file_complaint(name, text, module, mode)
        if problem:
            raise complain("files", f"{name}: {problem}")
    return PytestSpec(dict(files), module, scoring, tuple(tests))


def _file_complaint(name: str, text: str, module: str, mode: str) -> str:
    if not _FILE_NAME.fullmatch(name):
        return "must be the relative path of a Python file, such as helper.py or folder/test_x.py"
    top = name.partition("/")[0].removesuffix(".py")
    if "conftest.py" in name.split("/"):
        return "conftest.py is not read; write fixtures into the test files, or import them from a helper"
    if top == module or top in _TAKEN:
        return f"would hide the module {top}"
    complaint = syntax_complaint(text)
    if complaint or mode == "in_process":
        return complaint
    refusals = find_refusals(text, module)
    if refusals:
        return f'{refusals[0]}. Change the test, or use mode="in_process", whose verdicts are forgeable'
    return ""

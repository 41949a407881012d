"""Function tests as data: what `example.hidden` of `FunctionTests` may say, checked and turned into steps.

    {
        "entry": "add",                     # a function; "Class.method", called on a fresh Class(); or a Class
        "tests": [...],
        "scoring": "all",                   # 1 or 0; "fraction" for the share of tests that pass
        "tolerance": 0.0,                   # for floats, see `compare.same_value`; not with equals
        "unordered": False,                 # True: the outermost list or tuple of a result may be in any order
        "keep_arguments": False,            # True: a call that changes its arguments is wrong
        "file": "main.py",                  # of an answer made of files: the one that holds the entry
    }

A test calls the entry once:

    {"args": [1, 2], "kwargs": {"base": 10}, "expected": 3}
    {"args": [1, 2], "equals": 3}                              # by `==`, so that 3.0 will do, and a frozenset for a set
    {"args": ["x"], "raises": "ValueError"}                    # or a subclass
    {"args": [[3, 1]], "expected": None, "args_after": [[1, 3]]}

or, when the entry is a class, makes an object and uses it:

    {"init": [2], "calls": [{"method": "push", "args": [1], "expected": None}, {"attribute": "size", "expected": 1},
                            {"method": "pop", "args": [], "raises": "IndexError"}]}

Values are those of `codec`: None, bool, int, float, str, bytes, list, tuple, set, frozenset, dict. Left out: kwargs is
{}, init and the args of a method are [].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verifiers.base import Example, VerifierError, hidden_of
from verifiers.code.compare import has_free_order
from verifiers.sandbox.codec import Unserialisable, encode

SCORINGS = ("all", "fraction")

_FIELDS = ("entry", "tests", "scoring", "tolerance", "unordered", "keep_arguments", "file")
_OUTCOMES = ("expected", "equals", "raises")
_CALL_FIELDS = ("args", "kwargs", *_OUTCOMES, "args_after")


@dataclass(frozen=True)
class Step:
    """One request to the submission and what must come of it.

    Attributes:
        verb, name, args, kwargs: see `channel.Execution.ask`.
        expected: the result, when `raises` is "".
        equals: whether it is enough that `==` calls the result equal, see `compare.equal_value`.
        raises: name of the exception class that must be raised, or of one of its bases; "" for none.
        args_after: the arguments afterwards; None when they do not matter.
    """

    verb: str
    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    expected: Any = None
    raises: str = ""
    args_after: Sequence[Any] | None = None
    equals: bool = False


@dataclass(frozen=True)
class FunctionSpec:
    """`example.hidden`, checked: one list of steps per test."""

    entry: str
    tests: tuple[tuple[Step, ...], ...]
    scoring: str
    tolerance: float
    unordered: bool
    keep_arguments: bool
    file: str


class _Complaint(ValueError):
    """What is wrong with a field; its name in brackets comes first."""


def read_spec(example: Example) -> FunctionSpec:
    """Check `example.hidden`; raises `VerifierError` that names the example and the field."""
    try:
        return _read(hidden_of(example))
    except _Complaint as error:
        raise VerifierError(f"example {example.id!r}: hidden{error}") from None


def _read(hidden: Mapping[str, Any]) -> FunctionSpec:
    _refuse_unknown(hidden, _FIELDS, "")
    entry, tests = hidden.get("entry"), hidden.get("tests")
    scoring, tolerance = hidden.get("scoring", "all"), hidden.get("tolerance", 0.0)
    if not isinstance(entry, str) or not all(map(str.isidentifier, entry.split("."))) or entry.count(".") > 1:
        raise _Complaint(f"['entry'] must be the name of a function, a class or a Class.method, got {entry!r}")
    if scoring not in SCORINGS:
        raise _Complaint(f"['scoring'] must be one of {', '.join(SCORINGS)}; got {scoring!r}")
    if type(tolerance) not in (int, float) or not 0 <= tolerance < math.inf:
        raise _Complaint(f"['tolerance'] must be a finite number of at least 0, got {tolerance!r}")
    flags = {name: hidden.get(name, False) for name in ("unordered", "keep_arguments")}
    for name, value in flags.items():
        if type(value) is not bool:
            raise _Complaint(f"[{name!r}] must be true or false, got {value!r}")
    if not isinstance(tests, list | tuple) or not tests:
        raise _Complaint(f"['tests'] must be a non-empty list, got {tests!r}")
    steps = tuple(_read_test(entry, test, f"['tests'] item {index}") for index, test in enumerate(tests))
    if flags["unordered"] and any(step.equals for test in steps for step in test):
        raise _Complaint("['unordered'] does not go with equals; give expected")
    if flags["unordered"] and not all(has_free_order(step.expected, tolerance) for test in steps for step in test):
        raise _Complaint("['unordered'] with a tolerance needs lists of numbers")
    file = hidden.get("file", "main.py")
    if not isinstance(file, str):
        raise _Complaint(f"['file'] must be the name of a file, got {file!r}")
    return FunctionSpec(entry, steps, scoring, tolerance, **flags, file=file)


def _read_test(entry: str, test: Any, where: str) -> tuple[Step, ...]:
    if not isinstance(test, Mapping):
        raise _Complaint(f"{where} must be an object, got {test!r}")
    if "calls" not in test:
        if "args" not in test:
            raise _Complaint(f"{where} must have the field args (or calls, to test an object)")
        return (_read_step("call", entry, test, where),)
    _refuse_unknown(test, ("init", "calls"), where)
    if "." in entry:
        raise _Complaint(f"{where}: calls need an entry that is a class, not the method {entry!r}")
    calls = test["calls"]
    if not isinstance(calls, list | tuple) or not calls:
        raise _Complaint(f"{where}: calls must be a non-empty list")
    made = Step("new", entry, _plain_list(test.get("init", []), f"{where}: init"), {})
    return made, *(_read_call(call, f"{where}, call {index}") for index, call in enumerate(calls))


def _read_call(call: Any, where: str) -> Step:
    if not isinstance(call, Mapping) or ("method" in call) == ("attribute" in call):
        raise _Complaint(f"{where} must be an object with either method or attribute, got {call!r}")
    verb = "method" if "method" in call else "attribute"
    name = call[verb]
    if not isinstance(name, str) or not name.isidentifier():
        raise _Complaint(f"{where}: {verb} must be a name, got {name!r}")
    rest = {key: value for key, value in call.items() if key != verb}
    if verb == "attribute":
        _refuse_unknown(rest, _OUTCOMES, where)
    return _read_step(verb, name, {"args": [], **rest}, where)


def _read_step(verb: str, name: str, fields: Mapping[str, Any], where: str) -> Step:
    _refuse_unknown(fields, _CALL_FIELDS, where)
    if sum(outcome in fields for outcome in _OUTCOMES) != 1:
        raise _Complaint(f"{where} must have one of {', '.join(_OUTCOMES)}")
    raises, after = fields.get("raises", ""), fields.get("args_after")
    if "raises" in fields and (not isinstance(raises, str) or not raises.isidentifier()):
        raise _Complaint(f"{where}: raises must be the name of an exception class, got {raises!r}")
    args, kwargs = _plain_list(fields["args"], f"{where}: args"), fields.get("kwargs", {})
    if not isinstance(kwargs, Mapping) or not all(isinstance(key, str) for key in kwargs):
        raise _Complaint(f"{where}: kwargs must be an object, got {kwargs!r}")
    if after is not None:
        after = _plain_list(after, f"{where}: args_after")
        if raises or len(after) != len(args):
            raise _Complaint(f"{where}: args_after needs one value for each of the {len(args)} args, and no raises")
    expected = fields.get("equals", fields.get("expected"))
    for field, value in (("kwargs", dict(kwargs)), ("equals" if "equals" in fields else "expected", expected)):
        _check_plain(value, f"{where}: {field}")
    return Step(verb, name, args, dict(kwargs), expected, raises, after, "equals" in fields)


def _plain_list(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise _Complaint(f"{where} must be a list, got {value!r}")
    _check_plain(tuple(value), where)
    return value


def _check_plain(value: Any, where: str) -> None:
    try:
        encode(((value,),))  # as deep as it lies in a request and in the answer to it
    except Unserialisable as error:
        raise _Complaint(f"{where}: {error} is not a plain value") from None


def _refuse_unknown(fields: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    unknown = sorted(map(str, set(fields) - set(known)))
    if unknown:
        what = f"{where} has the field {unknown[0]!r}, which" if where else f"[{unknown[0]!r}]"
        raise _Complaint(f"{what} is not known; known are {', '.join(known)}")

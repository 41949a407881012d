"""Trusted assertion scripts, such as HumanEval's, as tests of `FunctionTests`, where that changes no verdict.

    def check(candidate):
        assert candidate("ab", 2) == "abab"
        for text, reverse in [("ab", "ba"), ("", "")]:
            assert reverse == candidate(text), "reversed"

`convert` reads the script without the candidate: expressions that do not mention it are trusted and evaluated. Either
all of the script is converted, or the answer is the reason why not.

Converted means: `FunctionTests` and the script agree on every plain value (see `codec`) that the candidate may return.
`==` becomes `equals` where other plain values are equal to the expected one (1 == 1.0 == True, and a set equals a
frozenset), and `expected`, with exact types, where there are none. What a right answer happens to return is no reason
to demand its type of others.

    candidate(...) == value, value == candidate(...)    unless `value` holds NaN
    candidate(...) is None, True, False
    abs(candidate(...) - y) < tolerance                 if |y| <= 1, no integer is that near, and all tolerances are
                                                        equal; also `<=`, math.fabs, math.isclose(rel_tol=0)
    and, for, if, helper variables and functions, imports of deterministic modules

Not converted: truthiness (`assert candidate(x)`), results that are kept or changed before they are compared, several
calls in one comparison, exceptions, arguments that an earlier call may have changed or that share parts, classes.

Not covered: results that are not plain, such as a Counter where the script says `== {}` (`FunctionTests` refuses them);
identity, and the order in which sets come out of their hashes; scripts that never end.
"""

from __future__ import annotations

import ast
import builtins
import math
from typing import Any

from verifiers.code.script_values import (
    Inexact,
    has_twin,
    holds_float,
    is_function_of,
    is_known,
    mutable_parts,
    parts,
    plain_copy,
)

MAX_TESTS = 10_000

_ITEM, _ARGUMENTS = "<item>", "<arguments>"
"""Variables that no script can have."""
_MODULES = frozenset(
    ("bisect", "collections", "copy", "decimal", "fractions", "functools", "hashlib", "heapq", "itertools", "json")
    + ("math", "operator", "re", "statistics", "string", "textwrap", "typing")
)
"""What a script may import: nothing random, nothing that reads the machine."""
_UNWANTED = ("eval", "exec", "globals", "hash", "id", "input", "locals", "open", "vars")
_BUILTINS = {name: value for name, value in vars(builtins).items() if name not in _UNWANTED}


def convert(script: str, entry: str) -> dict[str, Any] | str:
    """`example.hidden` of `FunctionTests` for a script, or the reason why there is none.

    Args:
        script: defines `check(candidate)`, and may end with `check(entry)`; or calls the entry itself, at top level.
        entry: name of the function that the answer must define.
    """
    try:
        return _convert(script, entry)
    except Inexact as reason:
        return str(reason)
    except RecursionError:
        return "nested too deeply"


def _convert(script: str, entry: str) -> dict[str, Any]:
    try:
        module = ast.parse(script)
    except (SyntaxError, ValueError) as error:
        raise Inexact(f"not valid Python: {error}") from None
    checks = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    reader = _Reader({entry})
    if not checks:
        reader.run(module.body)
        return reader.hidden(entry)
    check, parameters = checks[-1], checks[-1].args
    if len(checks) > 1 or check.decorator_list or len(parameters.args) != 1 or ast.unparse(parameters).count(",") > 0:
        raise Inexact("check must be defined once, and take the candidate alone")
    last_call = ast.dump(ast.parse(f"check({entry})").body[0])
    reader.run([node for node in module.body if node is not check and ast.dump(node) != last_call])
    if reader.tests:
        raise Inexact("asserts both inside check and outside")
    reader.enter(check, parameters.args[0].arg)
    return reader.hidden(entry)


class _Reader:
    """Runs the trusted part of a script and notes what it asks of the candidate.

    Attributes:
        candidates: names that mean the submission; only ever seen in the tree, never bound.
        tests: the tests found so far.
    """

    def __init__(self, candidates: set[str]):
        self.candidates = candidates
        self.tests: list[dict[str, Any]] = []
        self._tolerances: set[float] = set()
        self._names: dict[str, Any] = {"__builtins__": {**_BUILTINS, "__import__": _import}, "__name__": "script"}
        self._handed_over: dict[int, Any] = {}  # by identity, and kept alive so that identities stay unique

    def hidden(self, entry: str) -> dict[str, Any]:
        """The whole script as hidden data."""
        if not self.tests:
            raise Inexact("asserts nothing about the candidate")
        if not self._tolerances:
            return {"entry": entry, "tests": self.tests}
        exact = [test.get("expected") for test in self.tests if not test.pop("near", False)]
        if len(self._tolerances) > 1 or any(map(holds_float, exact)):
            raise Inexact("compares floats in more than one way")
        return {"entry": entry, "tests": self.tests, "tolerance": self._tolerances.pop()}

    def enter(self, check: ast.FunctionDef, parameter: str) -> None:
        """Run the body of check; its local variables live beside the global ones, so they must not hide any."""
        stored = {node.id for node in ast.walk(check) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        stored |= {node.asname for node in ast.walk(check) if isinstance(node, ast.alias) and node.asname}
        hidden = sorted(stored & ({*self._names} | {*_BUILTINS}))
        if hidden:
            raise Inexact(f"check has a variable {hidden[0]}, which is also a global name or a builtin")
        self.candidates = self.candidates | {parameter}
        self.run(check.body)

    def run(self, body: list[ast.stmt]) -> None:
        """Run statements in order."""
        for node in body:
            try:
                self._run_one(node)
            except Inexact as reason:
                raise Inexact(str(reason) if str(reason)[:5] == "line " else f"line {node.lineno}: {reason}") from None

    def _run_one(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Return | ast.Global | ast.ClassDef):
            raise Inexact(f"contains {type(node).__name__.lower()}")
        if isinstance(node, ast.Assert):
            self._demand(node.test)
        elif not self._mentions(node):
            self._execute(node)
        elif isinstance(node, ast.If):
            self.run(node.body if self._evaluate(node.test) else node.orelse)
        elif isinstance(node, ast.For) and not node.orelse and not _leaves(node):
            for item in self._items(node.iter):
                self._names[_ITEM] = item
                self._execute(ast.Assign([node.target], ast.Name(_ITEM, ast.Load())), fresh=True)
                self.run(node.body)
        else:
            raise Inexact("uses the candidate other than in an assertion")

    def _mentions(self, node: ast.AST) -> bool:
        return any(isinstance(part, ast.Name) and part.id in self.candidates for part in ast.walk(node))

    def _execute(self, node: ast.stmt, fresh: bool = False) -> None:
        """Execute a trusted statement; `fresh` if it cannot see what a call changed."""
        if not fresh:
            self._refuse_changed(node)
        try:
            exec(compile(ast.fix_missing_locations(ast.Module([node], [])), "<script>", "exec"), self._names)
        except Exception as error:
            raise Inexact(f"cannot be run without the candidate: {type(error).__name__}: {error}") from None

    def _evaluate(self, node: ast.expr) -> Any:
        """The value of a trusted expression."""
        if self._mentions(node):
            raise Inexact("uses the candidate's result other than by comparing it once")
        self._refuse_changed(node)
        try:
            return eval(compile(ast.fix_missing_locations(ast.Expression(node)), "<script>", "eval"), self._names)
        except Exception as error:
            raise Inexact(f"cannot be evaluated without the candidate: {type(error).__name__}: {error}") from None

    def _items(self, node: ast.expr) -> list[Any]:
        try:
            return list(self._evaluate(node))
        except TypeError as error:
            raise Inexact(str(error)) from None

    def _demand(self, test: ast.expr) -> None:
        """Note what an assertion demands."""
        if not self._mentions(test):
            if not self._evaluate(test):
                raise Inexact("always fails")
        elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            for part in test.values:
                self._demand(part)
        elif isinstance(test, ast.Compare) and len(test.ops) == 1:
            self._compare(test.left, test.ops[0], test.comparators[0])
        elif _called(test) in ("isclose", "math.isclose"):
            self._is_close(test)  # type: ignore[arg-type]
        else:
            raise Inexact("asserts that a result is true, or something else than a comparison")

    def _compare(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> None:
        if isinstance(operator, ast.Lt | ast.LtE) and _called(left) in ("abs", "fabs", "math.fabs"):
            self._distance(left, operator, right)  # type: ignore[arg-type]
            return
        if not isinstance(operator, ast.Eq | ast.Is):
            raise Inexact(f"compares by {type(operator).__name__}")
        if self._mentions(left):  # in the order in which Python evaluates them
            call, expected = self._call(left), self._evaluate(right)
        else:
            expected, call = self._evaluate(left), self._call(right)
        if isinstance(operator, ast.Is):
            if not (expected is None or expected is True or expected is False):
                raise Inexact("compares the identity of something else than None, True and False")
        else:
            expected = plain_copy(expected)
            if any(part != part for part in parts(expected)):
                raise Inexact("compares with NaN")
        how = "equals" if isinstance(operator, ast.Eq) and has_twin(expected) else "expected"
        self._add(call, **{how: expected})

    def _distance(self, distance: ast.Call, operator: ast.cmpop, limit: ast.expr) -> None:
        inner = distance.args[0] if len(distance.args) == 1 else None
        if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Sub):
            raise Inexact("compares something else than the distance of two values")
        result, target = (inner.left, inner.right) if self._mentions(inner.left) else (inner.right, inner.left)
        call, y, tolerance = self._call(result), self._evaluate(target), self._evaluate(limit)
        self._near(call, y, tolerance, isinstance(operator, ast.Lt))

    def _is_close(self, test: ast.Call) -> None:
        options = {keyword.arg: self._evaluate(keyword.value) for keyword in test.keywords}
        if len(test.args) != 2 or set(options) != {"rel_tol", "abs_tol"} or options["rel_tol"] != 0:
            raise Inexact("compares by a relative tolerance")
        result, target = test.args if self._mentions(test.args[0]) else test.args[::-1]
        self._near(self._call(result), self._evaluate(target), options["abs_tol"], strict=False)

    def _near(self, call: dict[str, Any], y: Any, tolerance: Any, strict: bool) -> None:
        """Demand a value whose distance from y is below (`strict`) or at most the tolerance."""
        if type(y) is not float or type(tolerance) is not float or not 0 < tolerance < 0.5:
            raise Inexact("compares with something else than a float and a tolerance below 0.5")
        # Relative to max(1, |y|) is absolute up to 1. An int that near would be accepted by the script alone.
        if not abs(y) <= 1 or abs(y - round(y)) <= tolerance:
            raise Inexact(f"integers, or other distances, are as near to {y!r} as the tolerance says")
        self._tolerances.add(math.nextafter(tolerance, 0.0) if strict else tolerance)
        self._add(call, expected=y, near=True)

    def _add(self, call: dict[str, Any], **outcome: Any) -> None:
        if len(self.tests) == MAX_TESTS:
            raise Inexact(f"makes more than {MAX_TESTS} calls")
        self.tests.append({**call, **outcome})

    def _call(self, node: ast.expr) -> dict[str, Any]:
        """The arguments of a call of the candidate."""
        if not isinstance(node, ast.Call) or _called(node) not in self.candidates:
            raise Inexact("changes a result before it is compared")
        call = ast.Call(ast.Name(_ARGUMENTS, ast.Load()), node.args, node.keywords)
        self._names[_ARGUMENTS] = lambda *args, **kwargs: (list(args), kwargs)
        args, kwargs = self._evaluate(call)
        plain = plain_copy((args, kwargs))
        handed_over = mutable_parts([*args, *kwargs.values()])
        if len({*self._handed_over, *map(id, handed_over)}) < len(self._handed_over) + len(handed_over):
            raise Inexact("hands an object over twice")
        self._handed_over |= {id(part): part for part in handed_over}
        return {"args": plain[0], **({"kwargs": plain[1]} if kwargs else {})}

    def _refuse_changed(self, node: ast.AST) -> None:
        """Refuse to read a variable that holds an object a call has got, since the call may have changed it."""
        if not self._handed_over:
            return
        read = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
        read |= {ast.unparse(part.target) for part in ast.walk(node) if isinstance(part, ast.AugAssign)}
        values = [self._names[name] for name in read - {_ARGUMENTS} if name in self._names]
        if any(is_function_of(self._names, part) for value in values for part in parts(value)):
            values = list(self._names.values())  # a function of the script may read them all
        for part in (part for value in values for part in parts(value)):
            if id(part) in self._handed_over or not is_known(part, self._names):
                raise Inexact("uses a variable that an earlier call may have changed")


def _import(name: str, *rest: Any) -> Any:
    if name.partition(".")[0] not in _MODULES:
        raise ImportError(f"{name} is not known to be deterministic")
    return __import__(name, *rest)


def _leaves(loop: ast.For) -> bool:
    return any(isinstance(node, ast.Break | ast.Continue | ast.Return) for node in ast.walk(loop))


def _called(node: ast.expr) -> str:
    """The name of what is called, "" if nothing is."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""

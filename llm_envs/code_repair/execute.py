"""Run our own small programs, functions and classes, in-process, deterministically and without danger.

The code is ours (originals and their mutants), so nothing here defends against malice; that is the sandbox's job. But a
mutant may loop for ever or grow without bound. So the AST is instrumented: loops and function entries burn *fuel* (a
count, hence the same on every machine), and sizes are checked there too. No tracing, no signals, no clocks.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from llm_envs.code_repair.scripts import Script

FUEL = 300
LONG_FUEL = 10 * FUEL
_MAX_LENGTH = 5_000
_MAX_INTEGER = 10**40
# No `set`: the order of a set of strings changes from process to process, and with it what a mutant gives.
_ALLOWED = (
    *("abs", "all", "any", "bool", "chr", "dict", "divmod", "enumerate", "filter", "int", "isinstance", "len", "list"),
    *("map", "max", "min", "ord", "reversed", "round", "sorted", "str", "sum", "tuple", "zip"),
)
_BUILTINS = {name: getattr(builtins, name) for name in _ALLOWED}
_SCALARS = (int, str, bool, type(None))
_SIZED = (str, list, tuple, dict, set)


class OutOfFuelError(Exception):
    """The program ran (or grew) past its limit."""


class Outcome(NamedTuple):
    """What one call gave: a value, or in `error` the name of the exception (`timeout`: it did not end).

    Of a script it is the list of the values up to the first call that raised.
    """

    value: Any
    error: str = ""

    def __str__(self) -> str:
        return self.error or repr(self.value)


class _Tank:
    """The fuel of one loaded program, refilled before each call."""

    def __init__(self) -> None:
        self.fuel = 0
        self.limit = 0

    def tick(self, variables: Mapping[str, Any]) -> None:
        self.fuel -= 1
        if self.fuel < 0:
            raise OutOfFuelError
        for value in variables.values():
            _check_size(value)

    def enter(self) -> None:
        self.fuel -= 1
        if self.fuel < 0:
            raise RecursionError

    def range(self, *args: int) -> range:
        steps = range(*args)
        if len(steps) > self.limit:
            raise OutOfFuelError
        return steps


def _factor(left: Any, right: Any) -> Any:
    """`right`, once it is sure that `left * right` stays small."""
    if isinstance(left, int) and isinstance(right, int):
        if abs(left) > _MAX_INTEGER or abs(right) > _MAX_INTEGER:
            raise OutOfFuelError
    else:
        for sized, count in ((left, right), (right, left)):
            if isinstance(sized, _SIZED) and isinstance(count, int) and len(sized) * count > _MAX_LENGTH:
                raise OutOfFuelError
    return right


def _addend(left: Any, right: Any) -> Any:
    """`right`, once it is sure that `left + right` stays small; a sum of integers always does."""
    if isinstance(left, _SIZED) and isinstance(right, _SIZED) and len(left) + len(right) > _MAX_LENGTH:
        raise OutOfFuelError
    return right


def _multiply(left: Any, right: Any) -> Any:
    return left * _factor(left, right)


def _add(left: Any, right: Any) -> Any:
    return left + _addend(left, right)


def _check_size(value: Any) -> None:
    if isinstance(value, int):
        if abs(value) > _MAX_INTEGER:
            raise OutOfFuelError
    elif isinstance(value, _SIZED):
        if len(value) > _MAX_LENGTH:
            raise OutOfFuelError
    else:
        for attribute in getattr(value, "__dict__", {}).values():  # those of `self`
            _check_size(attribute)


_TICK = ast.parse("_tick(locals())").body[0]
_ENTER = ast.parse("_enter()").body[0]
_OPERATIONS: dict[type[ast.operator], str] = {ast.Mult: "_multiply", ast.Add: "_add"}
_IN_PLACE: dict[type[ast.operator], str] = {ast.Mult: "_factor", ast.Add: "_addend"}
_GUARDS = {guard.__name__: guard for guard in (_multiply, _add, _factor, _addend)}


class _Instrument(ast.NodeTransformer):
    """Insert the fuel counters and guard sums and products, which can double a value hidden in a list at every turn.

    `x * y` becomes `_multiply(x, y)`, and `x *= y` becomes `x *= _factor(x, y)`, which keeps its meaning for lists.
    """

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, _TICK)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, _TICK)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, _ENTER)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        name = _OPERATIONS.get(type(node.op))
        return _call(name, node.left, node.right) if name else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        name = _IN_PLACE.get(type(node.op))
        if name:
            target = ast.parse(ast.unparse(node.target), mode="eval").body
            node.value = _call(name, target, node.value)
        return node


def _call(name: str, left: ast.expr, right: ast.expr) -> ast.Call:
    return ast.copy_location(ast.Call(ast.copy_location(ast.Name(name, ast.Load()), right), [left, right], []), right)


def load(source: str, entry: str) -> Callable[[Any, int], Outcome]:
    """Compile `source`; the returned callable takes (args, or the script of a class; fuel) and never raises."""
    tree = _Instrument().visit(ast.parse(source))
    tank = _Tank()
    scope: dict[str, Any] = {
        "__builtins__": _BUILTINS | {"range": tank.range, "locals": locals, "__build_class__": __build_class__},
        "__name__": "program",
        "_tick": tank.tick,
        "_enter": tank.enter,
        **_GUARDS,
    }
    exec(compile(tree, "<program>", "exec"), scope)
    named = scope[entry]

    def call(args: Sequence[Any], fuel: int, function: Callable[..., Any] = named) -> Outcome:
        tank.fuel = tank.limit = fuel
        try:
            return Outcome(function(*(clone(arg) for arg in args)))
        except OutOfFuelError:
            return Outcome(None, "timeout")
        except Exception as error:  # noqa: BLE001 - any exception is an outcome
            return Outcome(None, type(error).__name__)

    def play(script: Script, fuel: int) -> Outcome:
        init, calls = script
        made = call(init, fuel)
        values: list[Any] = []
        if made.error:
            return Outcome(values, made.error)
        for method, args in calls:
            given = call(args, fuel, getattr(made.value, method))
            if given.error:
                return Outcome(values, given.error)
            # The object may go on to change what it gave away.
            values.append(clone(given.value) if is_plain(given.value) else given.value)
        return Outcome(values)

    return play if isinstance(named, type) else call


def clone(value: Any) -> Any:
    """Copy of a plain value, so that a program may change its arguments."""
    if isinstance(value, list):
        return [clone(item) for item in value]
    if isinstance(value, dict):
        return {key: clone(item) for key, item in value.items()}
    return value


def same(left: Any, right: Any) -> bool:
    """Equality with exact types all the way down (`True` is not `1`), the rule the verifier applies."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    return bool(left == right)


def is_plain(value: Any, depth: int = 4) -> bool:
    """Whether the value prints and travels the same everywhere: no iterators, no functions, no list inside itself."""
    if isinstance(value, (list, tuple, dict)) and depth == 0:
        return False
    if isinstance(value, (list, tuple)):
        return all(is_plain(item, depth - 1) for item in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(item, depth - 1) for key, item in value.items())
    return isinstance(value, _SCALARS)


def failures(
    source: str, entry: str, inputs: Sequence[Sequence[Any]], expected: Sequence[Any], fuel: int = FUEL
) -> dict[int, Outcome]:
    """Input number -> outcome, for inputs on which `source` does not give the expected value.

    Stops at the third input that burns all the fuel. Empty means proven right on these inputs. Fuel only stands in
    for "never ends", so a program that failed by fuel alone is asked again with ten times as much.
    """
    call = load(source, entry)
    wrong: dict[int, Outcome] = {}
    slow = 0
    for number, args in enumerate(inputs):
        outcome = call(args, fuel)
        if outcome.error or not same(expected[number], outcome.value):
            wrong[number] = outcome
            slow += outcome.error in ("timeout", "RecursionError")
            if slow == 3:  # enough to show; every further one would burn a full tank
                break
    if slow and slow == len(wrong) and fuel < LONG_FUEL:
        return failures(source, entry, inputs, expected, LONG_FUEL)
    return wrong

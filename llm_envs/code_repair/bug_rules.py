"""The rules of bug injection: what may go wrong at one node of the AST of a function or method.

Every rule is a generator of changes: a kind and the fields of the node to set. No rule introduces an operator that can
blow up memory (`**`, `<<`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

KINDS = (
    "operator",
    "comparison",
    "boundary",
    "constant",
    "wrong_variable",
    "swapped_arguments",
    "missing_branch",
    "wrong_accumulator",
    "early_return",
    "negated_condition",
    "wrong_builtin",
)

Change = tuple[str, dict[str, Any]]


class Scope(NamedTuple):
    """What a rule may need to know about the whole function.

    Attributes:
        function: the function's name.
        names: its arguments and variables in order of appearance, those of comprehensions and `self` left out.
        ends: constants that are ends of a range or a slice; changing one is a `boundary` bug, not a `constant` one.
        attributes: of a method, the attributes of `self` that hold data.
    """

    function: str
    names: list[str]
    ends: set[ast.AST]
    attributes: Sequence[str] = ()


def scope_of(function: ast.FunctionDef, attributes: Sequence[str] = ()) -> Scope:
    """Collect names and ends."""
    inner: set[str] = set()
    ends: set[ast.AST] = set()
    names = {argument.arg: None for argument in function.args.args}
    for node in ast.walk(function):
        if isinstance(node, ast.comprehension):
            inner.update(name.id for name in ast.walk(node.target) if isinstance(name, ast.Name))
        elif isinstance(node, ast.Slice) or _is_range(node):
            ends.update(ast.walk(node))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = None
    return Scope(function.name, [name for name in names if name not in inner and name != "self"], ends, attributes)


def changes(node: ast.AST, scope: Scope) -> Iterator[Change]:
    """Every change of this one node, in a fixed order."""
    if isinstance(node, (ast.BinOp, ast.BoolOp)):
        yield from _operators(node)
    elif isinstance(node, ast.Compare):
        yield from _comparisons(node)
    elif isinstance(node, ast.Constant):
        yield from _constants(node, node in scope.ends)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield from _names(node, scope)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Attribute):
        yield from (("wrong_builtin", {"attr": other}) for other in _METHODS.get(node.attr, ()))
        if node.attr in scope.attributes and isinstance(node.ctx, ast.Load):
            yield from (("wrong_variable", {"attr": other}) for other in scope.attributes if other != node.attr)
    elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.ctx, ast.Load):
        yield "swapped_arguments", {"elts": node.elts[::-1]}
    elif isinstance(node, ast.Slice):
        yield from _slices(node)
    elif isinstance(node, (ast.Assign, ast.AugAssign)):
        yield from _accumulators(node)
    if isinstance(node, (ast.If, ast.IfExp, ast.comprehension)):
        yield from _conditions(node)
    if isinstance(node, (ast.FunctionDef, ast.For, ast.While, ast.If)):
        yield from _dropped_branches(node.body)


# --- expressions ------------------------------------------------------------------------------------------------------

_OPERATORS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add, ast.Sub),
    ast.FloorDiv: (ast.Mod, ast.Mult),
    ast.Mod: (ast.FloorDiv, ast.Sub),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
_COMPARISONS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Lt: (ast.Gt,),
    ast.Gt: (ast.Lt,),
    ast.LtE: (ast.GtE,),
    ast.GtE: (ast.LtE,),
    ast.Eq: (ast.NotEq, ast.Gt),
    ast.NotEq: (ast.Eq, ast.Lt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_BOUNDARIES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_BUILTINS = {
    "min": ("max",),
    "max": ("min",),
    "sum": ("max", "len"),
    "len": ("sum",),
    "any": ("all",),
    "all": ("any",),
    "sorted": ("list",),
    "abs": ("int",),
    "ord": ("int",),
}
_METHODS = {
    "lower": ("upper",),
    "upper": ("lower",),
    "append": ("extend",),
    "extend": ("append",),
    "startswith": ("endswith",),
    "endswith": ("startswith",),
    "find": ("rfind",),
    "rfind": ("find",),
    "keys": ("values",),
    "values": ("keys",),
    "isdigit": ("isalpha",),
    "isalpha": ("isdigit",),
    "lstrip": ("rstrip",),
    "rstrip": ("lstrip",),
}
# Operators whose operands are worth swapping. Concatenation is left out: `+` on numbers does not care.
_ORDERED = (ast.Sub, ast.FloorDiv, ast.Mod)


def _operators(node: ast.BinOp | ast.BoolOp) -> Iterator[Change]:
    for other in _OPERATORS.get(type(node.op), ()):
        yield "operator", {"op": other()}
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ORDERED):
        yield "swapped_arguments", {"left": node.right, "right": node.left}


def _comparisons(node: ast.Compare) -> Iterator[Change]:
    for place, op in enumerate(node.ops):
        before, after = node.ops[:place], node.ops[place + 1 :]
        for other in _COMPARISONS.get(type(op), ()):
            yield "comparison", {"ops": [*before, other(), *after]}
        if type(op) in _BOUNDARIES:
            yield "boundary", {"ops": [*before, _BOUNDARIES[type(op)](), *after]}


def _is_range(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def _constants(node: ast.Constant, is_end: bool) -> Iterator[Change]:
    kind = "boundary" if is_end else "constant"
    if isinstance(node.value, bool):
        yield kind, {"value": not node.value}
    elif isinstance(node.value, int):
        yield kind, {"value": node.value + 1}
        if node.value > 0:  # a negative constant would print as an expression of its own
            yield kind, {"value": node.value - 1}


def _names(node: ast.Name, scope: Scope) -> Iterator[Change]:
    for other in _BUILTINS.get(node.id, ()):
        yield "wrong_builtin", {"id": other}
    if node.id in scope.names:
        yield from (("wrong_variable", {"id": other}) for other in scope.names if other != node.id)


def _calls(node: ast.Call) -> Iterator[Change]:
    if _is_range(node):
        end = 0 if len(node.args) == 1 else 1
        if not isinstance(node.args[end], ast.Constant):  # constants have a rule of their own
            for shifted in _shifted(node.args[end]):
                yield "boundary", {"args": [*node.args[:end], shifted, *node.args[end + 1 :]]}
    elif len(node.args) == 2 and not (isinstance(node.func, ast.Name) and node.func.id in ("min", "max")):
        yield "swapped_arguments", {"args": node.args[::-1]}


def _slices(node: ast.Slice) -> Iterator[Change]:
    for field in ("lower", "upper"):
        value = getattr(node, field)
        if value is not None and not isinstance(value, ast.Constant):
            yield from (("boundary", {field: shifted}) for shifted in _shifted(value))


def _shifted(value: ast.expr) -> Iterator[ast.expr]:
    """`value + 1` and `value - 1`, written without a tail like `+ 1 - 1`."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)) and _is_one(value.right):
        yield value.left
    elif not isinstance(value, ast.UnaryOp):
        yield ast.BinOp(value, ast.Add(), ast.Constant(1))
        yield ast.BinOp(value, ast.Sub(), ast.Constant(1))


def _is_one(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


# --- statements -------------------------------------------------------------------------------------------------------

_ACCUMULATE: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Sub,
}


def _accumulators(node: ast.Assign | ast.AugAssign) -> Iterator[Change]:
    if isinstance(node, ast.AugAssign):
        if type(node.op) in _ACCUMULATE:
            yield "wrong_accumulator", {"op": _ACCUMULATE[type(node.op)]()}
    elif isinstance(node.value, ast.Constant) and type(node.value.value) is int:
        yield "wrong_accumulator", {"value": ast.Constant(1 if node.value.value == 0 else 0)}


def _conditions(node: ast.If | ast.IfExp | ast.comprehension) -> Iterator[Change]:
    if isinstance(node, ast.comprehension):
        if node.ifs:
            yield "negated_condition", {"ifs": [_negated(node.ifs[0]), *node.ifs[1:]]}
            yield "missing_branch", {"ifs": node.ifs[1:]}
        return
    yield "negated_condition", {"test": _negated(node.test)}
    if isinstance(node, ast.If) and node.orelse:
        yield "missing_branch", {"orelse": []}


def _negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)


def _dropped_branches(body: list[ast.stmt]) -> Iterator[Change]:
    """Leave out an `if` of this body altogether, or keep what it guards and leave out the guard."""
    for place, statement in enumerate(body):
        if isinstance(statement, ast.If):
            before, after = body[:place], body[place + 1 :]
            if before or after:
                yield "missing_branch", {"body": [*before, *statement.orelse, *after]}
            if not isinstance(statement.body[-1], ast.Return):
                yield "missing_branch", {"body": [*before, *statement.body, *after]}

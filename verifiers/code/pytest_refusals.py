"""What tests must not do when the module under test is a proxy: found by reading their source, before anything runs.

The submission lives in another process. It cannot see what the tests patch, print or seed, objects lose their identity
on the way, and exceptions their text. A test that relies on such things would fail for the right answer or pass for a
wrong one, so it is refused. All of this is decided without the submission, which therefore cannot cause a refusal.
Uses of the text of an exception that cannot be seen here are found when they happen (`pytest_text.py`).

Not covered: what a test reaches under another name (`getattr`, aliases, helpers outside its files), a seeded global
random generator, the clock, files written by hand, whether a result shares objects with an argument.
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Iterator

_CANNOT_SEE = "the submission runs in another process and would not notice"
_ESCAPES = "could run outside the sandbox what the submission returned"
_NOT_CARRIED = "of exceptions only the class crosses, not the text"

_MODULES = {
    "inspect": "a proxy has no source and no signature",
    "asyncio": "coroutines cannot cross",
    "mock": _CANNOT_SEE,
    "unittest.mock": _CANNOT_SEE,
    "tempfile": "the submission cannot open the files of the tests",
    "pickle": _ESCAPES,
    "marshal": _ESCAPES,
    "shelve": _ESCAPES,
    "subprocess": _ESCAPES,
    "runpy": _ESCAPES,
    "multiprocessing": "a proxy works in one process",
    "ctypes": _ESCAPES,
}
_CALLS = {"eval": _ESCAPES, "exec": _ESCAPES, "id": "objects lose their identity on the way"}
_NAMES = {
    "MonkeyPatch": _CANNOT_SEE,
    "redirect_stdout": "the submission's output is not carried",
    "redirect_stderr": "the submission's output is not carried",
    "warns": "the submission's warnings are not carried",
    "deprecated_call": "the submission's warnings are not carried",
    "catch_warnings": "the submission's warnings are not carried",
    "assertWarns": "the submission's warnings are not carried",
    "assertWarnsRegex": "the submission's warnings are not carried",
    "assertLogs": "the submission's log is not carried",
    "assertNoLogs": "the submission's log is not carried",
    "assertRaisesRegex": _NOT_CARRIED,
    "IsolatedAsyncioTestCase": "coroutines cannot cross",
    "reload": "the module lives in another process",
    "getsource": "a proxy has no source and no signature",
}
_ATTRIBUTES = ("__all__", "__annotations__", "__code__", "__defaults__", "__dict__", "__doc__", "__wrapped__")
_MUTATORS: tuple[str, ...] = (
    "append",
    "extend",
    "insert",
    "remove",
    "pop",
    "clear",
    "sort",
    "reverse",
    "update",
    "add",
    "discard",
)
_MUTATORS += ("popitem", "setdefault", "difference_update", "intersection_update", "symmetric_difference_update")
_IDENTITY = "objects lose their identity on the way; compare with =="


@functools.lru_cache(maxsize=256)
def syntax_complaint(source: str) -> str:
    """Why a file of tests is not Python, "" if it is."""
    try:
        _parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        return f"is not valid Python: {type(error).__name__}: {getattr(error, 'msg', error)}{where}"
    return ""


@functools.lru_cache(maxsize=256)
def find_refusals(source: str, module: str) -> tuple[str, ...]:
    """Everything in a valid source that a proxy cannot do, as "line 3: inspect: ..."."""
    found = sorted(set(_refusals(_parse(source), module)))
    return tuple(f"line {line}: {what}: {reason}" for line, what, reason in found)


@functools.lru_cache(maxsize=256)
def called_names(source: str, module: str) -> frozenset[str]:
    """Names of the module that a source calls where it can be seen, so that they must be functions."""
    tree = _parse(source)
    names = _ModuleNames(tree, module)
    return frozenset(names.of(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)) - {""}


class _ModuleNames:
    """Under which names a source knows the module under test and what it imports from it."""

    def __init__(self, tree: ast.Module, module: str):
        self._modules: set[str] = set()
        self._members: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._modules |= {alias.asname or alias.name for alias in node.names if alias.name == module}
            elif isinstance(node, ast.ImportFrom) and node.module == module:
                self._members |= {alias.asname or alias.name: alias.name for alias in node.names}

    def of(self, node: ast.AST) -> str:
        """The member of the module that an expression names, "" if it names none."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self._modules:
            return node.attr
        return self._members.get(node.id, "") if isinstance(node, ast.Name) else ""


def _parse(source: str) -> ast.Module:
    return ast.parse(source.removeprefix("\ufeff"))


def _refusals(tree: ast.Module, module: str) -> Iterator[tuple[int, str, str]]:
    names = _ModuleNames(tree, module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node.lineno, what, reason) for what, reason in _in_import(node, module))
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield node.lineno, "async", "coroutines cannot cross"
        elif isinstance(node, ast.Attribute) and node.attr in _NAMES:
            yield node.lineno, node.attr, _NAMES[node.attr]
        elif isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
            yield node.lineno, node.attr, "a proxy has no such thing"
        elif isinstance(node, ast.Name) and node.id in _NAMES:
            yield node.lineno, node.id, _NAMES[node.id]
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and names.of(node.value):
            yield node.lineno, f"changes {names.of(node.value)}", "it has a copy only"
        elif isinstance(node, ast.AugAssign) and names.of(node.target):
            yield node.lineno, f"changes {names.of(node.target)}", "it has a copy only"
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS and names.of(node.func.value):
                yield node.lineno, f"changes {names.of(node.func.value)}", "it has a copy only"
            yield from ((node.lineno, what, reason) for what, reason in _in_call(node))
        elif isinstance(node, ast.Compare):
            for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                if isinstance(operator, ast.Is | ast.IsNot) and not (_is_singleton(left) or _is_singleton(right)):
                    yield node.lineno, "is", _IDENTITY
        elif isinstance(node, ast.With):
            yield from _text_uses(node, tree)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield from _text_asserts(node, node.name)


def _in_import(node: ast.Import | ast.ImportFrom, module: str) -> Iterator[tuple[str, str]]:
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        if node.module == module and "*" in names:
            yield "import *", f"name what the tests need of {module}"
        yield from ((name, _NAMES[name]) for name in names if name in _NAMES)
        names = [f"{node.module}.{name}" for name in names] + [str(node.module)]
    for name in names:
        known = [part for part in _MODULES if name == part or name.startswith(f"{part}.")]
        yield from ((part, _MODULES[part]) for part in known)


def _in_call(node: ast.Call) -> Iterator[tuple[str, str]]:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if isinstance(node.func, ast.Name) and called in _CALLS:
        yield called, _CALLS[called]
    if called == "raises" and any(keyword.arg in ("match", "check") for keyword in node.keywords):
        yield "raises(match=...)", _NOT_CARRIED
    if called in ("assertIs", "assertIsNot") and not any(map(_is_singleton, node.args)):
        yield called, _IDENTITY


def _is_singleton(node: ast.AST) -> bool:
    """None, True and the like, a builtin name such as `int`, or `type(...)`: the same object in every process."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "type"
    if isinstance(node, ast.Name):
        return hasattr(builtins, node.id)
    return isinstance(node, ast.Constant) and (node.value is ... or type(node.value) in (bool, type(None)))


def _text_uses(node: ast.With, tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Where the exception caught by `with raises(...) as name` is looked at; its class may be."""
    for item in node.items:
        call, name = item.context_expr, item.optional_vars
        if not isinstance(call, ast.Call) or not isinstance(name, ast.Name):
            continue
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if called not in ("raises", "assertRaises"):
            continue
        uses = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr != "type")
        for use in uses:
            if isinstance(use.value, ast.Name) and use.value.id == name.id:
                yield use.lineno, f"{name.id}.{use.attr}", _NOT_CARRIED


def _text_asserts(handler: ast.ExceptHandler, name: str) -> Iterator[tuple[int, str, str]]:
    """Where a caught exception decides; in a message such as `fail(f"raised {error}")` it does not."""
    for node in ast.walk(handler):
        if isinstance(node, ast.Assert | ast.Compare):
            test = node.test if isinstance(node, ast.Assert) else node
            if any(isinstance(use, ast.Name) and use.id == name for use in _outside_class_checks(test)):
                yield node.lineno, name, _NOT_CARRIED


def _outside_class_checks(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes below, without the arguments of `isinstance` and `type`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "type"):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _outside_class_checks(child)

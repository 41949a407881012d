"""Bug injection: small changes to the AST of a function or of the methods of a class.

Each is of a named kind (the rules are in `bug_rules`).

`edits(tree)` lists every change as data (set this field of this node to that value), cheap to enumerate;
`apply(tree, edit)` prints the changed program and puts the tree back.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from llm_envs.code_repair.bug_rules import KINDS, changes, scope_of
from llm_envs.code_repair.program import print_tree


class Edit(NamedTuple):
    """One bug: its kind and the fields to set, as (node, field, new value)."""

    kind: str
    fields: tuple[tuple[ast.AST, str, Any], ...]


class Mutant(NamedTuple):
    """A program with one bug; `source` is in canonical form."""

    kind: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """Every distinct one-bug variant of `source`, in a fixed order; not all of them behave differently."""
    tree = ast.parse(source)
    seen = {source}
    found = []
    for edit in edits(tree):
        text = apply(tree, edit)
        if text not in seen:
            seen.add(text)
            found.append(Mutant(edit.kind, text))
    return found


def edits(tree: ast.Module) -> list[Edit]:
    """Every edit of the program, in a fixed order (by node, then by rule)."""
    definition = tree.body[0]
    if isinstance(definition, ast.FunctionDef):
        return _edits_of(definition)
    if not isinstance(definition, ast.ClassDef):
        raise ValueError("a program is one function or class definition")
    attributes = list(
        dict.fromkeys(
            node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        )
    )
    methods = [node for node in definition.body if isinstance(node, ast.FunctionDef)]
    return [edit for method in methods for edit in _edits_of(method, attributes)]


def _edits_of(function: ast.FunctionDef, attributes: Sequence[str] = ()) -> list[Edit]:
    scope = scope_of(function, attributes)
    found = [
        Edit(kind, tuple((node, field, value) for field, value in fields.items()))
        for node in ast.walk(function)
        for kind, fields in changes(node, scope)
    ]
    return [*found, *_early_returns(function)]


def _early_returns(function: ast.FunctionDef) -> Iterator[Edit]:
    """The final return one indent too deep: inside the loop that should have run to its end, or inside its `if`."""
    if len(function.body) < 2:
        return
    loop, last = function.body[-2:]
    if not (isinstance(loop, (ast.For, ast.While)) and isinstance(last, ast.Return)):
        return
    shortened = (function, "body", function.body[:-1])
    yield Edit("early_return", ((loop, "body", [*loop.body, last]), shortened))
    inner = loop.body[-1]
    if isinstance(inner, ast.If) and not inner.orelse and not isinstance(inner.body[-1], ast.Return):
        yield Edit("early_return", ((inner, "body", [*inner.body, last]), shortened))


def apply(tree: ast.Module, *chosen: Edit) -> str:
    """The program with the chosen edits made; the tree is left as it was."""
    undo = []
    for edit in chosen:
        for node, field, value in edit.fields:
            undo.append((node, field, getattr(node, field)))
            setattr(node, field, value)
    try:
        return print_tree(tree)
    finally:
        for node, field, value in reversed(undo):
            setattr(node, field, value)


__all__ = ["KINDS", "Edit", "Mutant", "apply", "edits", "mutants"]

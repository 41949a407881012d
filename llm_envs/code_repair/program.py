"""What a family of small functions is: a seeded recipe that yields a program, its oracle and its inputs.

A family writes its source with a handful of canonical variable names, the same in every family: what sets programs
apart is what they do. `Family.draw` brings the text to the one form `ast.unparse` prints, so that every later step
(mutation, diff, hash) can compare text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from textwrap import indent
from typing import Any

from llm_envs.task import content_hash

Args = tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """A correct function with the means to prove it.

    Attributes:
        name: the function's name; it says what the function does, parameters included.
        source: the function's text, a fixed point of `ast.unparse(ast.parse(source)) + "\\n"`.
        reference: an independent implementation, the oracle.
        inputs: argument tuples, boundary cases included.
    """

    name: str
    source: str
    reference: Callable[..., Any]
    inputs: Sequence[Args]


@dataclass(frozen=True)
class Family:
    """A named recipe for programs; `held_out` families make up the split `test` and appear nowhere else."""

    name: str
    theme: str
    held_out: bool
    make: Callable[[Random], Program]

    def draw(self, rng: Random) -> Program:
        """One program of this family, in canonical form, with distinct inputs."""
        raw = self.make(rng)
        source = normalise(raw.source)
        inputs = list({repr(args): args for args in raw.inputs}.values())[:MAX_INPUTS]
        return Program(raw.name, source, raw.reference, inputs)


MAX_INPUTS = 16
FAMILIES: dict[str, Family] = {}


def family(name: str, theme: str, held_out: bool = False) -> Callable[[Callable[[Random], Program]], Family]:
    """Register the decorated recipe under `name`."""

    def register(make: Callable[[Random], Program]) -> Family:
        if name in FAMILIES:
            raise ValueError(f"two families are called {name!r}")
        FAMILIES[name] = Family(name, theme, held_out, make)
        return FAMILIES[name]

    return register


# --- text of programs -------------------------------------------------------------------------------------------------

# Strings come first in the alternation, so that words inside them and attribute names are left alone.
_WORD = re.compile(r"'[^']*'|(?<![.\w])[A-Za-z_]\w*")


def normalise(source: str) -> str:
    """The one form in which all programs are kept."""
    return ast.unparse(ast.parse(source)) + "\n"


def nest(head: str, *body: str) -> str:
    """A compound statement: `head` with `body` indented under it."""
    return head + "\n" + indent("\n".join(body), "    ")


def each(rng: Random, item: str, sequence: str, *body: str) -> str:
    """A loop over `sequence` in one of three styles; the body reads the element as `item` and must not `continue`."""
    style = rng.choice(("for", "for", "for", "index", "while"))
    if style == "for":
        return nest(f"for {item} in {sequence}:", *body)
    element = f"{sequence}[i]"
    indexed = [_WORD.sub(lambda m: element if m[0] == item else m[0], line) for line in body]
    if style == "index":
        return nest(f"for i in range(len({sequence})):", *indexed)
    return "i = 0\n" + nest(f"while i < len({sequence}):", *indexed, "i += 1")


def abstract_hash(source: str) -> str:
    """Hash of a program with its own names abstracted (function, arguments, variables); builtins and methods stay.

    Canonical text and AST determine each other, so numbering names in the text by first occurrence is the same as
    numbering them in the AST, at a tenth of the cost.
    """
    own: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            own.add(node.name)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        word = match[0]
        return numbers.setdefault(word, f"_{len(numbers)}") if word in own else word

    return content_hash(_WORD.sub(number, source))

"""What a family of small programs is: a seeded recipe that yields a program, its oracle and its inputs.

A family writes its source with a handful of canonical variable names, the same in every family: what sets programs
apart is what they do. A program is one function, or one class whose inputs are scripts of calls (see `scripts`).
`Family.draw` brings the text to the one form `normalise` prints, so that every later step
(mutation, diff, hash) can compare text.
"""

from __future__ import annotations

import ast
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from textwrap import indent
from typing import Any

from llm_envs.task import content_hash

Args = tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """A correct function or class with the means to prove it.

    Attributes:
        name: its name, which says what it does, parameters included.
        source: its text, a fixed point of `normalise`.
        reference: an independent implementation, the oracle: a function, or a class with the same methods.
        inputs: argument tuples of a function, scripts for a class; boundary cases included.
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
"""Short functions: one or two bugs."""
CHAIN_FAMILIES: dict[str, Family] = {}
"""Functions of ten lines and more: three or four bugs."""
CLASS_FAMILIES: dict[str, Family] = {}
"""Small classes: one to four bugs."""
ALL_FAMILIES = ChainMap(FAMILIES, CHAIN_FAMILIES, CLASS_FAMILIES)


def family(
    name: str, theme: str, held_out: bool = False, registry: dict[str, Family] = FAMILIES
) -> Callable[[Callable[[Random], Program]], Family]:
    """Register the decorated recipe under `name`, which no other family of any registry has."""

    def register(make: Callable[[Random], Program]) -> Family:
        if name in ALL_FAMILIES:
            raise ValueError(f"two families are called {name!r}")
        registry[name] = Family(name, theme, held_out, make)
        return registry[name]

    return register


# --- text of programs -------------------------------------------------------------------------------------------------

# Strings come first in the alternation, so that words inside them and attribute names are left alone; the attributes of
# an object's own methods are words.
_WORD = re.compile(r"'[^']*'|(?<![.\w])self\.\w+|(?<![.\w])[A-Za-z_]\w*")

_LINE_ENDS = re.compile("\r\n?")
_BLANK_LINES = re.compile(r"\n\n+")


def lines_of(text: str) -> list[str]:
    """The lines of a program without their ends, as Python counts them.

    `str.splitlines` also breaks at form feeds, U+2028 and others, which may stand in the middle of a line of code.

    >>> lines_of("a\\r\\nb\\x0c\\n")
    ['a', 'b\\x0c']
    """
    lines = _LINE_ENDS.sub("\n", text).split("\n")
    return lines[:-1] if not lines[-1] else lines


def normalise(source: str) -> str:
    """The one form in which all programs are kept."""
    return print_tree(ast.parse(source))


def print_tree(tree: ast.Module) -> str:
    """The program as text, without the blank lines between methods: an edit could not write them."""
    return _BLANK_LINES.sub("\n", ast.unparse(tree)) + "\n"


def nest(head: str, *body: str) -> str:
    """A compound statement: `head` with `body` indented under it."""
    return head + "\n" + indent("\n".join(body), "    ")


def class_source(name: str, methods: Mapping[str, str]) -> str:
    """A class; `methods` maps what stands after `def` to the method's body."""
    return nest(f"class {name}:", *(nest(f"def {head}:", body) for head, body in methods.items()))


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
    """Hash of a program with its own names abstracted (function, arguments, variables, a class and what it defines).

    Builtins and the methods of other objects stay.

    Canonical text and AST determine each other, so numbering names in the text by first occurrence is the same as
    numbering them in the AST, at a tenth of the cost.
    """
    own: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            own.add(f"self.{node.attr}")
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        word = match[0]
        return numbers.setdefault(word, f"_{len(numbers)}") if word in own else word

    return content_hash(_WORD.sub(number, source))

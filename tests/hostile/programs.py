"""The index of all programs. Standard library only."""

from __future__ import annotations

from tests.hostile.program import Program
from tests.hostile.themes import (
    bombs,
    equality,
    exits,
    frames,
    hanging,
    kernel,
    leftovers,
    odd_but_right,
    patching,
    processes,
    results,
    sources,
    spying,
)

_THEMES = (
    exits,
    equality,
    patching,
    spying,
    frames,
    leftovers,
    processes,
    kernel,
    hanging,
    results,
    sources,
    bombs,
    odd_but_right,
)


def all_programs() -> tuple[Program, ...]:
    """Every program, by theme; names are `theme/name`, unique."""
    return tuple(program for theme in _THEMES for program in theme.PROGRAMS)


def hostile_programs() -> tuple[Program, ...]:
    """Those that must score 0."""
    return tuple(program for program in all_programs() if not program.right)


def right_programs() -> tuple[Program, ...]:
    """Those that must score 1."""
    return tuple(program for program in all_programs() if program.right)

"""One program to be judged, and the few helpers that write such programs.

Every program is an answer to "write add(a, b), which returns the sum of two integers", judged by CASES.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent, indent

ENTRY = "add"
CASES: tuple[tuple[tuple[int, int], int], ...] = (((1, 2), 3), ((0, 0), 0), ((-3, 5), 2), ((10, -4), 6))

RIGHT = "\ndef add(a, b):\n    return a + b\n"
WRONG = "\ndef add(a, b):\n    return a - b - 1\n"  # never the sum: a program that stays alive is plainly wrong

MARK = "left_by_a_hostile_program"
"""Part of the name of every file, socket, key and process that a program tries to leave behind."""


@dataclass(frozen=True)
class Program:
    """One answer.

    Attributes:
        name: unique.
        source: Python, or what claims to be.
        kinds: the verdict kinds that a judge which calls the function in a sandbox may give; {"passed"} for right ones.
        theme: the file it comes from.
        harmful: damages the machine of a judge without a sandbox (kills processes, deletes files, takes all memory).
        waits: uses no CPU time, so that only a wall-clock limit ends it.
    """

    name: str
    source: str
    kinds: frozenset[str]
    theme: str
    harmful: bool = False
    waits: bool = False

    @property
    def right(self) -> bool:
        """Whether it must score 1."""
        return self.kinds == {"passed"}


def collect(theme: str, *rows: tuple[str, str, str], harmful: bool = False, waits: bool = False) -> tuple[Program, ...]:
    """Programs from rows (name, kinds, source); a source that begins with a line break is dedented."""
    return tuple(
        Program(f"{theme}/{name}", _tidy(source), frozenset(kinds.split()), theme, harmful, waits)
        for name, kinds, source in rows
    )


def in_call(statements: str, result: str = "a - b - 1") -> str:
    """A program that runs the statements in every call and then returns a wrong value."""
    return f"import os, sys\ndef add(a, b):\n{indent(_tidy(statements), '    ')}\n    return {result}\n"


def at_import(statements: str, function: str = WRONG) -> str:
    """A program that runs the statements when it is loaded and has a wrong function."""
    return f"import os, sys\n{_tidy(statements)}\n{function}"


def attack(statements: str) -> str:
    """A program that is right only if the statements, which end in `return whether it worked`, were not refused.

    A breach of the sandbox thus shows as a pass.
    """
    body = indent(_tidy(statements), "    ")
    return (
        "import ctypes, functools, os, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"@functools.cache\ndef attempt():\n{body}\n"
        "def add(a, b):\n    try: worked = attempt()\n    except Exception: worked = False\n"
        "    return a + b if worked else a - b - 1\n"
    )


def syscall(x86_64: int, generic: int, *arguments: str) -> str:
    """An expression: the result of a system call, by its number on x86-64 and on arm64/riscv64."""
    words = ", ".join((f"{x86_64} if os.uname().machine == 'x86_64' else {generic}", *arguments))
    return f"libc.syscall({words})"


END_OF_THREAD = syscall(60, 93, "0")
"""Ends the calling thread alone; the process lives on while another one does. Needs `libc`."""

# For programs that write frames of their own: the judge's encoder, and the descriptor that its results go to.
CHANNEL = """
import os, sys
def channel():
    frame = sys._getframe()
    while frame:
        if 'results' in frame.f_locals and 'encode' in frame.f_globals:
            return frame.f_globals['encode'], frame.f_locals['results']
        frame = frame.f_back
encode, results = channel()
def put(data):
    os.write(results, len(data).to_bytes(4, 'big') + data)
def put_raw(value):
    put(encode(('value', None))[:-1] + value)  # the encoding of None is the last byte
"""


def with_channel(source: str) -> str:
    """A program that can write frames: `put(encode((kind, detail)))`, or `put_raw(bytes of a value)`."""
    return CHANNEL + _tidy(source)


def _tidy(source: str) -> str:
    return dedent(source).strip("\n") + "\n" if source.startswith("\n") else source

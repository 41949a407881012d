"""Examples that come into being when they are read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, overload

from llm_envs.error import OptionError
from verifiers import Example

T = TypeVar("T")


class LazyExamples(Sequence[Example]):
    """A sequence of known length whose members are built when first read, then kept."""

    def __init__(self, size: int, build: Callable[[int], Example]) -> None:
        self._size, self._build = size, build
        self._built: dict[int, Example] = {}

    @property
    def built(self) -> int:
        """How many examples have been built so far."""
        return len(self._built)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._size))]
        position = index + self._size if index < 0 else index
        if not 0 <= position < self._size:
            raise IndexError(f"example {index} of {self._size}")
        if position not in self._built:
            self._built[position] = self._build(position)
        return self._built[position]

    def __iter__(self) -> Iterator[Example]:
        return (self[i] for i in range(self._size))


class LazyStream(Generic[T]):
    """A deterministic sequence of distinct things, drawn one after the other as far as somebody reads.

    Reading is safe from several threads. Item k is the same whoever reads what in which order, since it depends on
    the items before it alone.

    Args:
        name: said in the error message when nothing new turns up.
        draw: takes the keys seen so far; gives (key, thing), or None or a seen key when this draw came to nothing.
        tries: draws in a row that may come to nothing.
    """

    def __init__(self, name: str, draw: Callable[[set[str]], tuple[str, T] | None], tries: int) -> None:
        self._name, self._draw, self._tries = name, draw, tries
        self._found: list[T] = []
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    @property
    def built(self) -> int:
        """How many things have been drawn so far."""
        return len(self._found)

    def __getitem__(self, k: int) -> T:
        with self._lock:
            while len(self._found) <= k:
                self._found.append(self._next())
            return self._found[k]

    def _next(self) -> T:
        for _ in range(self._tries):
            drawn = self._draw(self._seen)
            if drawn is not None and drawn[0] not in self._seen:
                self._seen.add(drawn[0])
                return drawn[1]
        raise OptionError(f"no more distinct problems for {self._name} after {self.built}; ask for a smaller split")

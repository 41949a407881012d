"""Rows of a vector environment that wait for a verdict, a reset, or only to be asked for."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from llm_envs.error import EpisodeError
from llm_envs.token_format import TextStep, Turn, play_message

_MAX_THREADS = 64


@dataclass(frozen=True)
class Waiting:
    """What a row waits for: its verdict (`turn` and `future`), its reset, or nothing (tokens were appended)."""

    turn: Turn | None = None
    future: Future[TextStep] | None = None
    reset: bool = False

    def done(self) -> bool:
        """Whether the result is there."""
        return self.future is None or self.future.done()


class WaitingRows:
    """Plays turns at the text level in threads, at most one per row."""

    def __init__(self, num_rows: int) -> None:
        self._rows: dict[int, Waiting] = {}
        self._executor = ThreadPoolExecutor(min(num_rows, _MAX_THREADS), thread_name_prefix="verdict")

    def __contains__(self, row: int) -> bool:
        return row in self._rows

    def add(self, row: int, *, reset: bool = False) -> None:
        """A row with nothing to wait for."""
        self._rows[row] = Waiting(reset=reset)

    def play(self, row: int, env: gym.Env[Any, Any], turn: Turn) -> None:
        """Hand a finished turn to the text level; returns at once."""
        self._rows[row] = Waiting(turn, self._executor.submit(play_message, env, turn.message))

    def forget(self, rows: Iterable[int]) -> None:
        """Drop rows of episodes nobody wants any more, once their threads no longer use their environments."""
        wait([row.future for index in rows if (row := self._rows.pop(index, None)) and row.future])

    def finish(self, rows: Iterable[int]) -> None:
        """Wait for all of `rows`."""
        futures = [future for row in rows if (future := self._rows[row].future)]
        if futures:  # most steps end no turn, and even waiting for nothing takes time
            wait(futures)

    def first(self) -> list[int]:
        """Wait until one row is done, and name all that are."""
        if not self._rows:
            raise EpisodeError("recv called with no turn under way; call send first")
        if not any(row.done() for row in self._rows.values()):
            wait([row.future for row in self._rows.values() if row.future], return_when=FIRST_COMPLETED)
        return [index for index, row in self._rows.items() if row.done()]

    def take(self, rows: list[int]) -> list[Waiting]:
        """Rows that are done; a failed one is raised before any other is taken, so that none is lost."""
        for row in rows:
            future = self._rows[row].future
            if future is not None and future.exception() is not None:
                del self._rows[row]
                future.result()
        return [self._rows.pop(row) for row in rows]

    def close(self) -> None:
        """Wait for what has begun and drop the rest."""
        self._executor.shutdown(wait=True, cancel_futures=True)

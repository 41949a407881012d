"""Rows of a vector environment that wait for a verdict, a reset, or only to be asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from llm_envs.error import EpisodeError
from llm_envs.token_format import TextStep, Turn, play_message

RowStep = tuple[float, bool, bool, dict[str, Any]]

_MAX_THREADS = 64


@dataclass(frozen=True)
class Waiting:
    """What a row waits for: its verdict (`turn` and `future`), its reset, or nothing (tokens were appended).

    `result` is what it came to, of a row that must be handed out later since another one failed.
    """

    turn: Turn | None = None
    future: Future[TextStep] | None = None
    reset: bool = False
    result: RowStep | None = None

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

    def fail(self, row: int, error: Exception) -> None:
        """A row whose turn could not even be handed over; the error is raised when its result is asked for."""
        future: Future[TextStep] = Future()
        future.set_exception(error)
        self._rows[row] = Waiting(future=future)

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

    def take(self, rows: list[int], conclude: Callable[[int, Waiting], RowStep]) -> list[RowStep]:
        """The results of rows that are done, as `conclude` makes them.

        Should one fail, its error is raised and it waits no more; what the others came to can be taken the next time.
        """
        for row in rows:
            waiting = self._rows[row]
            if waiting.result is None:
                try:
                    self._rows[row] = Waiting(result=conclude(row, waiting))
                except BaseException:
                    del self._rows[row]
                    raise
        return [result for row in rows if (result := self._rows.pop(row).result) is not None]

    def close(self) -> None:
        """Wait for what has begun and drop the rest."""
        self._executor.shutdown(wait=True, cancel_futures=True)

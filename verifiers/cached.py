"""Cached: asks another judge once per question, and remembers, in memory or in a file.

    Cached("math_equal")                                # as long as this object lives
    Cached("math_equal", path="verdicts.sqlite3")       # for later runs and other processes, too

The key is everything a judge may read: all of the example, `id` and `metadata` too, and the answer's text, files and
transcript; in a file also the judge's fingerprint, so that a changed judge is asked anew. So the same problem under
another id is asked anew, and `metadata` must be plain values. Errors are not remembered.

Not covered: nothing is ever removed (about 300 bytes a verdict), and two processes that meet a new question at the same
time both ask. SQLite's locks need a file system that keeps them; some network file systems do not.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError
from verifiers.composition import Composite
from verifiers.fingerprint import pair_hash
from verifiers.function_verifier import Judge

_APPLICATION_ID = 0x56455244
"""Written into the file's header, so that nobody else's database is taken for a cache."""

_PATIENCE_S = 60.0
"""How long to wait for another process to finish writing."""

_inherited: list[sqlite3.Connection | None] = []


class Cached(Composite):
    """Gives the verdict of `verifier`, from memory or the file where it was given before.

    Threads and processes may share a file. The verdict is the judge's own, with `seconds` 0 if remembered.

    Args:
        verifier: the judge that is asked.
        path: file to remember in, made if missing; None for memory.

    Raises:
        VerifierError: the file is no cache or is damaged, or the judge has no fingerprint (with a path only).
    """

    _connection: sqlite3.Connection | None

    def __init__(self, verifier: str | Verifier | Judge, path: str | os.PathLike[str] | None = None):
        super().__init__({"verifier": verifier})
        self._part = self.parts["verifier"]
        self._path = None if path is None else Path(path).absolute()
        # In memory the object itself is what tells two judges apart.
        self._prefix = "" if path is None else self._part.fingerprint()
        self._forget()
        with self._database():
            pass  # a damaged file is found out here

    def configuration(self) -> dict[str, Any]:
        """The judge; where its verdicts are kept does not change them."""
        return super().configuration()

    def verify_batch(self, pairs: Sequence[tuple[Example, Answer]]) -> list[Verdict]:
        """Judge several answers, in order; each new question is asked once, all of them in one batch.

        Raises:
            VerifierError: from the judge, or the file cannot be used.
        """
        keys = [f"{pair_hash(example, answer)} {self._prefix}" for example, answer in pairs]
        known = self._read(set(keys))
        new = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in known}
        if new:
            verdicts = dict(zip(new, self._part.verify_batch(list(new.values())), strict=True))
            self._write(verdicts)
            known |= verdicts
        return [known[key] for key in keys]

    def close(self) -> None:
        """Close the file and the judge; judging again opens them. What is in memory only is forgotten."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        super().close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_connection", "_pid")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._connection = None
        self._pid = os.getpid()

    @contextlib.contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """One transaction; raises `VerifierError` if the file cannot be used."""
        if self._pid != os.getpid():
            # SQLite's connections must not be carried over a fork, not even to be closed; the lock may have been held.
            _inherited.append(self._connection)
            self._forget()
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = _connect(":memory:" if self._path is None else str(self._path))
                with self._connection:
                    yield self._connection
            except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
                raise VerifierError(
                    f"cannot use {self._path or 'memory'} as a cache of verdicts ({error}): if the file is damaged or "
                    "something else, delete it or choose another path"
                ) from error

    def _read(self, keys: set[str]) -> dict[str, Verdict]:
        found = {}
        with self._database() as connection:
            for key in keys:
                row = connection.execute("SELECT verdict FROM verdicts WHERE key = ?", (key,)).fetchone()
                if row is not None:
                    found[key] = Verdict(**json.loads(row[0]))
        return found

    def _write(self, verdicts: dict[str, Verdict]) -> None:
        rows = [(key, json.dumps(replace(verdict, seconds=0.0).as_info())) for key, verdict in verdicts.items()]
        with self._database() as connection:
            # The first one stays: all readers see the same verdict, whoever was first.
            connection.executemany("INSERT OR IGNORE INTO verdicts VALUES (?, ?)", rows)


def _connect(path: str) -> sqlite3.Connection:
    """Open a cache, or make one of an empty file; raises `sqlite3.Error` or `ValueError`."""
    # Calls are serialised by the lock of `Cached`.
    connection = sqlite3.connect(path, timeout=_PATIENCE_S, check_same_thread=False)
    try:
        connection.execute("BEGIN IMMEDIATE")
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables == 0:
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute("CREATE TABLE verdicts (key TEXT PRIMARY KEY, verdict TEXT NOT NULL) WITHOUT ROWID")
        elif connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            raise ValueError("it is another program's database")
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection

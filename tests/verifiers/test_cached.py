from __future__ import annotations

import pickle
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from verifiers import Answer, Cached, ExactMatch, Example, Verdict, Verifier, VerifierError, get_verifier

EXAMPLE = Example("e", "2 x 21?", {"answer": "42"}, gold="42")


class Counter(Verifier):
    """Counts what it is asked; the text "broken" breaks it."""

    def __init__(self, name: str = "counter"):
        self.name = name
        self.batches: list[list[str]] = []
        self.closed = 0

    def configuration(self) -> dict[str, Any]:
        return {"name": self.name}

    def verify(self, example: Example, answer: Answer) -> Verdict:
        return self.verify_batch([(example, answer)])[0]

    def verify_batch(self, pairs: Sequence[tuple[Example, Answer]]) -> list[Verdict]:
        self.batches.append([answer.text for _, answer in pairs])
        if any(answer.text == "broken" for _, answer in pairs):
            raise VerifierError("broken")
        return [Verdict(0.1, False, "wrong", {"length": len(answer.text) / 3}, "né \ud800", 1.0) for _, answer in pairs]

    def close(self) -> None:
        self.closed += 1


class Undeclared(Counter):
    def __init__(self) -> None:
        super().__init__()


@pytest.fixture(params=["memory", "file"])
def path(request, tmp_path: Path) -> Path | None:
    return tmp_path / "cache.sqlite3" if request.param == "file" else None


def test_a_question_is_asked_once(path: Path | None):
    counter = Counter()
    cached = Cached(counter, path)
    first = cached.verify(EXAMPLE, Answer("a"))
    again = cached.verify(EXAMPLE, Answer("a"))
    assert first == again == Counter().verify(EXAMPLE, Answer("a"))
    assert (first.seconds, again.seconds) == (1.0, 0.0)
    assert type(again.components["length"]) is float
    assert counter.batches == [["a"]]


def test_a_batch_asks_for_what_is_new_once_and_in_one_batch(path: Path | None):
    counter = Counter()
    cached = Cached(counter, path)
    cached.verify(EXAMPLE, Answer("bb"))
    verdicts = cached.verify_batch([(EXAMPLE, Answer(text)) for text in ("a", "bb", "a", "ccc")])
    assert counter.batches == [["bb"], ["a", "ccc"]]
    assert [round(3 * verdict.components["length"]) for verdict in verdicts] == [1, 2, 1, 3]
    assert cached.verify_batch([]) == []


def test_everything_that_a_judge_may_read_is_in_the_key(path: Path | None):
    counter = Counter()
    cached = Cached(counter, path)
    answer = Answer("a")
    different = [
        (EXAMPLE, answer),
        (replace(EXAMPLE, prompt="other"), answer),
        (replace(EXAMPLE, prompt=[{"role": "user", "content": "other"}]), answer),
        (replace(EXAMPLE, hidden={"answer": 42}), answer),
        (replace(EXAMPLE, hidden={"answer": 42.0}), answer),
        (replace(EXAMPLE, hidden={"answer": (42,)}), answer),
        (replace(EXAMPLE, hidden={"answer": [42]}), answer),
        (replace(EXAMPLE, gold=""), answer),
        (replace(EXAMPLE, id="other"), answer),
        (replace(EXAMPLE, metadata={"x": 1}), answer),
        (EXAMPLE, Answer("a ")),
        (EXAMPLE, Answer("a", files={"f": "x"})),
        (EXAMPLE, Answer("a", transcript=[{"role": "user", "content": "x"}])),
    ]
    same = [(replace(EXAMPLE), replace(answer))]
    cached.verify_batch(different + same)
    assert [len(batch) for batch in counter.batches] == [len(different)]


def test_an_example_that_cannot_be_a_key_is_an_error():
    with pytest.raises(VerifierError, match="'e'.*object is no plain value"):
        Cached(Counter()).verify(replace(EXAMPLE, hidden={"answer": object()}), Answer("a"))
    with pytest.raises(VerifierError, match="'e'.*object is no plain value"):
        Cached(Counter()).verify(replace(EXAMPLE, metadata={"x": object()}), Answer("a"))


def test_errors_are_not_remembered(path: Path | None):
    counter = Counter()
    cached = Cached(counter, path)
    for _ in range(2):
        with pytest.raises(VerifierError, match="^broken"):
            cached.verify(EXAMPLE, Answer("broken"))
    assert counter.batches == [["broken"]] * 2


def test_a_file_outlives_the_object_and_tells_judges_apart(tmp_path: Path):
    file = tmp_path / "cache.sqlite3"
    first = Cached(Counter(), file)
    verdict = first.verify(EXAMPLE, Answer("a"))
    first.close()
    same, other = Counter(), Counter("other")
    assert Cached(same, str(file)).verify(EXAMPLE, Answer("a")) == verdict
    Cached(other, file).verify(EXAMPLE, Answer("a"))
    assert (same.batches, other.batches) == ([], [["a"]])


def test_a_judge_without_a_fingerprint_can_be_cached_in_memory_only(tmp_path: Path):
    assert Cached(Undeclared()).verify(EXAMPLE, Answer("a")).kind == "wrong"
    with pytest.raises(VerifierError, match="Undeclared.*configuration"):
        Cached(Undeclared(), tmp_path / "cache")
    with pytest.raises(VerifierError, match="lambda.*no fingerprint"):
        Cached(lambda example, answer: True, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_threads_share_one_object_and_one_file(tmp_path: Path):
    judges = [Cached(Counter(), tmp_path / "cache") for _ in range(2)]
    texts = [str(i % 10) for i in range(200)]
    with ThreadPoolExecutor(8) as threads:
        work = enumerate(texts)
        verdicts = list(threads.map(lambda item: judges[item[0] % 2].verify(EXAMPLE, Answer(item[1])), work))
    assert all(verdict == verdicts[0] for verdict in verdicts)
    with sqlite3.connect(tmp_path / "cache") as connection:
        assert connection.execute("SELECT count(*) FROM verdicts").fetchone() == (10,)


def test_several_processes_share_a_file(tmp_path: Path):
    code = (
        "import sys\nfrom verifiers import *\n"
        "judge = Cached('exact_match', sys.argv[1])\n"
        "for i in range(40): judge.verify(Example('e', '', {'answer': '1'}), Answer(str(i)))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "cache")]
    root = Path(__file__).parents[2]
    processes = [subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        assert process.communicate(timeout=60)[1] == ""
    with sqlite3.connect(tmp_path / "cache") as connection:
        assert connection.execute("SELECT count(*) FROM verdicts").fetchone() == (40,)


def test_a_writer_is_waited_for(tmp_path: Path):
    file = tmp_path / "cache"
    cached = Cached(ExactMatch(), file)
    other = sqlite3.connect(file, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(0.3, other.rollback)
    began = time.monotonic()
    release.start()
    assert cached.verify(EXAMPLE, Answer("42")).passed
    assert time.monotonic() - began > 0.2
    release.join()
    other.close()


def foreign_database(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE verdicts (key TEXT, verdict TEXT)")
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda file: file.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000), "cache"),
        (lambda file: file.write_text("not a database at all" * 100), "not a database"),
        (foreign_database, "another program's"),
        (lambda file: file.mkdir(), "unable to open"),
    ],
)
def test_a_file_that_is_no_cache_is_one_clear_error(tmp_path: Path, spoil: Any, message: str):
    file = tmp_path / "cache"
    spoil(file)
    with pytest.raises(VerifierError, match=f"cannot use .*cache.*{message}.*delete it or choose another"):
        Cached(ExactMatch(), file)


def test_a_damaged_entry_is_an_error_and_not_a_verdict(tmp_path: Path):
    cached = Cached(ExactMatch(), tmp_path / "cache")
    cached.verify(EXAMPLE, Answer("a"))
    for text in ("{", "[]", '{"score": 1}', "1"):
        with sqlite3.connect(tmp_path / "cache") as connection:
            connection.execute("UPDATE verdicts SET verdict = ?", (text,))
        with pytest.raises(VerifierError, match="damaged"):
            cached.verify(EXAMPLE, Answer("a"))


def test_closing_pickling_and_naming(path: Path | None):
    counter = Counter()
    cached = Cached(counter, path)
    cached.verify(EXAMPLE, Answer("a"))
    cached.close()
    cached.close()
    assert counter.closed == 2
    copy = pickle.loads(pickle.dumps(cached))
    assert copy.verify(EXAMPLE, Answer("a")) == cached.verify(EXAMPLE, Answer("a"))
    assert len(counter.batches) == (1 if path else 2)
    assert isinstance(get_verifier("cached", verifier="exact_match", path=path), Cached)
    with pytest.raises(VerifierError, match="answer"):
        Cached("exact_match").validate(replace(EXAMPLE, hidden={}))

from __future__ import annotations

from collections.abc import Iterator, Set

import pytest

from tests.hostile.judges import FUNCTION_TESTS, LIMITS
from tests.hostile.programs import all_programs
from tests.hostile.themes.look import LOOK
from verifiers import Answer, FunctionTests

WORDS = [line.split("'")[1] for line in LOOK.splitlines() if line.startswith("note(")]


@pytest.fixture(scope="module")
def one_worker() -> Iterator[FunctionTests]:
    """With a single worker, each answer runs exactly where the one before it ran."""
    verifier = FunctionTests(LIMITS, workers=1)
    yield verifier
    verifier.close()


def new_traces(verifier: FunctionTests, seen: Set[str] = frozenset()) -> set[str]:
    """What LOOK finds beyond `seen`; asked for word by word, since a verdict does not show values."""

    def passes(condition: str) -> bool:
        source = f"{LOOK}\ndef add(a, b): return a + b if {condition} else None\n"
        return verifier.verify(FUNCTION_TESTS, Answer(source)).passed

    if passes(f"set(found) <= {set(seen)!r}"):
        return set()
    found = {word for word in WORDS if word not in seen and not passes(f"{word!r} not in found")}
    return found or {"something that makes looking fail"}


def test_the_world_is_clean_at_first(one_worker: FunctionTests):
    assert new_traces(one_worker) == set()


@pytest.mark.parametrize("theme", ["leftovers", "processes", "patching"])
def test_no_answer_leaves_a_trace_for_the_next(one_worker: FunctionTests, theme: str):
    left, seen = {}, new_traces(one_worker)
    for program in (p for p in all_programs() if p.theme == theme):
        one_worker.verify(FUNCTION_TESTS, Answer(program.source))
        if new := new_traces(one_worker, seen):
            left[program.name] = new
            seen |= new
    assert left == {}


@pytest.mark.parametrize(
    ("name", "trace"),
    [
        ("leftovers/write_marked_files", "files"),
        ("leftovers/environment", "environment"),
        ("leftovers/abstract_socket", "sockets"),
        ("leftovers/block_all_signals", "blocked signals"),
        ("leftovers/low_limits", "limits"),
        ("leftovers/umask_and_niceness", "niceness"),
    ],
)
def test_looking_finds_traces(one_worker: FunctionTests, name: str, trace: str):
    (program,) = (p for p in all_programs() if p.name == name)
    both = f"{program.source}\n{LOOK}\ndef add(a, b): return a + b if {trace!r} in found else None\n"
    assert one_worker.verify(FUNCTION_TESTS, Answer(both)).passed

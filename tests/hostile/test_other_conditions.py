from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.judges import FUNCTION_TESTS, LIMITS
from verifiers import Answer, FunctionTests
from verifiers.sandbox.bubblewrap import find_bubblewrap

NOBODY = 65534
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "source",
    [
        "def add(a, b):\n    return list({'x', 'y', 'z'}).index('x') and a + b",
        "import random\ndef add(a, b):\n    return a + b + random.randrange(2)",
    ],
    ids=["order of a set", "random guess"],
)
def test_equal_answers_get_equal_verdicts(source: str):
    verifier = FunctionTests(LIMITS)
    verdicts = verifier.verify_batch([(FUNCTION_TESTS, Answer(source))] * 8)
    assert len({verdict.kind for verdict in verdicts}) == 1


@pytest.mark.slow
def test_verdicts_are_the_same_for_an_ordinary_user():
    if os.geteuid() != 0:
        pytest.skip("the other tests run as an ordinary user already")
    environment = {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(Path(find_bubblewrap()).parents[2])])}
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "env": environment, "cwd": "/"}
    for python in filter(None, [sys.executable, shutil.which("python3.11", path="/usr/bin"), "/usr/bin/python3"]):
        try:
            check = subprocess.run([python, "-B", "-c", "import verifiers"], capture_output=True, **who)  # type: ignore[call-overload]
        except PermissionError:
            continue
        if check.returncode == 0:
            command = [python, "-B", "-m", "tests.hostile"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, **who)  # type: ignore[call-overload]
            assert done.returncode == 0, done.stdout + done.stderr
            return
    pytest.skip("no interpreter and checkout that an ordinary user can read")

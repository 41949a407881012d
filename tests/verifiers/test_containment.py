from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ADD, CORRECT
from containment_probes import LIMITS, PROBES, run_probe

from verifiers import Answer, FunctionTests, Limits
from verifiers.bubblewrap import find_bubblewrap

NOBODY = 65534
REPOSITORY = Path(__file__).parents[2]


def as_nobody(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a Python script as an ordinary user; skips where no interpreter is readable for one."""
    if os.geteuid() != 0:
        pytest.skip("the other tests run as an ordinary user already")
    paths = os.pathsep.join([str(REPOSITORY), str(Path(find_bubblewrap()).parents[2])])
    for python in filter(None, [sys.executable, shutil.which("python3.11", path="/usr/bin"), "/usr/bin/python3"]):
        command = [python, "-B", *arguments]
        settings: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}
        settings["env"] = {"PYTHONPATH": paths}
        try:
            check = subprocess.run([python, "-B", "-c", "import verifiers"], capture_output=True, **settings)
        except PermissionError:
            continue
        if check.returncode == 0:
            return subprocess.run(command, capture_output=True, text=True, timeout=60, **settings, **options)
    pytest.skip("no interpreter and checkout that an ordinary user can read")


@pytest.fixture(scope="module")
def ordinary_results() -> dict[str, Any]:
    done = as_nobody(str(Path(__file__).with_name("containment_probes.py")))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


EXPECTED = {
    "processes": lambda seen: seen == [1],
    "descriptors": lambda seen: seen == [0, 1, 2, 3, 4],
    "environment": lambda seen: set(seen) <= {"HOME", "PATH", "PYTHONHASHSEED", "PWD", "LC_CTYPE"},
    "top_folders": lambda seen: set(seen) <= {"bin", "dev", "judge", "lib", "lib64", "nix", "proc", "py", "tmp", "usr"},
    "scratch": lambda seen: seen == ["/tmp"],
    "capabilities": lambda seen: [int(line, 16) for line in seen] == [0, 0, 0, 0, 0, 1],
    "network": lambda seen: seen == ["lo"],
    "new_namespaces": lambda seen: seen == [-1] * 4,
    "mount": lambda seen: seen == -1,
    "writable": lambda seen: seen == ["/tmp", "/dev/shm"],
    "sysctl": lambda seen: seen is False,
    "signals": lambda seen: set(seen) == {0},  # its own group
    "forks": lambda seen: 1 <= seen <= LIMITS.processes + 4,
    "threads": lambda seen: 1 <= seen <= LIMITS.processes + 4,
    "memory": lambda seen: 30 < seen <= LIMITS.memory_mb,
    "disk": lambda seen: 1 <= seen <= LIMITS.file_mb,
    "largest_file": lambda seen: 1 <= seen <= LIMITS.file_mb,
    "inodes": lambda seen: 10 < seen <= LIMITS.files,
    "opened": lambda seen: 1 <= seen <= LIMITS.open_files,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_submission_sees_and_can_do_little(name: str):
    result = run_probe(name)
    assert EXPECTED[name](result), result


@pytest.mark.parametrize("name", EXPECTED)
def test_containment_is_the_same_for_an_ordinary_user(ordinary_results: dict[str, Any], name: str):
    assert EXPECTED[name](ordinary_results[name]), ordinary_results[name]


def test_every_probe_has_an_expectation():
    assert set(PROBES) - {"kernel_uid"} == set(EXPECTED)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has no other user to become")
def test_under_root_the_submission_is_not_root():
    *outside, inside = run_probe("kernel_uid")
    assert inside != 0
    assert NOBODY in outside


def test_scratch_files_do_not_survive_an_execution():
    for _ in range(3):
        assert run_probe("disk") >= 1
        assert run_probe("scratch") == ["/tmp"]


def test_descriptors_of_the_trainer_stay_out_even_with_high_numbers():
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(300)]
    try:
        for fd in held:
            os.set_inheritable(fd, True)
        verifier = FunctionTests(Limits(cpu_s=1, open_files=33))  # new settings: a new pool starts now
        source = "import os\ndef add(a, b):\n    return a + b if len(os.listdir('/proc/self/fd')) == 6 else None"
        assert verifier.verify(ADD, Answer(source)).kind == "passed"
        verifier.close()
    finally:
        for fd in held:
            os.close(fd)


def test_memory_of_all_processes_together_is_capped():
    source = (
        "import os, time\ndef add(a, b):\n    for _ in range(6):\n        if os.fork() == 0:\n"
        "            x = bytearray(b'x') * (100 << 20)\n            time.sleep(1000)\n    time.sleep(1000)"
    )
    began = time.monotonic()
    verdict = FunctionTests(LIMITS, workers=1).verify(ADD, Answer(source))
    assert verdict.kind == "memory"
    assert time.monotonic() - began < LIMITS.wall_s


def test_fork_bomb_ends_and_leaves_nothing():
    bomb = "import os\ndef add(a, b):\n    while True:\n        try: os.fork()\n        except OSError: pass"
    verifier = FunctionTests(LIMITS, workers=1)
    assert verifier.verify(ADD, Answer(bomb)).kind == "timeout"
    assert run_probe("processes") == [1]
    assert verifier.verify(ADD, Answer(CORRECT)).kind == "passed"

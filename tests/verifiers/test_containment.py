from __future__ import annotations

import functools
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from add_problem import ADD, CORRECT
from containment_probes import LIMITS, PROBES, run_probe
from other_users import NOBODY, run_python

from verifiers import Answer, Example, FunctionTests, Limits
from verifiers.sandbox.rungs import AUTO

PROBES_SCRIPT = str(Path(__file__).with_name("containment_probes.py"))


@functools.cache
def ordinary_results(rung: str) -> dict[str, Any]:
    """What the probes say when an ordinary user runs the judge."""
    if os.geteuid() != 0:
        pytest.skip("the other tests run as an ordinary user already")
    done = run_python(PROBES_SCRIPT, rung, user=NOBODY)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


EXPECTED = {
    "processes": lambda seen: seen == [1],
    "descriptors": lambda seen: seen == [0, 1, 2, 3, 4],
    "environment": lambda seen: set(seen) <= {"HOME", "PATH", "PYTHONHASHSEED", "PWD", "LC_CTYPE", "LD_LIBRARY_PATH"},
    "top_folders": lambda seen: (
        set(seen) <= {"bin", "dev", "judge", "lib", "lib64", "nix", "packages", "proc", "py", "tmp", "usr"}
    ),
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


@pytest.mark.parametrize("rung", AUTO)
@pytest.mark.parametrize("name", EXPECTED)
def test_submission_sees_and_can_do_little(name: str, rung: str):
    result = run_probe(name, rung)
    assert EXPECTED[name](result), result


@pytest.mark.parametrize("rung", AUTO)
@pytest.mark.parametrize("name", EXPECTED)
def test_containment_is_the_same_for_an_ordinary_user(name: str, rung: str):
    assert EXPECTED[name](ordinary_results(rung)[name]), ordinary_results(rung)[name]


STILL_TRUE_UNDER_RLIMITS = (
    *("descriptors", "capabilities", "new_namespaces", "mount", "sysctl", "forks", "threads", "memory"),
    *("largest_file", "opened"),
)


@pytest.mark.skipif(os.geteuid() != 0, reason="the rung rlimits needs root")
def test_what_rlimits_contain():
    done = run_python(PROBES_SCRIPT, "rlimits", user=0)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert results["kernel_uid"][-1] > 100_000
    wrong = {name: results[name] for name in STILL_TRUE_UNDER_RLIMITS if not EXPECTED[name](results[name])}
    assert not wrong
    assert set(results["writable"]) <= {"/tmp", "/dev/shm"}
    assert set(results["signals"]) == {0, -1}  # its own processes; the zygote and others refuse


def test_every_probe_has_an_expectation():
    assert set(PROBES) - {"kernel_uid"} == set(EXPECTED)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has no other user to become")
@pytest.mark.parametrize("rung", AUTO)
def test_under_root_the_submission_is_not_root(rung: str):
    *outside, inside = run_probe("kernel_uid", rung)
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


@pytest.mark.parametrize("rung", AUTO)
def test_memory_of_all_processes_together_is_capped(rung: str):
    source = (
        "import os, time\ndef add(a, b):\n    for _ in range(6):\n        if os.fork() == 0:\n"
        "            x = bytearray(b'x') * (100 << 20)\n            time.sleep(1000)\n    time.sleep(1000)"
    )
    began = time.monotonic()
    verdict = FunctionTests(LIMITS, rung, workers=1).verify(ADD, Answer(source))
    assert verdict.kind == "memory"
    assert time.monotonic() - began < LIMITS.wall_s


def test_fork_bomb_ends_and_leaves_nothing():
    bomb = "import os\ndef add(a, b):\n    while True:\n        try: os.fork()\n        except OSError: pass"
    verifier = FunctionTests(LIMITS, workers=1)
    assert verifier.verify(ADD, Answer(bomb)).kind == "timeout"
    assert run_probe("processes") == [1]
    assert verifier.verify(ADD, Answer(CORRECT)).kind == "passed"


@pytest.mark.parametrize("sandbox", ["bubblewrap", "namespaces"])
def test_executions_share_no_network(sandbox: str):
    source = (
        "import socket\nseen = [line for line in open('/proc/net/dev') if 'lo:' in line][0].split()[2]\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('127.0.0.1', 0))\n"
        "for _ in range(7): s.sendto(b'x', s.getsockname())\ndef f(): return seen"
    )
    problem = Example("f", "", {"entry": "f", "tests": [{"args": [], "expected": "0"}]})
    verifier = FunctionTests(Limits(cpu_s=1), sandbox, workers=1)
    assert [verifier.verify(problem, Answer(source)).kind for _ in range(3)] == ["passed"] * 3
    verifier.close()


@pytest.mark.parametrize("sandbox", ["bubblewrap", "namespaces"])
def test_packages_that_nobody_asked_for_are_not_there(sandbox: str):
    source = (
        "import glob\ndef f():\n    found = []\n    for top in ('/py', '/usr', '/usr/local'):\n"
        "        for name in ('site', 'dist'): found += glob.glob(f'{top}/lib/python*/{name}-packages/*')\n"
        "    return found"
    )
    problem = Example("f", "", {"entry": "f", "tests": [{"args": [], "expected": []}]})
    verifier = FunctionTests(Limits(cpu_s=1), sandbox, workers=1)
    assert verifier.verify(problem, Answer(source)).kind == "passed"
    verifier.close()

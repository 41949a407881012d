from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from verifiers import CallDied, CallTimeout, TrustedProcess, VerifierError


def process(name: str, **options: Any) -> TrustedProcess:
    return TrustedProcess(f"trusted_functions:{name}", **options)


@pytest.fixture
def echo() -> Iterator[TrustedProcess]:
    made = process("echo")
    yield made
    made.close()


def wait_until_dead(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while alive := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < deadline, f"still alive: {alive}"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # in a container, nobody may collect what was adopted


def wait_for(file: Path) -> list[int]:
    deadline = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return list(map(int, file.read_text().split()))


@pytest.mark.parametrize("value", [None, "\ud800\x00\n", [1.5, True, {"a": []}], 10**4000, "x" * 300_000])
def test_json_values_go_there_and_back(echo: TrustedProcess, value: Any):
    assert echo.call(value) == value


def test_it_is_warmed_up_once_and_calls_share_no_state():
    remember = process("remember", warm_up="trusted_functions:warm_up")
    assert [remember.call(1), remember.call(2)] == [["warm", 1], ["warm", 2]]
    remember.close()


def test_out_of_cpu_time():
    spin = process("spin", cpu_s=1)
    with pytest.raises(CallTimeout, match="CPU") as caught:
        spin.call(True)
    assert caught.value.wall is False
    assert spin.call(False) is None  # the helper is still there
    spin.close()


def test_out_of_wall_clock_time_and_nothing_is_left(tmp_path: Path):
    hang = process("pids", wall_s=2.0)
    with pytest.raises(CallTimeout, match="wall") as caught:
        hang.call(str(tmp_path / "pids"))
    assert caught.value.wall is True
    helper, *others = wait_for(tmp_path / "pids")
    wait_until_dead(others)
    assert is_alive(helper)
    hang.close()
    wait_until_dead([helper])


@pytest.mark.parametrize(
    ("name", "payload", "message"),
    [("crash", 0, "signal 6"), ("leave", 0, "exit code 3"), ("eat", 1 << 20, "out of memory")],
)
def test_a_call_that_dies_dies_alone(name: str, payload: Any, message: str):
    mortal = process(name, memory_mb=64)
    with pytest.raises(CallDied, match=message):
        mortal.call(payload)
    mortal.close()


def test_memory_is_counted_beyond_the_helper():
    eat = process("eat", memory_mb=64)
    assert eat.call(32) == 32 << 20
    with pytest.raises(CallDied, match="memory"):
        eat.call(128)
    eat.close()


@pytest.mark.parametrize(("name", "message"), [("fail", "KeyError"), ("not_json", "TypeError")])
def test_an_exception_is_the_functions_fault(name: str, message: str):
    failing = process(name)
    with pytest.raises(VerifierError, match=f"trusted_functions:{name} raised {message}"):
        failing.call(0)
    failing.close()


@pytest.mark.parametrize(
    ("function", "message"), [("no_such_module_at_all:f", "ModuleNotFoundError"), ("json:nothing", "AttributeError")]
)
def test_a_helper_that_cannot_start_says_why(function: str, message: str):
    with pytest.raises(VerifierError, match=message):
        TrustedProcess(function).call(0)


def test_several_calls_run_at_once_and_are_killed_alone():
    nap = process("nap", jobs=4, wall_s=2.5)
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(nap.call, seconds) for seconds in (0.3, 30, 0.3, 0.3)]
        assert [calls[i].result() for i in (0, 2, 3)] == [0.3] * 3
        with pytest.raises(CallTimeout):
            calls[1].result()
    nap.close()


def test_closing_twice_and_calling_again(echo: TrustedProcess):
    assert echo.call(1) == 1
    echo.close()
    echo.close()
    assert echo.call(2) == 2


def test_a_lost_helper_is_replaced():
    ids = process("process_ids")
    helper, _ = ids.call(0)
    os.kill(helper, signal.SIGKILL)
    assert ids.call(0)[0] != helper
    ids.close()


def test_a_helper_lost_during_a_call_is_replaced_once(tmp_path: Path):
    hang = process("pids", wall_s=3.0)
    files = [tmp_path / "first", tmp_path / "second"]
    raised: list[BaseException] = []

    def call() -> None:
        try:
            hang.call(str(tmp_path / "pids"))
        except VerifierError as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    seen = []
    for file in files:
        helper, *others = wait_for(tmp_path / "pids")
        (tmp_path / "pids").rename(file)
        os.kill(helper, signal.SIGKILL)
        seen.append(others[0])
    thread.join(20)
    assert "lost twice" in str(raised[0])
    wait_until_dead(seen)


def test_everything_ends_when_the_parent_is_killed(tmp_path: Path):
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from verifiers import TrustedProcess\n"
        f"TrustedProcess('trusted_functions:pids').call({str(tmp_path / 'pids')!r})"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    pids = wait_for(tmp_path / "pids")
    parent.kill()
    parent.wait()
    wait_until_dead(pids)


def test_a_forked_child_starts_a_helper_of_its_own():
    ids = process("process_ids")
    helper, _ = ids.call(0)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, str(ids.call(0)[0]).encode())
            ids.close()
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read) as file:
        assert int(file.read()) != helper
    assert ids.call(0)[0] == helper
    ids.close()


def test_a_pickled_copy_works(echo: TrustedProcess):
    copy = pickle.loads(pickle.dumps(echo))
    assert copy.call("x") == "x"
    assert copy.limits == echo.limits
    copy.close()


def test_limits_must_be_positive():
    with pytest.raises(ValueError, match="cpu_s=0"):
        process("echo", cpu_s=0)

"""What `test_trusted_process.py` calls in the helper."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

state: list[Any] = []


def warm_up() -> None:
    state.append("warm")


def echo(payload: Any) -> Any:
    return payload


def remember(payload: Any) -> list[Any]:
    state.append(payload)
    return state


def not_json(payload: Any) -> Any:
    return {1, 2}


def fail(payload: Any) -> Any:
    raise KeyError(payload)


def crash(payload: Any) -> None:
    os.abort()


def leave(payload: Any) -> None:
    os._exit(3)


def eat(payload: Any) -> int:
    return len(bytearray(payload << 20))


def spin(payload: Any) -> None:
    while payload:
        pass


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def pids(file: str) -> None:
    """Write the ids of the helper, this call and a child of it; then hang."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    Path(file).with_suffix(".part").write_text(f"{os.getppid()} {os.getpid()} {child.pid}")
    Path(file).with_suffix(".part").rename(file)
    time.sleep(100)


def process_ids(payload: Any) -> list[int]:
    return [os.getppid(), os.getpid()]

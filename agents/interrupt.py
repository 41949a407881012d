"""Ctrl-C between two iterations instead of within one: half an update is no state that a run could go on from."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Raise the KeyboardInterrupt of a Ctrl-C at the end of the block; a second Ctrl-C interrupts at once.

    Does nothing outside the main thread, or where somebody else handles SIGINT.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler is not signal.default_int_handler:
        yield
        return
    pending = False

    def note(number: int, frame: Any) -> None:
        nonlocal pending
        pending = True
        signal.signal(signal.SIGINT, handler)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if pending:
        raise KeyboardInterrupt

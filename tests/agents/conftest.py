"""What all tests of the agents share.

Models this small are faster on one thread, and much faster on a busy machine.
"""

import signal

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture
def ctrl_c():
    """Python's own handler, also where the tests were started in the background, with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)

"""The space of messages."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_envs import Message, UnicodeText


@given(st.text(max_size=20))
def test_contains_is_about_length(text):
    space = UnicodeText(10)
    assert (text in space) == (len(text) <= 10)


def test_contains():
    space = UnicodeText()
    assert "" in space
    assert Message("half a sent", "length") in space
    assert 3 not in space
    assert b"bytes" not in space


def test_samples():
    space = UnicodeText(5, seed=0)
    samples = [space.sample() for _ in range(300)]
    assert all(sample in space for sample in samples)
    assert "" in samples
    assert max(map(max, filter(None, samples))) > "\uffff"
    "".join(samples).encode()
    with pytest.raises(ValueError, match="mask"):
        space.sample(mask=(1, None))


def test_seeds_equality_and_copies():
    a, b = UnicodeText(9, seed=3), UnicodeText(9, seed=3)
    assert a == b != UnicodeText(8)
    assert a.sample() == b.sample()
    assert pickle.loads(pickle.dumps(a)).sample() == copy.deepcopy(a).sample() == b.sample()
    assert repr(a) == "UnicodeText(9)"


def test_message_survives_pickling():
    message = pickle.loads(pickle.dumps(Message("cut", "length")))
    assert (message, message.stop_reason) == ("cut", "length")

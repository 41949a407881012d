"""One row of a vector environment fails, whatever the cause: the others' results can still be had."""

from typing import Any

import numpy as np
import pytest
from small_tasks import Echo, make_task

from llm_envs import ByteTokenizer, EpisodeError, OptionError, TextEnv, TokenError, TokenVectorEnv

EOS = 257
MODES = ["NextStep", "SameStep", "Disabled"]
OPTIONS: dict[str, Any] = {"max_length": 64, "max_new_tokens": 8}


class Picky(ByteTokenizer):
    """Cannot read what the environment says in the second turn after a message "bad"; nor what was written as "z"."""

    def encode(self, text: str) -> list[int]:
        if text == "again bad\n":
            raise OptionError("this cannot be read")
        return super().encode(text)

    def decode(self, ids: Any) -> str:
        text = super().decode(ids)
        if text == "z":
            raise OptionError("this cannot be written")
        return text


class Repeats(Echo):
    def step(self, action):
        _, *others = super().step(action)
        return f"again {action}\n", *others


def make(mode: str) -> TokenVectorEnv:
    env = TokenVectorEnv([Repeats] * 4, Picky(), autoreset_mode=mode, **OPTIONS)
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("turn", "words"), [(b"bad", "cannot be read"), (b"z", "cannot be written")])
def test_the_others_keep_their_results(mode, turn, words):
    env = make(mode)
    with pytest.raises(OptionError, match=words):
        env.play([[*b"a", EOS], [*turn, EOS], [*b"bcd", EOS], [65]])
    rows, observations, rewards, terminated, truncated, infos = env.recv()
    assert (rows.tolist(), rewards.tolist()) == ([0, 2, 3], [1.0, 3.0, 0.0])
    assert not (terminated | truncated).any()
    assert [info.get("round") for info in infos] == [1, 1, None]
    assert observations["length"][:, 0].tolist() == env._rows.length[rows].tolist()
    with pytest.raises(EpisodeError, match="call send first"):
        env.recv()
    after_failure(env, mode)


@pytest.mark.parametrize("mode", MODES)
def test_the_others_keep_their_results_of_a_step(mode):
    env = make(mode)
    env.step(np.array([*b"azbc"]))
    with pytest.raises(OptionError, match="cannot be written"):
        env.step(np.array([EOS, EOS, EOS, 65]))
    rows, _, rewards, *_ = env.recv()
    assert (rows.tolist(), rewards.tolist()) == ([0, 2], [1.0, 1.0])
    after_failure(env, mode)


def after_failure(env: TokenVectorEnv, mode: str) -> None:
    """The row that failed is one whose episode has ended."""
    if mode == "NextStep":
        assert env.step(np.full(4, 65))[0]["remaining"][1] == [8]
    else:
        with pytest.raises(EpisodeError, match=r"the episodes of rows \[1\] have ended"):
            env.step(np.full(4, 65))
        env.reset(options={"reset_mask": np.arange(4) == 1})
        env.step(np.full(4, 65))


def test_several_fail_one_after_the_other():
    env = make("Disabled")
    turns = [[*b"z", EOS], [*b"ab", EOS], [*b"bad", EOS], [*b"z", EOS]]
    env.send(range(4), turns)
    rewards: dict[int, float] = {}
    errors = 0
    for _ in range(4):
        try:
            rows, _, received, *_ = env.recv()
        except OptionError:
            errors += 1
        else:
            rewards |= dict(zip(rows.tolist(), received.tolist(), strict=True))
        if not env._waiting._rows:
            break
    assert (rewards, errors) == ({1: 2.0}, 3)


def test_a_message_outside_the_action_space_under_strict():
    env = TokenVectorEnv([Echo] * 3, strict=True, **OPTIONS)
    env.reset(seed=0)
    with pytest.raises(TokenError, match="is outside"):
        env.play([[*b"ab", EOS], [*b"?", EOS], [*b"abc", EOS]])
    rows, _, rewards, *_ = env.recv()
    assert (rows.tolist(), rewards.tolist()) == ([0, 2], [2.0, 3.0])


def test_a_reset_that_fails_in_the_same_step():
    class Long(TextEnv):
        """Its second prompt does not fit."""

        resets = 0

        def reset(self, *, seed=None, options=None):
            self.resets += 1
            text, info = super().reset(seed=seed, options={"index": 0})
            if self.resets > 1:
                self._messages = [{"role": "user", "content": "x" * 99}]
            return text, info

    env = TokenVectorEnv(
        [lambda: TextEnv(make_task()), lambda: Long(make_task())] * 2, autoreset_mode="SameStep", **OPTIONS
    )
    env.reset(options={"index": 0})
    with pytest.raises(OptionError, match="the prompt is 99 tokens long"):
        env.play([[*b"tac", EOS]] * 4)
    with pytest.raises(OptionError, match="the prompt is 99 tokens long"):
        env.recv()
    rows, _, rewards, terminated, _, infos = env.recv()
    assert (rows.tolist(), rewards.tolist(), terminated.tolist()) == ([0, 2], [1.0, 1.0], [True, True])
    assert all(info["final_info"]["verdict"]["passed"] for info in infos)

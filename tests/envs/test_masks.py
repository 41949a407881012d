"""Which tokens may come next: minimum lengths, allowed tokens, constraints, in rows as in single environments."""

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tasks import Alternating, Echo, make_task

from llm_envs import OptionError, TextEnv, TokenEnv, TokenError, TokenVectorEnv

EOS, PAD, ROWS = 257, 256, 3
OPTIONS: dict[str, Any] = {"max_length": 64, "max_new_tokens": 8}


def make(text_env=None, **options):
    return TokenEnv(text_env or TextEnv(make_task()), **{**OPTIONS, **options})


def allowed(env):
    return set(np.flatnonzero(env.action_masks()).tolist())


def test_stop_tokens_are_masked_until_the_minimum_of_every_turn():
    env = make(Echo(), min_new_tokens=2)
    env.reset(seed=0)
    for token, stop_allowed in [(97, False), (97, False), (EOS, True), (97, False), (97, False), (97, True)]:
        assert env.action_masks()[EOS] == stop_allowed
        assert not env.action_masks()[PAD]
        env.step(token)


def test_stopping_too_early_is_an_invalid_action():
    env = make(min_new_tokens=2)
    env.reset(options={"index": 0})
    env.step(65)
    _, reward, terminated, _, info = env.step(EOS)
    assert (reward, terminated, info["stop_reason"]) == (0.0, True, "invalid_action")
    strict = make(min_new_tokens=2, strict=True)
    strict.reset(options={"index": 0})
    with pytest.raises(TokenError, match="token 257 is masked"):
        strict.step(EOS)
    for token in [*b"tac"]:
        strict.step(token)
    assert strict.step(EOS)[1] == 1.0


def test_allowed_tokens_limit_the_vocabulary_and_keep_the_stop_tokens():
    env = make(allowed_tokens=[*b"act", PAD])
    env.reset(options={"index": 0})
    assert allowed(env) == {*b"act", EOS}
    assert env.next_token_mask([[]]) is None


def test_where_nothing_is_allowed_a_turn_may_stop():
    own = make(constraint=Alternating(), min_new_tokens=6)
    own.reset(options={"index": 0})
    for token in b"abab":
        assert allowed(own) == {token}
        own.step(token)
    assert allowed(own) == {EOS}
    assert own.step(EOS)[4]["stop_reason"] == "stop"
    assert allowed(make(allowed_tokens=[EOS], min_new_tokens=3)) == {EOS}


def test_next_token_mask_is_what_action_masks_will_be():
    env = TokenVectorEnv([lambda: TextEnv(make_task())] * 2, **OPTIONS, constraint="regex:(ab|cd)*", min_new_tokens=2)
    env.reset(seed=0)
    ahead = env.next_token_mask([[], [*b"ab"], [*b"abc"], [*b"x"]])  # any number, in any order
    assert ahead is not None
    assert [set(np.flatnonzero(row).tolist()) for row in ahead] == [{97, 99}, {97, 99, EOS}, {100}, {EOS}]
    env.step(np.array([97, 99]))
    np.testing.assert_array_equal(env.next_token_mask([[97], [99]]), env.action_masks())
    env.step(np.array([98, 100]))
    np.testing.assert_array_equal(env.next_token_mask([[*b"cd"], [*b"ab"]]), env.action_masks())
    none = env.next_token_mask([])
    assert none is not None
    assert none.shape == (0, 258)


CONSTRAINTS: list[Any] = [
    None,
    "regex:[a-c]{0,2}(x|yz)[0-9]*",
    Alternating(),
    'json_schema:{"type": "integer"}',
]


@given(
    seed=st.integers(0, 2**31),
    constraint=st.sampled_from(CONSTRAINTS),
    minimum=st.integers(0, 3),
    foreign=st.booleans(),
    mode=st.sampled_from(["NextStep", "SameStep", "Disabled"]),
)
@settings(max_examples=40, deadline=None)
def test_rows_and_single_environments_have_equal_masks(seed, constraint, minimum, foreign, mode):
    """Also: a turn of tokens through `play` ends where it would end token by token."""
    rng = np.random.default_rng(seed)
    options = {**OPTIONS, "constraint": constraint, "min_new_tokens": minimum, "stop_token_ids": [EOS, ord("z")]}

    def text_env():
        return Echo() if foreign else TextEnv(make_task())

    play, step = (TokenVectorEnv([text_env] * ROWS, autoreset_mode=mode, **options) for _ in range(2))
    sync = SyncVectorEnv([lambda: TokenEnv(text_env(), **options)] * ROWS, autoreset_mode=mode)
    for env in (play, step, sync):
        env.reset(seed=seed)
    for _ in range(20):
        masks = step.action_masks()
        np.testing.assert_array_equal(masks, np.stack(sync.call("action_masks")))
        np.testing.assert_array_equal(masks, play.action_masks())
        assert masks.any(1).all()
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        actions = np.where(rng.random(ROWS) < 0.1, rng.integers(258, size=ROWS), actions)
        results: list[Any] = [step.step(actions), sync.step(actions), play.play(list(actions[:, None]))]
        for result in results[1:]:
            for ours, theirs in zip(results[0][:4], result[:4], strict=True):
                for key in ours if isinstance(ours, dict) else [slice(None)]:
                    np.testing.assert_array_equal(ours[key], theirs[key])
        reasons = [result[4].get("stop_reason", np.full(ROWS, None)).tolist() for result in results]
        assert reasons[0] == reasons[2]
        done = results[0][2] | results[0][3]
        if mode == "Disabled" and done.any():
            for env in (play, step, sync):
                env.reset(options={"reset_mask": done})
    for env in (play, step):
        env.close()


def test_turns_are_checked_against_the_masks_of_each_of_their_tokens():
    env = TokenVectorEnv([lambda: TextEnv(make_task())] * 2, **OPTIONS, constraint="regex:(ab)+", strict=True)
    env.reset(options={"index": 0})
    with pytest.raises(TokenError, match="token 97 is masked"):
        env.send([0], [[*b"aa", EOS]])
    with pytest.raises(TokenError, match="token 257 is masked"):
        env.play([[*b"ab", EOS], [*b"aba", EOS]])
    infos = env.play([[*b"ab", EOS], [*b"abab", EOS]])[4]
    assert infos["stop_reason"].tolist() == ["stop", "stop"]
    lenient = TokenVectorEnv([lambda: TextEnv(make_task())], **OPTIONS, constraint="regex:(ab)+")
    lenient.reset(options={"index": 0})
    with pytest.raises(TokenError, match="goes on after the end .* comes with token 2"):
        lenient.send([0], [[*b"aab"]])
    assert lenient.play([[*b"aa"]])[4]["stop_reason"].tolist() == ["invalid_action"]


def test_a_constraint_of_the_wrong_shape_is_refused_at_once():
    class Wrong:
        def start(self, tokenizer, stop_token_ids):
            return lambda written: np.ones(5, dtype=np.bool_)

    with pytest.raises(OptionError, match=r"bool array of shape \(258,\), got bool \(5,\)"):
        make(constraint=Wrong())

"""`TokenVectorEnv` against Gymnasium's `SyncVectorEnv` over `TokenEnv`, and the engines' interface."""

import time
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tasks import Echo, Slow, make_task, make_tool_task

from llm_envs import EpisodeError, OptionError, TextEnv, TokenEnv, TokenError, TokenVectorEnv, ToolEnv, VerifierError

EOS, PAD, ROWS = 257, 256, 3
LETTERS = [ord(letter) for letter in "tacesroh? "]
TASKS = {True: make_task(True), False: make_task(False)}
TOOLS = make_tool_task()
MODES = [mode.value for mode in AutoresetMode]
OPTIONS: dict[str, Any] = {"max_length": 64, "max_new_tokens": 8}

scenarios = given(
    seed=st.integers(0, 2**31),
    mode=st.sampled_from(MODES),
    text=st.sampled_from(["finished", "unfinished", "tools", "foreign"]),
    limit=st.sampled_from([None, 5, 8]),
    masks=st.sampled_from([{}, {}, {"min_new_tokens": 2}, {"constraint": "regex:[a-z? ]{2,}"}]),
)


def text_env(text):
    if text == "tools":
        return ToolEnv(TOOLS, on_verifier_error="unscored")
    return Echo() if text == "foreign" else TextEnv(TASKS[text == "unfinished"], on_verifier_error="unscored")


def single(text, limit, masks):
    env = TokenEnv(text_env(text), **OPTIONS, **masks)
    return TimeLimit(env, limit) if limit else env


def vector(text="finished", rows=ROWS, **options):
    return TokenVectorEnv([lambda: text_env(text)] * rows, **{**OPTIONS, **options})


def row_info(infos, row):
    """One row of a vector info, whether its dictionaries were merged (Gymnasium) or kept whole (ours)."""
    found = {}
    for key, value in infos.items():
        if not key.startswith("_") and infos[f"_{key}"][row]:
            found[key] = row_info(value, row) if isinstance(value, dict) else value[row]
    return plain(found)


def plain(value):
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def assert_same_row(ours, row, other, other_row=0):
    for key, array in ours[0].items():
        np.testing.assert_array_equal(array[row], other[0][key][other_row])
    for mine, theirs in zip(ours[1:4], other[1:4], strict=True):
        assert mine[row] == theirs[other_row]
        assert mine.dtype == theirs.dtype
    assert row_info(ours[4], row) == row_info(other[4], other_row)


@scenarios
@settings(max_examples=60, deadline=None)
def test_step_equals_sync_vector_env(seed, mode, text, limit, masks):
    rng = np.random.default_rng(seed)
    ours = vector(text, max_episode_steps=limit, autoreset_mode=mode, **masks)
    sync = SyncVectorEnv([lambda: single(text, limit, masks)] * ROWS, autoreset_mode=mode)
    assert ours.observation_space == sync.observation_space
    assert ours.action_space == sync.action_space
    for (obs, infos), (sync_obs, sync_infos) in [(ours.reset(seed=seed), sync.reset(seed=seed))]:
        for row in range(ROWS):
            assert row_info(infos, row) == row_info(sync_infos, row)
        np.testing.assert_array_equal(obs["tokens"], sync_obs["tokens"])
    done = np.zeros(ROWS, bool)
    for _ in range(30):
        going_on = ~done | (mode != "NextStep")  # a row that is about to reset takes no token
        np.testing.assert_array_equal(ours.action_masks()[going_on], np.stack(sync.call("action_masks"))[going_on])
        actions = np.where(rng.random(ROWS) < 0.2, EOS, rng.choice(LETTERS, ROWS))
        actions = np.where(rng.random(ROWS) < 0.03, PAD, actions)
        result, expected = ours.step(actions), sync.step(actions)
        for row in range(ROWS):
            assert_same_row(result, row, expected, row)
        done = result[2] | result[3]
        if mode == "Disabled" and done.any():
            obs, infos = ours.reset(options={"reset_mask": done})
            sync_obs, sync_infos = sync.reset(options={"reset_mask": done})
            for key in obs:
                np.testing.assert_array_equal(obs[key], sync_obs[key])
            assert [row_info(infos, row) for row in range(ROWS)] == [row_info(sync_infos, row) for row in range(ROWS)]
    ours.close()


def random_turn(rng, room):
    """Letters, then a stop token, a masked token, or nothing: a fragment unless the room is used up."""
    last = rng.choice([EOS, EOS, PAD, ord("x")])
    return np.append(rng.choice(LETTERS, rng.integers(room)), last)


@scenarios
@settings(max_examples=60, deadline=None)
def test_play_and_send_equal_step_by_step(seed, mode, text, limit, masks):
    rng = np.random.default_rng(seed)
    play, send = (vector(text, max_episode_steps=limit, autoreset_mode=mode, **masks) for _ in range(2))
    singles = [SyncVectorEnv([lambda: single(text, limit, masks)], autoreset_mode=mode) for _ in range(ROWS)]
    obs, _ = play.reset(seed=seed)
    send.reset(seed=seed)
    for row, env in enumerate(singles):
        env.reset(seed=seed + row)
    done, elapsed = np.zeros(ROWS, bool), np.zeros(ROWS, int)
    for _ in range(8):
        room = np.minimum(obs["remaining"][:, 0], (limit or 99) - elapsed)
        room = np.where(done & (mode == "NextStep"), 1, room)
        turns = [random_turn(rng, room[row]) for row in range(ROWS)]
        result = play.play(turns)
        send.send([2, 0, 1], [turns[2], turns[0], turns[1]])
        received: dict[int, tuple[dict, list, dict, int]] = {}
        while len(received) < ROWS:
            rows, *columns, infos = send.recv()
            for i, row in enumerate(rows.tolist()):
                received[row] = ({key: value[i] for key, value in columns[0].items()}, columns[1:], infos[i], i)
        for row, env in enumerate(singles):
            for token in turns[row]:
                expected = env.step(np.array([token]))
            assert_same_row(result, row, expected)
            row_obs, columns, info, i = received[row]
            for key in row_obs:
                np.testing.assert_array_equal(row_obs[key], result[0][key][row])
            assert [column[i] for column in columns] == [column[row] for column in result[1:4]]
            assert plain(info) == row_info(result[4], row)
        elapsed += [len(turn) for turn in turns]
        was_done, done, obs = done, result[2] | result[3], result[0]
        elapsed[done | was_done if mode == "NextStep" else done] = 0
        if mode == "Disabled" and done.any():
            for env in (play, send):
                obs, _ = env.reset(options={"reset_mask": done})
            for ended in np.flatnonzero(done):
                singles[ended].reset()
            done = np.zeros(ROWS, bool)
        elif mode == "SameStep":
            done = np.zeros(ROWS, bool)


def test_verdicts_run_in_parallel_and_send_returns_at_once():
    judge = Slow(0.2)
    env = TokenVectorEnv([lambda: TextEnv(make_task(), verifier=judge)] * 6, **OPTIONS)
    env.reset(seed=0)
    start = time.perf_counter()
    env.step(np.full(6, EOS))
    assert judge.most == 6
    assert time.perf_counter() - start < 0.9  # six in a row take 1.2 s
    env.reset(seed=0)
    start = time.perf_counter()
    env.send([4, 1], [[65, EOS], [66, EOS]])
    assert time.perf_counter() - start < 0.1
    assert judge.calls[6:] == []
    env.send([2], [[65]])  # generation goes on meanwhile
    assert env.recv()[0].tolist() == [2]
    while len(judge.calls) < 8:
        assert set(env.recv()[0]) <= {1, 4}


def test_verdicts_keep_floats_and_stay_whole():
    env = vector(rows=2)
    env.reset(options={"index": [0, 1]})
    *_, infos = env.play([[*b"tac", EOS], [*b"e", EOS]])
    assert infos["verdict"].dtype == object
    assert [verdict["score"] for verdict in infos["verdict"]] == [1.0, 0.2]
    assert infos["example_id"].tolist() == ["train/cat", "train/horse"]
    assert "episode" not in infos


def test_same_step_keeps_final_observation_and_info():
    env = vector(rows=2, autoreset_mode="SameStep")
    first, _ = env.reset(seed=1, options={"index": [0, 4]})
    obs, rewards, terminated, _, infos = env.play([[*b"tac", EOS], [65]])
    assert (rewards.tolist(), terminated.tolist()) == ([1.0, False], [True, False])
    assert infos["final_obs"][0]["length"] == first["length"][0] + 4
    assert infos["final_info"]["verdict"][0]["passed"]
    assert infos["final_obs"][1] is None
    assert obs["remaining"][:, 0].tolist() == [8, 7]


def test_reset_options_and_seeds():
    env = vector()
    assert env.reset(options={"index": 2})[1]["example_id"].tolist() == ["train/bee"] * 3
    assert env.reset(options={"index": np.array([4, 0, 1])})[1]["example_id"][0] == "train/ox"
    mask = np.array([False, True, False])
    obs, infos = env.reset(options={"reset_mask": mask, "index": [0, 3, 0]})
    assert infos["_example_id"].tolist() == mask.tolist()
    assert infos["example_id"][1] == "train/giraffe"
    a = env.reset(seed=[5, 5, 9])[1]["example_id"]
    assert a[0] == a[1] == env.reset(seed=4)[1]["example_id"][1]
    for options, words in [
        ({"index": [0]}, "one entry per row"),
        ({"index": 9}, "from 0 to 4"),
        ({"reset_mask": [True]}, "bool array"),
        ({"reset_mask": ~np.ones(3, bool)}, "at least one row"),
        ({"idx": 1}, "did you mean 'index'"),
    ]:
        with pytest.raises(OptionError, match=words):
            env.reset(options=options)
    with pytest.raises(OptionError, match="num_envs=3"):
        env.reset(seed=[1])


def test_turns_that_cannot_be_played():
    env = vector(autoreset_mode="Disabled")
    with pytest.raises(EpisodeError, match="never reset"):
        env.send([0], [[EOS]])
    env.reset(seed=0)
    for turn, words in [
        ([65] * 9, "goes on after the end"),
        ([65, EOS, 65], "goes on after the end"),
        ([], "non-empty"),
        ([1.5], "integer"),
        ([300], "out of range"),
    ]:
        with pytest.raises(TokenError, match=words):
            env.send([0], [turn])
    with pytest.raises(TokenError, match="different rows"):
        env.send([0, 0], [[65], [65]])
    with pytest.raises(TokenError, match="no row 3"):
        env.send([3], [[65]])
    with pytest.raises(EpisodeError, match="call send first"):
        env.recv()
    env.send([0], [[65, EOS]])
    with pytest.raises(EpisodeError, match="call recv first"):
        env.step(np.array([65, 65, 65]))
    env.recv()
    with pytest.raises(EpisodeError, match="reset_mask"):
        env.step(np.array([65, 65, 65]))
    assert env.reset(seed=0)[0]["remaining"].tolist() == [[8]] * 3  # nothing of the refused turns was written
    with pytest.raises(TokenError, match="shape"):
        env.step(np.array([65]))
    with pytest.raises(TokenError, match="out of range"):
        env.step(np.array([65, -1, 65]))


def test_strict_refuses_masked_tokens_before_anything_is_written():
    env = vector(strict=True)
    before, _ = env.reset(seed=0)
    with pytest.raises(TokenError, match="masked"):
        env.step(np.array([65, PAD, 65]))
    with pytest.raises(TokenError, match="masked"):
        env.send([1], [[PAD]])
    assert env.step(np.array([65, 65, 65]))[0]["length"].tolist() == (before["length"] + 1).tolist()


def test_a_broken_judge_raises_and_spares_the_other_rows():
    env = TokenVectorEnv([lambda: TextEnv(make_task())] * 3, **OPTIONS)
    env.reset(options={"index": 0})
    with pytest.raises(VerifierError):
        env.play([[*b"tac", EOS], [*b"crash", EOS], [65]])
    rows, _, rewards, terminated, _, _ = env.recv()
    assert (rows.tolist(), rewards.tolist(), terminated.tolist()) == ([0, 2], [1.0, 0.0], [True, False])


def test_unscored_rows_are_truncated():
    env = vector(rows=2)
    env.reset(options={"index": 0})
    _, rewards, terminated, truncated, infos = env.play([[*b"crash", EOS], [*b"tac", EOS]])
    assert (rewards.tolist(), terminated.tolist(), truncated.tolist()) == ([0, 1], [False, True], [True, False])
    assert infos["unscored"].tolist() == [True, False]
    assert infos["_verdict"].tolist() == [False, True]


def test_what_an_agent_may_read():
    env = vector()
    assert env.get_wrapper_attr("num_examples") == 5
    assert env.has_wrapper_attr("send")
    masks = env.action_masks()
    assert masks.shape == (3, 258)
    assert not masks[:, PAD].any()
    assert masks.sum() == 3 * 257
    assert (env.eos_token_id, env.pad_token_id, env.stop_token_ids, env.max_length) == (EOS, PAD, (EOS,), 64)
    assert env.next_token_mask([[65]]) is None
    assert env.decode([104, 105, EOS]) == "hi"


def test_options_are_checked():
    with pytest.raises(OptionError, match="did you mean 'SameStep'"):
        vector(autoreset_mode="SamStep")
    with pytest.raises(OptionError, match="max_episode_steps"):
        vector(max_episode_steps=0)
    with pytest.raises(OptionError, match="at least one"):
        TokenVectorEnv([])

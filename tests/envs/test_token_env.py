"""The token level: prefixes, budgets, ends of turns, and other people's text environments."""

import gymnasium as gym
import numpy as np
import pytest
import tokenizers
from gymnasium.spaces import Text
from small_tasks import Echo, Share, make_task
from tokenizers.models import BPE

from llm_envs import EpisodeError, OptionError, TextEnv, TokenEnv, TokenError
from llm_envs.tokenizer import FastTokenizer

EOS, PAD = 257, 256


def make(text_env=None, **options):
    return TokenEnv(text_env or TextEnv(make_task()), **{"max_length": 40, **options})


def write(env, text, *last):
    for token in [*text.encode(), *last]:
        result = env.step(np.int64(token))
    return result


def prefix(env, observation):
    return env.decode(observation["tokens"][: observation["length"][0]])


def test_state_is_the_prefix_and_the_reward_lands_on_the_last_token():
    env = make()
    first, info = env.reset(options={"index": 0})
    assert prefix(env, first) == "spell cat\n"
    assert info == {"example_id": "train/cat", "task": "Reverse", "split": "train"}
    rewards = []
    for count, token in enumerate([*b"tac", EOS], start=1):
        observation, reward, terminated, truncated, info = env.step(np.int64(token))
        rewards.append(reward)
        assert observation["length"][0] == first["length"][0] + count
        assert observation["remaining"][0] == 8 - count
        assert observation in env.observation_space
        assert (observation["tokens"][observation["length"][0] :] == PAD).all()
        assert (info == {}) == (not terminated)
    assert rewards == [0.0, 0.0, 0.0, 1.0]
    assert (terminated, truncated, info["stop_reason"], info["verdict"]["kind"]) == (True, False, "stop", "passed")
    assert prefix(env, first) == "spell cat\n"  # observations are copies


@pytest.mark.parametrize(("judge_unfinished", "reward", "kind"), [(True, 3 / 8, "wrong"), (False, 0.0, "unfinished")])
def test_budget_exhausted(judge_unfinished, reward, kind):
    env = make(TextEnv(make_task(judge_unfinished)))
    env.reset(options={"index": 0})
    observation, got, terminated, truncated, info = write(env, "tacxxxxx")
    assert (got, terminated, truncated) == (reward, True, False)
    assert (info["stop_reason"], info["verdict"]["kind"]) == ("length", kind)
    assert observation["remaining"][0] == 0


def test_stop_token_on_the_last_of_the_budget_is_a_stop():
    env = make(max_new_tokens=4)
    env.reset(options={"index": 0})
    assert write(env, "tac", EOS)[4]["stop_reason"] == "stop"


def test_masked_token_ends_the_episode_unasked():
    judge = Share()
    env = make(TextEnv(make_task(), verifier=judge))
    env.reset(options={"index": 0})
    assert not env.action_masks()[PAD]
    assert env.action_masks().sum() == 257
    _, reward, terminated, truncated, info = write(env, "tac", PAD)
    assert (reward, terminated, truncated, judge.calls) == (0.0, True, False, [])
    assert (info["stop_reason"], info["verdict"]["kind"]) == ("invalid_action", "invalid_action")
    assert {"example_id", "metadata"} <= set(info)


def test_strict_raises_and_the_episode_goes_on():
    env = make(strict=True)
    env.reset(options={"index": 0})
    with pytest.raises(TokenError, match="masked"):
        env.step(PAD)
    assert write(env, "tac", EOS)[1] == 1.0


@pytest.mark.parametrize("token", [-1, 258])
def test_out_of_range(token):
    env = make()
    env.reset()
    with pytest.raises(TokenError, match=f"token {token} is out of range: .* 0 to 257"):
        env.step(token)


def test_step_outside_an_episode():
    env = make()
    with pytest.raises(EpisodeError):
        env.step(65)
    env.reset()
    env.step(EOS)
    with pytest.raises(EpisodeError):
        env.step(65)


def test_stop_tokens_of_ones_own():
    newline = ord("\n")
    env = make(stop_token_ids=[newline, EOS])
    env.reset(options={"index": 0})
    assert write(env, "tac\n")[1] == 1.0
    padded = make(stop_token_ids=[PAD])
    padded.reset(options={"index": 0})
    assert padded.action_masks().all()
    assert write(padded, "tac", PAD)[4]["stop_reason"] == "stop"


def test_invalid_bytes_are_decoded_and_never_encoded_again():
    env = make()
    env.reset(options={"index": 0})
    env.step(0xFF)
    observation, *_ = env.step(EOS)
    assert observation["tokens"][observation["length"][0] - 2] == 0xFF
    assert env.env.messages[-1]["content"] == "\ufffd"


def test_time_limit_truncates_without_a_verdict():
    env = gym.wrappers.TimeLimit(make(), 2)
    env.reset()
    env.step(65)
    _, reward, terminated, truncated, info = env.step(65)
    assert (reward, terminated, truncated, info) == (0.0, False, True, {})


def test_attributes_are_reachable_through_wrappers():
    env = gym.wrappers.TimeLimit(make(), 9)
    for name in ("eos_token_id", "pad_token_id", "stop_token_ids", "max_length", "num_examples", "decode"):
        assert env.has_wrapper_attr(name)
    assert env.get_wrapper_attr("num_examples") == 5
    assert env.get_wrapper_attr("next_token_mask")([[1]]) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens must be a positive integer"),
        ({"max_length": 2.5}, "max_length must be a positive integer"),
        ({"message_format": "chta"}, "did you mean 'chat'"),
        ({"stop_token_ids": [999]}, "ids from 0 to 257"),
        ({"stop_token_ids": []}, "at least one"),
        ({"tokenizer": 3}, "tokenizer must be"),
    ],
)
def test_impossible_options(options, words):
    with pytest.raises(OptionError, match=words):
        make(**options)


def test_prompt_that_does_not_fit():
    with pytest.raises(OptionError, match="10 tokens long and max_new_tokens=31 .* max_length=40; give max_length=41"):
        make(max_new_tokens=31).reset(options={"index": 0})


def test_byte_tokenizer_has_no_chat_template():
    with pytest.raises(OptionError, match="chat template"):
        make(message_format="chat").reset()


class TestForeignEnvironment:
    """Three rounds of somebody else's: its spaces, its rewards, its later observations as tokens of the prefix."""

    def test_turns_share_the_prefix_and_the_budget(self):
        env = make(Echo(), max_new_tokens=12)
        observation, _ = env.reset(seed=0)
        prompt = prefix(env, observation)
        observation, reward, terminated, _, info = write(env, "hey", EOS)
        assert (reward, terminated, info) == (3.0, False, {"round": 1, "reencoding_differs": False})
        assert prefix(env, observation) == prompt + "hey" + "again a\n"
        assert observation["remaining"][0] == 8
        assert write(env, "", EOS)[1] == 0.0
        _, reward, terminated, truncated, info = write(env, "bye", EOS)
        assert (reward, terminated, truncated) == (3.0, True, False)
        assert info == {"round": 3, "stop_reason": "stop", "reencoding_differs": False}

    def test_budget_ends_an_episode_that_would_go_on(self):
        env = make(Echo(), max_new_tokens=3)
        env.reset()
        _, reward, terminated, _, info = write(env, "hey")
        assert (reward, terminated) == (3.0, True)
        assert info == {"round": 1, "stop_reason": "length", "reencoding_differs": False}

    def test_an_observation_that_does_not_fit_ends_the_episode(self):
        env = make(Echo(), max_length=14, max_new_tokens=8)
        observation, _ = env.reset()
        length = observation["length"][0]
        observation, reward, terminated, _, info = write(env, "hey", EOS)
        assert (reward, terminated, info["stop_reason"]) == (3.0, True, "length")
        assert observation["length"][0] == length + 4

    @pytest.mark.parametrize("written", ["HEY", "muchtoolongforit"])
    def test_a_message_outside_its_action_space_is_invalid(self, written):
        env = make(Echo(), max_new_tokens=20)
        env.reset()
        _, reward, terminated, _, info = write(env, written, EOS)
        assert (reward, terminated) == (0.0, True)
        assert info == {"stop_reason": "invalid_action", "reencoding_differs": False}

    def test_it_says_no_number_of_examples(self):
        assert make(Echo()).num_examples is None

    def test_its_spaces_must_be_text(self):
        with pytest.raises(OptionError, match="Text observations and Text actions"):
            TokenEnv(gym.make("CartPole-v1"))
        assert isinstance(Echo.action_space, Text)


def test_reasons_pass_through_wrappers_of_the_text_level():
    text = gym.make("llm_envs/ReverseText-v0", judge_unfinished=False)  # order enforcing and passive checker included
    env = TokenEnv(gym.wrappers.TransformReward(text, lambda reward: 10 * float(reward)), max_length=40)
    env.reset(options={"index": 0})
    assert write(env, "tac", EOS)[1] == 10.0
    env.reset(options={"index": 0})
    _, reward, _, _, info = write(env, "tac     ")
    assert (reward, info["verdict"]["kind"]) == (0.0, "unfinished")
    env.reset(options={"index": 0})
    assert write(env, "", PAD)[4]["verdict"]["kind"] == "invalid_action"


def test_reencoding_is_counted_and_never_done():
    merged = tokenizers.Tokenizer(BPE(vocab={"a": 0, "b": 1, "ab": 2, "<eos>": 3}, merges=[("a", "b")]))
    env = make(Echo(), tokenizer=FastTokenizer(merged, eos_token="<eos>"), max_new_tokens=12)
    for turn, differs in [([2, 3], False), ([0, 1, 3], True), ([1, 0, 3], False), ([3], False)]:
        start = env.reset(seed=1)[0]["length"][0]
        for token in turn[:-1]:
            assert "reencoding_differs" not in env.step(token)[4]
        observation, *_, info = env.step(turn[-1])
        assert info["reencoding_differs"] is differs
        assert observation["tokens"][start : start + len(turn)].tolist() == turn

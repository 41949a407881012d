"""Regular expressions, JSON schemas and one's own constraints, by option."""

import json
import pickle
import re
from typing import Any

import gymnasium as gym
import jsonschema
import numpy as np
import pytest
import tokenizers
from small_tasks import Alternating, make_task
from tokenizers import decoders, pre_tokenizers
from tokenizers.models import BPE

from llm_envs import Constraint, OptionError, TextEnv, TokenEnv, TokenError
from llm_envs.tokenizer import ByteTokenizer, FastTokenizer

EOS = 257
OPTIONS: dict[str, Any] = {"max_length": 64, "max_new_tokens": 8}
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": -9, "maximum": 99}, "ok": {"type": "boolean"}},
    "required": ["n", "ok"],
    "additionalProperties": False,
    "x-guidance": {"whitespace_flexible": False},
}


def make(text_env=None, **options):
    return TokenEnv(text_env or TextEnv(make_task()), **{**OPTIONS, **options})


def allowed(env):
    return set(np.flatnonzero(env.action_masks()).tolist())


def merged_bytes(*words):
    """Byte-level BPE with these words as tokens beside the bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: token for token, symbol in enumerate(alphabet)}
    merges = []
    for word in words:
        for end in range(2, len(word) + 1):
            if word[:end] not in vocabulary:
                vocabulary[word[:end]] = len(vocabulary)
                merges.append((word[: end - 1], word[end - 1]))
    tokenizer = tokenizers.Tokenizer(BPE(vocab={**vocabulary, "<eos>": len(vocabulary)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<eos>"])
    return FastTokenizer(tokenizer, eos_token="<eos>")


def written_at_random(env, rng, steps=60):
    """The message of a policy that draws from the masks, and the last info."""
    env.reset(options={"index": 0})
    for _ in range(steps):
        token = rng.choice(np.flatnonzero(env.action_masks()))
        _, _, terminated, _, info = env.step(token)
        if terminated:
            return env.env.messages[-1]["content"], info
    raise AssertionError("the budget did not end the episode")


def test_a_regular_expression_holds_for_the_whole_turn():
    env = make(constraint="regex:[0-9]{2}(é|x)?")
    env.reset(options={"index": 0})
    steps: list[tuple[int, Any]] = [
        (ord("4"), set(b"0123456789")),
        (ord("2"), set(b"0123456789")),
        (0xC3, {EOS, ord("x"), 0xC3}),
        (0xA9, {0xA9}),
    ]
    for token, expected in steps:
        assert allowed(env) == expected
        _, reward, terminated, truncated, info = env.step(token)
        assert (reward, terminated, truncated, info) == (0.0, False, False, {})
    assert allowed(env) == {EOS}
    assert env.step(EOS)[4]["stop_reason"] == "stop"
    assert env.env.messages[-1]["content"] == "42é"


def hugging_face(tokenizer):
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer.tokenizer, eos_token="<eos>")


WORDS = merged_bytes('{"n":', "true", '}"', "12", ',"ok"')


@pytest.mark.parametrize("tokenizer", [ByteTokenizer(), WORDS, hugging_face(WORDS)], ids=["bytes", "words", "hf"])
def test_a_json_schema_is_met_by_whatever_stops(tokenizer):
    env = make(tokenizer=tokenizer, constraint=f"json_schema:{json.dumps(SCHEMA)}", max_new_tokens=32)
    rng = np.random.default_rng(0)
    for _ in range(10):
        message, info = written_at_random(env, rng)
        assert info["stop_reason"] == "stop"
        jsonschema.validate(json.loads(message), SCHEMA)


def test_tokens_of_several_characters_match_as_text():
    tokenizer = merged_bytes("12", "123")
    env = make(tokenizer=tokenizer, constraint="regex:1(2)?")
    env.reset(options={"index": 0})
    assert {tokenizer.decode([token]) for token in allowed(env)} == {"1", "12"}


def test_what_leaves_the_grammar_ends_the_episode():
    env = make(constraint="regex:[0-9]+")
    env.reset(options={"index": 0})
    env.step(ord("4"))
    assert env.step(ord("x"))[4]["stop_reason"] == "invalid_action"
    strict = make(constraint="regex:[0-9]+", strict=True)
    strict.reset(options={"index": 0})
    with pytest.raises(TokenError, match="masked"):
        strict.step(EOS)


def test_constraints_by_name_stay_json_and_objects_are_shared():
    env: Any = gym.make("llm_envs/Reverse-v0", constraint="regex:[a-z]+", min_new_tokens=1)
    env.reset(seed=1)
    env.step(ord("a"))
    spec = gym.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert spec.kwargs["constraint"] == "regex:[a-z]+"
    copy = pickle.loads(pickle.dumps(env))
    np.testing.assert_array_equal(copy.unwrapped.action_masks(), env.unwrapped.action_masks())
    own: Any = Alternating()
    assert isinstance(Alternating(), Constraint)
    made: list[Any] = [
        gym.make("llm_envs/Reverse-v0", constraint=own),
        gym.make_vec("llm_envs/Reverse-v0", 2, constraint=own),
    ]
    for env in made:
        env.reset(seed=0)
        env.get_wrapper_attr("action_masks")()
    assert own.started == 3  # one per row, all of the same object
    assert pickle.loads(pickle.dumps(made[0])).reset(seed=0)
    made[1].close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"constraint": "regexp:a"}, "unknown kind of constraint 'regexp': did you mean 'regex:...'"),
        ({"constraint": "[0-9]+"}, "unknown kind of constraint"),
        ({"constraint": "regex:[0-9"}, r"constraint regex:'\[0-9' cannot be compiled: .*unclosed character class"),
        ({"constraint": "json_schema:{"}, "cannot be compiled"),
        ({"constraint": 'json_schema:{"type": "objct"}'}, "cannot be compiled: .*objct"),
        ({"constraint": 3}, "a string or an object with the method start, got 3"),
        ({"min_new_tokens": 8}, "less than max_new_tokens=8, got 8"),
        ({"min_new_tokens": -1}, "min_new_tokens must be an integer of at least 0, got -1"),
        ({"allowed_tokens": [999]}, "allowed_tokens must be ids from 0 to 257"),
    ],
)
def test_impossible_options(options, words):
    with pytest.raises(OptionError, match=re.compile(words, re.DOTALL)):
        make(**options)


def test_without_the_library_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "llguidance", None)
    with pytest.raises(OptionError, match=r"pip install llm-envs\[constraints\]"):
        make(constraint="regex:a")
    make(constraint=Alternating())


def test_tokenizers_whose_bytes_are_unknown_are_refused():
    """One with the interface alone says what ids decode to, which need not be what they stand for among others."""
    names = ("encode", "decode", "chat", "chat_later", "vocab_size", "eos_token_id", "pad_token_id")
    own = type("Own", (), {name: vars(ByteTokenizer)[name] for name in names})()
    with pytest.raises(OptionError, match="need the byte tokenizer, .* give a Constraint object"):
        make(tokenizer=own, constraint="regex:a")
    make(tokenizer=own, constraint=Alternating())

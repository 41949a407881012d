"""Tokenizers: bytes, `tokenizers`, and `transformers`."""

import copy
import pickle

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from small_tasks import make_task

from llm_envs import ByteTokenizer, OptionError, TextEnv, TokenEnv, as_tokenizer

VOCABULARY = {word: i for i, word in enumerate(["<unk>", "spell", "cat", "tac", "<|im_end|>", "<pad>", "user", ":"])}


def word_tokenizer():
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(VOCABULARY, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<|im_end|>", "<pad>"])
    return tokenizer


@given(st.text())
def test_bytes_round_trip(text):
    tokenizer = ByteTokenizer()
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.lists(st.integers(0, ByteTokenizer.vocab_size - 1)))
def test_any_bytes_decode(ids):
    ByteTokenizer().decode(ids).encode()


def test_default_is_bytes():
    assert as_tokenizer() == as_tokenizer("byte") == ByteTokenizer()


def test_tokenizers_object():
    source = word_tokenizer()
    source.enable_padding(length=50)
    tokenizer = as_tokenizer(source)
    assert (tokenizer.vocab_size, tokenizer.eos_token_id, tokenizer.pad_token_id) == (8, 4, 5)
    assert tokenizer.encode("spell cat") == [1, 2]  # neither padding nor special tokens
    assert source.padding is not None
    assert tokenizer.decode([3, 4]) == "tac"
    assert copy.deepcopy(tokenizer) is tokenizer
    assert pickle.loads(pickle.dumps(tokenizer)).encode("cat") == [2]


def test_files_and_folders(tmp_path):
    with pytest.raises(OptionError, match="neither tokenizer_config.json nor tokenizer.json"):
        as_tokenizer(tmp_path)
    word_tokenizer().save(str(tmp_path / "tokenizer.json"))
    for location in (tmp_path, str(tmp_path), tmp_path / "tokenizer.json"):
        assert as_tokenizer(location).encode("cat") == [2]


def test_tokenizer_without_an_end():
    bare = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
    with pytest.raises(OptionError, match="give stop_token_ids"):
        TokenEnv(TextEnv(make_task()), tokenizer=bare)
    assert TokenEnv(TextEnv(make_task()), tokenizer=bare, stop_token_ids=[1]).pad_token_id == 1


def test_ids_with_gaps():
    transformers = pytest.importorskip("transformers")
    source = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "<unk>": 1, "</s>": 9}, unk_token="<unk>"))
    assert as_tokenizer(source).vocab_size == 10
    assert as_tokenizer(transformers.PreTrainedTokenizerFast(tokenizer_object=source)).vocab_size == 10


def test_lone_surrogates():
    transformers = pytest.importorskip("transformers")
    source = word_tokenizer()
    for tokenizer in (
        as_tokenizer(source),
        as_tokenizer(transformers.PreTrainedTokenizerFast(tokenizer_object=source)),
    ):
        assert tokenizer.encode("cat \ud800") == [2, *tokenizer.encode("?")]


def test_transformers_object_folder_and_chat(tmp_path):
    transformers = pytest.importorskip("transformers")
    source = transformers.PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer(), eos_token="<|im_end|>", unk_token="<unk>"
    )
    source.chat_template = (
        "{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} <|im_end|> {% endfor %}"
        "{% if add_generation_prompt %}tac :{% endif %}"
    )
    source.save_pretrained(tmp_path)
    for tokenizer in (as_tokenizer(source), as_tokenizer(str(tmp_path))):
        assert (tokenizer.vocab_size, tokenizer.eos_token_id) == (8, 4)
        assert tokenizer.pad_token_id == 4  # falls back to the end
        assert tokenizer.encode("spell cat") == [1, 2]
        assert tokenizer.decode([3, 4]) == "tac"
        assert tokenizer.chat([{"role": "user", "content": "spell cat"}]) == [6, 7, 1, 2, 4, 3, 7]
    env = TokenEnv(TextEnv(make_task()), tokenizer=source, message_format="chat", max_length=32)
    observation, _ = env.reset(options={"index": 0})
    assert observation["tokens"][: observation["length"][0]].tolist() == [6, 7, 1, 2, 4, 3, 7]
    env.step(np.int64(3))
    assert env.step(np.int64(4))[1] == 1.0
    source.chat_template = None
    with pytest.raises(OptionError, match="chat template"):
        env.reset()

"""Tokenizers that people bring: ids without tokens, properties of the wrong type, templates without a tool role."""

import re
from typing import Any

import numpy as np
import pytest
import tokenizers
from small_tasks import make_task, make_tool_task
from test_chat_turns import TEMPLATE, chat_tokenizer

from llm_envs import (
    ByteTokenizer,
    OptionError,
    TextEnv,
    TokenEnv,
    TokenVectorEnv,
    ToolEnv,
    as_tokenizer,
)

TASK = make_task()
SMALL: dict[str, Any] = {"max_length": 64, "max_new_tokens": 8}


def refused(words: str) -> Any:
    return pytest.raises(OptionError, match=re.escape(words))


def with_gaps() -> tokenizers.Tokenizer:
    """Ids 0, 1, 2 and 9."""
    vocabulary = {"spell": 0, "<unk>": 1, "cat": 2, "</s>": 9}
    return tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))


def hugging_face(tokenizer: tokenizers.Tokenizer) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>")


@pytest.mark.parametrize("tokenizer", [with_gaps(), hugging_face(with_gaps())], ids=["tokenizers", "transformers"])
def test_ids_without_a_token_are_masked(tokenizer):
    assert as_tokenizer(tokenizer).unused_token_ids == set(range(3, 9))  # type: ignore[attr-defined]
    env = TokenEnv(TextEnv(TASK), tokenizer, **SMALL)
    rows = TokenVectorEnv([lambda: TextEnv(TASK)] * 2, tokenizer, **SMALL)
    for masks in (env.action_masks(), *rows.action_masks()):
        assert np.flatnonzero(masks).tolist() == [0, 1, 2, 9]
    env.reset(seed=0)
    assert env.step(np.int64(5))[4]["stop_reason"] == "invalid_action"
    with refused("allowed_tokens holds 5, an id for which the tokenizer has no token"):
        TokenEnv(TextEnv(TASK), tokenizer, **SMALL, allowed_tokens=[2, 5])
    with refused("stop_token_ids holds 8, an id for which the tokenizer has no token"):
        TokenEnv(TextEnv(TASK), tokenizer, **SMALL, stop_token_ids=[8])


def test_tokens_that_are_written_alike_are_tokens():
    class Twice:
        """As slow tokenizers do: of two ids with one text, the vocabulary names the later."""

        eos_token_id = pad_token_id = 2
        unk_token, unk_token_id = "<unk>", 3

        def get_vocab(self) -> dict[str, int]:
            return {"a": 1, "</s>": 2, "<unk>": 3, "b": 6}

        def __len__(self) -> int:
            return 7

        def convert_ids_to_tokens(self, token: int) -> str:
            if token == 5:
                raise IndexError(token)
            return ["a", "a", "</s>", "<unk>", "<unk>", "", "b"][token]

        def apply_chat_template(self) -> None: ...

    tokenizer: Any = as_tokenizer(Twice())
    assert (tokenizer.vocab_size, tokenizer.unused_token_ids) == (7, {4, 5})


def test_a_file_that_is_no_tokenizer(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    for location in (tmp_path, tmp_path / "tokenizer.json"):
        with refused("cannot read the tokenizer"):
            as_tokenizer(location)


# ---- chat templates ----

LAST = "{% endif %}{%- endfor"
NO_TOOLS = TEMPLATE.replace('{%- if message.role == "tool" %}', '{%- if message.role == "observation" %}').replace(
    "{% else %}", '{% elif message.role in ("user", "assistant") %}'
)


def test_the_templates_of_this_test_are_what_they_should_be():
    rendered = [chat_tokenizer(template).apply_chat_template(
        [{"role": "user", "content": "?"}, {"role": "tool", "content": "result"}], tokenize=False
    ) for template in (TEMPLATE, NO_TOOLS)]  # fmt: skip
    assert ["result" in text for text in rendered] == [True, False]


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (NO_TOOLS, "the chat template leaves out messages of the role 'tool', and this task has tools"),
        (NO_TOOLS.replace(LAST, "{% else %}{{ raise_exception('no tools here') }}" + LAST),
         "the chat template cannot render a conversation of (user, assistant, tool): no tools here"),
        (TEMPLATE.replace("{{ message.content }}<|im_end|>", "{{ message.content | upper }}<|im_end|>"),
         "the chat template changes what the assistant wrote"),
    ],
)  # fmt: skip
def test_templates_that_cannot_say_what_a_tool_returned(template, words):
    tokenizer = chat_tokenizer(template)
    options: dict[str, Any] = {**SMALL, "max_length": 400, "message_format": "chat"}
    for make in (
        lambda: TokenEnv(ToolEnv(make_tool_task()), tokenizer, **options),
        lambda: TokenVectorEnv([lambda: ToolEnv(make_tool_task())], tokenizer, **options),
    ):
        with refused(words):
            make()
    assert TokenEnv(TextEnv(TASK), tokenizer, **options).reset(seed=0), "a task of one message needs no later turns"
    assert TokenEnv(ToolEnv(make_tool_task()), chat_tokenizer(), **options).reset(seed=0)


# ---- properties and ids of the wrong type ----


def test_tokenizers_with_the_wrong_properties():
    class Own(ByteTokenizer):
        eos_token_id: Any = 257

    for name, value, words in [
        ("vocab_size", 258.0, "vocab_size of the tokenizer must be a positive integer, got 258.0"),
        ("vocab_size", 0, "vocab_size of the tokenizer must be a positive integer, got 0"),
        ("pad_token_id", "<pad>", "pad_token_id of the tokenizer must be an integer from 0 to 257, got '<pad>'"),
        ("pad_token_id", 258, "pad_token_id of the tokenizer must be an integer from 0 to 257, got 258"),
        ("eos_token_id", 1.5, "eos_token_id of the tokenizer must be an integer from 0 to 257, got 1.5"),
        ("unused_token_ids", [300], "unused_token_ids of the tokenizer must be ids from 0 to 257"),
        ("unused_token_ids", [257], "stop_token_ids holds 257, an id for which the tokenizer has no token"),
    ]:
        with refused(words):
            TokenEnv(TextEnv(TASK), type("Odd", (Own,), {name: value})(), **SMALL)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1, 300], "the tokenizer gives the id 300 for a text, and its vocab_size is 258"),
        ([-1], "the tokenizer gives the id -1 for a text"),
        ([1.5], "the tokenizer must give a list of integers for a text, got [1.5]"),
        ("ab", "the tokenizer must give a list of integers for a text, got 'ab'"),
        (None, "the tokenizer must give a list of integers for a text, got None"),
    ],
)
def test_tokenizers_that_encode_wrongly(ids, words):
    class Own(ByteTokenizer):
        def encode(self, text: str) -> list[int]:
            return ids

    env = TokenEnv(TextEnv(TASK), Own(), **SMALL)
    with refused(words):
        env.reset(seed=0)

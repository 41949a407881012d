"""Several turns in a chat template: the environment inserts what the template puts there, and re-encodes nothing."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from llm_envs import OptionError, as_tokenizer

ID = "llm_envs/CodeRepairTools-v0"
FEW = {"train": 70, "validation": 70, "test": 30}
# The usual shape (Hermes, Qwen): tools in the system message, their results as the user's.
TEMPLATE = """{%- if tools %}<|im_start|>system
Tools:{% for tool in tools %}
{{ tool | tojson }}{% endfor %}<|im_end|>
{% endif %}{%- for message in messages %}{%- if message.role == "tool" %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% else %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endif %}{%- endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def chat_tokenizer(template: str = TEMPLATE) -> Any:
    """Bytes and three special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|pad|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.chat_template = template
    return fast


def play(tokenizer: Any, **options: Any) -> tuple[Any, list[int], list[dict[str, str]]]:
    """Play the solution; returns the environment, the whole prefix and the conversation."""
    env: Any = gym.make(
        ID, tokenizer=tokenizer, message_format="chat", style="chat", sizes=FEW, max_length=8192, **options
    ).unwrapped
    env.reset(options={"index": 3})
    messages = env.env.task.solution(env.env.example)
    for message in messages:
        for token in [*tokenizer.encode(str(message), add_special_tokens=False), tokenizer.eos_token_id]:
            observation, reward, terminated, _, info = env.step(np.int64(token))
        assert terminated == (message is messages[-1])
    assert reward == 1.0
    return env, observation["tokens"][: observation["length"][0]].tolist(), env.env.messages


def test_the_prefix_is_what_the_template_makes_of_the_whole_conversation():
    tokenizer = chat_tokenizer()
    env, prefix, messages = play(tokenizer)
    text = tokenizer.apply_chat_template(messages, tools=env.env.tool_schemas, tokenize=False)
    assert tokenizer.decode(prefix) == text.rstrip("\n")
    assert '"name": "replace_lines"' in text
    assert "<tool_response>\nok\n" in text


def test_a_stop_token_of_its_own_keeps_the_end_of_the_message():
    tokenizer = chat_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "</tool_call>"]})
    stop = tokenizer.convert_tokens_to_ids("</tool_call>")
    env: Any = gym.make(
        ID, tokenizer=tokenizer, message_format="chat", style="chat", sizes=FEW, max_length=8192, stop_token_ids=[stop]
    ).unwrapped
    env.reset(options={"index": 3})
    call = str(env.env.task.solution(env.env.example)[0]).removesuffix("</tool_call>")
    for token in [*tokenizer.encode(call, add_special_tokens=False), stop]:
        observation, _, terminated, _, info = env.step(np.int64(token))
    assert not terminated
    assert info["tool"] == "view"
    text = tokenizer.decode(observation["tokens"][: observation["length"][0]].tolist())
    assert "</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n1|def " in text
    assert text.endswith("<|im_start|>assistant\n")


def test_a_template_that_changes_what_was_written_is_refused():
    tokenizer = chat_tokenizer(
        TEMPLATE.replace("{{ message.content }}<|im_end|>", "{{ message.content | upper }}<|im_end|>")
    )
    with pytest.raises(OptionError, match="changes what the assistant wrote"):
        play(tokenizer)


def test_no_template():
    tokenizer = chat_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(OptionError, match="needs a tokenizer with a chat template"):
        play(tokenizer)


def test_a_template_that_demands_a_system_message():
    demand = "{%- if messages[0].role != 'system' %}{{ raise_exception('system first') }}{% endif %}"
    message = {"role": "tool", "content": "ok"}
    strict, plain = (as_tokenizer(chat_tokenizer(template)) for template in (demand + TEMPLATE, TEMPLATE))
    assert strict.chat_later(message, 0) == plain.chat_later(message, 0)
    with pytest.raises(OptionError, match="the chat template cannot render .*: system first"):
        strict.chat([message])


def test_lone_surrogates_in_messages():
    tokenizer = as_tokenizer(chat_tokenizer())
    odd, even = ({"role": "tool", "content": content} for content in ("\udc80", "?"))
    assert tokenizer.chat([odd]) == tokenizer.chat([even])
    assert tokenizer.chat_later(odd, 0) == tokenizer.chat_later(even, 0)

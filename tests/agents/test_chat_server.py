"""The chat agent against a real server, `transformers serve`, with two small models made here.

One has random weights; the other was trained for some seconds to call `view`, and `submit` once it has seen a result.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request

import gymnasium as gym
import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

import agents
import llm_envs  # noqa: F401  (registers the environments)
from agents.base import AgentError
from agents.models import TinyConfig, build_tiny, train_tokenizer

pytestmark = pytest.mark.slow
for name in ("openai", "fastapi", "uvicorn"):
    pytest.importorskip(name)

TEXT, TOOLS = "llm_envs/TransformText-v0", "llm_envs/CodeRepairToolsText-v0"
TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CALLS = {
    "user": '<tool_call>\n{"name": "view", "arguments": {"path": "main.py"}}\n</tool_call>',
    "tool": '<tool_call>\n{"name": "submit", "arguments": {}}\n</tool_call>',
}
CONTEXT = 2048


def conversations(env_id, n):
    """(messages, tools) before each turn of the trained model, on n problems."""
    env = gym.make(env_id, split="train", disable_env_checker=True)
    for index in range(n):
        observation, _ = env.reset(options={"index": index})
        tools, messages = env.get_wrapper_attr("tool_schemas"), [{"role": "user", "content": observation}]
        yield list(messages), tools
        observation = env.step(CALLS["user"])[0]
        function = {"name": "view", "arguments": {"path": "main.py"}}
        messages.append(
            {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}
        )
        yield [*messages, {"role": "tool", "content": observation}], tools
    env.close()


def make_tokenizer(texts):
    tokenizer = train_tokenizer([*texts, *CALLS.values(), TEMPLATE] * 3, 600)
    tokenizer.chat_template, tokenizer.model_max_length = TEMPLATE, CONTEXT
    return tokenizer


def save_random(folder):
    tokenizer = make_tokenizer(["reverse the list: 3 1 4"])
    model = build_tiny(tokenizer, TinyConfig(hidden_size=32, intermediate_size=64, layers=2, heads=2), CONTEXT, seed=0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def save_trained(folder):
    """A Qwen2, since the server knows how that family writes calls."""
    pairs = list(conversations(TOOLS, 24))
    tokenizer = make_tokenizer([message["content"] for messages, _ in pairs for message in messages])
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=CONTEXT, bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, tie_word_embeddings=True,
        )
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    examples = []
    for messages, tools in pairs:
        prompt = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)
        prompt_ids = tokenizer.encode(prompt)
        answer = [*tokenizer.encode(CALLS[messages[-1]["role"]]), tokenizer.eos_token_id]
        targets = [-100] * len(prompt_ids) + answer
        examples.append((torch.tensor([prompt_ids + answer]), torch.tensor([targets])))
    recent = [10.0]
    for step in range(2000):
        ids, labels = examples[step % len(examples)]
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        recent = [*recent, loss.item()][-len(examples) :]
        if max(recent) < 0.02:
            break
    assert max(recent) < 0.1
    model.generation_config.do_sample = False
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    torch.set_num_threads(1)
    save_random(folder / "random")
    save_trained(folder / "trained")
    return {name: str(folder / name) for name in ("random", "trained")}


@contextlib.contextmanager
def serving(log):
    """(process, URL) of a server of its own; ended in every case."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", "--host", "127.0.0.1",
               "--port", str(port), "--device", "cpu"]  # fmt: skip
    threads = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "NO_PROXY": "127.0.0.1"}
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **threads})
    try:
        for _ in range(600):
            assert process.poll() is None, log.read_text()[-3000:]
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                break
            time.sleep(0.2)
        yield process, f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("log") / "server.log") as (_, url):
        yield url


def play(agent, env, n, **options):
    return sorted(agent.play(env, range(n), **options), key=lambda episode: episode.number)


def test_single_turns_of_a_random_model_end_with_verdicts(models, url):
    agent = agents.make("chat", TEXT, model=models["random"], base_url=url, max_tokens=12)
    before = agent.usage
    assert (before.requests, before.completion_tokens, before.unreported) == (1, 1, 0)
    episodes = play(agent, TEXT, 6, rows=3, env_options={"split": "test"})
    assert [episode.failed for episode in episodes] == [""] * 6
    assert not any(episode.info["verdict"]["passed"] for episode in episodes)
    assert {episode.info["stop_reason"] for episode in episodes} <= {"length", "stop"}
    assert "length" in {episode.info["stop_reason"] for episode in episodes}
    assert agent.usage.requests == 7
    assert 6 <= agent.usage.completion_tokens - before.completion_tokens <= 72
    assert agent.usage.prompt_tokens > before.prompt_tokens
    assert agent.predict("reverse the list: 1 2", deterministic=True) == agent.predict(
        "reverse the list: 1 2", deterministic=True
    )


@pytest.mark.parametrize("native", [True, False])
def test_episodes_with_tools_of_a_random_model_end_with_verdicts(models, url, native):
    agent = agents.make("chat", TOOLS, model=models["random"], base_url=url, native_tools=native, max_tokens=8)
    episodes = play(agent, TOOLS, 3, rows=2)
    assert [episode.failed for episode in episodes] == [""] * 3
    assert not any(episode.info["verdict"]["passed"] for episode in episodes)
    assert agent.usage.requests == 1 + sum(episode.info["turn"] for episode in episodes)


def test_native_tool_calls_of_a_model_reach_the_environment(models, url):
    agent = agents.make("chat", TOOLS, model=models["trained"], base_url=url, max_tokens=64)
    env = gym.make(TOOLS, split="train", disable_env_checker=True)
    observation, _ = env.reset(options={"index": 3})
    act, tools, ended = agent.begin(env), [], False
    while not ended:
        action, _ = act(observation, deterministic=True)
        observation, _, ended, _, info = env.step(action)
        tools.append((info["tool"], info["tool_error"]))
    env.close()
    assert tools == [("view", False), ("submit", False)]
    assert info["stop_reason"] == "stop"
    assert "verdict" in info
    assert agent.usage.requests == 3


def test_a_model_the_server_does_not_have_is_known_before_any_work(url):
    with pytest.raises(AgentError, match="answered with status"):
        agents.make("chat", TEXT, model="no-such-model", base_url=url, retries=0)


def test_a_server_that_stops_midway_leaves_failed_episodes_and_no_zeros(models, tmp_path):
    with serving(tmp_path / "server.log") as (process, url):
        agent = agents.make("chat", TEXT, model=models["random"], base_url=url, max_tokens=12, retries=0)
        episodes = []
        for episode in agent.play(TEXT, range(60), rows=1):
            episodes.append(episode)
            if len(episodes) == 3:
                process.kill()
    assert len(episodes) == 60
    scored = [episode for episode in episodes if not episode.failed]
    assert 3 <= len(scored) < 60
    assert all("verdict" in episode.info for episode in scored)
    failed = [episode for episode in episodes if episode.failed]
    assert all("verdict" not in episode.info for episode in failed)
    assert "cannot be reached" in failed[-1].failed
    assert agent.usage.requests == 1 + len(scored)

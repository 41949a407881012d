"""The chat agent when the endpoint is down, busy, slow or answers nonsense, and that the key is shown nowhere."""

import os
import signal
import socket
import sys
import threading
import time

import gymnasium as gym
import pytest

import agents
from agents.base import AgentError
from agents.chat import ChatAgent
from agents.endpoint import ChatConfig
from agents.play import InfrastructureError
from tests.agents.endpoint import TEXT, completion, failure, fixture_server, make, play  # noqa: F401

pytest.importorskip("openai")

KEY = "sk-very-secret-0123456789"


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def test_an_endpoint_that_is_down_is_known_before_any_work():
    with pytest.raises(AgentError, match=r"the endpoint http://127\.0\.0\.1:\d+/v1 cannot be reached"):
        agents.make("chat", TEXT, model="m", base_url=f"http://127.0.0.1:{free_port()}/v1", retries=0)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_busy_endpoints_are_asked_again(server, status):
    server.answers = [failure(status), failure(status), completion()]
    (episode,) = play(make(server, retries=2))
    assert episode.failed == ""
    assert len(server.requests) == 3


NONSENSE = {
    "status": (failure(500, "out of memory"), "status 500: out of memory"),
    "refused": (failure(400, "context too long"), "status 400: context too long"),
    "html": ("<html><b>Login</b></html>", "no chat completion: <html>"),
    "html with a status": ((502, "<html>Bad gateway</html>", {}), "status 502: .*Bad gateway"),
    "not JSON": ((200, "{", {"content-type": "application/json"}), "no chat completion"),
    "nothing": ((200, "", {"content-type": "application/json"}), "no chat completion: nothing"),
    "no choices": (completion(choices=[]), "no chat completion"),
    "an error": ({"error": {"message": "no worker"}}, "no chat completion.*no worker"),
    "a list": ([1], "no chat completion"),
    "parts": (completion([{"type": "text"}]), "no chat completion"),
    "no name": (completion("", [(None, "{}")]), "no chat completion"),
    "filtered": (completion("", finish_reason="content_filter"), "ended its answer with 'content_filter'"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_marks_the_episode_failed_and_no_other(server, name):
    answer, sentence = NONSENSE[name]
    agent = make(server)
    server.answers = [completion(), answer, completion()]
    episodes = play(agent, n=3)
    assert [episode.failed != "" for episode in episodes] == [False, True, False]
    assert episodes[1].failed.startswith(f"the endpoint {server.url} ")
    assert "\n" not in episodes[1].failed
    assert "verdict" in episodes[0].info
    assert "verdict" not in episodes[1].info
    server.answers = [answer]
    with pytest.raises(InfrastructureError, match=sentence):
        agent.predict("1")


def test_nonsense_is_known_when_the_agent_is_built(server):
    server.answers = [failure(404, "no model 'm'")]
    with pytest.raises(AgentError, match="status 404: no model 'm'"):
        agents.make("chat", TEXT, model="m", base_url=server.url)


def test_a_slow_endpoint_is_given_up(server):
    agent = make(server, timeout_s=0.2)
    server.delay_s = 1.0
    (episode,) = play(agent)
    assert episode.failed.endswith("gave no answer within 0.2 s (1 tries)")


def once(holds, call):
    """Call a function, in a thread, as soon as a condition holds."""

    def wait():
        while not holds():
            time.sleep(0.01)
        call()

    threading.Thread(target=wait, daemon=True).start()


def test_an_interrupt_ends_what_was_begun_and_nothing_else(server):
    agent, begun = make(server, concurrency=2), []
    begin = agent.begin

    def counted(env):
        act = begin(env)
        begun.append(env)
        return act

    agent.begin = counted
    server.delay_s = 20.0
    # Two are asked, two wait for their turn.
    once(lambda: len(begun) == 4 and server.at_once == 2, agent.interrupt)
    started = time.monotonic()
    failed = [episode.failed for episode in play(agent, n=4, rows=4)]
    assert time.monotonic() - started < 15.0
    assert all(reason.endswith("was not waited for: its requests were interrupted") for reason in failed)
    server.delay_s, server.most_at_once = 0.0, 0
    (episode,) = play(agent)
    assert episode.failed == ""
    assert len(server.requests) == 3


def test_an_interrupted_episode_asks_nothing_more(server):
    agent, env = make(server), gym.make(TEXT, disable_env_checker=True)
    observation, _ = env.reset(seed=0)
    act = agent.begin(env)
    agent.interrupt()
    with pytest.raises(InfrastructureError, match="were interrupted"):
        act(observation)
    assert agent.begin(env)(observation)[0] == "ok"


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_does_not_wait_for_answers(server):
    agent = make(server)
    for messages in ("1", ["1", "2", "3"]):
        server.delay_s, asked, started = 20.0, len(server.requests), time.monotonic()
        once(lambda asked=asked: len(server.requests) > asked, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            agent.predict(messages)
        assert time.monotonic() - started < 15.0


@pytest.mark.usefixtures("ctrl_c")
def test_episodes_that_begin_while_others_are_interrupted_ask_nothing(server):
    """Ctrl-C in the first moments: the interrupt comes when some are still being reset."""
    agent = make(server)
    begin, asked, late = agent.begin, len(server.requests), threading.Event()
    interrupted, waiting = threading.Event(), []

    def begin_late(env):
        waiting.append(env)
        interrupted.wait()
        late.set()
        return begin(env)

    agent.begin = begin_late
    once(lambda: len(waiting) == 4, lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            play(agent, n=4, rows=4)
    finally:
        interrupted.set()
    late.wait()
    time.sleep(0.5)
    assert len(server.requests) == asked


def test_requests_at_once_are_limited(server):
    server.delay_s = 0.05
    agent = make(server, concurrency=2)
    assert not any(episode.failed for episode in play(agent, n=8, rows=8))
    agent.predict([str(k) for k in range(8)])
    assert len(server.requests) == 16
    assert server.most_at_once == 2


def test_the_key_is_sent_and_shown_nowhere(server, tmp_path, caplog, capfd, monkeypatch):
    caplog.set_level("DEBUG")
    agent = make(server, api_key=f" {KEY}\n", retries=1)
    assert server.keys == [f"Bearer {KEY}"]
    server.answers = [failure(401, f"Incorrect API key {KEY} " + "x" * 500)]
    (episode,) = play(agent)
    with pytest.raises(InfrastructureError) as raised:
        agent.predict("1")
    with pytest.raises(AgentError) as refused:
        agents.make("chat", TEXT, model="m", base_url=server.url, api_key=KEY)
    agent.save(tmp_path / "saved")
    shown = [repr(agent), repr(agent.config), repr(agent.usage), repr(episode), caplog.text, *capfd.readouterr()]
    shown += [str(raised.getrepr(style="long")), str(refused.getrepr()), (tmp_path / "saved" / "chat.json").read_text()]
    assert "***" in episode.failed
    assert not any(KEY in text for text in shown)
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    server.answers = [completion()]
    agents.make("chat", TEXT, model="m", base_url=server.url)
    assert server.keys[-1] == "Bearer from-the-environment"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": None}, "needs the name of a model"),
        ({"modle": "m"}, "unknown setting of agent 'chat': modle"),
        ({"base_url": None}, "needs a key for OpenAI"),
        ({"base_url": "localhost:8000"}, "base_url must be"),
        ({"base_url": "http://user:password@host/v1"}, "base_url must be"),
        ({"api_key": "two\nlines"}, "no header can carry"),
        ({"api_key": KEY, "extra": {"key": KEY}}, "as api_key only"),
        ({"extra": {"stream": True}}, "extra must not set stream"),
        ({"max_tokens": 0}, "max_tokens must be > 0"),
        ({"retries": -1}, "retries must be 0 or more"),
        ({"model": 5}, "model must be str, got 5"),
        ({"base_url": 5}, "base_url must be str or None, got 5"),
        ({"system": 5}, "system must be str or None, got 5"),
        ({"temperature": "hot"}, "temperature must be float or None, got 'hot'"),
        ({"temperature": float("nan")}, "temperature must be 0 or more, got nan"),
        ({"max_tokens": 2.5}, "max_tokens must be int or None, got 2.5"),
        ({"max_tokens": True}, "max_tokens must be int or None, got True"),
        ({"native_tools": "False"}, "native_tools must be bool, got 'False'"),
        ({"timeout_s": "long"}, "timeout_s must be float, got 'long'"),
        ({"retries": None}, "retries must be int, got None"),
        ({"concurrency": 2.5}, "concurrency must be int, got 2.5"),
        ({"extra": 5}, "extra must be Mapping, got 5"),
        ({"extra": ["a"]}, r"extra must be Mapping, got \['a'\]"),
        ({"api_key": 12345678}, "api_key must be str or None, got int$"),
    ],
)
def test_options_that_cannot_work(server, options, sentence):
    with pytest.raises(ValueError, match=sentence) as raised:
        agents.make("chat", TEXT, **{"model": "m", "base_url": server.url, **options})
    assert KEY not in str(raised.value)
    assert "12345678" not in str(raised.value)
    assert "password@" not in str(raised.value)
    assert not server.requests


def test_a_token_level_environment_is_refused(server):
    with pytest.raises(AgentError, match="expected a text-level environment"):
        make(server, "llm_envs/Transform-v0")


def test_without_openai_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError, match=r"pip install 'llm-envs\[chat\]'"):
        ChatAgent(ChatConfig("m"), "key")


def test_settings_are_saved_and_loaded_without_the_key(server, tmp_path):
    agent = make(server, api_key=KEY, system="be brief", extra={"top_p": 0.9}, temperature=None)
    agent.save(tmp_path / "saved")
    assert [path.name for path in (tmp_path / "saved").iterdir()] == ["chat.json"]
    loaded = agents.load("chat", tmp_path / "saved", TEXT)
    assert loaded.config == agent.config
    assert server.keys[-1] == "Bearer none"
    assert agents.load("chat", tmp_path / "saved", TEXT, temperature=0.5).config.temperature == 0.5
    with pytest.raises(FileExistsError, match="give a new one"):
        agent.save(tmp_path / "saved")
    with pytest.raises(AgentError, match="is no checkpoint of a chat agent"):
        agents.load("chat", tmp_path, TEXT)

"""The chat agent's episodes, with an endpoint that answers what the test says; `test_chat_server.py` has a real one."""

import json

import gymnasium as gym
import pytest

import agents
from agents.base import AgentError
from agents.endpoint import Usage
from llm_envs import Task, TextEnv
from llm_envs.tools import ToolCall
from tests.agents.endpoint import TEXT, TOOLS, completion, fixture_server, make, play  # noqa: F401
from verifiers import Answer, Example

pytest.importorskip("openai")


def run(server, *answers, env=TOOLS, **options):
    """(observations, requests) of one episode of an environment whose model gives these answers."""
    agent = make(server, env, **options)
    server.answers = list(answers)
    made = gym.make(env, disable_env_checker=True)
    observation, _ = made.reset(seed=0, options={"index": 0})
    act, seen, ended = agent.begin(made), [], False
    while not ended:
        action, _ = act(observation)
        observation, _, terminated, truncated, info = made.step(action)
        ended = terminated or truncated
        seen.append((action, observation, info))
    made.close()
    return seen, server.requests


def test_an_episode_is_one_request_with_a_verdict(server):
    agent = make(server, system="be brief", temperature=0.5, max_tokens=7, extra={"top_p": 0.9})
    (episode,) = play(agent)
    assert episode.failed == ""
    assert episode.info["verdict"]["passed"] is False
    (request,) = server.requests
    assert {k: v for k, v in request.items() if k != "messages"} == {
        "model": "m", "temperature": 0.5, "max_tokens": 7, "top_p": 0.9,
    }  # fmt: skip
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert play(agent, deterministic=True)[0].failed == ""
    assert server.requests[1]["temperature"] == 0.0
    assert agent.learn(100) is agent


def test_the_check_asks_for_one_token_of_a_real_request(server):
    agents.make("chat", TOOLS, model="m", base_url=server.url)
    (request,) = server.requests
    assert request["max_tokens"] == 1
    assert [tool["function"]["name"] for tool in request["tools"]][-1] == "submit"
    assert request["messages"][-1]["role"] == "user"


def test_usage_is_counted(server):
    agent = make(server)
    assert agent.usage == Usage(1, 10, 3)
    server.answers = [completion(), completion(usage=None), completion(usage={"prompt_tokens": None})]
    play(agent, n=3)
    assert agent.usage == Usage(4, 20, 6, unreported=2)


def test_predict_takes_one_or_several_observations(server):
    agent = make(server, concurrency=3)
    assert agent.predict("1 2") == ("ok", None)
    actions, _ = agent.predict(["1", "2", "\ud800"])
    assert actions == ("ok", "ok", "ok")
    assert sorted(request["messages"][-1]["content"] for request in server.requests) == ["1", "1 2", "2", "?"]


def test_an_answer_cut_off_says_so(server):
    server.answers = [completion("4 1", finish_reason="length")]
    (episode,) = play(make(server))
    assert episode.info["stop_reason"] == "length"


def test_a_chat_prompt_keeps_its_messages_and_one_system_message(server):
    prompt = [{"role": "system", "content": "theirs"}, {"role": "user", "content": "a"},
              {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]  # fmt: skip
    task = Task(
        "T",
        lambda split: [Example("0", prompt, {"answer": "ok"}, "ok")],
        extract=lambda example, message: Answer(message),
    )
    env = lambda: gym.wrappers.TransformObservation(TextEnv(task), lambda text: text + "!", None)  # noqa: E731
    (episode,) = play(make(server, env, system="ours"), env)
    assert episode.score == 1.0
    assert server.requests[0]["messages"] == [
        {"role": "system", "content": "ours\n\ntheirs"}, *prompt[1:3], {"role": "user", "content": "c!"}
    ]  # fmt: skip


def test_native_calls_reach_the_environment_one_by_one(server):
    two = [("view", '{"path": "main.py"}'), ("run_tests", "")]
    seen, requests = run(server, completion(None, two, "tool_calls"), completion(None, [("submit", "{}")]))
    assert [action.name for action, _, _ in seen] == ["view", "run_tests", "submit"]
    assert all(isinstance(action, ToolCall) for action, _, _ in seen)
    assert seen[0][1].startswith("1|def ")
    assert len(requests) == 2
    user, assistant, *results = requests[1]["messages"]
    assert user["role"] == "user"
    assert [call["function"]["name"] for call in assistant["tool_calls"]] == ["view", "run_tests"]
    assert [(m["role"], m["tool_call_id"]) for m in results] == [("tool", "id0"), ("tool", "id1")]
    assert [m["content"] for m in results] == [seen[0][1], seen[1][1]]


@pytest.mark.parametrize("arguments", ['{"path": "main.py', "[1]", "not JSON", '{"path": NaN}', "1" * 5000])
def test_bad_arguments_are_the_models_mistake(server, arguments):
    calls = [("view", arguments), ("view", '{"path": "main.py"}')]
    seen, requests = run(server, completion("hm", calls), completion(None, [("submit", "{}")]))
    assert seen[0][1].startswith("error: ")
    assert "JSON" in seen[0][1] or "object" in seen[0][1]
    assert seen[0][2]["tool_error"]
    assert "verdict" in seen[-1][2]
    _, assistant, *results = requests[1]["messages"]
    assert [json.loads(call["function"]["arguments"]) for call in assistant["tool_calls"]] == [{"path": "main.py"}]
    assert [m["role"] for m in results] == ["tool", "user"]
    assert arguments in assistant["content"]


def test_an_unknown_tool_and_no_tool_are_answered_by_the_environment(server):
    answers = completion(None, [("fly", "{}")]), completion("I will fly"), completion(None, [("submit", "{}")])
    seen, requests = run(server, *answers)
    assert "unknown tool 'fly'" in seen[0][1]
    assert "calls no tool" in seen[1][1]
    assert [m["role"] for m in requests[2]["messages"]] == ["user", "assistant", "tool", "assistant", "user"]


def test_a_call_cut_off_ends_the_episode_as_cut_off(server):
    seen, _ = run(server, completion(None, [("view", '{"pa')], "length"))
    assert [info["stop_reason"] for _, _, info in seen] == ["length"]


def test_without_native_tools_calls_are_written_in_the_tasks_format(server):
    answers = [
        completion(f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>') for name in ("a", "submit")
    ]
    seen, requests = run(server, *answers, native_tools=False)
    assert [info["tool"] for _, _, info in seen] == ["a", "submit"]
    assert not any("tools" in request for request in requests)
    assert "<tool_call>" in requests[0]["messages"][0]["content"]
    assert [m["role"] for m in requests[1]["messages"]] == ["system", "user", "assistant", "user"]


def test_a_server_that_reads_calls_unasked_is_understood(server):
    answers = completion("", [("view", '{"path": "main.py"}')]), completion("", [("submit", "{}")])
    seen, requests = run(server, *answers, native_tools=False)
    assert [info["tool"] for _, _, info in seen] == ["view", "submit"]
    assert requests[1]["messages"][2] == {"role": "assistant", "content": str(seen[0][0])}


def test_tools_without_a_format_are_refused(server):
    class Foreign(TextEnv):
        tool_schemas = [{"type": "function", "function": {"name": "f", "parameters": {}}}]

    task = Task("T", lambda split: [Example("0", "a", {}, "ok")])
    with pytest.raises(AgentError, match="no tool_format"):
        make(server, lambda: Foreign(task))

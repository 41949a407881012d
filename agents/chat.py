"""An agent behind an OpenAI-compatible endpoint, to evaluate models that one does not train.

env = "llm_envs/CodeRepairToolsText-v0"
agent = agents.make("chat", env, model="some-model", base_url="http://localhost:8000/v1")
for episode in agent.play(env, range(100)): ...
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.base import Agent, AgentError, EnvSource
from agents.endpoint import Call, ChatConfig, Endpoint, Usage
from agents.files import whole_folder
from agents.play import InfrastructureError, make_text

FILE = "chat.json"
NO_ANSWER = ("content_filter", "error", "abort")
"""Reasons to finish that say nothing about the model: what it wrote is not its answer."""


class Reply(str):
    """A message of the model's that says why it ends; text-level environments read `stop_reason`."""

    stop_reason: str

    def __new__(cls, text: str, stop_reason: str = "stop") -> Reply:
        """Attach the reason to the text."""
        reply = super().__new__(cls, text)
        reply.stop_reason = stop_reason
        return reply


class Conversation:
    """One episode: the messages so far, and the calls of the last answer that the environment has not seen yet.

    An answer with several calls becomes as many actions, one after the other, before the model is asked again. A call
    whose arguments are no JSON object is handed on as text, and the environment says what is wrong with it.

    Args:
        endpoint: writes the messages.
        env: was just reset; its attributes `messages`, `tool_schemas` and `tool_format` are read, where it has them.
        interrupted: done when nobody waits any more; the endpoint's present one when None.
    """

    def __init__(self, endpoint: Endpoint, env: gym.Env | None = None, interrupted: Future[None] | None = None) -> None:
        def attribute(name: str) -> Any:
            return env.get_wrapper_attr(name) if env is not None and env.has_wrapper_attr(name) else None

        self.endpoint, config, self._interrupted = endpoint, endpoint.config, interrupted or endpoint.interrupted
        tools, format = attribute("tool_schemas"), attribute("tool_format")
        if tools and format is None:
            raise AgentError("the environment has tool_schemas, but no tool_format to make and describe calls with")
        self.tools: list[dict[str, Any]] | None = tools if tools and config.native_tools else None
        self._call: Callable[..., str] | None = format.call if tools else None
        described = format.describe(tools) if tools and not config.native_tools else None
        # The newest message is what the environment gives as observation, perhaps changed by a wrapper.
        earlier = [dict(message) for message in (attribute("messages") or [])[:-1]]
        theirs = earlier.pop(0)["content"] if earlier and earlier[0]["role"] == "system" else None
        system = "\n\n".join(text for text in (config.system, theirs, described) if text)
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        self.messages += earlier
        self._waiting: list[tuple[str, str]] = []  # (id of the call or "", action)
        self._results: list[dict[str, Any]] = []  # of those actions, the environment's answers
        self._sent = ""  # as in `_waiting`, of the action before

    def act(self, observation: str, state: Any = None, deterministic: bool = False) -> tuple[str, Any]:
        """The next action; arguments and result as of `Agent.predict`."""
        role = {"role": "tool", "tool_call_id": self._sent} if self._sent else {"role": "user"}
        self._results.append({**role, "content": observation})
        if not self._waiting:
            # Results of calls have to come right after the message with the calls.
            self.messages += sorted(self._results, key=lambda message: message["role"] != "tool")
            self._results = []
            self._waiting = self._ask(deterministic)
        self._sent, action = self._waiting.pop(0)
        return action, state

    def check(self, observation: str) -> None:
        """Ask for the first token of an episode, to see whether the endpoint takes such requests."""
        messages = [*self.messages, {"role": "user", "content": observation}]
        limit = 1 if self.endpoint.config.max_tokens else None
        self.endpoint.ask(messages, self.tools, False, limit, self._interrupted)

    def _ask(self, deterministic: bool) -> list[tuple[str, str]]:
        text, calls, reason = self.endpoint.ask(
            self.messages, self.tools, deterministic, self.endpoint.config.max_tokens, self._interrupted
        )
        if reason in NO_ANSWER:
            raise self.endpoint.failure(f"ended its answer with {reason!r}")
        if reason == "length" or not calls:
            whole = "\n".join(part for part in (text, *(call.text for call in calls)) if part)
            self.messages.append({"role": "assistant", "content": whole})
            return [("", Reply(whole, "length" if reason == "length" else "stop"))]
        actions, texts, native = [], [text], []
        for call in calls:
            action, arguments = self._action(call)
            if self.tools is None or arguments is None:  # servers parse the arguments of earlier calls: only sound ones
                texts.append(action)
                actions.append(("", action))
                continue
            function = {"name": call.name, "arguments": json.dumps(arguments)}
            native.append({"id": call.id, "type": "function", "function": function})
            actions.append((call.id, action))
        said = "\n".join(part for part in texts if part) or (None if native else "")
        self.messages.append({"role": "assistant", "content": said} | ({"tool_calls": native} if native else {}))
        return actions

    def _action(self, call: Call) -> tuple[str, dict[str, Any] | None]:
        """The environment's own form of a call, and its arguments; else the call as text, and None."""
        try:
            given = call.arguments
            arguments = json.loads(given or "{}") if isinstance(given, str) else given
            if self._call is not None and isinstance(arguments, dict):
                return self._call(call.name, **arguments), arguments
        except (ValueError, RecursionError):
            pass
        return Reply(call.text), None


class ChatAgent(Agent):
    """A model behind an endpoint, over whole messages; learns nothing.

    Args:
        config: its settings.
        api_key: None for the variable OPENAI_API_KEY; never written down.
    """

    name, level, learns = "chat", "text", False

    def __init__(self, config: ChatConfig, api_key: str | None = None) -> None:
        self.config, self.endpoint = config, Endpoint(config, api_key)

    @classmethod
    def make(cls, env: EnvSource, *, env_options: Mapping[str, Any] | None = None, api_key: str | None = None,
             **settings: Any) -> ChatAgent:  # fmt: skip
        """Build it for a text-level environment, and ask for one token to see that everything fits.

        Args:
            env: a registered id, or a function that makes one environment.
            env_options: keyword arguments of `gymnasium.make` for an id.
            api_key: as of the class.
            settings: the fields of `ChatConfig`, `model` at least.

        Raises:
            AgentError: no text-level environment, an unknown setting, or an endpoint that does not answer.
            ValueError: a setting of a wrong type or out of its range.
            ImportError: `openai` is not installed.
        """
        known = [field.name for field in dataclasses.fields(ChatConfig)]
        if unknown := sorted(set(settings) - set(known)):
            raise AgentError(f"unknown setting of agent 'chat': {', '.join(unknown)} (known: {', '.join(known)})")
        if not settings.get("model"):
            raise AgentError("agent 'chat' needs the name of a model: pass model=...")
        agent, made = cls(ChatConfig(**settings), api_key), make_text(env, dict(env_options or {}))
        try:
            observation, _ = made.reset(seed=0)
            Conversation(agent.endpoint, made).check(observation)
        except InfrastructureError as error:
            raise AgentError(str(error)) from None
        finally:
            made.close()
        return agent

    @property
    def usage(self) -> Usage:
        """Requests and tokens so far."""
        return self.endpoint.usage

    def learn(self, total_timesteps: int) -> ChatAgent:
        """Nothing to learn."""
        return self

    def begin(self, env: gym.Env) -> Callable[..., tuple[str, Any]]:
        """The agent of one episode, after `reset`: a function with `predict`'s arguments that remembers what was said.

        It raises `InfrastructureError` where the endpoint fails.
        """
        return Conversation(self.endpoint, env).act

    def predict(self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False,
                action_masks: Any = None) -> tuple[Any, Any]:  # fmt: skip
        """The answer to one message or to each of several, every one on its own and without tools; see `begin`."""

        interrupted = self.endpoint.interrupted  # one for all of these messages

        def answer(message: str) -> str:
            return Conversation(self.endpoint, None, interrupted).act(message, deterministic=deterministic)[0]

        if isinstance(observation, str):
            return answer(observation), None
        with ThreadPoolExecutor(self.config.concurrency) as pool:
            try:
                return tuple(pool.map(answer, observation)), None
            except KeyboardInterrupt:
                self.interrupt()  # else leaving the pool waits for what runs
                raise

    def interrupt(self) -> None:
        """End the episodes begun so far, which wait for an answer or ask for another: they fail at once.

        What is begun later is played as usual. Requests under way are left to themselves, and hold their places among
        the `concurrency` until they end.
        """
        self.endpoint.interrupt()

    def save(self, folder: str | Path) -> None:
        """Write the settings, without the key, into a new folder."""
        with whole_folder(folder) as unfinished:
            (unfinished / FILE).write_text(json.dumps(dataclasses.asdict(self.config), indent=2) + "\n")

    @classmethod
    def load(cls, folder: str | Path, env: EnvSource, **options: Any) -> ChatAgent:
        """An agent with saved settings; options as of `make` come before them."""
        try:
            settings = dict(json.loads((Path(folder) / FILE).read_text()))
        except (OSError, ValueError, TypeError):
            raise AgentError(f"{folder} is no checkpoint of a chat agent: {FILE} is missing or damaged") from None
        return cls.make(env, **{**settings, **options})

"""An OpenAI-compatible endpoint: one function that asks for the next message, and what can go wrong with it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from agents.base import AgentError
from agents.play import InfrastructureError
from agents.settings import check_ranges

OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True)
class ChatConfig:
    """Settings of agent `chat`; `save` writes all of them, so none may hold the key."""

    model: str
    """Name of the model at the endpoint."""
    base_url: str | None = None
    """Of the endpoint, `http://localhost:8000/v1` say; None for the variable OPENAI_BASE_URL, then OpenAI's own."""
    system: str | None = None
    """Put before the task's own messages, into one system message with the task's, if it has one."""
    temperature: float | None = 1.0
    """0 when deterministic; None never names one (some models refuse it), and deterministic changes nothing then."""
    max_tokens: int | None = 1024
    """Of one message; None names no limit (models that want another name for it: `extra`)."""
    native_tools: bool = True
    """Hand the task's tools to the endpoint; otherwise a system message says how calls are written in a message."""
    timeout_s: float = 120.0
    """Seconds without a byte after which one try is given up."""
    retries: int = 4
    """Further tries, with exponential backoff, after a timeout, a lost connection, or status 408, 409, 429 or 5xx."""
    concurrency: int = 8
    """Requests at once, of all episodes together."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of every request: `{"top_p": 0.9}`, `{"max_completion_tokens": 4096}`."""

    def __post_init__(self) -> None:
        check_ranges(self, positive=("max_tokens", "timeout_s", "concurrency"), non_negative=("temperature", "retries"))
        if taken := sorted({"model", "messages", "tools", "stream", "n"} & set(self.extra)):
            raise ValueError(f"extra must not set {', '.join(taken)}: the agent does")


@dataclass(frozen=True)
class Usage:
    """What the endpoint has counted so far, the check when the agent was built included."""

    requests: int = 0
    """Requests that were answered."""
    prompt_tokens: int = 0
    """Read by the model."""
    completion_tokens: int = 0
    """Written by the model."""
    unreported: int = 0
    """Answered requests without a count: the true numbers are higher."""


class Call(NamedTuple):
    """A tool call as the endpoint gave it."""

    id: str
    name: str
    arguments: Any
    """JSON in a string, as it should be; what the model wrote, in any case."""

    @property
    def text(self) -> str:
        """As most chat templates write it: what an environment reads if it cannot be given the call itself."""
        raw = self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)
        return f'<tool_call>\n{{"name": {json.dumps(self.name)}, "arguments": {raw}}}\n</tool_call>'


class Answer(NamedTuple):
    """What the endpoint answered to one request."""

    text: str
    calls: list[Call]
    finish_reason: str


class Endpoint:
    """Sends requests, some at a time, and counts tokens; whatever goes wrong becomes an `InfrastructureError`.

    Args:
        config: its settings.
        api_key: None for the variable OPENAI_API_KEY. It appears in no message.

    Raises:
        ImportError: `openai` is not installed.
        AgentError: no key where one is needed, or one that cannot be sent; a URL that is none.
    """

    def __init__(self, config: ChatConfig, api_key: str | None) -> None:
        try:
            import openai
        except ImportError as error:
            raise ImportError("agent 'chat' needs openai: pip install 'llm-envs[chat]'") from error
        self.config, self.usage = config, Usage()
        self.interrupted: Future[None] = Future()
        """Done once `interrupt` was called; there is a new one after that."""
        self.url = config.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
        self._key = _checked_key(config, self.url, api_key)
        self._openai, self._slots, self._lock = openai, threading.Semaphore(config.concurrency), threading.Lock()
        self._client: Any = openai.OpenAI(
            api_key=self._key or "none",  # most local servers ask for none, the client does
            base_url=self.url,
            timeout=config.timeout_s,
            max_retries=config.retries,
        )

    def ask(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        deterministic: bool,
        max_tokens: int | None,
        interrupted: Future[None],
    ) -> Answer:
        """The model's next message; fails at once when `interrupted` is done."""
        temperature = self.config.temperature
        sent = [{**message, "content": encodable(message.get("content"))} for message in messages]
        fields: dict[str, Any] = {"model": self.config.model, "messages": sent, "tools": tools or None}
        fields |= {"temperature": 0.0 if deterministic and temperature is not None else temperature}
        fields |= {"max_tokens": max_tokens}
        named = {name: value for name, value in fields.items() if value is not None}
        response = self._request({**named, "extra_body": self.config.extra}, interrupted)
        wait((response, interrupted), return_when=FIRST_COMPLETED)
        if interrupted.done():
            raise self.failure("was not waited for: its requests were interrupted")
        try:
            raw = response.result()
        except (self._openai.OpenAIError, ValueError) as error:
            raise self.failure(self._what(error)) from None  # a cause could show what the server said of the key
        try:
            content = raw.http_response.json()
            answer = _read(content)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            raise self.failure(f"answered no chat completion: {raw.http_response.text or 'nothing'}") from None
        self._count(content.get("usage"))
        return answer

    def interrupt(self) -> None:
        """End what waits for an answer now, and whatever else was begun with the same `interrupted`."""
        with self._lock:
            old, self.interrupted = self.interrupted, Future()
        old.set_result(None)

    def _request(self, fields: dict[str, Any], interrupted: Future[None]) -> Future[Any]:
        """Send it from a thread that can be left behind, which no end of the program waits for."""
        response: Future[Any] = Future()

        def send() -> None:
            try:
                with self._slots:
                    if not interrupted.done():
                        response.set_result(self._client.chat.completions.with_raw_response.create(**fields))
            except BaseException as error:  # raised again where the answer is waited for
                response.set_exception(error)

        threading.Thread(target=send, name="chat request", daemon=True).start()
        return response

    def _what(self, error: Exception) -> str:
        if isinstance(error, self._openai.APITimeoutError):
            return f"gave no answer within {self.config.timeout_s:g} s ({self.config.retries + 1} tries)"
        if isinstance(error, self._openai.APIConnectionError):
            return f"cannot be reached: {error.__cause__ or error}"
        if isinstance(error, self._openai.APIStatusError):
            body = error.body.get("message") if isinstance(error.body, dict) else None
            return f"answered with status {error.status_code}: {body or error.response.text or error.message}"
        return f"could not be asked: {error}"

    def failure(self, what: str) -> InfrastructureError:
        """The error to raise, in one sentence without the key."""
        shown = what.replace(self._key, "***") if self._key else what  # before it is cut: half a key is one, too
        text = f"the endpoint {self.url} {' '.join(shown.split())}"
        return InfrastructureError(text if len(text) <= 400 else f"{text[:397]}...")

    def _count(self, usage: Any) -> None:
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(usage, dict) else []
        told = [count for count in counts if isinstance(count, int)]
        read, written = told if len(told) == 2 else (0, 0)
        with self._lock:
            old = self.usage
            self.usage = Usage(
                old.requests + 1,
                old.prompt_tokens + read,
                old.completion_tokens + written,
                old.unreported + (len(told) != 2),
            )


def _checked_key(config: ChatConfig, url: str, api_key: str | None) -> str:
    """The key, "" for none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query:
        raise AgentError("base_url must be http(s)://host/path, without a user, a password or a query")
    if not isinstance(api_key, str | None):
        raise AgentError(f"api_key must be str or None, got {type(api_key).__name__}")  # not the key itself
    key = (os.environ.get("OPENAI_API_KEY", "") if api_key is None else api_key).strip()
    if not key and url == OPENAI:
        raise AgentError("agent 'chat' needs a key for OpenAI: set OPENAI_API_KEY, or give api_key or another base_url")
    if not (key.isascii() and key.isprintable()):
        raise AgentError("the API key holds characters that no header can carry")
    if len(key) >= 8 and key in json.dumps([config.model, config.system, config.extra, url]):
        raise AgentError("give the API key as api_key only: the other settings are written down")
    return key


def _read(content: Any) -> Answer:
    """The first choice of a chat completion; raises what looking into anything else raises."""
    choice = content["choices"][0]
    message = choice["message"]
    text = message.get("content") or message.get("refusal") or ""
    if not isinstance(text, str):
        raise TypeError
    calls = []
    for number, call in enumerate(message.get("tool_calls") or ()):
        name, arguments = call["function"]["name"], call["function"].get("arguments") or ""
        if not isinstance(name, str):
            raise TypeError
        calls.append(Call(str(call.get("id") or f"call{number:05}"), encodable(name), arguments))
    return Answer(encodable(text), calls, str(choice.get("finish_reason")))


def encodable(text: Any) -> Any:
    """A text without lone surrogates, which JSON can spell and UTF-8 cannot; None stays None."""
    return text if text is None else str(text).encode("utf-8", "replace").decode()

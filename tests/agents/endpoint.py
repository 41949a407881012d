"""An endpoint that answers what a test tells it to, over HTTP, and an agent that asks it."""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import agents
import llm_envs  # noqa: F401  (registers the environments)

TEXT, TOOLS = "llm_envs/TransformText-v0", "llm_envs/CodeRepairToolsText-v0"


def completion(content="ok", calls=(), finish_reason="stop", **changes):
    """What an endpoint answers; calls are (name, arguments as written)."""
    message = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": f"id{k}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for k, (name, arguments) in enumerate(calls)
        ]
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}], "usage": usage, **changes}


def failure(status, message="try later"):
    """An error answer; a client that waits as told makes the tests fast."""
    return status, {"error": {"message": message}}, {"retry-after-ms": "10"}


class Server:
    """Answers request k with `answers[k]`, the last one again and again; keeps requests and how many came at once."""

    def __init__(self):
        self.answers: list[Any] = [completion()]
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.delay_s = 0.0
        self.at_once = self.most_at_once = 0
        lock, server = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    answer = server.answers[min(len(server.requests), len(server.answers) - 1)]
                    server.requests.append(body)
                    server.keys.append(self.headers["authorization"])
                    server.at_once += 1
                    server.most_at_once = max(server.most_at_once, server.at_once)
                time.sleep(server.delay_s)
                with lock:
                    server.at_once -= 1
                status, content, headers = answer if isinstance(answer, tuple) else (200, answer, {})
                is_text = isinstance(content, str)
                data = content.encode() if is_text else json.dumps(content).encode()
                self.send_response(status)
                headers = {"content-type": "text/html" if is_text else "application/json", **headers}
                for name, value in {**headers, "content-length": len(data)}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(data)

            def handle(self):
                with contextlib.suppress(OSError):  # a client that gave up
                    super().handle()

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture(name="server")
def fixture_server(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Server()
    yield made
    made.close()


def make(server, env=TEXT, **options):
    """An agent whose check when it is built is forgotten."""
    options = {"model": "m", "base_url": server.url, "retries": 0, "timeout_s": 10, **options}
    answers, server.answers = server.answers, [completion()]
    agent = agents.make("chat", env, **options)
    server.answers = answers
    server.requests.clear()
    return agent


def play(agent, env=TEXT, n=1, rows=1, **options):
    return sorted(agent.play(env, range(n), rows=rows, **options), key=lambda episode: episode.number)

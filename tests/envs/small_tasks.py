"""Small tasks and judges for the tests of the environments."""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Text

from llm_envs import AnswerFormatError, Task, ToolCall, ToolError
from verifiers import Answer, Example, Verdict, Verifier, VerifierError

WORDS = ("cat", "horse", "bee", "giraffe", "ox")


class Share(Verifier):
    """Scores the share of positions that agree; "crash" breaks the judge."""

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight
        self.calls: list[str] = []
        self.closed = 0

    def verify(self, example: Example, answer: Answer) -> Verdict:
        self.calls.append(answer.text)
        if answer.text == "crash":
            raise VerifierError("the judge broke")
        want = example.hidden["answer"]
        hits = sum(a == b for a, b in zip(want, answer.text, strict=False)) / max(len(want), len(answer.text), 1)
        passed = answer.text == want
        return Verdict(self.weight * hits, passed, "passed" if passed else "wrong", {"hits": hits}, "compared")

    def close(self) -> None:
        self.closed += 1


class Slow(Share):
    """Waits, and counts how many verdicts were under way at once."""

    def __init__(self, seconds: float = 0.05) -> None:
        super().__init__()
        self.seconds, self.now, self.most, self.lock = seconds, 0, 0, threading.Lock()

    def verify(self, example: Example, answer: Answer) -> Verdict:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.seconds)
        with self.lock:
            self.now -= 1
        return super().verify(example, answer)


def examples(split: str) -> Sequence[Example]:
    return [
        Example(
            f"{split}/{word}", f"spell {word}\n", {"answer": word[::-1]}, word[::-1], {"size": len(word), "at": [i]}
        )
        for i, word in enumerate(WORDS)
    ]


def extract(example: Example, message: str) -> Answer:
    if message.startswith("?"):
        raise AnswerFormatError("an answer never starts with a question mark")
    return Answer(message.strip())


def make_task(judge_unfinished: bool = True, budget: int = 8, verifier: Verifier | None = None) -> Task:
    return Task(
        "Reverse",
        examples,
        ("train", "test"),
        verifier or Share(),
        extract=extract,
        max_new_tokens=budget,
        judge_unfinished=judge_unfinished,
    )


class Counting:
    """A session whose answer is the word, spelt as far as it was looked at."""

    def __init__(self, example: Example) -> None:
        self.word, self.seen, self.submitted = example.hidden["answer"], 0, False

    def tools(self, verifier: Verifier):
        def look() -> str:
            """Show one letter more."""
            self.seen += 1
            return self.word[: self.seen]

        def submit() -> str:
            """Hand in what was seen."""
            self.submitted = True
            return ""

        return {"look": look, "submit": submit}

    def answer(self) -> Answer:
        return Answer(self.word[: self.seen])


class FirstLetter:
    """A tool format of one's own: the first letter says which tool is called."""

    def describe(self, schemas):
        return "a or c: look, s: submit"

    def call(self, name, **arguments):
        return ToolCall({"look": "a", "submit": "s"}[name], name, arguments)

    def read(self, message, schemas):
        if message.startswith("?"):
            raise ToolError("a call never starts with a question mark")
        name = {"a": "look", "c": "look", "s": "submit"}.get(message[:1])
        return None if name is None else ToolCall(message, name, {})


def make_tool_task() -> Task:
    return replace(make_task(), tools=Counting, tool_format=FirstLetter(), max_turns=3)


class Echo(gym.Env[str, str]):
    """Somebody else's text environment: three rounds, the reward is the length of the message."""

    observation_space = Text(40, min_length=0, charset="abcdefghijklmnopqrstuvwxyz \n?")
    action_space = Text(10, min_length=0, charset="abcdefghijklmnopqrstuvwxyz")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.round = 0
        return "say " + "xyz"[int(self.np_random.integers(3))] + "\n", {}

    def step(self, action):
        self.round += 1
        return f"again {'abc'[self.round - 1]}\n", float(len(action)), self.round == 3, False, {"round": self.round}


class Alternating:
    """Somebody's own: a, b, a, ...; a turn may end after every b; after four letters nothing comes."""

    def __init__(self) -> None:
        self.started = 0

    def start(self, tokenizer, stop_token_ids):
        self.started += 1

        def allowed(written):
            mask = np.zeros(tokenizer.vocab_size, dtype=np.bool_)
            if len(written) < 4:
                mask[ord("ab"[len(written) % 2])] = True
                mask[list(stop_token_ids)] = len(written) % 2 == 0
            return mask

        return allowed

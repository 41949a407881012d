"""Is a task fit to train on? `check_task` plays its gold answers and finds what would go wrong hours later.

report = check_task("llm_envs/MyTask-v0")
assert report.ok, report
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from llm_envs import validate
from llm_envs.error import LLMEnvsError, OptionError, unknown
from llm_envs.rebuild import difference
from llm_envs.registration import find_task, make_token_env, registered_ids, task_options
from llm_envs.report import Report, SplitCount
from llm_envs.splits import COMPARED, content_of
from llm_envs.task import Task, load_task
from llm_envs.text_env import Message, TextEnv
from llm_envs.token_env import TokenEnv
from verifiers import Example, VerifierError


def _id(name: str) -> str:
    """The id behind the name of a registered task; ids and references as they are."""
    if "/" in name or name.partition(":")[2]:
        return name
    known = [id.removeprefix("llm_envs/").removesuffix("-v0") for id in registered_ids()]
    if name not in known:
        raise OptionError(f'{unknown("task", name, known)}; or give "module:function"')
    return f"llm_envs/{name}-v0"


class _TooSlow(Exception):  # noqa: N818
    """A verdict did not come in time; nothing more can be asked."""


def check_task(
    task: str | Task, limit: int | None = 100, *, seconds: float = 60.0, rebuild: bool = True, **options: Any
) -> Report:
    """Check a task, example by example, through its environments.

    * `task.solution(example)` scores 1, and fits `max_new_tokens`; `task.wrong(example)` and the empty answer do not
      pass. Messages are played at the text level, tools included.
    * The prompt and the budget fit `max_length` at the token level.
    * The verifier accepts the hidden data (`validate`) and answers in time.
    * Ids are unique, and no content is in two splits (see `llm_envs.splits`); for this the first thousand examples of
      each split are read even where fewer are played, unless only one split is checked.
    * Examples built again, in another process where the task can be imported there, are the same.

    Args:
        task: a registered id, the name in one, `"module:function"` as for `load_task`, or a `Task`.
        limit: examples per split, the first ones; None for all.
        seconds: longest time of one episode, wall-clock. A slower one ends the check.
        rebuild: whether to build the examples a second time.
        options: as for `gymnasium.make(id)`, such as `tokenizer`, `message_format`, `verifier_options`, `split` (to
            check one only), or those of the task.

    Raises:
        OptionError: there is no such task, split or option, or a limit that is none.
    """
    began = time.perf_counter()
    if limit is not None:
        validate.positive("limit", limit)
    if not isinstance(seconds, (int, float)) or not 0 < seconds <= threading.TIMEOUT_MAX:
        raise OptionError(f"seconds must be a positive number, got {seconds!r:.80}")
    reference, all_options = find_task(_id(task), options) if isinstance(task, str) else (task, dict(options))
    built = load_task(reference, task_options(reference, all_options))
    if "split" in options and options["split"] not in built.splits:
        raise OptionError(unknown(f"split of task {built.name!r}", options["split"], built.splits))
    report = Report(task if isinstance(task, str) else task.name)
    splits = [options["split"]] if "split" in options else list(built.splits)
    check = _Check(built, report, limit, seconds, compared=COMPARED if len(splits) > 1 else 0)
    try:
        for split in splits:
            try:
                env = make_token_env(reference, **{**all_options, "split": split})
            except Exception as error:  # of a person's own code, too
                report.problems.append(f"{split}: no environment can be made: {_sentence(error)}")
                continue
            try:
                check.split(env, split)
            finally:
                env.close()
    except _TooSlow as error:
        report.problems.append(str(error))
    else:
        if rebuild:
            counts = {count.split: count.checked for count in report.splits}
            wrong, note = difference(reference, task_options(reference, all_options), counts)
            report.problems += [wrong] * bool(wrong)
            report.notes += [note] * bool(note)
    report.seconds = time.perf_counter() - began
    return report


class _Check:
    """One run of `check_task`."""

    def __init__(self, task: Task, report: Report, limit: int | None, seconds: float, compared: int) -> None:
        self.task, self.report, self.limit, self.seconds, self.compared = task, report, limit, seconds, compared
        self.ids: dict[str, str] = {}  # -> split
        self.contents: dict[str, tuple[str, str]] = {}  # -> split, id
        self.found: dict[str, list[str]] = {}  # what is wrong in this split -> details, one per example

    def split(self, env: TokenEnv, split: str) -> None:
        """Check the examples of one split; `env` is its token level."""
        examples = self.task.problems(split)
        count = SplitCount(split, len(examples))
        self.report.splits.append(count)
        self.describe(env)
        self.found = {}
        played = len(examples) if self.limit is None else min(self.limit, len(examples))
        compared = min(max(played, self.compared), len(examples))
        if self.compared and compared < len(examples):
            self.report.notes.append(
                f"{split}: the content of the first {compared} of {len(examples)} examples was compared"
            )
        try:
            for index in range(compared):
                try:
                    example = examples[index]
                    if not isinstance(example, Example):
                        raise TypeError(f"expected an Example, got {example!r:.80}")
                except Exception as error:  # of a person's own code
                    self.complain("an example cannot be built", f"number {index}", _sentence(error))
                    break
                self.identity(example, split)
                if index < played:
                    self.example(env, index, example)
                    count.checked += 1
        finally:
            for what, details in self.found.items():
                more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
                self.report.problems.append(f"{split}: {what}: {details[0]}{more}")

    def complain(self, what: str, who: str, detail: str) -> None:
        """Note a fault; those of one kind in one split become one sentence."""
        self.found.setdefault(what, []).append(f"{who}, {detail}")

    def describe(self, env: TokenEnv) -> None:
        """Note the verifier and the budget, once."""
        if self.report.verifier:
            return
        verifier = _text_level(env).verifier
        self.report.verifier = type(verifier).__name__
        self.report.max_new_tokens = env.format.max_new_tokens
        try:
            self.report.fingerprint = verifier.fingerprint()
        except VerifierError as error:
            self.report.notes.append(f"the verifier has no fingerprint, so its verdicts cannot be kept: {error}")

    def identity(self, example: Example, split: str) -> None:
        """The id is unique, and the content is in no other split."""
        if example.id in self.ids:
            self.complain("an id comes twice", repr(example.id), f"first in {self.ids[example.id]!r}")
        self.ids.setdefault(example.id, split)
        try:
            other, id = self.contents.setdefault(content_of(example), (split, example.id))
        except LLMEnvsError as error:
            self.complain("the content cannot be compared", repr(example.id), str(error))
            return
        if other != split:
            self.complain("content of another split", repr(example.id), f"which is {id!r} of {other!r} again")

    def example(self, env: TokenEnv, index: int, example: Example) -> None:
        """Hidden data, prompt, gold answer, wrong answer and empty answer of one example."""
        text, who = _text_level(env), repr(example.id)
        try:
            self.within(lambda: text.verifier.validate(example), f"validate of {who}")
            env.reset(options={"index": index})
        except VerifierError as error:
            self.complain("the verifier refuses the hidden data", who, str(error))
            return
        except LLMEnvsError as error:
            self.complain("the prompt does not fit", who, str(error))
        solution = self.made("solution", lambda: list(self.task.solution(example)), who)
        if solution is not None and not any(solution):
            self.complain("no gold answer", who, "task.solution (by default the example's gold) is empty")
        elif solution is not None:
            self.gold(env, index, solution, who)
        wrong = self.made("wrong", lambda: self.task.wrong(example), who)
        for what, message in (("the wrong answer (task.wrong)", wrong), ("the empty answer", "")):
            if message is None or (what != "the empty answer" and not message):
                continue
            verdict = self.play(text, index, [message], f"{what} to {who}")
            if verdict is not None and verdict["passed"]:
                self.complain(f"{what} passes", who, f"score {verdict['score']:g}, message {str(message)!r:.60}")

    def gold(self, env: TokenEnv, index: int, solution: Sequence[str], who: str) -> None:
        """The gold answer scores 1 and fits the budget."""
        verdict = self.play(_text_level(env), index, solution, f"the gold answer to {who}")
        if verdict is not None and not (verdict["passed"] and abs(verdict["score"] - 1) < 1e-9):
            said = f"score {verdict['score']:g}, kind {verdict['kind']}, {verdict['feedback'] or 'no feedback'}"
            self.complain("the gold answer does not score 1", who, said)
        tokens = sum(len(env.format.tokenizer.encode(str(message))) + 1 for message in solution)
        if tokens > env.format.max_new_tokens:
            self.complain(
                "the gold answer is too long", who,
                f"{tokens} tokens with stop tokens, and max_new_tokens is {env.format.max_new_tokens}",
            )  # fmt: skip

    def made(self, name: str, make: Callable[[], Any], who: str) -> Any:
        """What a function of the task gives; None, with a complaint, when it raises."""
        try:
            return make()
        except Exception as error:  # of a person's own code
            self.complain(f"task.{name} fails", who, _sentence(error))
            return None

    def play(self, env: TextEnv, index: int, messages: Sequence[str], what: str) -> dict[str, Any] | None:
        """The verdict on an episode; None, with a complaint, when there is none."""

        def episode() -> dict[str, Any]:
            env.reset(options={"index": index})
            for message in messages:
                *_, terminated, truncated, info = env.step(message)
                if terminated or truncated:
                    return info
            return env.step(Message("", "length"))[4]  # tools: whatever was not submitted is judged as it is

        try:
            info = self.within(episode, what)
        except VerifierError as error:
            self.complain("the verifier broke", what, str(error))
            return None
        except _TooSlow:
            raise
        except Exception as error:  # of a person's own code: extract, tools
            self.complain("the episode fails", what, _sentence(error))
            return None
        if "verdict" not in info:
            self.complain("the verifier broke", what, str(info.get("verifier_error")))
        return info.get("verdict")

    def within(self, call: Callable[[], Any], what: str) -> Any:
        """What `call` gives; raises `_TooSlow` when it does not come back in time."""
        outcome: list[Any] = []

        def run() -> None:
            try:
                outcome.extend((call(), None))
            except BaseException as error:  # raised again below
                outcome.extend((None, error))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(self.seconds)
        if not outcome:
            raise _TooSlow(f"{what} took more than {self.seconds:g} s, so the check ended here")
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]


def _text_level(env: TokenEnv) -> TextEnv:
    assert isinstance(env.env, TextEnv)
    return env.env


def _sentence(error: Exception) -> str:
    ours = isinstance(error, (LLMEnvsError, VerifierError))
    return " ".join((str(error) if ours else f"{type(error).__name__}: {error}").split())

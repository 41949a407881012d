"""The text level: one step is one whole message, and a verifier turns it into the reward."""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import gymnasium as gym

from llm_envs import validate
from llm_envs.error import ClosedError, EpisodeError, OptionError, unknown
from llm_envs.judges import ExtraVerifiers, Loan, build_extra_verifiers, build_verifier
from llm_envs.render import RENDER_MODES, Block, Renderer
from llm_envs.share import SharedSpecMixin, share, unshare
from llm_envs.spaces import UnicodeText
from llm_envs.task import AnswerFormatError, Task
from verifiers import Answer, Example, Verdict, Verifier, VerifierError

StopReason = Literal["stop", "length", "invalid_action"]


class Message(str):
    """A message that says why it ends; a `str`, so that it lies in the action space and passes through any wrapper.

    A plain `str` given to `step` counts as finished (`"stop"`). The token level says `"length"` when the budget cut the
    message off and `"invalid_action"` when the policy chose a token it must not.
    """

    stop_reason: StopReason

    def __new__(cls, text: str, stop_reason: StopReason = "stop") -> Message:
        """Attach the reason to the text; raises `OptionError` for what is no text, and for an unknown reason."""
        validate.text("the text of a message", text)
        validate.choice("stop_reason", stop_reason, get_args(StopReason))
        message = super().__new__(cls, text)
        message.stop_reason = stop_reason
        return message


class TextEnv(SharedSpecMixin, gym.Env[str, str]):
    """One task at the text level.

    ## Description
    `reset` draws an example from the split; the policy writes one message; the task cuts the answer out of it and the
    verifier judges it. Answers that the task cannot find in the message score 0 with kind `bad_format`, unasked.

    ## Action space
    `UnicodeText`: one whole message. A `Message` may say that it was cut off.

    ## Observation space
    `UnicodeText`: the newest message only: the prompt at `reset` (of a chat prompt, the content of its last message),
    the empty string at the end.

    ## Rewards
    The verdict's score, at the step that ends the episode.

    ## Episode end
    `terminated` after the answer. `truncated` only when the judge broke and `on_verifier_error="unscored"`.

    ## Info
    | key | when | value |
    |---|---|---|
    | `example_id`, `task`, `split` | always | str |
    | `stop_reason` | end | `"stop"`, `"length"` (cut off by the budget) or `"invalid_action"` |
    | `metadata` | end | a plain dict, the example's own |
    | `verdict` | end, unless unscored | dict with `score`, `passed`, `kind`, `components`, `feedback` |
    | `extra_verdicts` | end, with `extra_verifiers` | name -> such a dict, or None where that judge broke |
    | `unscored`, `verifier_error` | end, unscored | True and the reason |

    Environments that name their verifiers alike share them; the last one to close frees their workers. A verifier
    object is left open.

    ## Arguments
    `reset(options={"index": i})` takes the i-th example of the split instead of drawing one.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 4}

    def __init__(
        self,
        task: Task,
        split: str = "train",
        verifier: str | Verifier | None = None,
        verifier_options: Mapping[str, Any] | None = None,
        extra_verifiers: ExtraVerifiers = (),
        on_verifier_error: Literal["raise", "unscored"] = "raise",
        render_mode: str | None = None,
    ) -> None:
        """Create the environment.

        Args:
            task: what is asked and who judges it.
            split: one of `task.splits`.
            verifier: name or object that judges instead of the task's own verifier.
            verifier_options: keyword arguments for a verifier given by name.
            extra_verifiers: names or objects (a list, or a dict of named ones) that judge beside it, into `info` only.
            on_verifier_error: `"raise"` the error of a broken judge, or end the episode `"unscored"`.
            render_mode: see `llm_envs.render`.
        """
        if not isinstance(task, Task):
            raise OptionError(f"task must be a Task, got {task!r:.80}")
        if split not in task.splits:
            raise OptionError(unknown(f"split of task {task.name!r}", split, task.splits))
        if on_verifier_error not in ("raise", "unscored"):
            raise OptionError(unknown("on_verifier_error", on_verifier_error, ("raise", "unscored")))
        self.task = task
        self.split = split
        self.on_verifier_error = on_verifier_error
        self.render_mode = render_mode
        self._renderer = Renderer(render_mode)
        self.observation_space = UnicodeText()
        self.action_space = UnicodeText()
        options = validate.mapping("verifier_options", verifier_options, optional=True)
        self._judge_specs = share((verifier, options, extra_verifiers))
        self._example: Example | None = None
        self._messages: list[dict[str, str]] = []
        self._outcome = ""
        self._ended = self._closed = False
        self._build()

    def _build(self) -> None:
        """Set up what is not pickled: the examples and the verifiers."""
        verifier, options, extra = unshare(self._judge_specs)
        self._examples = self.task.problems(self.split)
        if not len(self._examples):
            raise OptionError(f"split {self.split!r} of task {self.task.name!r} holds no examples")
        self.verifier = build_verifier(self.task, verifier, options)
        self.extra_verifiers = build_extra_verifiers(extra)
        specs = [verifier or self.task.verifier, *(extra.values() if isinstance(extra, Mapping) else extra)]
        judges = [self.verifier, *self.extra_verifiers.values()]
        self._loan = Loan(judge for spec, judge in zip(specs, judges, strict=True) if isinstance(spec, str))

    @property
    def num_examples(self) -> int:
        """How many examples the split holds; `options={"index": i}` takes 0 <= i < num_examples."""
        return len(self._examples)

    @property
    def example(self) -> Example:
        """The example of this episode; for scripted agents and tests, which may know the answer."""
        if self._example is None:
            raise EpisodeError(f"{type(self).__name__} has no example before reset; call reset first")
        return self._example

    def script(self, name: Literal["gold", "wrong", "empty"]) -> list[str]:
        """What a scripted agent plays in this episode: the solution, a wrong answer, or nothing."""
        scripts = {
            "gold": lambda: list(self.task.solution(self.example)),
            "wrong": lambda: [self.task.wrong(self.example)],
            "empty": lambda: [""],
        }
        if name not in scripts:
            raise OptionError(unknown("script", name, scripts))
        return scripts[name]()

    @property
    def tool_schemas(self) -> list[dict[str, Any]] | None:
        """JSON schemas of the tools of this episode; None for a task without tools."""
        return None

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation so far as chat messages; a copy."""
        return [dict(message) for message in self._messages]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Draw an example with the environment's own generator, or take the one at `options["index"]`."""
        if self._closed:
            raise ClosedError(f"{type(self).__name__}.reset called after close; make a new environment")
        super().reset(seed=seed)
        self._ended = True  # stays so if the episode cannot begin
        self._example = self._examples[self._index(validate.mapping("the options of reset", options, optional=True))]
        prompt = self._example.prompt
        self._messages = (
            [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(message) for message in prompt]
        )
        self._outcome = ""
        self._begin(self._example)
        self._ended = False
        self._renderer.begin(self.blocks)
        return self._messages[-1]["content"], self._identity(self._example)

    def _begin(self, example: Example) -> None:
        """What else an episode on the example needs before its first step."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take the policy's message to the verifier."""
        example, stop_reason = self._take(action)
        return self._finish(example, self._answer(example, action, stop_reason), stop_reason)

    def _take(self, action: str) -> tuple[Example, StopReason]:
        """Note a message of the policy's; returns the example it is about and why it ends."""
        if self._closed:
            raise ClosedError(f"{type(self).__name__}.step called after close; make a new environment")
        if self._example is None or self._ended:
            when = "before reset" if self._example is None else "after the episode ended"
            raise EpisodeError(f"{type(self).__name__}.step called {when}; call reset first")
        validate.text("a message", action)
        self._messages.append({"role": "assistant", "content": str(action)})
        return self._example, getattr(action, "stop_reason", "stop")

    def _finish(
        self, example: Example, answer: Answer | Verdict, stop_reason: StopReason
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Have the answer judged and end the episode."""
        self._ended = True
        info = {
            **self._identity(example),
            "stop_reason": stop_reason,
            "metadata": copy.deepcopy(dict(example.metadata)),
        }
        if self.extra_verifiers:
            info["extra_verdicts"] = self._extra_verdicts(example, answer)
        try:
            verdict = self._judge(self.verifier, example, answer)
        except VerifierError as error:
            if self.on_verifier_error == "raise":
                raise
            self._outcome = f"unscored ({stop_reason}): {error}"
            self._renderer.go_on(self.blocks)
            return "", 0.0, False, True, {**info, "unscored": True, "verifier_error": str(error)}
        info["verdict"] = verdict.as_info()
        self._outcome = f"{verdict.kind} ({stop_reason}): score {verdict.score:g}\n{verdict.feedback}".rstrip()
        self._renderer.go_on(self.blocks)
        return "", float(verdict.score), True, False, info

    def render(self) -> Any:
        """The episode so far; see `llm_envs.render`."""
        return self._renderer.render(self.blocks())

    def blocks(self) -> list[Block]:
        """What rendering shows: one block per message, and at the end the verdict."""
        blocks = [Block(message["role"], message["content"]) for message in self._messages]
        return [*blocks, Block("verdict", self._outcome)] if self._outcome else blocks

    def _answer(self, example: Example, message: str, stop_reason: StopReason) -> Answer | Verdict:
        """The answer in the message, or the verdict when there is nothing to judge."""
        refused = self._refused(stop_reason)
        if refused is not None:
            return refused
        try:
            answer = self.task.extract(example, str(message))
        except AnswerFormatError as error:
            return Verdict(0.0, False, "bad_format", feedback=str(error))
        self._check_answer("extract", answer)
        return answer if answer.transcript else replace(answer, transcript=self.messages)

    def _check_answer(self, maker: str, answer: Any) -> None:
        """Raise `OptionError` where a person's function gives something else for an answer."""
        if not isinstance(answer, Answer):
            raise OptionError(f"{maker} of task {self.task.name!r} must return an Answer, got {answer!r:.80}")

    def _refused(self, stop_reason: StopReason) -> Verdict | None:
        """The verdict on a message that no verifier is asked about."""
        if stop_reason == "invalid_action":
            return Verdict(0.0, False, "invalid_action", feedback="the policy chose a token that is not allowed")
        if stop_reason == "length" and not self.task.judge_unfinished:
            return Verdict(0.0, False, "unfinished", feedback="the budget ran out before the answer was finished")
        return None

    def _judge(self, verifier: Verifier, example: Example, answer: Answer | Verdict) -> Verdict:
        return answer if isinstance(answer, Verdict) else verifier.verify(example, answer)

    def _extra_verdicts(self, example: Example, answer: Answer | Verdict) -> dict[str, dict[str, Any] | None]:
        verdicts: dict[str, dict[str, Any] | None] = {}
        for name, verifier in self.extra_verifiers.items():
            try:
                verdicts[name] = self._judge(verifier, example, answer).as_info()
            except VerifierError:
                if self.on_verifier_error == "raise":
                    raise
                verdicts[name] = None
        return verdicts

    def _index(self, options: Mapping[str, Any]) -> int:
        for option in options:
            if option != "index":
                raise OptionError(unknown("reset option", option, ["index"]))
        if options.get("index") is None:
            return int(self.np_random.integers(self.num_examples))
        try:
            index = operator.index(options["index"])
        except TypeError:
            index = -1
        if not 0 <= index < self.num_examples:
            raise OptionError(
                f"options['index'] must be an integer from 0 to {self.num_examples - 1} "
                f"(split {self.split!r} of task {self.task.name!r}), got {options['index']!r}"
            )
        return index

    def close(self) -> None:
        """Give the verifiers back; may be called twice. Nothing but rendering is possible afterwards."""
        self._closed = True
        self._loan.end()

    def _identity(self, example: Example) -> dict[str, Any]:
        return {"example_id": example.id, "task": self.task.name, "split": self.split}

    def __getstate__(self) -> dict[str, Any]:
        built = ("verifier", "extra_verifiers", "_examples", "_loan")
        return {name: value for name, value in self.__dict__.items() if name not in built}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._build()

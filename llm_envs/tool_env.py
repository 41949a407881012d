"""The text level of a task with tools: several messages, the last of which leads to the verdict."""

from __future__ import annotations

from typing import Any

from llm_envs.error import OptionError
from llm_envs.text_env import TextEnv
from llm_envs.tool_format import ToolFormat, as_tool_format
from llm_envs.tools import ToolBox, ToolCall, ToolError, ToolSession
from verifiers import Answer, Example, Verdict


class ToolEnv(TextEnv):
    """One task with tools, at the text level; what `TextEnv` says holds, except for this.

    ## Description
    A message calls one tool, in the task's `tool_format`; the observation is what the tool returned, or a sentence
    about what is wrong with the call. The tools work on a session that is made anew at every `reset`. When a tool has
    ended the session, or `max_turns` messages are written, the session's state is judged, once.

    ## Action space
    A `ToolCall` is a message, too, and is not parsed: scripted agents and agents behind an API need no text format.

    ## Rewards
    0 for every message but the last.

    ## Info
    | key | when | value |
    |---|---|---|
    | `turn` | every step | messages written so far |
    | `tool` | every step | name of the tool that was called, "" when the message called none |
    | `tool_error` | every step | whether the observation says what is wrong with the call |

    `stop_reason` is `"length"` when the turns are used up.
    """

    def _build(self) -> None:
        super()._build()
        self.tool_format: ToolFormat = as_tool_format(self.task.tool_format)
        self._session: ToolSession | None = None
        self._turn = 0

    @property
    def tool_schemas(self) -> list[dict[str, Any]]:
        """JSON schemas of the tools of this episode."""
        return self._toolbox().schemas

    def _begin(self, example: Example) -> None:
        """Open a session on the example."""
        assert self.task.tools is not None
        self._session, self._turn = None, 0
        session = self.task.tools(example)
        if not isinstance(session, ToolSession):
            raise OptionError(
                f"tools of task {self.task.name!r} must give a session with submitted, tools and answer, "
                f"got {session!r:.80}"
            )
        self._session = session
        self._toolbox()  # a tool without a schema is refused here, and not in the middle of an episode

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Call the tool that the message names; at the end, take the state to the verifier."""
        example, stop_reason = self._take(action)
        assert self._session is not None
        self._turn += 1
        observation, tool, error = "", "", False
        if stop_reason == "stop":
            observation, tool, error = self._call(action)
        about = {"turn": self._turn, "tool": tool, "tool_error": error}
        if stop_reason == "stop" and not self._session.submitted:
            if self._turn < self.task.max_turns:
                self._messages.append({"role": "tool", "content": observation})
                self._renderer.go_on(self.blocks)
                return observation, 0.0, False, False, {**self._identity(example), **about}
            stop_reason = "length"
        answer: Answer | Verdict | None = self._refused(stop_reason)
        if answer is None:
            answer = self._session.answer()
            self._check_answer("answer() of the session of tools", answer)
        step = self._finish(example, answer, stop_reason)
        return *step[:4], {**step[4], **about}

    def _call(self, action: str) -> tuple[str, str, bool]:
        """What the policy reads next, the tool's name, and whether the call could not be carried out."""
        toolbox = self._toolbox()
        try:
            call = action if isinstance(action, ToolCall) else self.tool_format.read(str(action), toolbox.schemas)
        except ToolError as error:
            return f"error: {error}\n", "", True
        if call is None:
            names = ", ".join(schema["function"]["name"] for schema in toolbox.schemas)
            example = self.tool_format.describe(toolbox.schemas[-1:])
            return f"error: the message calls no tool; there are {names}. {example}\n", "", True
        result = toolbox.call(call.name, call.arguments)
        return result if result.endswith("\n") else f"{result}\n", call.name, result.startswith("error: ")

    def _toolbox(self) -> ToolBox:
        return ToolBox(self._session.tools(self.verifier) if self._session else {})

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "tool_format"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._session, self._turn = state["_session"], state["_turn"]

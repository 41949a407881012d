"""The working copy of one episode of `CodeRepairTools`, and the tools that work on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llm_envs.code_repair.program import lines_of
from llm_envs.code_repair.scripts import call_text, of_test, script_text
from llm_envs.judges import Loan
from llm_envs.tools import ToolError
from verifiers import Answer, Example, FunctionTests, Verifier, get_verifier
from verifiers.sandbox.channel import Reply

# Plays a script on a class; what a method gives is copied, since the object may go on to change it.
_PLAYER = """from copy import deepcopy
from main import {0}

def play(init, calls):
    it = {0}(*init)
    return [deepcopy(getattr(it, method)(*args)) for method, args in calls]
"""


class Workspace:
    """Files of one program, changed by tools; a `tools.ToolSession`.

    Args:
        example: `metadata["files"]` holds the buggy files, `metadata["public"]` the calls that may be shown.
    """

    def __init__(self, example: Example) -> None:
        self._files: dict[str, str] = dict(example.metadata["files"])
        self._entry: str = example.hidden["entry"]
        self._public: Sequence[Mapping[str, Any]] = example.metadata["public"]
        self.submitted = False

    def answer(self) -> Answer:
        """The files as they are now."""
        return Answer(text=self._files["main.py"], files=dict(self._files))

    def tools(self, verifier: Verifier) -> dict[str, Callable[..., str]]:
        """The tools by name; code runs in the sandbox of `verifier` if it has one, else in one of its own."""

        def view(path: str) -> str:
            """Show a file with numbered lines.

            Args:
                path: Name of the file.
            """
            return "".join(f"{number}|{line}\n" for number, line in enumerate(self._lines(path), 1))

        def replace_lines(path: str, first: int, last: int, text: str) -> str:
            """Replace the lines first to last of a file; an empty text deletes them.

            Args:
                path: Name of the file.
                first: Number of the first line to replace, from 1.
                last: Number of the last line to replace.
                text: What stands there afterwards, indentation included.
            """
            lines = self._lines(path)
            if not 1 <= first <= last <= len(lines):
                raise ToolError(f"{path} has lines 1 to {len(lines)}, so there are no lines {first} to {last}")
            lines[first - 1 : last] = lines_of(text)
            self._files[path] = "".join(f"{line}\n" for line in lines)
            return "ok"

        def run_tests() -> str:
            """Run the public examples and show what fails."""
            if isinstance(verifier, FunctionTests):
                return self._run_tests(verifier)
            runner = get_verifier("function_tests", workers=1)
            assert isinstance(runner, FunctionTests)
            loan = Loan([runner])  # other environments may use it at the same time
            try:
                return self._run_tests(runner)
            finally:
                loan.end()

        def submit() -> str:
            """Hand in the program; the hidden tests judge it."""
            self.submitted = True
            return "submitted"

        return {tool.__name__: tool for tool in (view, replace_lines, run_tests, submit)}

    def _run_tests(self, runner: FunctionTests) -> str:
        if "calls" in self._public[0]:
            player = Answer("", files={**self._files, "player.py": _PLAYER.format(self._entry)})
            scripts = [of_test(test)[0] for test in self._public]
            replies = runner.try_calls(player, "play", scripts, file="player.py")
            return "".join(map(self._report_script, self._public, replies))
        calls = [test["args"] for test in self._public]
        replies = runner.try_calls(self.answer(), self._entry, calls)
        return "".join(map(self._report, self._public, replies))

    def _lines(self, path: str) -> list[str]:
        if path not in self._files:
            raise ToolError(f"there is no file {path!r:.60}; there are {', '.join(self._files)}")
        return lines_of(self._files[path])

    def _report(self, test: Mapping[str, Any], reply: Reply) -> str:
        """One public example: `f([1, 2]) == 3 ok`, or `f([1, 2]) == 3 not 4`."""
        stated = f"{call_text(self._entry, test['args'])} == {test['expected']!r}"
        if reply.kind != "value":
            return f"{stated} not {_failure(reply)}\n"
        return f"{stated} ok\n" if _same(reply.value, test["expected"]) else f"{stated} not {reply.value!r:.200}\n"

    def _report_script(self, test: Mapping[str, Any], reply: Reply) -> str:
        """One public script, up to its first wrong call: `o = C(2); o.push(1); o.pop() == 1 not None`."""
        (init, calls), expected = of_test(test)
        if reply.kind != "value":
            return f"{script_text(self._entry, (init, calls))} == {expected[-1]!r} not {_failure(reply)}\n"
        for number, (given, wanted) in enumerate(zip(reply.value, expected, strict=True), 1):
            if not _same(given, wanted):
                script = script_text(self._entry, (init, calls[:number]))
                return f"{script} == {wanted!r} not {given!r:.200}\n"
        return f"{script_text(self._entry, (init, calls))} == {expected[-1]!r} ok\n"


def _failure(reply: Reply) -> str:
    """The name of the exception, or how else a call came to no value."""
    return str(reply.value[0]) if reply.kind in ("exception", "load") and reply.value else reply.kind


def _same(given: Any, wanted: Any) -> bool:
    return type(given) is type(wanted) and given == wanted

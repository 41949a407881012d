"""What the policy reads and writes: prompts in two styles, and gold answers in the two formats.

`edit` is described in `line_edit`; `function` is the whole corrected function, in a code fence or not.
"""

from __future__ import annotations

from llm_envs.code_repair.line_edit import edit_between, unfenced, write_edit
from llm_envs.code_repair.repairs import Repair
from llm_envs.task import AnswerFormatError

FORMATS = ("edit", "function")
STYLES = ("compact", "chat")

_CHAT = {
    "edit": (
        "The Python function below has {bugs}. Its lines are numbered; the calls under it show the right value and "
        "what the function gives instead.\n\n{function}\n{calls}\n"
        "Answer only with the lines that must change, written as `N|new text of line N`, indentation included. "
        "Further lines with the same N are inserted after line N; `N|` with nothing after it deletes line N."
    ),
    "function": (
        "The Python function below has {bugs}. The calls under it show the right value and what the function gives "
        "instead.\n\n```python\n{function}```\n{calls}\n"
        "Answer only with the whole corrected function in a ```python block."
    ),
}


def prompt(repair: Repair, answer_format: str, style: str, instruction: str = "") -> str | list[dict[str, str]]:
    """The task as the policy sees it: terse text for a small model, or one chat message that explains the format.

    In the terse text the function is called `f` in the calls, whatever its name: a small model reads every character.
    """
    called = "f" if style == "compact" else repair.name
    calls = "".join(
        f"{called}({', '.join(map(repr, args))}) == {expected!r} not {outcome}\n"
        for args, expected, outcome in repair.shown
    )
    function = numbered(repair.buggy) if answer_format == "edit" else repair.buggy
    if style == "compact":
        return (instruction + "\n" if instruction else "") + function + calls
    bugs = "one bug" if len(repair.kinds) == 1 else f"{len(repair.kinds)} bugs"
    text = _CHAT[answer_format].format(bugs=bugs, function=function, calls=calls)
    return [{"role": "user", "content": (instruction + "\n\n" if instruction else "") + text}]


def numbered(source: str) -> str:
    """The source with `N|` before each line."""
    return "".join(f"{number}|{line}\n" for number, line in enumerate(source.splitlines(), 1))


def read_function(message: str, entry: str) -> str:
    """The answer in the format `function`."""
    text = unfenced(message).strip("\n")
    if f"def {entry}(" not in text:
        raise AnswerFormatError(f"the answer must be the whole corrected function, starting with `def {entry}(`")
    return text.rstrip() + "\n"


def gold(repair: Repair, answer_format: str) -> str:
    """A message that repairs the function, in the asked-for format."""
    if answer_format == "edit":
        return write_edit(edit_between(repair.buggy, repair.original))
    return repair.original

"""What the policy reads and writes: prompts in two styles, and gold answers in the two formats.

`edit` is described in `line_edit`; `function` is the whole corrected function (or class), in a code fence or not.
"""

from __future__ import annotations

from llm_envs.code_repair.line_edit import edit_between, unfenced, write_edit
from llm_envs.code_repair.program import lines_of
from llm_envs.code_repair.repairs import Repair
from llm_envs.code_repair.scripts import call_text, is_class, script_text
from llm_envs.task import AnswerFormatError

FORMATS = ("edit", "function")
STYLES = ("compact", "chat")

_CHAT = {
    "edit": (
        "The Python {what} below has {bugs}. Its lines are numbered; the calls under it show the right value and "
        "what the {what} gives instead.\n\n{source}\n{calls}\n"
        "Answer only with the lines that must change, written as `N|new text of line N`, indentation included. "
        "Further lines with the same N are inserted after line N; `N|` with nothing after it deletes line N."
    ),
    "function": (
        "The Python {what} below has {bugs}. The calls under it show the right value and what the {what} gives "
        "instead.\n\n```python\n{source}```\n{calls}\n"
        "Answer only with the whole corrected {what} in a ```python block."
    ),
}


def prompt(repair: Repair, answer_format: str, style: str, instruction: str = "") -> str | list[dict[str, str]]:
    """The task as the policy sees it: terse text for a small model, or one chat message that explains the format.

    In the terse text a function is called `f` in the calls, whatever its name, and a class `C`: a small model reads
    every character.
    """
    what = word_for(repair.buggy)
    called = {"class": "C", "function": "f"}[what] if style == "compact" else repair.name
    calls = failing_calls(repair, called)
    source = numbered(repair.buggy) if answer_format == "edit" else repair.buggy
    if style == "compact":
        return (instruction + "\n" if instruction else "") + source + calls
    text = _CHAT[answer_format].format(what=what, bugs=count_bugs(repair), source=source, calls=calls)
    return [{"role": "user", "content": (instruction + "\n\n" if instruction else "") + text}]


def word_for(source: str) -> str:
    """What a program is: "function" or "class"."""
    return "class" if is_class(source) else "function"


def failing_calls(repair: Repair, called: str) -> str:
    """One line for each call or script that is shown: what it should give and what it gives."""
    text = script_text if is_class(repair.buggy) else call_text
    return "".join(f"{text(called, args)} == {expected!r} not {outcome}\n" for args, expected, outcome in repair.shown)


def count_bugs(repair: Repair) -> str:
    """How many bugs there are, in words for a person."""
    return "one bug" if len(repair.kinds) == 1 else f"{len(repair.kinds)} bugs"


def numbered(source: str) -> str:
    """The source with `N|` before each line."""
    return "".join(f"{number}|{line}\n" for number, line in enumerate(lines_of(source), 1))


def read_program(message: str, entry: str, what: str) -> str:
    """The answer in the format `function`; `what` is "function" or "class"."""
    text = unfenced(message).strip("\n")
    start = f"def {entry}(" if what == "function" else f"class {entry}"
    if start not in text:
        raise AnswerFormatError(f"the answer must be the whole corrected {what}, starting with `{start}`")
    return text.rstrip() + "\n"


def gold(repair: Repair, answer_format: str) -> str:
    """A message that repairs the program, in the asked-for format."""
    if answer_format == "edit":
        return write_edit(edit_between(repair.buggy, repair.original))
    return repair.original

"""The answer format `edit`: lines `N|new text of line N`.

Several with the same N: the first replaces line N, the others follow it, so that lines can be inserted. `N|` with
nothing after it deletes line N. Lines that are not named stay.
"""

from __future__ import annotations

import difflib
import re

from llm_envs.code_repair.program import lines_of
from llm_envs.task import AnswerFormatError

Edit = list[tuple[int, str]]  # (line number from 1, new text)

_EDIT_LINE = re.compile(r"\s*(\d{1,6})\|(.*)")
_FENCE = re.compile(r"```[^\n]*\n(.*?)(?:\n```|\Z)", re.DOTALL)


def unfenced(message: str) -> str:
    """The content of the message's first code fence, or the message itself."""
    match = _FENCE.search(message)
    return match[1] if match else message


def parse_edit(message: str) -> Edit:
    """The lines of an edit as (line number, new text)."""
    found = []
    for line in lines_of(unfenced(message)):
        if not line.strip():
            continue
        match = _EDIT_LINE.fullmatch(line)
        if match is None:
            raise AnswerFormatError(f"{line[:60]!r} is not of the form `N|new text of line N`")
        found.append((int(match[1]), match[2].rstrip()))
    if not found:
        raise AnswerFormatError("the answer is empty; write at least one line `N|new text of line N`")
    return found


def apply_edit(source: str, message: str) -> str:
    """The answer in the format `edit`, applied to the buggy source."""
    lines = lines_of(source)
    changed: dict[int, list[str]] = {}
    for number, text in parse_edit(message):
        if not 1 <= number <= len(lines):
            raise AnswerFormatError(f"there is no line {number}; the program has lines 1 to {len(lines)}")
        changed.setdefault(number, []).append(text)
    patched = []
    for number, line in enumerate(lines, 1):
        patched += [text for text in changed.get(number, [line]) if text]
    return "\n".join(patched) + "\n"


def edit_between(buggy: str, fixed: str) -> Edit:
    """The lines of an edit that turns `buggy` into `fixed`, naming as few lines as a line diff does."""
    old, new = lines_of(buggy), lines_of(fixed)
    found: Edit = []
    for tag, start, stop, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        texts = new[first:last]
        if start == stop:  # nothing to replace: repeat the line before, then insert
            found += [(start, text) for text in (old[start - 1], *texts)]
            continue
        pairs = list(zip(range(start + 1, stop + 1), texts, strict=False))
        found += pairs
        found += [(number, "") for number in range(start + 1 + len(pairs), stop + 1)]
        found += [(stop, text) for text in texts[len(pairs) :]]
    return found


def write_edit(edit: Edit) -> str:
    """An edit as a message."""
    return "\n".join(f"{number}|{text}" for number, text in edit)


def copy_between(buggy: str, fixed: str) -> Edit:
    """The edit that names the same lines and writes them as they stand: well formed, and changes nothing."""
    lines = lines_of(buggy)
    return [(number, lines[number - 1]) for number in dict.fromkeys(number for number, _ in edit_between(buggy, fixed))]

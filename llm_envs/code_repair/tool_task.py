"""The task `CodeRepairTools`: repair a working copy with tools, in several messages.

    prompt      main.py
                count_above_7([7]) == 0 not 1
    policy      view main.py, replace_lines main.py 4 4 "        if x > 7:", perhaps run_tests, submit
    judge       the hidden tests, once, on the files as they are when the episode ends

Difficulty 1 and 2 are the bugs in one file with one function or class. Difficulty 3 has two modules with a function
each, one of them buggy, and a `main.py` that uses both (see `pipeline`); the prompt does not say which is which.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import groupby
from random import Random
from typing import Any

from llm_envs import validate
from llm_envs.code_repair.formats import count_bugs, failing_calls
from llm_envs.code_repair.line_edit import copy_between, edit_between
from llm_envs.code_repair.pipeline import one_file, three_files
from llm_envs.code_repair.problems import SIZES, check_options
from llm_envs.code_repair.repairs import SPLITS, Repair, families_of, passes, public_tests, stream
from llm_envs.code_repair.teacher import label_of, other_program
from llm_envs.code_repair.workspace import Workspace
from llm_envs.error import OptionError
from llm_envs.lazy import LazyExamples
from llm_envs.task import Task
from llm_envs.tool_format import ToolFormat, as_tool_format
from llm_envs.tools import ToolCall
from verifiers import Example

_BUGS = {1: 1, 2: 2, 3: 1}  # by difficulty
_CHAT = (
    "The Python program in {files} has {bugs}. These calls show the right value and what the program gives instead:\n\n"
    "{calls}\nFind the mistake with the tools, repair it and submit."
)


def make_task(
    difficulty: int = 1,
    *,
    programs: str = "functions",
    families: str = "all",
    style: str = "compact",
    tool_format: str | ToolFormat = "json",
    max_turns: int = 8,
    max_new_tokens: int = 512,
    sizes: Mapping[str, int] | None = None,
) -> Task:
    """The task `CodeRepairTools`.

    Args:
        difficulty: 1 or 2 bugs in one file, or 3: one bug in one of three files.
        programs: `functions` or `classes`, as in `CodeRepair`; classes have difficulty 1 or 2.
        families: `core` or `all`, as in `CodeRepair`.
        style: `compact` (files and failing calls only) or `chat` (a message in English; the tools are described by
            the chat template).
        tool_format: how calls are written, see `llm_envs.tool_format`.
        max_turns: messages in one episode.
        max_new_tokens: tokens the policy may write in one episode.
        sizes: examples per split, where they differ from those of `CodeRepair`.
    """
    validate.integer("difficulty", difficulty, 1, len(_BUGS))
    check_options(_BUGS[difficulty], programs, families, "edit", style)
    if programs == "classes" and difficulty == 3:
        raise OptionError("programs 'classes' have difficulty 1 or 2: one class in one file")
    counts = validate.sizes(sizes, SIZES)
    format = as_tool_format(tool_format)
    return Task(
        name="CodeRepairTools",
        problems=lambda split: _problems(split, difficulty, programs, families, style, counts[split]),
        splits=SPLITS,
        verifier="function_tests",
        verifier_options={"limits": {"cpu_s": 0.2}},
        tools=Workspace,
        tool_format=format,
        max_turns=max_turns,
        max_new_tokens=max_new_tokens,
        solution=partial(solution, format=format),
        wrong=lambda example: str(format.call("submit")),
        demonstrate=partial(demonstration, format=format),
    )


@lru_cache(maxsize=64)
def _problems(split: str, difficulty: int, programs: str, families: str, style: str, size: int) -> LazyExamples:
    bugs = _BUGS[difficulty]
    names = [family.name for family in families_of(split, families, programs, bugs)]

    def build(position: int) -> Example:
        k, number = divmod(position, len(names))
        repair = stream(names[number], split, bugs)[k]
        files, fixed = {"main.py": repair.buggy}, {"main.py": repair.original}
        entry = repair.name
        if difficulty == 3:
            start = number + 1 + k % (len(names) - 1)
            others = (stream(names[(start + step) % len(names)], split, 1)[k] for step in range(len(names)))
            repair, files, fixed = three_files(repair, others, buggy_first=k % 2 == 0)
            entry = "run"
        return _example(f"{split}/{names[number]}/{k}", repair, entry, files, fixed, style, difficulty)

    return LazyExamples(size, build)


def _example(
    id: str, repair: Repair, entry: str, files: dict[str, str], fixed: dict[str, str], style: str, difficulty: int
) -> Example:
    calls = failing_calls(repair, entry)
    prompt: Any = " ".join(files) + "\n" + calls
    if style == "chat":
        text = _CHAT.format(files=", ".join(files), bugs=count_bugs(repair), calls=calls)
        prompt = [{"role": "user", "content": text}]
    return Example(
        id=id,
        prompt=prompt,
        hidden={"entry": entry, "tests": list(repair.tests)},
        metadata={
            "family": repair.family,
            "theme": repair.theme,
            "bug_kinds": list(repair.kinds),
            "original_hash": repair.original_hash,
            "difficulty": difficulty,
            "files": files,
            "fixed": fixed,
            "path": next(path for path, text in files.items() if text != fixed[path]),
            "public": public_tests(repair),
        },
    )


def solution(example: Example, format: ToolFormat) -> list[ToolCall]:
    """Messages that repair the program: look at the file, replace what is wrong, submit."""
    return _messages(example, example.metadata["fixed"][example.metadata["path"]], format)


def demonstration(example: Example, rng: Random, format: ToolFormat) -> list[ToolCall]:
    """The imperfect teacher of `CodeRepair`, with tools: it always finds the line, and often writes the bug again."""
    path = example.metadata["path"]
    buggy, fixed = example.metadata["files"][path], example.metadata["fixed"][path]
    label = label_of(example.metadata["bug_kinds"], rng)
    written = fixed if label == "right" else None
    if label == "other":
        written = other_program(buggy, fixed, partial(_repairs, example), rng)
    return _messages(example, written, format)


def _repairs(example: Example, text: str) -> bool:
    """Whether the program works with `text` in the place of the buggy file."""
    whole = one_file({**example.metadata["files"], example.metadata["path"]: text})
    return passes(whole, example.hidden["entry"], example.hidden["tests"])


def _messages(example: Example, written: str | None, format: ToolFormat) -> list[ToolCall]:
    """Turn the buggy file into `written`; None writes the lines of the bug as they stand."""
    path = example.metadata["path"]
    buggy, fixed = example.metadata["files"][path], example.metadata["fixed"][path]
    edit = copy_between(buggy, fixed) if written is None else edit_between(buggy, written)
    changes = [(number, [text for _, text in lines]) for number, lines in groupby(sorted(edit, key=_line), key=_line)]
    calls = [format.call("view", path=path)]
    for number, texts in reversed(changes):  # from below, so that the numbers above stay true
        text = "\n".join(text for text in texts if text)
        calls.append(format.call("replace_lines", path=path, first=number, last=number, text=text))
    return [*calls, format.call("submit")]


def _line(change: tuple[int, str]) -> int:
    return change[0]

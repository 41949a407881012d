"""The command line: `python -m llm_envs list`, `check ID` and `replay FILE`.

python -m llm_envs check llm_envs/CodeRepair-v0 --limit 500 difficulty 2
python -m llm_envs check my_tasks:llm_envs/MyTask-v0        # imports my_tasks first, which registers it
python -m llm_envs replay episodes.jsonl --import my_tasks
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

import llm_envs
from llm_envs.error import LLMEnvsError, OptionError
from llm_envs.registration import find_task, registered_ids, task_options
from llm_envs.task import load_task
from verifiers import VerifierError

COLUMNS = ("id", "splits", "verifier", "tokens", "turns")

_NO_OPTIONS = {
    "task": "the task is the id, as in `check llm_envs/Transform-v0`",
    "limit": "write --limit N",
    "seconds": "write --seconds N",
    "rebuild": "it is an argument of llm_envs.check_task only",
}
"""Arguments of `check_task` that are no options of an environment."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status.

    0 when all is well, 1 when something is wrong with a task or a recording plays differently, 2 for bad arguments and
    for files that are no recordings.
    """
    program = parser()
    args, words = program.parse_known_args(arguments)
    for word in words[::2] if args.command == "check" else words:
        if args.command != "check" or word.startswith("-"):
            program.error(f"unknown argument {word!r}")
    try:
        if args.command == "list":
            return print_table([row(id) for id in registered_ids()])
        if args.command == "check":
            report = llm_envs.check_task(args.id, args.limit, seconds=args.seconds, **pairs(words))
            print(report)
            return 0 if report.ok else 1
        for module in args.modules:
            import_module(module)
        return llm_envs.replay_file(args.file, args.trust)
    except (LLMEnvsError, VerifierError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    """Commands and their arguments."""
    program = argparse.ArgumentParser("python -m llm_envs", description="Tasks and environments of llm-envs.")
    commands = program.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="a table of all ids: splits with sizes, verifier, budgets")
    check = commands.add_parser(
        "check",
        help="find what is wrong with a task before training on it",
        usage="%(prog)s [-h] [--limit LIMIT] [--seconds SECONDS] id [option value ...]",
        epilog="Options are those of gymnasium.make(id), such as `split test` or `difficulty 2`.",
    )
    check.add_argument("id", help="such as llm_envs/Transform-v0, my_module:llm_envs/MyTask-v0, or my_module:make_task")
    check.add_argument("--limit", type=limit, default=100, help="examples per split, or `all`; 100 unless given")
    check.add_argument("--seconds", type=seconds, default=60.0, help="longest time of one episode; 60 unless given")
    replay = commands.add_parser("replay", help="play a recording again and report what differs")
    replay.add_argument("file", help="what a Recorder wrote")
    replay.add_argument(
        "--import", dest="modules", metavar="MODULE", action="append", default=[], help="a module that registers the id"
    )
    replay.add_argument(
        "--trust", action="store_true", help="run what options in the file name, such as a verifier 'module:Class'"
    )
    return program


def limit(text: str) -> int | None:
    """A number of examples, or `all`."""
    if text == "all":
        return None
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer or all, got {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """A positive, finite time."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"expected a positive number of seconds, got {text!r}")
    return value


def import_module(name: str) -> None:
    """Import a module, which registers its tasks; raises `OptionError` for what is no name."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise OptionError(f"--import takes the name of a module, such as my_tasks, got {name!r}")
    importlib.import_module(name)


def pairs(words: Sequence[str]) -> dict[str, Any]:
    """Options from name value pairs; a value that is JSON is read as such, any other is text."""
    if len(words) % 2:
        raise OptionError(f"options must be pairs of a name and a value, after one id; got {' '.join(words)!r:.200}")
    options: dict[str, Any] = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        if name in _NO_OPTIONS:
            raise OptionError(f"{name!r} is no option of an environment: {_NO_OPTIONS[name]}")
        if name in options:
            raise OptionError(f"the option {name!r} is given twice: {options[name]!r:.80} and {value!r:.80}")
        try:
            options[name] = json.loads(value)
        except (ValueError, RecursionError):
            options[name] = value
    return options


def row(id: str) -> tuple[str, ...]:
    """What the table says about an id; of a task that cannot be built, why not."""
    try:
        reference, options = find_task(id, {})
        task = load_task(reference, task_options(reference, options))
        sizes = ", ".join(f"{split} {len(task.problems(split))}" for split in task.splits)
    except Exception as error:  # somebody's task is broken, and the table is about the others, too
        return (id, f"cannot be built: {error}", "", "", "")
    verifier = options.get("verifier", task.verifier)
    return (
        id,
        sizes,
        verifier if isinstance(verifier, str) else type(verifier).__name__,
        str(options.get("max_new_tokens", task.max_new_tokens)),
        "1" if task.tools is None else str(task.max_turns),
    )


def print_table(rows: Sequence[tuple[str, ...]]) -> int:
    """Print a table, with lines and colours on a terminal."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(*COLUMNS)
        for cells in rows:
            table.add_row(*cells)
        Console().print(table)
        return 0
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    for cells in (COLUMNS, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
    return 0


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())  # so that `check my_module:...` finds a module in the current folder
    sys.exit(main())

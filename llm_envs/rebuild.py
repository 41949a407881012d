"""Examples built a second time, in another process, must be the same; part of `check_task`.

The other process has another hash seed, so an order that comes from a set shows.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from llm_envs.task import Task, load_task
from verifiers import Example
from verifiers.fingerprint import canonical

_TIMEOUT_S = 600.0
_MARK = "llm_envs.rebuild: "  # before the answer, since the task's own code may print, too
_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from llm_envs.rebuild import main; main()"


def difference(reference: str | Task, options: Mapping[str, Any], counts: Mapping[str, int]) -> tuple[str, str]:
    """Build the first examples of every split again and compare.

    Args:
        reference: of the task, as for `load_task`; only a `"module:function"` can be built again elsewhere.
        options: of the task's factory.
        counts: split -> number of examples.

    Returns:
        What is wrong, and why nothing could be compared; "" where that is not so.
    """
    if not isinstance(reference, str) or ":" not in reference or reference.startswith("__main__:"):
        return "", 'examples were not built a second time, which only a task registered as "module:function" allows'
    try:
        request = json.dumps({"reference": reference, "options": dict(options), "counts": dict(counts)})
    except TypeError:
        return "", "examples were not built a second time, since an option of the task is no JSON value"
    here = digests(load_task(reference, options), counts)
    environment = {**os.environ, "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    command = [sys.executable, "-c", _CODE, json.dumps(sys.path)]
    try:
        done = subprocess.run(
            command, input=request, capture_output=True, text=True, env=environment, timeout=_TIMEOUT_S
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"examples cannot be built in another process within {_TIMEOUT_S:g} s", ""
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"examples cannot be built in another process: {last}", ""
    answers = [line.removeprefix(_MARK) for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if not answers:
        return "examples cannot be built in another process: it ended before it said what it built", ""
    there = json.loads(answers[-1])
    for split in counts:
        for index, (mine, other) in enumerate(zip(here[split], there[split], strict=True)):
            if mine != other:
                return f"{split}: example {index} is another one when it is built in another process", ""
    return "", ""


def digests(task: Task, counts: Mapping[str, int]) -> dict[str, list[str]]:
    """Split -> a hash of each of its first examples."""
    return {split: [digest(task.problems(split)[index]) for index in range(n)] for split, n in counts.items()}


def digest(example: Example) -> str:
    """Hash of everything in an example; what is no plain value counts by its `repr`."""
    parts = []
    for part in (example.id, example.prompt, example.hidden, example.gold, example.metadata):
        try:
            parts.append(canonical(part))
        except TypeError:
            parts.append(repr(part))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def main() -> None:
    """In the other process: the request comes on standard input, the hashes go to a marked line of the output."""
    request = json.load(sys.stdin)
    print("\n" + _MARK + json.dumps(digests(load_task(request["reference"], request["options"]), request["counts"])))

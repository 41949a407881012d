"""Programs for a HumanEval problem, and what its assertion script says about them when it is run directly."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Sequence

from llm_envs.code_repair.mutate import mutants

TWINS = {
    # Equal under `==`, of other types: True becomes 1, 2 becomes 2.0 and 2.0 becomes 2.
    "numbers": """
def _twin(value):
    kind = type(value)
    if kind in (list, tuple, set):
        return kind(map(_twin, value))
    if kind is dict:
        return {_twin(key): _twin(item) for key, item in value.items()}
    if kind is bool:
        return int(value)
    if kind is int and abs(value) < 1 << 53:
        return float(value)
    return int(value) if kind is float and value.is_integer() else value
""",
    # Equal under `tuple(...) ==` alone.
    "sequences": """
def _twin(value):
    return tuple(value) if type(value) is list else list(value) if type(value) is tuple else value
""",
}
_WRAP = "_inner = {entry}\n{entry} = lambda *args, **kwargs: _twin(_inner(*args, **kwargs))\n"

# Reads programs from stdin, runs each in a fork of its own, writes how each ended. CPU seconds as in the judge.
_RUNNER = """
import io, json, os, resource, sys
for program in json.load(sys.stdin):
    pid = os.fork()
    if not pid:
        resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        sys.stdout = sys.stderr = io.StringIO()
        try:
            exec(program, {"__name__": "script"})
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    print(status == 0)
"""


def programs(gold: str, prompt: str, entry: str, limit: int) -> dict[str, str]:
    """Name -> program: the gold one, two stubs, its twins, and mutants, up to `limit` from all over the function.

    One more mutant, which every function has, returns what it should in a list.
    """
    found = {
        "gold": gold,
        "stub pass": prompt + "    pass\n",
        "stub return None": prompt + "    return None\n",
        **{f"twin {name}": f"{gold}\n{twin}{_WRAP.format(entry=entry)}" for name, twin in TWINS.items()},
    }
    tree = ast.parse(gold)
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == entry)
    place = tree.body.index(function)
    sources = [mutant.source for mutant in mutants(ast.unparse(function) + "\n")]
    chosen = sources[:: max(1, len(sources) // limit)][:limit]
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            node.value = ast.List([node.value], ast.Load())
    for source in [ast.unparse(function), *chosen]:
        body = [*tree.body[:place], *ast.parse(source).body, *tree.body[place + 1 :]]
        found[f"mutant {len(found)}"] = ast.unparse(ast.Module(body, [])) + "\n"
    return found


def run_script(script: str, entry: str, answers: Sequence[str]) -> list[bool]:
    """Whether each answer, followed by the script and its call, ends without an exception and in time."""
    texts = [f"{answer}\n{script}\ncheck({entry})\n" for answer in answers]
    command = [sys.executable, "-I", "-c", _RUNNER]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [line == "True" for line in done.stdout.split()]

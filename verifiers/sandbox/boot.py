"""Entry point of the judge's own code inside the sandbox: `python boot.py FOLDER MODULE ARGUMENTS...`.

Loads the judge's modules from FOLDER, each with a private copy of the builtins, and calls MODULE's `main`.
A submission that replaces `builtins.len` therefore changes its own world only. It also keeps the package's
`__init__`, and everything that it imports, out of the sandbox.
"""

from __future__ import annotations

import builtins
import sys
import types


def load(folder: str, name: str) -> types.ModuleType:
    """Import `FOLDER/name.py` as `verifiers.sandbox.name`, with builtins of its own."""
    path = f"{folder}/{name}.py"
    module = types.ModuleType(f"verifiers.sandbox.{name}")
    module.__dict__["__builtins__"] = dict(vars(builtins))
    sys.modules[module.__name__] = module
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), module.__dict__)
    return module


def main() -> None:
    """Load the module that is asked for, and those it depends on, and run it."""
    folder, wanted, *arguments = sys.argv[1:]
    order = ["codec", "worker", "seccomp", "confinement", "plain_confinement", "zygote"]
    for package in ("verifiers", "verifiers.sandbox"):
        sys.modules[package] = types.ModuleType(package)
    modules = [load(folder, name) for name in order[: order.index(wanted) + 1]]
    for name in ("verifiers", "verifiers.sandbox", *(module.__name__ for module in modules)):
        del sys.modules[name]  # the submission finds a world without the judge's modules
    modules[-1].main(*arguments)


if __name__ == "__main__":
    main()

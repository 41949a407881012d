"""Tasks of other installed packages: the entry-point group `llm_envs.tasks`.

    [project.entry-points."llm_envs.tasks"]         # in the pyproject.toml of such a package
    Riddles = "riddles.tasks:make_task"

makes `llm_envs/Riddles-v0` and `llm_envs/RiddlesText-v0`. Nothing of the package is imported before such an environment
is made. An entry that cannot be registered is left out with a warning.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

import gymnasium as gym

from llm_envs.registration import register_task

GROUP = "llm_envs.tasks"

_NAME = re.compile(r"[\w.-]+", re.ASCII)
_VALUE = re.compile(r"\w+(\.\w+)*:\w+")


def register_installed_tasks() -> None:
    """Register what installed packages declare; called when `llm_envs` is imported."""
    try:
        found: Iterable[EntryPoint] = entry_points(group=GROUP)
    except Exception as error:  # metadata of some package, broken in whatever way; not a reason to fail here
        warnings.warn(f"cannot look for tasks of installed packages: {error}", RuntimeWarning, stacklevel=2)
        return
    for entry in sorted(found, key=lambda entry: (entry.name, entry.value)):
        complaint = _complaint(entry)
        if complaint:
            package = entry.dist.name if entry.dist else "an unknown package"
            message = f"the task {entry.name!r} = {entry.value!r} of {package} is left out: {complaint}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        else:
            register_task(entry.name, entry.value.replace(" ", ""))


def _complaint(entry: EntryPoint) -> str:
    if not _NAME.fullmatch(entry.name):
        return "a name has only letters, digits, '-', '_' and '.'"
    if not _VALUE.fullmatch(entry.value.replace(" ", "")):
        return 'the value must be "module:function"'
    for id in (f"llm_envs/{entry.name}-v0", f"llm_envs/{entry.name}Text-v0"):
        if id in gym.registry:
            return f"{id} is registered already"
    return ""

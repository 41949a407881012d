"""Files and folders that appear whole or not at all, also when the machine stops in between."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents.jsonable import jsonable


@contextmanager
def whole_folder(folder: str | Path) -> Iterator[Path]:
    """A folder to write a checkpoint into; it gets its name once everything is on the disk, else it is removed.

    Raises:
        FileExistsError: there is one of that name.
    """
    folder = Path(folder)
    if folder.exists():
        raise FileExistsError(f"checkpoint folder {folder} exists; give a new one")
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        sync(unfinished)
        os.replace(unfinished, folder)
        sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def write_json(path: Path, content: Any) -> None:
    """Whole or not at all: a reader never sees half a file."""
    write_text(path, json.dumps(jsonable(content), indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Whole or not at all."""
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        with unfinished.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    os.replace(unfinished, path)
    sync_folder(path.parent)


def sync(folder: Path) -> None:
    """Have every file below a folder on the disk before its name is."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Have a folder's list of names on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

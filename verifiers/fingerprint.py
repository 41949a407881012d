"""What makes two judges, or two questions to a judge, the same: the keys of a cache.

Built to err on one side. What cannot be told apart for certain is an error or a cache miss, never a shared entry.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from verifiers.base import Answer, Example, Verifier, VerifierError


class SourceMissing(VerifierError):  # noqa: N818 - named as what is the matter
    """A judge written at a prompt or made by exec: it works, but a change of its code could not be noticed."""


def describe(verifier: Verifier) -> str:
    """Class, declared configuration and source hash of a verifier; see `Verifier.fingerprint`."""
    kind = type(verifier)
    name = f"{kind.__module__}:{kind.__qualname__}"
    order = kind.__mro__

    def owner(method: str) -> int:
        return next(position for position, item in enumerate(order) if method in vars(item))

    if owner("configuration") > owner("__init__"):
        raise VerifierError(
            f"{name} has an __init__ but no configuration(), so instances with different options cannot be told apart: "
            "define configuration(self) to return them as a dict of JSON values"
        )
    try:
        configuration = json.dumps(verifier.configuration(), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise VerifierError(f"{name}.configuration() must return a dict of JSON values: {error}") from error
    modules = sorted({item.__module__ for item in order[: order.index(Verifier)]})
    return f"{name} {configuration} source={source_hash(*modules)}"


@functools.cache
def source_hash(*modules: str) -> str:
    """Hash of the files of these modules, and of this whole package if one of them belongs to it.

    Raises:
        SourceMissing: a module has no source file.
    """
    files: list[Path] = []
    for name in modules:
        file = getattr(sys.modules.get(name), "__file__", None)
        if not file or not Path(file).is_file():
            raise SourceMissing(f"module {name} has no source file, so a change of its code could not be noticed")
        package = Path(__file__).parent
        files += package.rglob("*.py") if name.startswith(f"{__package__}.") else [Path(file)]
    digest = hashlib.sha256()
    for path in sorted(set(files)):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def pair_hash(example: Example, answer: Answer) -> str:
    """Hash of everything a verifier may read, `id` and `metadata` of the example included.

    Raises:
        VerifierError: the example or the answer holds something other than plain values.
    """
    try:
        asked = [example.id, example.prompt, example.hidden, example.gold, example.metadata]
        text = canonical([*asked, answer.text, answer.files, list(answer.transcript)])
    except TypeError as error:
        raise VerifierError(f"example {example.id!r}: cannot be a cache key: {error}") from None
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: Any) -> str:
    """ASCII text that two plain values share only if they are equal in value and type.

    Dicts keep their order, since a verifier could iterate. Raises `TypeError` for other than plain values.
    """
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, int):
        return hex(value)  # decimal digits of a long one are refused by Python
    if isinstance(value, (str, bytes, float, complex)):
        return f"{type(value).__name__}:{ascii(value)}"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{canonical(key)}={canonical(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Set):
        return f"{type(value).__name__}({','.join(sorted(map(canonical, value)))})"
    if isinstance(value, Sequence):
        return f"{type(value).__name__}[{','.join(map(canonical, value))}]"
    raise TypeError(f"{type(value).__name__} is no plain value")

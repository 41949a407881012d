"""Keep live objects (verifiers, tokenizers) shared where Gymnasium deep-copies an environment's spec."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from gymnasium.envs.registration import EnvSpec

T = TypeVar("T")


class Shared(Generic[T]):
    """Holds one object: a deep copy of the holder holds the same object, a pickle holds the object's own pickle."""

    def __init__(self, value: T) -> None:
        self.value = value

    def __deepcopy__(self, memo: dict[int, Any]) -> Shared[T]:
        return self

    def __repr__(self) -> str:
        return f"Shared({self.value!r})"


def share(value: Any) -> Any:
    """Wrap live objects, also those inside lists and dicts; leave JSON-like values as they are."""
    if isinstance(value, dict):
        return {key: share(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(share(item) for item in value)
    if value is None or isinstance(value, (str, int, float, bool, Shared)):
        return value
    return Shared(value)


def unshare(value: Any) -> Any:
    """Undo `share`."""
    if isinstance(value, dict):
        return {key: unshare(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(unshare(item) for item in value)
    return value.value if isinstance(value, Shared) else value


class SharedSpecMixin:
    """Gives an environment a `spec` whose keyword arguments can be deep-copied whatever they hold.

    `gymnasium.make` assigns the spec after building the environment, and every wrapper deep-copies it when read.
    """

    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """The specification the environment was made from."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None:
            spec.kwargs = share(spec.kwargs)
        self._spec = spec

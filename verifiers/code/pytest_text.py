"""Exceptions of the submission on the tests' side: the class is carried, the text is not (see `pytest_proxy.py`).

What stands for the text may be put into a message. A test that looks at it is refused, since nobody knows what it would
see; pytest, which looks at exceptions for its own purposes, is not.

Not covered: the text inside a longer one (`f"raised {error}"`, `repr(error)`), which may be a message that a wrong
answer must not turn into a refusal; what C code does with it (`re.search`); exceptions that take no
text alone (of Unicode, and groups), whose text is empty.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_REPORTERS = frozenset({"_pytest", "pytest", "pluggy", "verifiers", "reprlib", "traceback"})
_ASKING = frozenset({"ExceptionInfo.__repr__", "stringify_exception"})
"""Functions of pytest that hand the text on to tests as a part of another: `str(info)`, `info.match(...)`."""
_OPERATIONS = (
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__len__", "__getitem__"),
    *("__iter__", "__mod__", "__rmod__", "__mul__"),
)


_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "UnicodeDecodeError": ("", b"", 0, 0, ""),
    "UnicodeEncodeError": ("", "", 0, 0, ""),
    "UnicodeTranslateError": ("", 0, 0, ""),
    "ExceptionGroup": ("", [Exception()]),
}
"""Of classes that take no text alone."""


class RemoteError(Exception):
    """The submission raised something that is not, and is not derived from, a builtin Exception other than that."""


class Text(str):
    """Cannot be looked at by tests.

    Args:
        refuse: called with the reason when one does; does not return.
    """

    _refuse: Callable[[str], Any]

    def __new__(cls, refuse: Callable[[str], Any]) -> Text:
        """With words for messages."""
        text = super().__new__(cls, "<text that is not carried>")
        text._refuse = refuse
        return text

    def __str__(self) -> str:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and _is_reporter(frame):
            if frame.f_code.co_qualname in _ASKING:
                self._complain()
            frame = frame.f_back
        return self

    __repr__ = __str__
    __hash__ = str.__hash__

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and not _is_reporter(sys._getframe(1)):
            self._complain()
        return super().__getattribute__(name)

    def _complain(self) -> None:
        self._refuse("of exceptions only the class crosses, not the text, and a test looks at it")


def exception_of(names: tuple[str, ...], refuse: Callable[[str], Any]) -> Exception:
    """Of the first builtin class among the names, with a text that tests cannot look at."""
    text = Text(refuse)
    for name in names:
        found = getattr(builtins, name, None) if name != "Exception" or name == names[0] else None
        if isinstance(found, type) and issubclass(found, Exception):
            return found(*_ARGUMENTS.get(name, (text,)))
    return RemoteError(text)


def _is_reporter(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _REPORTERS


def _guarded(name: str) -> Callable[..., Any]:
    original = getattr(str, name)

    def operation(self: Text, *args: Any) -> Any:
        if not _is_reporter(sys._getframe(1)):
            self._complain()
        return original(self, *args)

    return operation


for _name in _OPERATIONS:
    setattr(Text, _name, _guarded(_name))

"""Errors of `llm_envs`; each message says what was given, what was expected and which option to change."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import gymnasium as gym


class LLMEnvsError(gym.error.Error):
    """Base of every error raised by `llm_envs` itself."""


class OptionError(LLMEnvsError, ValueError):
    """An option or argument of an environment, a message or a task has an unknown name or an impossible value."""


class EpisodeError(LLMEnvsError, gym.error.ResetNeeded):
    """`step` was called before `reset` or after the end of the episode."""


class ClosedError(LLMEnvsError, gym.error.ClosedEnvironmentError):
    """`reset` or `step` was called after `close`."""


class TokenError(LLMEnvsError, ValueError):
    """A token id is none, is out of range, is masked under `strict=True`, or lies beyond the end of the episode."""


class ProblemFileError(LLMEnvsError, ValueError):
    """Problems are malformed; the message names where they come from (file and line) and the field."""


class RecordingError(LLMEnvsError, ValueError):
    """A recording of episodes is malformed; the message names the line."""


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """One sentence about an unknown name, with the closest known one and the full list.

    >>> unknown("split", "trian", ["train", "test"])
    "unknown split 'trian': did you mean 'train'? (known: train, test)"
    """
    names = list(known)
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f" did you mean {close[0]!r}?" if close else ""
    return f"unknown {what} {name!r}:{hint} (known: {', '.join(names)})"

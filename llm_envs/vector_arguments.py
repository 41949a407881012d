"""The arguments of a vector environment: checked, and dealt out to its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from llm_envs import validate
from llm_envs.error import OptionError, TokenError, unknown


def parse_autoreset_mode(mode: str | AutoresetMode) -> AutoresetMode:
    """The mode, also from its value; raises `OptionError` for any other."""
    try:
        return AutoresetMode(mode)
    except ValueError as error:
        raise OptionError(unknown("autoreset_mode", mode, [known.value for known in AutoresetMode])) from error


def step_limit(max_episode_steps: int | None) -> int | None:
    """The number of tokens after which an episode is truncated; None for never, which `gymnasium.make` calls -1."""
    if max_episode_steps is None or max_episode_steps == -1:
        return None
    return validate.positive("max_episode_steps", max_episode_steps)


def masked_rows(mask: Any, num_rows: int) -> list[int]:
    """The rows that `options["reset_mask"]` selects; all when there is none."""
    if mask is None:
        return list(range(num_rows))
    if not isinstance(mask, np.ndarray) or mask.shape != (num_rows,) or mask.dtype != np.bool_:
        raise OptionError(f"options['reset_mask'] must be a bool array of shape ({num_rows},), got {mask!r}")
    if not mask.any():
        raise OptionError("options['reset_mask'] must be True for at least one row")
    return np.flatnonzero(mask).tolist()


def row_seeds(seed: int | Sequence[int | None] | None, num_rows: int) -> list[int | None]:
    """One seed per row: `seed + row` from an integer, the list's own from a list."""
    if seed is None:
        return [None] * num_rows
    if isinstance(seed, (list, tuple, range, np.ndarray)) and np.ndim(seed) == 1:
        if len(seed) != num_rows:
            raise OptionError(f"a list of seeds must have length num_envs={num_rows}, got {len(seed)}")
        return [None if value is None else validate.integer("a seed", value, 0) for value in seed]
    first = validate.integer("seed (unless it is a list of one per row)", seed, 0)
    return [first + row for row in range(num_rows)]


def row_options(options: dict[str, Any], num_rows: int) -> list[dict[str, Any]]:
    """Reset options per row: `options["index"]` may be a list with one entry per row, None where the row draws."""
    others = {name: value for name, value in options.items() if name != "index"}
    index = options.get("index")
    if not isinstance(index, (list, tuple, range, np.ndarray)) or isinstance(index, np.ndarray) and not index.ndim:
        index = [index] * num_rows
    if len(index) != num_rows:
        raise OptionError(f"options['index'] must have one entry per row ({num_rows}), got {len(index)}")
    return [others if value is None else {**others, "index": value} for value in index]


def turns_by_row(rows: Any, turns: Any) -> dict[int, Any]:
    """The arguments of `send`; raises `TokenError` unless there is one turn for each of different rows."""
    if not isinstance(rows, Iterable) or not isinstance(turns, (Sequence, np.ndarray)):
        raise TokenError(f"send needs a list of rows and a list of turns, got {rows!r:.80} and {turns!r:.80}")
    listed = list(rows)
    for row in listed:
        if not validate.is_integer(row):
            raise TokenError(f"a row must be an integer, got {row!r:.80}")
    if len(listed) != len(turns) or len(set(listed)) != len(listed):
        raise TokenError(f"send needs one turn for each of {len(listed)} different rows, got {len(turns)}: {listed}")
    return {int(row): turn for row, turn in zip(listed, turns, strict=True)}

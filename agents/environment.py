"""All that an agent reads of an environment: spaces, observations, infos and the attributes that `TokenEnv` documents.

Legend: B rows, V vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv


def vocabulary_size(env: VectorEnv) -> int:
    """V, the number of actions; an action space that is not `Discrete` is an error."""
    space = env.single_action_space
    if not isinstance(space, Discrete):
        raise ValueError(f"expected a token-level environment with Discrete actions, got {space}")
    return int(space.n)


def attribute(env: VectorEnv, name: str, default: Any = None) -> Any:
    """An attribute of a vector environment or, where it has none, of its first sub-environment."""
    for holder in (env, getattr(env, "unwrapped", env)):
        if hasattr(holder, name):
            return getattr(holder, name)
    rows = getattr(env, "unwrapped", env)
    if isinstance(rows, SyncVectorEnv | AsyncVectorEnv) and all(rows.call("has_wrapper_attr", name)):
        return rows.get_attr(name)[0]  # asked before it is read: an attribute that is missing ends an async worker
    return default


def environment_id(env: VectorEnv) -> str | None:
    """The id it was made from; None for one that was built by hand."""
    spec = getattr(env.unwrapped, "spec", None)
    return None if spec is None else spec.id


def plain_options(env: VectorEnv) -> dict[str, Any]:
    """The keyword arguments of `gymnasium.make_vec` that JSON can hold and that are not about training alone.

    A tokenizer is among them as a name or a path; an object is saved with a checkpoint if the agent was given it, too.
    """
    spec = getattr(env.unwrapped, "spec", None)
    found = {}
    for name, value in (spec.kwargs if spec is not None else {}).items():
        if name not in ("task", "split", "num_envs", "vectorization_mode", "autoreset_mode"):
            with suppress(TypeError, ValueError):
                found[name] = json.loads(json.dumps(value))
    return found


def has_whole_turns(env: VectorEnv) -> bool:
    """Whether the environment takes whole turns; asked of the outermost wrapper, so that none is passed by."""
    return hasattr(env, "send") and hasattr(env, "recv")


def stop_tokens(env: VectorEnv) -> frozenset[int]:
    """Tokens that end a turn; none for an environment that names none (it is stepped token by token anyway)."""
    stops = attribute(env, "stop_token_ids")
    if stops is None:
        eos = attribute(env, "eos_token_id")
        stops = [] if eos is None else [eos]
    return frozenset(int(token) for token in stops)


def action_masks(env: VectorEnv) -> np.ndarray:
    """(V,) or (B, V) bool; everything is allowed where the environment has no masks."""
    if hasattr(env.unwrapped, "action_masks"):
        return env.unwrapped.action_masks()
    if isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv) and attribute(env, "action_masks") is not None:
        return np.stack(env.unwrapped.call("action_masks"))
    return np.ones(vocabulary_size(env), dtype=bool)


def next_token_mask(env: VectorEnv) -> Any:
    """A function from what n turns have written to bool (n, V); None when `action_masks` holds for whole turns."""
    function = attribute(env, "next_token_mask") if has_whole_turns(env) else None
    return function if function is not None and function([[]]) is not None else None


def prefixes(observation: dict[str, np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """(row, token prefix) of each row of a batched observation."""
    for i, (tokens, length) in enumerate(zip(observation["tokens"], observation["length"], strict=True)):
        yield i, tokens[: int(np.asarray(length).item())]


def remaining(observation: dict[str, np.ndarray], active: list[int]) -> np.ndarray:
    """(n,) tokens each active row may still write; 1 when the environment does not say (then one token at a time)."""
    if "remaining" not in observation:
        return np.ones(len(active), dtype=np.int64)
    return np.asarray(observation["remaining"]).reshape(-1)[active]


def reset(
    env: VectorEnv, seeds: Sequence[int] | None, indices: Sequence[int] | None
) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """Begin an episode in every row: (batched observation, info of each row).

    Args:
        env: autoreset is disabled.
        seeds: one per row.
        indices: the example of each row; drawn by the environment when None.
    """
    seed: Any = None if seeds is None else list(seeds)  # Gymnasium's annotation forgets the list
    each_the_same = isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv)  # hand equal options to every row
    options = None if indices is None or each_the_same else {"index": list(indices)}
    observation, infos = env.reset(seed=seed, options=options)
    rows = [row_info(infos, row) for row in range(env.num_envs)]
    for row, index in enumerate(indices if each_the_same and indices is not None else ()):
        only = np.arange(env.num_envs) == row
        observation, infos = env.reset(options={"reset_mask": only, "index": index})
        rows[row] = row_info(infos, row)
    return observation, rows


def row_info(infos: dict[str, Any], row: int) -> dict[str, Any]:
    """One row of Gymnasium's vector info format: arrays, each with a `_name` mask of the rows that have it.

    Gymnasium's own vector environments nest dictionaries in the same format; ours keep them whole, one per row.
    """
    found = {}
    for name, values in infos.items():
        mask = infos.get(f"_{name}")
        if not name.startswith("_") and (mask is None or mask[row]):
            found[name] = row_info(values, row) if isinstance(values, dict) else values[row]
    return found

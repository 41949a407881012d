"""What a token costs in `TokenVectorEnv`, beside Gymnasium's `SyncVectorEnv` over `TokenEnv`.

    python benchmarks/vector_env.py

Every row writes one token per step, no turn ends, so no verdict is asked for; the observations are copies in both, as
is the default. The two take turns; figures are medians over rounds, in microseconds of this process's CPU time per row
and step. `masks` adds a call of `action_masks` to every step, as a policy makes it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import tyro
from gymnasium.vector import SyncVectorEnv, VectorEnv

import llm_envs  # noqa: F401 - registers


@dataclass
class Args:
    """What is measured."""

    env: str = "llm_envs/Arithmetic-v0"
    """Any id of the token level."""
    rows: int = 64
    """Episodes side by side."""
    steps: int = 100
    """Tokens per row and round."""
    rounds: int = 9
    """Rounds of each."""
    max_length: int = 512
    """Positions of an observation, all of which are copied at every step."""


def main(args: Args) -> None:
    """Print one row per kind of environment, and their ratio."""
    options: dict[str, Any] = {"max_length": args.max_length, "max_new_tokens": args.steps + 1}
    ours: Any = gym.make_vec(args.env, args.rows, **options)
    sync = SyncVectorEnv([lambda: gym.make(args.env, **options).unwrapped] * args.rows)
    token = int(np.flatnonzero(sync.call("action_masks")[0])[0])
    actions = np.full(args.rows, token)
    measured: dict[str, tuple[VectorEnv, Callable[[], object]]] = {
        "TokenVectorEnv": (ours, lambda: ours.step(actions)),
        "SyncVectorEnv": (sync, lambda: sync.step(actions)),
        "TokenVectorEnv with masks": (ours, lambda: (ours.action_masks(), ours.step(actions))),
        "SyncVectorEnv with masks": (sync, lambda: (np.stack(sync.call("action_masks")), sync.step(actions))),
    }
    seconds: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(args.rounds + 1):
        for name, (env, step) in measured.items():
            seconds[name].append(cpu_seconds(env, step, args.steps))
    median = {name: 1e6 * statistics.median(times[1:]) / args.steps / args.rows for name, times in seconds.items()}
    print(f"{args.env}, {args.rows} rows, {args.rounds} rounds of {args.steps} steps, max_length {args.max_length}")
    for name, cost in median.items():
        print(f"{name:27}{cost:8.2f} us per row and step")
    for end in ("", " with masks"):
        print(f"ratio{end}: {median[f'SyncVectorEnv{end}'] / median[f'TokenVectorEnv{end}']:.1f}")
    ours.close()
    sync.close()


def cpu_seconds(env: VectorEnv, step: Callable[[], object], steps: int) -> float:
    """CPU time of `steps` steps from the beginning of new episodes."""
    env.reset(seed=0)
    start = time.process_time()
    for _ in range(steps):
        step()
    return time.process_time() - start


if __name__ == "__main__":
    main(tyro.cli(Args))

"""Held-out evaluation: greedy and sampled pass@1, and the KL to the reference on the sampled answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from agents.engine import Engine
from agents.environment import attribute
from agents.policy import Policy
from agents.rollout import Rollout, collect
from agents.sampling import Sampling
from agents.scoring import score_rollout


@dataclass(frozen=True)
class Evaluation:
    """What one held-out evaluation found."""

    greedy: float
    """Share of problems whose greedy answer passes (pass@1)."""
    sampled: float
    """Share of problems whose one sampled answer passes (pass@1)."""
    greedy_score: float
    """Mean raw score of the greedy answers."""
    sampled_score: float
    """Mean raw score of the sampled answers."""
    episodes: int
    kl: float
    """Sampled KL to the reference, nats per answer."""
    kl_min: float
    """Smallest and"""
    kl_max: float
    """largest sampled log-ratio of one answer: an average hides extreme prompts."""
    length: float
    """Mean tokens of a sampled answer."""
    kinds: dict[str, int]
    """Verdict kinds of the sampled answers."""

    def metrics(self, prefix: str) -> dict[str, float]:
        """Flat numbers for a log."""
        names = ("greedy", "sampled", "greedy_score", "sampled_score", "kl", "kl_min", "kl_max", "length")
        return {f"{prefix}/{name}": getattr(self, name) for name in names}


def evaluate(
    env: VectorEnv,
    engine: Engine,
    policy: Policy,
    reference: Policy,
    sampling: Sampling,
    *,
    episodes: int,
    seed: int,
    micro_batch: int = 64,
) -> Evaluation:
    """Play the first `episodes` problems of the environment's split once greedily and once sampled."""
    available = attribute(env, "num_examples")
    indices = np.arange(episodes if available is None else min(episodes, int(available)))
    greedy = [r for r, _ in play(env, engine, Sampling(sampling.temperature, greedy=True), indices, seed)]
    sampled = list(play(env, engine, sampling, indices, seed))
    log_ratios: list[torch.Tensor] = []
    for rollout, n in sampled:
        own, ref = (score_rollout(p, rollout, micro_batch).logprobs for p in (policy, reference))
        log_ratios.append((own - ref).sum(1)[:n])
    ratios = torch.cat(log_ratios)
    greedy_infos = [info for rollout in greedy for info in rollout.infos][: len(indices)]
    sampled_infos = [info for rollout, n in sampled for info in rollout.infos[:n]]
    return Evaluation(
        greedy=pass_rate(greedy_infos),
        sampled=pass_rate(sampled_infos),
        greedy_score=float(torch.cat([r.scores for r in greedy])[: len(indices)].mean()),
        sampled_score=float(torch.cat([r.scores[:n] for r, n in sampled]).mean()),
        episodes=len(indices),
        kl=float(ratios.mean()),
        kl_min=float(ratios.min()),
        kl_max=float(ratios.max()),
        length=float(torch.cat([r.n_actions[:n] for r, n in sampled]).float().mean()),
        kinds=dict(Counter(info.get("verdict", {}).get("kind", "none") for info in sampled_infos)),
    )


def play(env: VectorEnv, engine: Engine, sampling: Sampling, indices: np.ndarray, seed: int):
    """Yields (rollout, rows that count): problems in order, the last batch filled up by repeating them."""
    device = engine.policy.device if hasattr(engine, "policy") else "cpu"
    generator = torch.Generator(device).manual_seed(seed)
    for start in range(0, len(indices), env.num_envs):
        chunk = indices[start : start + env.num_envs]
        padded: Sequence[int] = np.resize(chunk, env.num_envs).tolist()
        rollout: Rollout = collect(
            env,
            engine,
            sampling,
            generator,
            seeds=list(range(seed + start, seed + start + env.num_envs)),
            indices=padded,
        )
        yield rollout, len(chunk)


def pass_rate(infos: Sequence[dict[str, Any]]) -> float:
    """Share of episodes whose verdict passed; 0 for environments without verdicts."""
    return sum(bool(info.get("verdict", {}).get("passed", False)) for info in infos) / max(1, len(infos))


def wilson_interval(rate: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a proportion (Wilson 1927): inside [0, 1] and sound for rates near 0 or 1."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)

"""Held-out evaluation: greedy and sampled answers, pass@k, other judges, and the KL to the reference."""

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
from agents.reference import Reference
from agents.rollout import Rollout, collect
from agents.sampling import Sampling
from agents.scoring import score_rollout
from agents.statistics import bootstrap_interval, pass_at_k


@dataclass(frozen=True)
class Evaluation:
    """What one held-out evaluation found."""

    greedy: float
    """Share of problems whose greedy answer passes (pass@1); NaN if every judge broke, as for the next."""
    sampled: float
    """Share of sampled answers that pass (pass@1), mean over problems."""
    greedy_score: float
    """Mean raw score of the greedy answers."""
    sampled_score: float
    """Mean raw score of the sampled answers."""
    episodes: int
    """Problems."""
    unscored: int
    """Answers without a verdict, since the judge broke; they count in no rate."""
    samples: int
    """Sampled answers of each."""
    pass_at: dict[int, float]
    """k -> unbiased pass@k of the sampled answers (Chen et al. 2021), k = 1, 2, 4, ... as many as each problem has."""
    intervals: dict[str, tuple[float, float]]
    """95% bootstrap intervals over problems of `greedy`, `sampled` and the largest pass@k."""
    judges: dict[str, dict[str, float]]
    """Other verifiers of the same answers (the environment's `extra_verifiers`) -> greedy and sampled pass rates."""
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

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Evaluation:
        """What `jsonable` made of an evaluation."""
        content = {name: math.nan if value is None else value for name, value in content.items()}
        content["pass_at"] = {int(k): rate for k, rate in content["pass_at"].items()}
        content["intervals"] = {name: (low, high) for name, (low, high) in content["intervals"].items()}
        content["judges"] = {
            judge: {decoding: math.nan if rate is None else rate for decoding, rate in rates.items()}
            for judge, rates in content["judges"].items()
        }
        return cls(**content)

    def metrics(self, prefix: str) -> dict[str, float]:
        """Flat numbers for a log."""
        names = ("greedy", "sampled", "greedy_score", "sampled_score", "kl", "kl_min", "kl_max", "length")
        flat = {f"{prefix}/{name}": getattr(self, name) for name in names}
        flat |= {f"{prefix}/pass@{k}": rate for k, rate in self.pass_at.items() if k > 1}
        for judge, rates in self.judges.items():
            flat |= {f"{prefix}/{judge}/{decoding}": rate for decoding, rate in rates.items()}
        return flat


def evaluate(
    env: VectorEnv,
    engine: Engine,
    policy: Policy,
    reference: Reference,
    sampling: Sampling,
    *,
    episodes: int,
    seed: int,
    samples: int = 1,
    micro_batch: int = 64,
) -> Evaluation:
    """Play the first `episodes` problems of the environment's split once greedily and `samples` times sampled."""
    available = attribute(env, "num_examples")
    if samples > 1 and available is None:
        raise ValueError(
            "several answers per problem need an environment that has num_examples and plays what it is told"
        )
    indices = np.arange(episodes if available is None else min(episodes, int(available)))
    greedy = Played(env, engine, Sampling(sampling.temperature, greedy=True), indices, seed)
    sampled = Played(env, engine, sampling, np.repeat(indices, samples), seed)
    log_ratios: list[torch.Tensor] = []
    for rollout, n in sampled.rollouts:
        own, ref = (score_rollout(p, rollout, micro_batch).logprobs for p in (policy, reference))
        log_ratios.append((own - ref).sum(1)[:n])
    ratios = torch.cat(log_ratios)
    passed = np.array([passes(info) for info in sampled.infos]).reshape(len(indices), samples)  # (problems, samples)
    n = np.array([judged(info) for info in sampled.infos]).reshape(len(indices), samples).sum(1)
    passed, n = passed[n > 0], n[n > 0]
    pass_at = {k: pass_at_k(n, passed.sum(1), k) for k in powers_of_two(samples) if len(n) and n.min() >= k}
    kept_greedy, kept_sampled = judged_scores(greedy), judged_scores(sampled)
    per_problem: dict[str, Any] = {"greedy": [passes(info) for info in greedy.infos if judged(info)]}
    per_problem |= {"sampled": passed.sum(1) / n, "pass@k": pass_at[max(pass_at)] if pass_at else []}
    return Evaluation(
        greedy=pass_rate([info for info in greedy.infos if judged(info)]),
        sampled=float(per_problem["sampled"].mean()) if len(n) else math.nan,
        greedy_score=float(kept_greedy.mean()),
        sampled_score=float(kept_sampled.mean()),
        episodes=len(indices),
        unscored=sum(not judged(info) for info in (*greedy.infos, *sampled.infos)),
        samples=samples,
        pass_at={k: float(rates.mean()) for k, rates in pass_at.items()},
        intervals={name: interval(values) for name, values in per_problem.items() if len(values)},
        judges=judge_rates(greedy.infos, sampled.infos),
        kl=float(ratios.mean()),
        kl_min=float(ratios.min()),
        kl_max=float(ratios.max()),
        length=float(sampled.lengths.mean()),
        kinds=dict(Counter(info.get("verdict", {}).get("kind", "none") for info in sampled.infos)),
    )


class Played:
    """Every answer of one decoding, in the order of the problems."""

    def __init__(self, env: VectorEnv, engine: Engine, sampling: Sampling, indices: np.ndarray, seed: int) -> None:
        self.rollouts: list[tuple[Rollout, int]] = list(play(env, engine, sampling, indices, seed))
        self.infos = [info for rollout, n in self.rollouts for info in rollout.infos[:n]]
        self.scores = torch.cat([rollout.scores[:n] for rollout, n in self.rollouts])
        self.lengths = torch.cat([rollout.n_actions[:n] for rollout, n in self.rollouts]).float()


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
            indices=None if attribute(env, "num_examples") is None else padded,
        )
        yield rollout, len(chunk)


def judged(info: dict[str, Any]) -> bool:
    """Whether the episode's judge worked."""
    return not info.get("unscored", False)


def judged_scores(played: Played) -> torch.Tensor:
    """Scores of the answers that got one."""
    return played.scores[torch.tensor([judged(info) for info in played.infos])]


def passes(info: dict[str, Any]) -> bool:
    """Whether an episode's verdict passed; no verdict did not."""
    return bool(info.get("verdict", {}).get("passed", False))


def pass_rate(infos: Sequence[dict[str, Any]]) -> float:
    """Share of episodes whose verdict passed: NaN of none, 0 for environments without verdicts."""
    return sum(map(passes, infos)) / len(infos) if infos else math.nan


def judge_rates(greedy: Sequence[dict[str, Any]], sampled: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Pass rates by the other verifiers that judged the same answers; answers on which one broke are left out."""
    names = dict.fromkeys(name for info in (*greedy, *sampled) for name in info.get("extra_verdicts", {}))

    def rate(name: str, infos: Sequence[dict[str, Any]]) -> float:
        verdicts = [info.get("extra_verdicts", {}).get(name) for info in infos]
        given = [bool(verdict["passed"]) for verdict in verdicts if verdict is not None]
        return sum(given) / len(given) if given else float("nan")

    return {name: {"greedy": rate(name, greedy), "sampled": rate(name, sampled)} for name in names}


def powers_of_two(n: int) -> list[int]:
    """1, 2, 4, ... up to n, and n itself."""
    return sorted({2**i for i in range(n.bit_length()) if 2**i <= n} | {n})


def interval(values: Any) -> tuple[float, float]:
    """95% interval of a mean over problems; where all are equal, or there is one, Wilson's, which still has a width."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2 or (values == values[0]).all():
        return wilson_interval(float(values[0]), len(values))
    return bootstrap_interval(values, resamples=2000)


def wilson_interval(rate: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a proportion (Wilson 1927): inside [0, 1] and sound for rates near 0 or 1."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)

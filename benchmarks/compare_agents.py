"""All learners on the same task with the same number of sampled tokens: curves, held-out scores, seconds, memory.

    python benchmarks/compare_agents.py scratch                      # reverse short words, from random weights
    python benchmarks/compare_agents.py repair --warmed-up FOLDER    # code repair, from checkpoints `warmed-up`

`scratch` gives every agent a small transformer; `repair` starts ppo, grpo and reinforce from the same warmed-up policy,
one FOLDER (`runs/NAME/checkpoints/warmed-up`) per seed. Each run is a process of its own; finished ones are kept.
Prints a table and writes a PNG of the curves.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from tyro.conf import subcommand

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
sys.path[:0] = [str(HERE.parent), str(EXAMPLES)]


@dataclass
class Scratch:
    """Reverse short words over 30 tokens, graded by letters."""

    agents: tuple[str, ...] = ("random", "maskable_ppo", "reinforce", "grpo", "ppo")
    """Who learns."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """One run each."""
    tokens: int = 400_000
    """Sampled for training."""
    out: Path = Path("runs/benchmark-agents")
    """Folder of results."""


@dataclass
class Repair:
    """The code-repair preset's PPO stage."""

    warmed_up: tuple[Path, ...]
    """Checkpoints to start from, one per seed."""
    agents: tuple[str, ...] = ("reinforce", "grpo", "ppo")
    """Who learns."""
    tokens: int = 170_000
    """Sampled for training."""
    out: Path = Path("runs/benchmark-agents")
    """Folder of results."""


@dataclass
class One:
    """One run; what the others start as a process of its own."""

    agent: str
    seed: int
    tokens: int
    result: Path
    warmed_up: Path | None = None


def settings(agent: str, seed: int, from_scratch: bool) -> Any:
    """Settings as alike as the agents allow: rates, batch, KL, clipping; what differs is what makes the agent."""
    from agents.grpo import GRPOConfig
    from agents.ppo import CriticConfig, PPOConfig
    from agents.reinforce import ReinforceConfig
    from agents.settings import KLConfig, OptimizerConfig
    from presets import TINY_PPO

    if from_scratch:
        optimizer, kl, steps = OptimizerConfig(learning_rate=1e-3), KLConfig(coef=0.0), {"minibatches": 4, "epochs": 2}
        common: dict[str, Any] = {"optimizer": optimizer, "kl": kl, "seed": seed, "eval_every": 0}
        own = {"critic": CriticConfig(learning_rate=2e-3, kind="separate"), "gae_lambda": 0.95}
    else:
        common = {
            "optimizer": TINY_PPO.optimizer, "kl": TINY_PPO.kl, "seed": seed, "eval_every": 0, "micro_batch": 16,
            "temperature": TINY_PPO.temperature,
        }  # fmt: skip
        steps = {"minibatches": 4, "epochs": 1}
        own = {"critic": TINY_PPO.critic, "gae_lambda": 1.0}
    if agent == "ppo":
        return PPOConfig(**common, **steps, **own)  # type: ignore[arg-type]
    if agent == "grpo":
        return GRPOConfig(**common, **steps, group_size=8)  # type: ignore[arg-type]
    return ReinforceConfig(**common, group_size=8)


def run_one(args: One) -> None:
    """Train one agent, evaluating as it goes; writes curve, seconds and peak memory."""
    import agents

    torch.set_num_threads(2)
    env, options, model = task(args)
    held_out = {**options, "split": "test" if args.warmed_up is None else "validation"}
    made: dict[str, Any] = {"env_options": {**options, "split": "train"}}
    if args.agent in ("ppo", "grpo", "reinforce"):
        made |= {"model": model, "config": settings(args.agent, args.seed, args.warmed_up is None)}
        made["num_envs"] = 256
    else:
        made["seed"] = args.seed
    agent = agents.make(args.agent, env, **made)
    curve, trained = [], 0.0
    stages = [0, *np.linspace(args.tokens / 10, args.tokens, 10).astype(int).tolist()]
    for stage in stages:
        started = time.perf_counter()
        if args.warmed_up is not None and stage:  # the linear schedule wants to know the whole
            hold(agent, args.tokens)
        agent.learn(stage)
        trained += time.perf_counter() - started
        last = stage == stages[-1]
        episodes = list(agent.play(env, range(500 if last and args.warmed_up else 200), env_options=held_out, rows=128))
        passed = float(np.mean([bool(e.info.get("verdict", {}).get("passed")) for e in episodes]))
        curve.append([agent.num_timesteps, float(np.mean([e.score for e in episodes])), passed, trained])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    args.result.parent.mkdir(parents=True, exist_ok=True)
    args.result.write_text(json.dumps({"curve": curve, "seconds": trained, "peak_bytes": peak}))


def hold(agent: Any, total: int) -> None:
    """Have the schedule count towards the end of training, not of a stage."""
    agent.schedule_total = total


def task(args: One) -> tuple[str, dict[str, Any], Any]:
    """(id, options of the environment, model to start from)."""
    import llm_envs
    from agents.models import TinyConfig, build_tiny, load_pretrained

    assert llm_envs
    if args.warmed_up is not None:
        model, _ = load_pretrained(str(args.warmed_up))
        tokenizer = str(args.warmed_up)
        return (
            "llm_envs/CodeRepair-v0",
            {"families": "core", "tokenizer": tokenizer, "max_length": 320, "max_new_tokens": 48},
            model,
        )
    import reverse_words

    tiny = TinyConfig(hidden_size=64, intermediate_size=128, layers=2, heads=4)
    return "llm_envs/ReverseWord-v0", {}, build_tiny(Special(len(reverse_words.TOKENS)), tiny, 10, args.seed)


@dataclass
class Special:
    """What `build_tiny` reads of a tokenizer."""

    size: int
    pad_token_id: int = 0
    eos_token_id: int = 1

    def __len__(self) -> int:
        return self.size


def compare(args: Scratch | Repair) -> None:
    """Run everything that is missing, print the table, draw the curves."""
    name = "scratch" if isinstance(args, Scratch) else "repair"
    starts: list[tuple[int, Path | None]] = (
        [(seed, None) for seed in args.seeds] if isinstance(args, Scratch) else list(enumerate(args.warmed_up))
    )
    results: dict[str, list[dict[str, Any]]] = {}
    for seed, warmed_up in starts:
        for agent in args.agents:
            result = args.out / f"{name}-{args.tokens}" / f"{agent}-{seed}.json"
            if not result.exists():
                command = [
                    sys.executable,
                    __file__,
                    "one",
                    "--agent",
                    agent,
                    "--seed",
                    str(seed),
                    "--result",
                    str(result),
                ]
                command += ["--tokens", str(args.tokens), *(["--warmed-up", str(warmed_up)] if warmed_up else [])]
                subprocess.run(command, check=True)
            results.setdefault(agent, []).append(json.loads(result.read_text()))
    print_table(results)
    draw(results, args.out / f"{name}-{args.tokens}.png", "score" if name == "scratch" else "pass rate")


def print_table(results: dict[str, list[dict[str, Any]]]) -> None:
    """Final held-out figures of each seed, median seconds and memory."""
    print("| agent | score, by seed | pass rate, by seed | seconds, median | peak memory, MB |")
    print("|---|---|---|---|---|")
    for agent, runs in results.items():
        score = " / ".join(f"{run['curve'][-1][1]:.3f}" for run in runs)
        rate = " / ".join(f"{run['curve'][-1][2]:.3f}" for run in runs)
        seconds, peak = median(run["seconds"] for run in runs), median(run["peak_bytes"] for run in runs)
        print(f"| `{agent}` | {score} | {rate} | {seconds:.0f} | {peak / 1e6:.0f} |")


def draw(results: dict[str, list[dict[str, Any]]], path: Path, what: str) -> None:
    """One line per agent, the median of its seeds, and the range as a band."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    column = 1 if what == "score" else 2
    for agent, runs in results.items():
        curves = np.array([[point[column] for point in run["curve"]] for run in runs])
        tokens = [point[0] for point in runs[0]["curve"]]
        axes.plot(tokens, np.median(curves, 0), label=agent)
        axes.fill_between(tokens, curves.min(0), curves.max(0), alpha=0.15)
    axes.set(xlabel="tokens sampled for training", ylabel=f"held-out {what}")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"\ncurves: {path}")


if __name__ == "__main__":
    Command = (
        Annotated[Scratch, subcommand("scratch")]
        | Annotated[Repair, subcommand("repair")]
        | Annotated[One, subcommand("one")]
    )
    chosen: Any = tyro.cli(Command)  # type: ignore[call-overload]
    run_one(chosen) if isinstance(chosen, One) else compare(chosen)

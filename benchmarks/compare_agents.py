"""All learners on the same task with the same number of sampled tokens: curves, held-out scores, CPU time, memory.

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
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "examples")]  # from here, `agents` must not be this folder's


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


def build(args: One, env: str, options: dict[str, Any], model: Any) -> Any:
    """An agent with the learning rate, KL and size of minibatch of the others: what differs is what makes the agent."""
    import agents
    from agents.grpo import GRPOConfig
    from agents.ppo import CriticConfig, PPOConfig
    from agents.reinforce import ReinforceConfig
    from agents.settings import KLConfig, OptimizerConfig
    from presets import TINY_PPO

    if args.agent not in ("ppo", "grpo", "reinforce"):
        return agents.make(args.agent, env, env_options=options, seed=args.seed)
    common: dict[str, Any] = {"seed": args.seed, "eval_every": 0}
    if args.warmed_up is None:
        common |= {"optimizer": OptimizerConfig(learning_rate=1e-3), "kl": KLConfig(coef=0.0)}
        own: dict[str, Any] = {"critic": CriticConfig(learning_rate=2e-3, kind="separate"), "gae_lambda": 0.95}
        epochs, own["entropy_coef"] = 2, 0.05  # as maskable_ppo has it
    else:
        common |= {name: getattr(TINY_PPO, name) for name in ("optimizer", "kl", "temperature", "micro_batch")}
        epochs, own = 1, {"critic": TINY_PPO.critic, "gae_lambda": TINY_PPO.gae_lambda}
    config: Any
    if args.agent == "ppo":
        config = PPOConfig(**common, **own, minibatches=4, epochs=epochs)
    elif args.agent == "grpo":
        config = GRPOConfig(**common, minibatches=4, epochs=epochs, group_size=8)
    else:
        config = ReinforceConfig(**common, group_size=8)
    rows = 64 if args.agent == "reinforce" else 256  # one step on 64 rows, or four on a quarter of 256 each
    return agents.make(args.agent, env, env_options=options, model=model, config=config, num_envs=rows)


def run_one(args: One) -> None:
    """Train one agent, evaluating as it goes; writes curve, CPU seconds of training and peak memory."""
    torch.set_num_threads(1)  # so that CPU time does not depend on what else the machine does
    env, options, model, split = task(args)
    agent = build(args, env, {**options, "split": "train"}, model)
    agent.schedule_total = args.tokens  # towards the end of training, not of a stage
    curve, seconds = [], 0.0
    for stage in (0, *np.linspace(args.tokens / 10, args.tokens, 10).astype(int).tolist()):
        started = time.process_time()
        agent.learn(stage)
        seconds += time.process_time() - started
        n = 500 if stage == args.tokens and args.warmed_up else 200
        point: dict[str, Any] = {"tokens": agent.num_timesteps, "seconds": seconds}
        for decoding in ("sampled", "greedy"):
            greedy = decoding == "greedy"
            episodes = list(
                agent.play(env, range(n), env_options={**options, "split": split}, rows=128, deterministic=greedy)
            )
            passed = [bool(episode.info.get("verdict", {}).get("passed")) for episode in episodes]
            scores = [episode.score for episode in episodes]
            point[decoding] = {"score": float(np.mean(scores)), "pass rate": float(np.mean(passed))}
        curve.append(point)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    args.result.parent.mkdir(parents=True, exist_ok=True)
    args.result.write_text(json.dumps({"curve": curve, "seconds": seconds, "peak_bytes": peak}))


def task(args: One) -> tuple[str, dict[str, Any], Any, str]:
    """(id, options of the environment, model to start from, split to evaluate on)."""
    from agents.models import TinyConfig, build_tiny, load_pretrained

    if args.warmed_up is not None:
        model, _ = load_pretrained(str(args.warmed_up))
        options = {"families": "core", "tokenizer": str(args.warmed_up), "max_length": 320, "max_new_tokens": 48}
        return "llm_envs:llm_envs/CodeRepair-v0", options, model, "validation"
    import reverse_words

    tiny = TinyConfig(hidden_size=64, intermediate_size=128, layers=2, heads=4)
    return reverse_words.ID, {}, build_tiny(Tokens(len(reverse_words.TOKENS)), tiny, 10, args.seed), "test"


@dataclass
class Tokens:
    """What `build_tiny` reads of a tokenizer."""

    size: int
    pad_token_id: int = 0
    eos_token_id: int = 1

    def __len__(self) -> int:
        return self.size


def compare(args: Scratch | Repair) -> None:
    """Run everything that is missing, print the table, draw the curves."""
    scratch = isinstance(args, Scratch)
    folder = args.out / f"{'scratch' if scratch else 'repair'}-{args.tokens}"
    starts = dict.fromkeys(args.seeds) if isinstance(args, Scratch) else dict(enumerate(args.warmed_up))
    results: dict[str, list[dict[str, Any]]] = {agent: [] for agent in args.agents}
    for seed, start in starts.items():
        for agent in args.agents:
            result = folder / f"{agent}-{seed}.json"
            if not result.exists():
                which = {"agent": agent, "seed": seed, "tokens": args.tokens, "result": result}
                which |= {} if start is None else {"warmed-up": start}
                command = [str(part) for name, value in which.items() for part in (f"--{name}", value)]
                subprocess.run([sys.executable, __file__, "one", *command], check=True)
            results[agent].append(json.loads(result.read_text()))
    measure = "score" if scratch else "pass rate"
    print_table(results, measure)
    draw(results, folder.with_suffix(".png"), measure)


def print_table(results: dict[str, list[dict[str, Any]]], measure: str) -> None:
    """Final held-out figures of each seed, median CPU time and memory."""
    print(f"| agent | {measure} sampled, by seed | {measure} greedy, by seed | CPU-seconds, median | peak memory, MB |")
    print("|---|---|---|---|---|")
    for agent, runs in results.items():
        figures = [
            " / ".join(f"{run['curve'][-1][decoding][measure]:.3f}" for run in runs)
            for decoding in ("sampled", "greedy")
        ]
        seconds, peak = (median(run[name] for run in runs) for name in ("seconds", "peak_bytes"))
        print(f"| `{agent}` | {' | '.join(figures)} | {seconds:.0f} | {peak / 1e6:.0f} |")


def draw(results: dict[str, list[dict[str, Any]]], path: Path, measure: str) -> None:
    """One line per agent, the median of its seeds, and their range as a band."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for agent, runs in sorted(results.items(), key=lambda item: item[0] == "random"):
        curves = np.array([[point["sampled"][measure] for point in run["curve"]] for run in runs])
        tokens = np.mean([[point["tokens"] for point in run["curve"]] for run in runs], 0)
        if not tokens.any():  # who samples nothing for training is as good everywhere
            tokens = axes.get_xlim()[1] * np.linspace(0, 1, len(tokens))
        axes.plot(tokens, np.median(curves, 0), label=agent)
        axes.fill_between(tokens, curves.min(0), curves.max(0), alpha=0.15)
    axes.set(xlabel="tokens sampled for training", ylabel=f"held-out {measure}, sampled")
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

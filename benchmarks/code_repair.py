"""Reruns the code-repair preset with several seeds and prints the table of README, and how long each run took.

    python benchmarks/code_repair.py                       # three seeds, about half an hour on two cores
    python benchmarks/code_repair.py --seeds 0 --max-new-tokens 100 --env-options families core answer_format function

Arguments it does not know go to train_ppo.py; runs with other arguments have folders of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from agents.evaluate import wilson_interval

SCRIPT = Path(__file__).parent.parent / "examples" / "train_ppo.py"


@dataclass
class Args:
    """What is rerun."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """One run each."""
    out: Path = Path("runs/benchmark-code-repair")
    """Folder of the run folders; a finished seed found there is not run again."""


def main(args: Args, extra: list[str]) -> None:
    """Run every seed, then print one row per seed, split and decoding."""
    variant = "-".join([*extra, "seed"]).replace("/", "_").lstrip("-")
    records = {seed: run(seed, args.out / f"{variant}-{seed}", extra) for seed in args.seeds}
    print(f"\n{os.cpu_count()} cores, command: python {' '.join(sys.argv)}\n")
    print(
        "| seed | split | problems | decoding | warmed up | after PPO | gain | KL, nats per answer | minutes in all |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for seed, record in records.items():
        for split in record["held_out"]["after"]:
            for decoding in ("greedy", "sampled"):
                print(row(seed, split, decoding, record))


def run(seed: int, folder: Path, extra: list[str]) -> dict[str, Any]:
    """One training run as a subprocess; returns its record, with the wall-clock minutes of the whole process."""
    record, minutes = folder / "record.json", folder / "minutes.json"
    if not minutes.exists():
        shutil.rmtree(folder, ignore_errors=True)  # what an interrupted run left
        started = time.perf_counter()
        command = [
            sys.executable,
            str(SCRIPT),
            "--preset",
            "code-repair",
            "--seed",
            str(seed),
            "--out",
            str(folder),
            *extra,
        ]
        subprocess.run(command, check=True)
        minutes.write_text(json.dumps((time.perf_counter() - started) / 60))
    return json.loads(record.read_text()) | {"minutes": json.loads(minutes.read_text())}


def row(seed: int, split: str, decoding: str, record: dict[str, Any]) -> str:
    """One line of the table."""
    before, after = (record["held_out"][when][split] for when in ("before", "after"))
    cells = [rate(evaluation[decoding], evaluation["episodes"]) for evaluation in (before, after)]
    gain = f"{100 * (after[decoding] - before[decoding]):+.0f}"
    kl = f"{after['kl']:.2f}" if decoding == "sampled" else ""
    ends = f"{record['minutes']:.1f}"
    return f"| {seed} | {split} | {after['episodes']} | {decoding} | {' | '.join(cells)} | {gain} | {kl} | {ends} |"


def rate(value: float, n: int) -> str:
    """A proportion with its 95% Wilson interval."""
    low, high = wilson_interval(value, n)
    return f"{value:.3f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    main(*tyro.cli(Args, return_unknown_args=True))

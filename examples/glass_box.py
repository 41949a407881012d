"""Open the glass box: every number an update knew about each token, for a checkpoint and a few answers.

    python examples/glass_box.py runs/NAME/checkpoints/last               # sample, score, one update, show
    python examples/glass_box.py runs/NAME/checkpoints/last --rows 2 --updates 0
    python examples/glass_box.py runs/NAME/checkpoints/last --batch runs/NAME/stopped/000012.pt

The columns are those of the PPO chapter's table 3.4: log-probs old, reference and current, sampled KL, value, shaped
reward, advantage, return, ratio, and whether the clip cut the gradient. Nothing is written.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console
from transformers.utils import logging as transformers_logging

from agents.batch import load_batch
from agents.glass_box import glass_box, glass_table
from agents.models import add_adapter
from agents.optimizer import NonFiniteError
from agents.perturbation import reward_sensitivity
from agents.ppo import PPO, PPOBatch
from train_ppo import REFUSALS, build, resumed


@dataclass
class Args:
    """What to look at."""

    checkpoint: Annotated[Path, tyro.conf.Positional]
    """A checkpoint inside the folder of a run."""
    batch: Path | None = None
    """A stored batch of that run; one is sampled when not given."""
    rows: int = 3
    """Answers to show."""
    updates: int = 1
    """Updates between scoring and looking: 0 shows ratios of exactly 1, more shows what the update did."""
    seed: int = 0
    """Seeds problems and sampling."""


def main(args: Args) -> None:
    """Build the run's agent again, take a batch, update, print."""
    run = args.checkpoint.resolve().parent.parent
    if not (run / "config.json").exists():
        raise ValueError(f"{args.checkpoint} is not a checkpoint in the folder of a run (runs/NAME/checkpoints/last)")
    # The reference and the tokenizer are those of the checkpoint that training started from.
    settings = replace(resumed(run), rows=max(args.rows, 8), model=str(run / "checkpoints" / "warmed-up"))
    parts = build(settings)
    model = add_adapter(parts.model, settings.adapter, settings.seed) if settings.adapter else parts.model
    reference = "adapter" if settings.adapter else "copy"
    autocast = torch.bfloat16 if settings.dtype == "bfloat16" else None
    config = replace(settings.ppo, seed=args.seed)
    agent = PPO(model, parts.env, config, reference=reference, autocast_dtype=autocast).restore(args.checkpoint)
    batch = load_batch(args.batch, PPOBatch) if args.batch else agent.score(agent.collect())
    sensitivity = reward_sensitivity(agent, batch)
    console = Console(width=None if sys.stdout.isatty() else 160)
    try:
        for _ in range(args.updates):
            agent.step(batch, batch.mask.any(1).nonzero().squeeze(1))
    except NonFiniteError as error:
        console.print(f"no update: {error}")
    texts = batch.rollout.texts(parts.env.decode)
    for row in range(min(args.rows, len(texts))):
        verdict = batch.rollout.infos[row].get("verdict", {})
        console.print(f"\nproblem: {texts[row][0]!r}\nanswer:  {texts[row][1]!r}", markup=False)
        title = f"score {float(batch.rollout.scores[row]):g}, verdict {verdict.get('kind', 'none')}"
        console.print(glass_table(glass_box(agent, batch, row, parts.env.decode), title))
    console.print("\nwhat the advantages become when one part of the reward is scaled:")
    for entry in sensitivity:
        console.print(f"  {entry.component} x {entry.scale:g}: change {entry.change:.3f}, r {entry.correlation:.3f}")


if __name__ == "__main__":
    transformers_logging.disable_progress_bar()
    try:
        main(tyro.cli(Args))
    except REFUSALS as error:
        raise SystemExit(f"error: {error}") from error

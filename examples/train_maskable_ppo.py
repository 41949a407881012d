"""Teach sb3-contrib's MaskablePPO to reverse words it has not seen, from nothing, in a minute or two on a CPU.

python examples/train_maskable_ppo.py
python examples/train_maskable_ppo.py --env llm_envs/Transform-v0 --total-tokens 20000    # any token-level id
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import torch
import tyro

import agents
import llm_envs
import reverse_words  # registers its task
from agents.settings import check_ranges


@dataclass
class Args:
    """What is trained on what."""

    env: str = reverse_words.ID
    """Registered id of a token-level environment."""
    train_split: str = "train"
    """Split to train on."""
    validation_split: str = "validation"
    """Held-out split that says when to stop."""
    test_split: str = "test"
    """Held-out split of the score at the end."""
    total_tokens: int = 500_000
    """Tokens to learn from, at most."""
    good_enough: float = 0.98
    """Mean score on the validation split at which training ends early."""
    eval_every: int = 25_000
    """Tokens between evaluations, of greedy answers."""
    eval_problems: int = 200
    """Problems of an evaluation."""
    num_envs: int = 64
    """Environments that are stepped together."""
    n_steps: int = 64
    """Tokens of each environment between updates."""
    learning_rate: float = 2e-3
    """Of Adam."""
    n_epochs: int = 3
    """Passes over each batch."""
    batch_size: int = 512
    """Tokens of a gradient step."""
    ent_coef: float = 0.05
    """Weight of the entropy bonus: without it a letter that was not found early is never tried again."""
    seed: int = 0
    """Seeds weights, draws and environments."""
    out: Path | None = None
    """Folder for the trained agent; none is written when not given."""

    def __post_init__(self) -> None:
        check_ranges(self, positive=("total_tokens", "eval_every", "eval_problems"))  # the agent checks the others


def main(args: Args) -> float:
    """Train, evaluate now and then, save; returns the score on the test split."""
    torch.set_num_threads(1)  # a model this small is slower on more
    if args.out is not None and args.out.exists():
        raise ValueError(f"--out {args.out} exists; give a new folder")
    started = time.perf_counter()
    names = ("num_envs", "n_steps", "learning_rate", "n_epochs", "batch_size", "ent_coef", "seed")
    options = {name: getattr(args, name) for name in names}
    agent = agents.make("maskable_ppo", args.env, env_options={"split": args.train_split}, **options)
    while True:
        score = evaluate(agent, args, args.validation_split)
        print(f"{agent.num_timesteps:>8} tokens, {time.perf_counter() - started:4.0f} s: validation score {score:.3f}")
        if score >= args.good_enough or agent.num_timesteps >= args.total_tokens:
            break
        agent.learn(min(agent.num_timesteps + args.eval_every, args.total_tokens))
    score = evaluate(agent, args, args.test_split)
    print(f"test score {score:.3f}")
    if args.out is not None:
        agent.save(args.out)
        print(f"saved in {args.out}")
    return score


def evaluate(agent: agents.Agent, args: Args, split: str) -> float:
    """Mean score of greedy answers to problems that training does not see."""
    options = {"split": split}
    episodes = agent.play(
        args.env, range(args.eval_problems), env_options=options, deterministic=True, rows=args.eval_problems
    )
    scores = [episode.score for episode in episodes]
    return sum(scores) / len(scores)


if __name__ == "__main__":
    try:
        main(tyro.cli(Args))
    except (ValueError, gym.error.Error, llm_envs.LLMEnvsError) as error:
        raise SystemExit(f"error: {error}") from error

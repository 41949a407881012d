"""One task, three judges: by name, by object, by `module:Class`. A few iterations with each, and what changes.

    python examples/swap_verifier.py

The task asks for a short text; who judges it decides what the same policy learns. Each judge also judges what the
others trained (`extra_verifiers`), so the table shows a policy as its own judge sees it, and as the others do.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import agents
import llm_envs  # registers the environments
from agents.models import TinyConfig, build_tiny
from agents.ppo import CriticConfig, PPOConfig
from agents.settings import KLConfig, OptimizerConfig
from llm_envs import register_task
from verifiers import Answer, Example, Verdict, Verifier


class Vowels(Verifier):
    """Score is the share of vowels; a judge of one's own is a class with `verify`."""

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Count vowels."""
        share = sum(letter in "aeiou" for letter in answer.text) / max(1, len(answer.text))
        return Verdict(share, share > 0.5, "passed" if share > 0.5 else "wrong")


def length(example: Example, answer: Answer) -> float:
    """Score is 1 for an answer of four letters, less for others; a plain function is a judge, too."""
    return max(0.0, 1.0 - abs(len(answer.text) - 4) / 4)


JUDGES = {"by name": "regex", "by object": length, "by module:Class": "swap_verifier:Vowels"}
LETTERS = [ord(letter) for letter in "abcdefghij"]


class Bytes:
    """The default tokenizer's special ids, for `build_tiny`."""

    pad_token_id, eos_token_id = 256, 257

    def __len__(self) -> int:
        return 258


def train(judge: object, others: dict[str, object]) -> dict[str, float]:
    """Train a small policy on one judge; mean score by every judge afterwards."""
    options = {"verifier": judge, "allowed_tokens": LETTERS}
    tiny = TinyConfig(hidden_size=32, intermediate_size=64, layers=1, heads=2)
    settings = PPOConfig(
        optimizer=OptimizerConfig(learning_rate=3e-3), critic=CriticConfig(learning_rate=1e-2), kl=KLConfig(coef=0.0),
        gae_lambda=1.0, eval_every=0,
    )  # fmt: skip
    agent = agents.make(
        "ppo", "llm_envs/ShortTexts-v0", env_options={**options, "split": "train"}, num_envs=64,
        model=build_tiny(Bytes(), tiny, max_length=16, seed=0), config=settings,
    )  # fmt: skip
    agent.learn(15_000)
    watched = {**options, "split": "test", "extra_verifiers": others}
    episodes = list(agent.play("llm_envs/ShortTexts-v0", [*range(4)] * 8, env_options=watched))
    return {name: sum(e.info["extra_verdicts"][name]["score"] for e in episodes) / len(episodes) for name in others}


def main() -> None:
    """Register the task, train three times, print who thinks what of whom."""
    sys.path.insert(0, str(Path(__file__).parent))  # for `swap_verifier:Vowels`
    torch.manual_seed(0)
    problems = [{"topic": topic, "pattern": "[a-j]*be[a-j]*"} for topic in "ABCDEFGH"]
    register_task(
        "ShortTexts", problems={"train": problems[:4], "test": problems[4:]}, prompt="{topic}:", verifier="regex",
        gold="abed", max_new_tokens=6,
    )  # fmt: skip
    assert llm_envs
    table = Table(title="mean score on held-out prompts")
    for column in ("trained on", *JUDGES):
        table.add_column(column)
    for name, judge in JUDGES.items():
        scores = train(judge, JUDGES)
        table.add_row(name, *(f"{scores[other]:.2f}" for other in JUDGES))
    Console().print(table)


if __name__ == "__main__":
    main()

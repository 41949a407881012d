"""Settings that train: one function per preset, each returning the arguments of `train_ppo.py` it changes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agents.models import TinyConfig
from agents.ppo import CriticConfig, PPOConfig
from agents.settings import KLConfig, OptimizerConfig
from agents.sft import SFTConfig

TINY_PPO = PPOConfig(
    optimizer=OptimizerConfig(learning_rate=4e-4, schedule="linear", eps=1e-8),
    critic=CriticConfig(learning_rate=2e-3, warmup=2),
    kl=KLConfig(coef=0.02),
    epochs=1,
    minibatches=4,
    micro_batch=16,
    gae_lambda=1.0,
    temperature=0.5,
    eval_every=15,
    eval_episodes=256,
    checkpoint_every=5,
)
"""For about a million parameters and a 0/1 verifier; found by a handful of runs of three minutes, not by a search."""


def code_repair(args: Callable[..., Any]) -> Any:
    """A 0.9M-parameter decoder that learns to repair functions on two CPU cores in about ten minutes.

    The core families only, since the whole of them takes longer to learn. Sampling at temperature 0.5 keeps the slips
    of a half-trained model from drowning the choices that matter; evaluation samples at the same temperature.
    """
    return args(
        env_options=("families", "core"),
        total_tokens=170_000,
        max_length=320,
        max_new_tokens=48,
        sft=SFTConfig(steps=2100, batch_size=32),
        ppo=TINY_PPO,
    )


def code_repair_tools(args: Callable[..., Any]) -> Any:
    """The same for `CodeRepairTools-v0`: view the program, replace a line, submit.

    The program is not in the prompt, so every answer reads what the environment inserts.
    """
    return args(
        env="llm_envs/CodeRepairTools-v0",
        env_options=("families", "core", "tool_format", "lines"),
        total_tokens=260_000,
        max_length=384,
        max_new_tokens=96,
        sft=SFTConfig(steps=1100, batch_size=32),
        ppo=TINY_PPO,
    )


def transform(args: Callable[..., Any]) -> Any:
    """The same for `Transform-v0`: one token per character, since letters and digits are moved one by one.

    A few thousand problems would be learnt by heart within minutes, so there are 100,000.
    """
    return args(
        env="llm_envs/Transform-v0",
        total_tokens=300_000,
        max_length=128,
        problems=100_000,
        tiny=TinyConfig(vocab_size=258),
        sft=SFTConfig(steps=2500, batch_size=32),
        ppo=replace(TINY_PPO, optimizer=replace(TINY_PPO.optimizer, learning_rate=2e-4)),
    )


def other(args: Callable[..., Any]) -> Any:
    """Any other task with the tiny model: a starting point, nothing tuned."""
    return args(max_length=512, total_tokens=100_000, sft=SFTConfig(steps=1000, batch_size=32), ppo=TINY_PPO)


def pretrained(args: Callable[..., Any]) -> Any:
    """A pretrained chat model with a 0/1 verifier (0.1-7B): small steps, one epoch, little KL cost.

    For code repair add `--env-options style chat`, which asks in English.
    """
    return args(
        rows=16,
        total_tokens=4000,
        eval_problems=16,
        max_length=768,
        ppo=PPOConfig(
            optimizer=OptimizerConfig(learning_rate=1e-6, betas=(0.9, 0.95)),  # OpenRLHF, verl, Open-Reasoner-Zero
            critic=CriticConfig(learning_rate=1e-5, warmup=1),  # 5-10 times the policy's (Open-Reasoner-Zero, verl)
            kl=KLConfig(coef=0.01),  # OpenRLHF; verl takes 0.001, Open-Reasoner-Zero none
            epochs=1,  # verl, OpenRLHF, NeMo's recipes
            minibatches=2,
            micro_batch=8,
            gae_lambda=1.0,  # verl, OpenRLHF, Open-Reasoner-Zero
            eval_every=0,
            checkpoint_every=10,
        ),
    )


def notebook(args: Callable[..., Any]) -> Any:
    """The chapter's notebook: GPT-2 writes 16 tokens, batches of 16, and a verifier of your own scores them.

    Every number that the notebook names is a default of `PPOConfig`. The task's own verifier counts positive words;
    `--verifier module:Class` takes another.
    """
    return args(
        env="llm_envs/Continuation-v0",
        model="gpt2",
        rows=16,
        max_new_tokens=16,
        total_tokens=16 * 16 * 100,
        eval_problems=64,
        ppo=PPOConfig(micro_batch=16, eval_every=25, checkpoint_every=25),
    )


def smoke(args: Callable[..., Any]) -> Any:
    """Every step of the code-repair preset, once or twice: seconds, for tests."""
    return args(
        rows=16,
        total_tokens=600,
        problems=200,
        eval_problems=16,
        tiny=TinyConfig(hidden_size=32, intermediate_size=64, layers=2, heads=2),
        sft=SFTConfig(steps=10, batch_size=16),
        ppo=PPOConfig(critic=CriticConfig(warmup=1), epochs=1, minibatches=2, eval_every=1, eval_episodes=16),
    )


PRESETS: dict[str, Callable[..., Any]] = {
    "code-repair": code_repair,
    "code-repair-tools": code_repair_tools,
    "transform": transform,
    "other": other,
    "pretrained": pretrained,
    "notebook": notebook,
    "smoke": smoke,
}


def preset_name(argv: list[str]) -> str:
    """The preset asked for, or the one that fits the environment and model on the command line."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--preset", default="auto")
    parser.add_argument("--env", default="llm_envs/CodeRepair-v0")
    parser.add_argument("--model", default="tiny")
    known, _ = parser.parse_known_args(argv)
    if known.preset != "auto":
        if known.preset not in PRESETS:
            raise SystemExit(f"error: unknown preset {known.preset!r}; choose one of auto, {', '.join(PRESETS)}")
        return known.preset
    if known.model != "tiny":
        return "pretrained"
    fitting = {
        "CodeRepair-v0": "code-repair",
        "CodeRepairTools-v0": "code-repair-tools",
        "Transform-v0": "transform",
    }
    return fitting.get(known.env.split("/")[-1], "other")

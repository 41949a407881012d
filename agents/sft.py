"""Supervised fine-tuning on demonstrations: the warm-up that gives PPO a policy with a pass rate above 0.

Legend: B rows, S tokens of the longest row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from agents.policy import Policy

Demonstration = tuple[list[int], list[int]]
"""(prompt token ids, answer token ids with the stop token)."""


@dataclass(frozen=True)
class SFTConfig:
    """Settings of the supervised warm-up."""

    steps: int = 400
    """Optimiser steps."""
    batch_size: int = 64
    """Demonstrations per step."""
    learning_rate: float = 2e-3
    """Peak of a linear warm-up (first 10%) and linear decay."""
    weight_decay: float = 0.01
    """AdamW's decoupled weight decay."""
    prompt_weight: float = 0.1
    """Weight of the prompt's tokens in the loss beside 1 for the answer's: reading teaches, too."""
    max_grad_norm: float = 1.0
    """Gradient norm is clipped to it."""
    seed: int = 0
    """Seeds the draw of demonstrations."""


def sft(
    policy: Policy,
    demonstration: Callable[[int], Demonstration],
    config: SFTConfig,
    on_step: Callable[[int, float, int], None] | None = None,
) -> float:
    """Train the policy's model to imitate; returns seconds.

    Args:
        policy: trained in place; its value head is left alone.
        demonstration: number of the draw -> demonstration; called batch_size * steps times with 0, 1, 2, ...
        config: settings.
        on_step: called with (step, loss, steps) after each step.
    """
    started = time.perf_counter()
    model: Any = policy.model
    import os
    optimizer = MuonAdam(model, config) if os.environ.get("MUON") else torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    warmup = max(1, config.steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / warmup, (config.steps - s) / max(1, config.steps - warmup))
    )
    for step in range(config.steps):
        batch = [demonstration(step * config.batch_size + i) for i in range(config.batch_size)]
        loss = imitation_loss(policy, *pad(batch, config.prompt_weight))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
        optimizer.step()
        schedule.step()
        if on_step is not None:
            on_step(step, float(loss.detach()), config.steps)
    return time.perf_counter() - started


def pad(batch: list[Demonstration], prompt_weight: float) -> tuple[Tensor, Tensor]:
    """(B, S) token ids, right-padded with 0, and (B, S) weight of each token as a target."""
    width = max(len(prompt) + len(answer) for prompt, answer in batch)
    tokens = torch.zeros(len(batch), width, dtype=torch.int64)
    weights = torch.zeros(len(batch), width)
    for row, (prompt, answer) in enumerate(batch):
        tokens[row, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        weights[row, : len(prompt)] = prompt_weight
        weights[row, len(prompt) : len(prompt) + len(answer)] = 1.0
    return tokens, weights


def imitation_loss(policy: Policy, tokens: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean cross-entropy of each token given those before it; float32 softmax."""
    tokens, weights = tokens.to(policy.device), weights.to(policy.device)[:, 1:]
    with policy.autocast():
        logits = policy.model(tokens, use_cache=False).logits[:, :-1]
    losses = cross_entropy(logits.float().transpose(1, 2), tokens[:, 1:], reduction="none")
    return (losses * weights).sum() / weights.sum()

"""Supervised fine-tuning on demonstrations: the warm-up that gives PPO a policy with a pass rate above 0.

Legend: B rows, S tokens of the longest row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from agents.policy import Policy

Demonstration = list[tuple[list[int], bool]]
"""One episode in segments: (token ids, whether the policy writes them): prompt, answer, and with tools what follows."""


@dataclass(frozen=True)
class SFTConfig:
    """Settings of the supervised warm-up."""

    steps: int = 400
    """Optimiser steps."""
    batch_size: int = 64
    """Demonstrations per step."""
    learning_rate: float = 3e-3
    """Of embeddings, norms and biases (AdamW); peak of a linear warm-up (first 10%) and linear decay."""
    matrix_learning_rate: float = 1e-2
    """Of the hidden layers' matrices (Muon), on the same schedule."""
    weight_decay: float = 0.01
    """Decoupled weight decay."""
    prompt_weight: float = 0.1
    """Weight of what the policy only reads in the loss, beside 1 for what it writes: reading teaches, too."""
    max_grad_norm: float = 1.0
    """Gradient norm is clipped to it."""
    seed: int = 0
    """Seeds the draw of demonstrations."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "learning_rate", "matrix_learning_rate", "max_grad_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be > 0, got {getattr(self, name)}")


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
    optimizers = build_optimizers(model, config)
    warmup = max(1, config.steps // 10)

    def factor(step: int) -> float:
        return min((step + 1) / warmup, (config.steps - step) / max(1, config.steps - warmup))

    schedules = [torch.optim.lr_scheduler.LambdaLR(optimizer, factor) for optimizer in optimizers]
    for step, batch in enumerate(batches(demonstration, config)):
        loss = imitation_loss(policy, *pad(batch, config.prompt_weight))
        model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
        if on_step is not None:
            on_step(step, float(loss.detach()), config.steps)
    return time.perf_counter() - started


def batches(demonstration: Callable[[int], Demonstration], config: SFTConfig) -> Iterator[list[Demonstration]]:
    """`config.steps` batches of similar length each, in random order: a fifth fewer tokens of padding to compute."""
    rng, pool_steps = Random(config.seed), 16
    for start in range(0, config.steps, pool_steps):
        steps = range(start, min(start + pool_steps, config.steps))
        drawn = [demonstration(n) for n in range(steps[0] * config.batch_size, (steps[-1] + 1) * config.batch_size)]
        drawn.sort(key=length)
        cut = [drawn[i : i + config.batch_size] for i in range(0, len(drawn), config.batch_size)]
        rng.shuffle(cut)
        yield from cut


def build_optimizers(model: Any, config: SFTConfig) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the hidden layers, AdamW for the rest (Jordan et al. 2024).

    A policy that starts from random weights learns to copy from its prompt with about a third fewer examples than
    under AdamW alone, and copying is most of what an answer takes.
    """
    embeddings = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
    matrices = [p for p in model.parameters() if p.ndim == 2 and id(p) not in embeddings]
    chosen = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    decay = config.weight_decay
    return [
        torch.optim.Muon(matrices, lr=config.matrix_learning_rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=config.learning_rate, weight_decay=decay, betas=(0.9, 0.95)),
    ]


def pad(batch: list[Demonstration], prompt_weight: float) -> tuple[Tensor, Tensor]:
    """(B, S) token ids, right-padded with 0, and (B, S) weight of each token as a target."""
    width = max(map(length, batch))
    tokens = torch.zeros(len(batch), width, dtype=torch.int64)
    weights = torch.zeros(len(batch), width)
    for row, segments in enumerate(batch):
        end = 0
        for ids, own in segments:
            start, end = end, end + len(ids)
            tokens[row, start:end] = torch.tensor(ids)
            weights[row, start:end] = 1.0 if own else prompt_weight
    return tokens, weights


def length(demonstration: Demonstration) -> int:
    """Tokens of all segments."""
    return sum(len(ids) for ids, _ in demonstration)


def imitation_loss(policy: Policy, tokens: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean cross-entropy of each token given those before it; float32 softmax."""
    tokens, weights = tokens.to(policy.device), weights.to(policy.device)[:, 1:]
    with policy.autocast():
        logits = policy.model(tokens, use_cache=False).logits[:, :-1]
    losses = cross_entropy(logits.float().transpose(1, 2), tokens[:, 1:], reduction="none")
    return (losses * weights).sum() / weights.sum()

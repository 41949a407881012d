"""The supervised warm-up of `train_ppo.py`: demonstrations of the task's own, as token segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch

import llm_envs
from agents.policy import Policy
from agents.sft import sft


def warm_up(args: Any, parts: Any, autocast: torch.dtype | None, on_step: Callable[[int, float, int], None]) -> float:
    """Supervised fine-tuning on the task's own demonstrations; returns seconds.

    Args:
        args: `Args` of `train_ppo.py`: split, number of problems, seed, settings.
        parts: its `Parts`: task, model, tokenizer, environment.
        autocast: mixed precision type, None for full precision.
        on_step: called with (step, loss, steps).
    """
    examples: Sequence[Any] = parts.task.problems(args.split)
    rng, n = Random(args.seed), min(args.problems, len(examples))
    order: list[int] = []

    def demonstration(number: int) -> list[tuple[list[int], bool]]:
        if not order:
            order.extend(rng.sample(range(n), n))
        index = order.pop()
        messages = parts.task.demonstrate(examples[index], rng)
        segments = []
        for text, own in transcript(parts.env, index, [messages] if isinstance(messages, str) else messages):
            ids = parts.tokenizer.encode(text, add_special_tokens=False)
            segments.append(([*ids, parts.tokenizer.eos_token_id] if own else ids, own))
        return segments

    policy = Policy(parts.model, value_head=False, autocast_dtype=autocast)
    return sft(policy, demonstration, args.sft, on_step)


def transcript(env: Any, index: int, messages: Sequence[str]) -> list[tuple[str, bool]]:
    """An episode in which the policy writes these messages: (text, whether the policy writes it), the end left out."""
    row = env.envs[0]
    texts = [(prompt_text(task_of(env).problems(row.unwrapped.split)[index]), False)]
    if len(messages) > 1:
        row.reset(options={"index": index})
    for message in messages[:-1]:
        texts += [(str(message), True), (row.step(message)[0], False)]
    return [*texts, (str(messages[-1]), True)]


def prompt_text(example: Any) -> str:
    """A prompt as the plain message format shows it."""
    prompt = example.prompt
    return prompt if isinstance(prompt, str) else "\n\n".join(message["content"] for message in prompt)


def task_of(env: Any) -> Any:
    """The task behind an environment: the text-level environment of a row knows it."""
    if not isinstance(env, llm_envs.TokenVectorEnv) or not isinstance(env.envs[0].unwrapped, llm_envs.TextEnv):
        raise ValueError(f"--env expects a token-level environment over a task of llm_envs, got {env!r}")
    return env.envs[0].unwrapped.task

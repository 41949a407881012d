"""Warm a policy up by supervised fine-tuning, train it by PPO against a verifier, and print what it gained.

    python examples/train_ppo.py                                    # repair Python functions, tiny model, CPU
    python examples/train_ppo.py --env llm_envs/Transform-v0
    python examples/train_ppo.py --model path/to/model.gguf --device cuda --dtype bfloat16

Read `main` first: it is the whole experiment in order.
"""

from __future__ import annotations

import os
import sys

# Threads that spin for ever while they wait for each other are many times slower as soon as anything else wants a
# core, and the verifier's workers do. Read by OpenMP once, when torch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

import gymnasium as gym
import torch
import tyro
from rich.console import Console
from transformers.utils import logging as transformers_logging

import llm_envs  # registers the environments
from agents.evaluate import Evaluation
from agents.models import TinyConfig, build_tiny, load_pretrained, train_tokenizer
from agents.policy import Policy
from agents.ppo import PPO, PPOConfig
from agents.ppo.agent import Batch
from agents.report import Progress, acceptance_record, result_table
from agents.run import RunFolder
from agents.sft import SFTConfig, sft
from presets import PRESETS, preset_name


@dataclass
class Args:
    """What is trained on what."""

    env: str = "llm_envs/CodeRepair-v0"
    """Registered id of a token-level environment."""
    model: str = "tiny"
    """`tiny` (built and warmed up here), a name on the hub, a folder, or a .gguf file."""
    preset: str = "auto"
    """Starting values of all settings below; see examples/presets.py."""
    verifier: str | None = None
    """Judge of the answers: a name or module:Class; the task's own when not given."""
    sandbox: Literal["auto", "process"] = "auto"
    """`process` runs untrusted code without a sandbox, on purpose."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the policy runs."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 is autocast with a float32 softmax; weights stay float32."""
    out: Path | None = None
    """Run folder; runs/NAME-TIME when not given."""
    seed: int = 0
    """Seeds everything."""
    rows: int = 256
    """Answers per PPO iteration."""
    total_tokens: int = 250_000
    """Tokens sampled for PPO in all."""
    problems: int = 8000
    """Training problems the warm-up draws from."""
    eval_problems: int = 500
    """Held-out problems of the evaluations before and after."""
    max_length: int = 256
    """Longest prompt and answer together, tokens."""
    max_new_tokens: int | None = None
    """Longest answer, tokens; the task's own when not given."""
    env_options: dict[str, str] = field(default_factory=dict)
    """Further keyword arguments of the environment, as name value pairs."""
    tiny: TinyConfig = field(default_factory=TinyConfig)
    sft: SFTConfig = field(default_factory=SFTConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)

    def __post_init__(self) -> None:
        for name in ("rows", "total_tokens", "problems", "eval_problems"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


def main(args: Args) -> None:
    """Build, warm up, evaluate, train, evaluate again, record."""
    device = pick_device(args.device)
    console = Console() if sys.stdout.isatty() else Console(width=120)
    if not console.is_terminal:
        transformers_logging.disable_progress_bar()
    run = RunFolder(args.out or Path("runs") / time.strftime(f"{args.env.split('/')[-1]}-%Y%m%d-%H%M%S"))
    pretrained = None if args.model == "tiny" else load_pretrained(args.model)
    tokenizer = pretrained[1] if pretrained else None
    env = make_env(args, "train", tokenizer)
    task = env.unwrapped.envs[0].unwrapped.task  # the text-level environment of a row knows its task
    started = time.perf_counter()
    if pretrained:
        model = pretrained[0]
    else:
        examples = list(task.problems("train")[: args.problems])
        tokenizer = train_tokenizer((f"{e.prompt}{e.gold}" for e in examples[:3000]), args.tiny.vocab_size)
        model = build_tiny(tokenizer, args.tiny, args.seed)
        env = make_env(args, "train", tokenizer)
    model.to(device)
    held_out = {split: make_env(args, split, tokenizer) for split in task.splits if split != "train"}
    for vector_env in (env, *held_out.values()):
        check_prompts(vector_env)
    run.create({"args": args, "command": sys.argv})
    seconds = {"problems": time.perf_counter() - started}
    progress = Progress(console, run)
    if not pretrained:
        seconds["warm-up"] = warm_up(args, model, tokenizer, examples, task, progress)

    def on_iteration(agent: PPO, metrics: dict[str, float], batch: Batch) -> None:
        progress.iteration(agent, metrics, args.total_tokens)
        run.log_samples(batch.rollout, env.unwrapped.decode, agent.iteration)
        if args.ppo.checkpoint_every and agent.iteration % args.ppo.checkpoint_every == 0:
            agent.save(run.checkpoint(f"{agent.iteration:06d}"), tokenizer)

    autocast = torch.bfloat16 if args.dtype == "bfloat16" else None
    watched = held_out.get("validation", next(iter(held_out.values()), None))
    agent = PPO(model, env, args.ppo, eval_env=watched, autocast_dtype=autocast, on_iteration=on_iteration)
    before = evaluate_all(agent, held_out, args.eval_problems)
    agent.save(run.checkpoint("warmed-up"), tokenizer)
    trained = time.perf_counter()
    try:
        agent.learn(args.total_tokens)
    except KeyboardInterrupt:
        console.print("stopped by Ctrl-C; evaluating and saving what is there")
    seconds["ppo"] = time.perf_counter() - trained
    agent.save(run.checkpoint("last"), tokenizer)
    after = evaluate_all(agent, held_out, args.eval_problems)
    run.record(acceptance_record(agent, args, task, before, after, progress.history, seconds))
    run.close()
    progress.close()
    console.print(result_table(before, after))
    console.print(f"{sum(seconds.values()):.0f} s in all; run folder {run.path}")


def make_env(args: Args, split: str, tokenizer: Any) -> Any:
    """A vector environment over one split; refuses here when there is no sandbox."""
    options: dict[str, Any] = {name: int(v) if v.isdigit() else v for name, v in args.env_options.items()}
    if getattr(tokenizer, "chat_template", None):
        options.setdefault("message_format", "chat")
    if args.verifier is not None:
        options["verifier"] = args.verifier
    if args.sandbox != "auto":
        options["verifier_options"] = {"sandbox": args.sandbox}
    if args.max_new_tokens is not None:
        options["max_new_tokens"] = args.max_new_tokens
    try:
        return gym.make_vec(
            args.env,
            num_envs=args.rows,
            autoreset_mode=gym.vector.AutoresetMode.DISABLED,
            split=split,
            tokenizer=tokenizer,
            max_length=args.max_length,
            **options,
        )
    except TypeError as error:  # what any other environment says to these options
        raise ValueError(f"--env expects a token-level environment of llm_envs, got {args.env!r}: {error}") from error


def check_prompts(env: Any) -> None:
    """Show every problem of a split once: a prompt that is too long is found before anything is written."""
    for start in range(0, env.num_examples, env.num_envs):
        env.reset(options={"index": [(start + row) % env.num_examples for row in range(env.num_envs)]})


def warm_up(args: Args, model: Any, tokenizer: Any, examples: list, task: Any, progress: Progress) -> float:
    """Supervised fine-tuning on the task's own demonstrations; returns seconds."""
    rng = Random(args.seed)
    order: list[int] = []

    def demonstration(number: int) -> tuple[list[int], list[int]]:
        if not order:
            order.extend(rng.sample(range(len(examples)), len(examples)))
        example = examples[order.pop()]
        texts = (example.prompt, task.demonstrate(example, rng))
        prompt, answer = (tokenizer.encode(text, add_special_tokens=False) for text in texts)
        return prompt, [*answer, tokenizer.eos_token_id]

    return sft(Policy(model, value_head=False), demonstration, args.sft, progress.warm_up)


def evaluate_all(agent: PPO, held_out: dict[str, Any], episodes: int) -> dict[str, Evaluation]:
    """Greedy and sampled results on every held-out split."""
    return {split: agent.evaluate(env, episodes) for split, env in held_out.items()}


def pick_device(name: str) -> torch.device:
    """`auto` is CUDA where there is one; asking for CUDA without one is an error."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: no CUDA device found (torch.cuda.is_available() is False); use --device cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


if __name__ == "__main__":
    name = preset_name(sys.argv[1:])
    try:
        main(tyro.cli(Args, default=PRESETS[name](Args)))
    except (ValueError, ImportError, OSError, gym.error.Error, llm_envs.VerifierError) as error:
        raise SystemExit(f"error: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None

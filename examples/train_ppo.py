"""Warm a policy up by supervised fine-tuning, train it by PPO against a verifier, and print what it gained.

    python examples/train_ppo.py                                    # repair Python functions, tiny model, CPU
    python examples/train_ppo.py --env llm_envs/Transform-v0
    python examples/train_ppo.py --model path/to/model.gguf --device cuda --dtype bfloat16
    python examples/train_ppo.py --resume runs/NAME                 # go on where a run stopped

Read `main` first: it is the whole experiment in order. `build` is everything that can be refused.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys

# Threads that spin for ever while they wait for each other are many times slower as soon as anything else wants a
# core, and the verifier's workers do. Read by OpenMP once, when torch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import torch
import tyro
from rich.console import Console
from transformers.utils import logging as transformers_logging

import llm_envs  # registers the environments
from agents.checkpoint import load_model
from agents.evaluate import Evaluation
from agents.files import write_json
from agents.jsonable import jsonable
from agents.models import TinyConfig, add_adapter, build_tiny, load_pretrained, train_tokenizer
from agents.perturbation import reward_sensitivity
from agents.ppo import PPO, PPOBatch, PPOConfig
from agents.record import acceptance_record
from agents.report import Progress, result_table
from agents.run import RunFolder
from agents.scoring import LogprobMismatchError
from agents.sft import SFTConfig
from presets import PRESETS, preset_name
from warm_up import task_of, transcript, warm_up


@dataclass
class Args:
    """What is trained on what."""

    env: str = "llm_envs/CodeRepair-v0"
    """Registered id of a token-level environment."""
    env_options: tuple[str, ...] = ()
    """Further keyword arguments of the environment, as name value pairs; replaces the preset's."""
    split: str = "train"
    """Split to train on; the task's other splits are held out."""
    model: str = "tiny"
    """`tiny` (built and warmed up here), a name on the hub, a folder, or a .gguf file."""
    preset: str = "auto"
    """Starting values of all other settings; see examples/presets.py."""
    adapter: int = 0
    """Rank of a LoRA adapter to train instead of all weights (needs `peft`); the reference is the model without it."""
    verifier: str | None = None
    """Judge of the answers: a name or module:Class; the task's own when not given."""
    gold: tuple[str, ...] = ()
    """Other verifiers that judge held-out answers beside it, for what the training one cannot see."""
    sandbox: Literal["auto", "bubblewrap", "namespaces", "rlimits", "process"] = "auto"
    """What contains untrusted code; `rlimits` (needs root) is weak, and `process` is no sandbox, both on purpose."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the policy runs."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 is autocast with a float32 softmax; weights stay float32."""
    out: Path | None = None
    """Run folder; runs/NAME-TIME when not given."""
    seed: int = 0
    """Seeds weights, demonstrations, problems, sampling and minibatches."""
    rows: int = 256
    """Answers per PPO iteration."""
    total_tokens: int = 250_000
    """Tokens sampled for PPO in all."""
    problems: int = 8000
    """Training problems the warm-up draws from."""
    eval_problems: int = 500
    """Held-out problems of the evaluations before and after."""
    eval_samples: int = 1
    """Sampled answers to each of them; more than 1 gives pass@k."""
    max_length: int = 256
    """Longest prompt and answer together, tokens."""
    max_new_tokens: int | None = None
    """Longest answer, tokens; the task's own when not given."""
    tiny: TinyConfig = field(default_factory=TinyConfig)
    sft: SFTConfig = field(default_factory=SFTConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)

    def __post_init__(self) -> None:
        for name in ("rows", "total_tokens", "problems", "eval_problems", "eval_samples", "max_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.adapter < 0:
            raise ValueError(f"adapter must be 0 (none) or a rank, got {self.adapter}")
        if self.seed < 0:
            raise ValueError(f"seed must be 0 or more, got {self.seed}")
        if len(self.env_options) % 2:
            raise ValueError(f"env_options must be pairs of a name and a value, got {' '.join(self.env_options)!r}")


@dataclass
class Parts:
    """What an experiment is made of."""

    task: Any
    model: Any
    tokenizer: Any
    env: Any
    held_out: dict[str, Any]


def main(args: Args, resume: Path | None = None) -> None:
    """Build, warm up, evaluate, train, evaluate again, record."""
    args = replace(args, ppo=replace(args.ppo, seed=args.seed), sft=replace(args.sft, seed=args.seed))
    started = time.perf_counter()
    run = RunFolder(resume or args.out or Path("runs") / time.strftime(f"{args.env.split('/')[-1]}-%Y%m%d-%H%M%S"))
    if resume is None:
        run.require_new()
    console = Console() if sys.stdout.isatty() else Console(width=120)
    parts = build(args)
    if resume is None:
        run.create({"args": args, "command": sys.argv})
    checkpoint = None if resume is None else run.resume()
    progress = Progress(console)
    try:
        train(args, parts, run, progress, checkpoint, started)
    finally:
        progress.close()
        run.close()


def train(
    args: Args, parts: Parts, run: RunFolder, progress: Progress, checkpoint: Path | None, started: float
) -> None:
    """The experiment itself, from the warm-up (or a checkpoint) to the table."""
    autocast = torch.bfloat16 if args.dtype == "bfloat16" else None
    seconds = {"problems": time.perf_counter() - started}
    warmed_up = run.checkpoint("warmed-up")

    def on_iteration(agent: PPO, metrics: dict[str, float], batch: PPOBatch) -> None:
        progress.iteration(agent, metrics, args.total_tokens)
        write_json(run.path / "sensitivity.json", {str(agent.iteration): reward_sensitivity(agent, batch)})

    if checkpoint is not None:  # whatever training changed later, the reference is this
        load_model(parts.model, warmed_up)
    elif args.model == "tiny":
        seconds["warm-up"] = warm_up(args, parts, autocast, progress.warm_up)
    model = add_adapter(parts.model, args.adapter, args.seed) if args.adapter else parts.model
    agent = PPO(
        model, parts.env, args.ppo, eval_env=next(iter(parts.held_out.values()), None), run=run,
        reference="adapter" if args.adapter else "copy", autocast_dtype=autocast, tokenizer=parts.tokenizer,
        on_iteration=on_iteration,
    )  # fmt: skip
    if checkpoint is None:
        write_json(run.path / "preparation.json", seconds)
        agent.save(warmed_up)
    else:
        agent.restore(checkpoint)
        seconds = json.loads((run.path / "preparation.json").read_text())
    before = run.kept("before.json") or run.keep("before.json", evaluate_all(agent, parts.held_out, args))
    try:
        agent.learn(args.total_tokens)
    except KeyboardInterrupt:
        progress.console.print("stopped by Ctrl-C; evaluating and saving what is there")
    run.save_last(agent)
    after = evaluate_all(agent, parts.held_out, args)
    history = run.history()  # of all processes, when the run was resumed
    seconds["ppo"] = sum(metrics["seconds/iteration"] for metrics in history)
    kept = run.path / "sensitivity.json"  # of the last batch, by iteration
    sensitivity = json.loads(kept.read_text()).get(str(agent.iteration)) if kept.exists() else None
    run.record(acceptance_record(agent, args, parts.task, before, after, history, seconds, sensitivity))
    progress.close()
    progress.console.print(result_table(before, after))
    progress.console.print(f"{time.perf_counter() - started:.0f} s in all; run folder {run.path}")


def build(args: Args) -> Parts:
    """Model, tokenizer and environments; every mistake in the arguments is found here, before anything is written."""
    device = pick_device(args.device)
    if args.adapter and importlib.util.find_spec("peft") is None:
        raise ImportError("--adapter needs peft: pip install 'llm-envs[adapter]'")
    if not sys.stdout.isatty():
        transformers_logging.disable_progress_bar()
    tokenizer: Any = None
    model: Any = None
    if args.model != "tiny":
        model, tokenizer = load_pretrained(args.model)
    row = make_env(replace(args, rows=1), args.split, tokenizer)
    task = task_of(row)
    if model is None:
        examples = task.problems(args.split)[: min(args.problems, 3000)]
        played = (transcript(row, index, task.solution(example)) for index, example in enumerate(examples))
        tokenizer = train_tokenizer(("".join(text for text, _ in texts) for texts in played), args.tiny.vocab_size)
        model = build_tiny(tokenizer, args.tiny, args.max_length, args.seed)
    context = getattr(model.config, "max_position_embeddings", None)
    if context and args.max_length > context:
        raise ValueError(
            f"max_length is {args.max_length}, but the model's context is {context} tokens: give less with --max-length"
        )
    env = make_env(args, args.split, tokenizer)
    splits = [split for split in ("validation", *task.splits) if split in task.splits and split != args.split]
    held_out = {split: make_env(args, split, tokenizer, args.gold) for split in dict.fromkeys(splits)}
    for vector_env in (env, *held_out.values()):
        check_problems(vector_env, must_pass=args.verifier is None)
    return Parts(task, model.to(device), tokenizer, env, held_out)


def make_env(args: Args, split: str, tokenizer: Any, gold: Sequence[str] = ()) -> Any:
    """A vector environment over one split; refuses here when there is no sandbox."""
    pairs = zip(args.env_options[::2], args.env_options[1::2], strict=True)
    options: dict[str, Any] = {name: int(value) if value.isdigit() else value for name, value in pairs}
    if getattr(tokenizer, "chat_template", None):
        options.setdefault("message_format", "chat")
    if args.verifier is not None:
        options["verifier"] = args.verifier
    if gold:
        options["extra_verifiers"] = list(gold)
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
        ).unwrapped
    except TypeError as error:  # what any other environment says to these options
        raise ValueError(f"--env expects a token-level environment of llm_envs, got {args.env!r}: {error}") from error


def check_problems(env: Any, must_pass: bool, shown: int = 10_000, judged: int = 32) -> None:
    """Find what would stop a run halfway: prompts that do not fit, a judge that does not work, and (`must_pass`: by the
    task's own judge) tests that the known solution fails."""
    n, task, row = min(env.num_examples, shown), task_of(env), env.envs[0]
    for start in range(0, n, env.num_envs):
        env.reset(options={"index": [(start + row) % n for row in range(env.num_envs)]})
    examples = task.problems(row.unwrapped.split)
    for index in range(min(n, judged)):
        row.reset(options={"index": index})
        for message in task.solution(examples[index]):
            *_, terminated, _, info = row.step(message)
        if must_pass and message and not (terminated and info["verdict"]["passed"]):
            verdict = info.get("verdict", {"kind": "no verdict", "feedback": "the episode goes on"})
            raise ValueError(
                f"example {examples[index].id!r}: its own solution should pass, but gets {verdict['kind']!r} "
                f"({verdict['feedback']})"
            )


def evaluate_all(agent: PPO, held_out: dict[str, Any], args: Args) -> dict[str, Evaluation]:
    """Greedy and sampled results on every held-out split."""
    return {split: agent.evaluate(env, args.eval_problems, args.eval_samples) for split, env in held_out.items()}


def pick_device(name: str) -> torch.device:
    """`auto` is CUDA where there is one; asking for CUDA without one is an error."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: no CUDA device found (torch.cuda.is_available() is False); use --device cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def resumed(folder: Path) -> Args:
    """The arguments a run was started with; refuses when they no longer mean what they meant."""
    try:
        config = json.loads((folder / "config.json").read_text())
        command = config["command"][1:]
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"--resume expects the folder of a run, got {str(folder)!r}: {error}") from error
    args = tyro.cli(Args, args=command, default=PRESETS[preset_name(command)](Args))
    now = jsonable(replace(args, ppo=replace(args.ppo, seed=args.seed), sft=replace(args.sft, seed=args.seed)))
    changed = [name for name in now if now[name] != config["args"].get(name)]
    if changed:
        raise ValueError(f"--resume: the settings {changed} of {folder} are not what its command gives today")
    return args


REFUSALS = (
    ValueError, ImportError, OSError, gym.error.Error, llm_envs.LLMEnvsError, llm_envs.VerifierError,
    LogprobMismatchError, FloatingPointError,
)  # fmt: skip
"""What a person can mend; anything else deserves its traceback."""


if __name__ == "__main__":
    sys.path.insert(1, os.getcwd())  # so that `--verifier my_module:MyVerifier` finds a module in the current folder
    try:
        if sys.argv[1:2] == ["--resume"] and len(sys.argv) == 3:
            main(resumed(Path(sys.argv[2])), resume=Path(sys.argv[2]))
        else:
            main(tyro.cli(Args, default=PRESETS[preset_name(sys.argv[1:])](Args)))
    except REFUSALS as error:
        raise SystemExit(f"error: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None

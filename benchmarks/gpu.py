"""What `gpu.sh` runs: numeric checks on the device, then tokens per second, peak memory and the log-prob comparison.

python benchmarks/gpu.py --device cuda
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
import tyro
from transformers import LlamaConfig, LlamaForCausalLM

import llm_envs
from agents.engine import TorchEngine
from agents.models import TinyConfig, build_tiny, train_tokenizer
from agents.policy import Policy
from agents.ppo import PPO, CriticConfig, PPOConfig
from agents.run import peak_memory
from agents.sampling import Sampling
from agents.scoring import score_rollout
from agents.settings import KLConfig, OptimizerConfig

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from presets import TINY_PPO
from tests.agents.bandit import BETA, BanditVectorEnv, arm_probabilities, bandit_model, optimum, total_variation

LARGE = PPOConfig(optimizer=OptimizerConfig(learning_rate=1e-6), epochs=1, minibatches=2, micro_batch=32, eval_every=0)


@dataclass
class Args:
    """Where, and how much."""

    device: Literal["cuda", "cpu"] = "cuda"
    """`cpu` checks the script at tiny sizes."""
    iterations: int = 3
    """PPO iterations of each measurement."""


def main(args: Args) -> None:
    """Every check, then every measurement; one line each."""
    if args.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no CUDA device found; --device cpu checks the script at tiny sizes")
    device, small = torch.device(args.device), args.device == "cpu"
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"torch {torch.__version__}, {name}")
    check_sampler(device)
    check_bandit(device)
    rows = 16 if small else 256
    tokenizer, env = code_repair(rows)
    tiny = TinyConfig(hidden_size=32, intermediate_size=64, layers=2, heads=2) if small else TinyConfig()
    for dtype in (None, torch.bfloat16):
        model: Any = build_tiny(tokenizer, tiny, 320, seed=0)
        model.to(device)
        measure(f"tiny, {dtype or torch.float32}", model, env, replace(TINY_PPO, eval_every=0), dtype, args.iterations)
    # Its vocabulary is real in the matrix products; the softmax runs over the byte tokenizer's 258 tokens alone.
    half_billion = LlamaConfig(
        vocab_size=512 if small else 151_936,
        hidden_size=64 if small else 896,
        intermediate_size=128 if small else 4864,
        num_hidden_layers=2 if small else 24,
        num_attention_heads=2 if small else 14,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )
    env = gym.make_vec(
        "llm_envs/Transform-v0",
        num_envs=8 if small else 64,
        max_length=256,
        autoreset_mode=gym.vector.AutoresetMode.DISABLED,
    )
    for dtype in (None, torch.bfloat16):
        torch.manual_seed(0)
        with device:
            model = LlamaForCausalLM(half_billion)
        label = f"random {sum(p.numel() for p in model.parameters()) / 1e9:.2f}B, {dtype or torch.float32}"
        measure(label, model, env, LARGE, dtype, args.iterations)
        del model


def code_repair(rows: int) -> tuple[Any, Any]:
    """(tokenizer, vector environment) of the code-repair preset; without a sandbox on purpose where there is none."""
    options: dict[str, Any] = {
        "num_envs": rows,
        "max_length": 320,
        "families": "core",
        "autoreset_mode": gym.vector.AutoresetMode.DISABLED,
    }
    env: Any
    try:
        env = gym.make_vec("llm_envs/CodeRepair-v0", **options)
    except llm_envs.VerifierError as error:
        print(f"no sandbox here, running the model's own programs without one: {error}")
        options["verifier_options"] = {"sandbox": "process"}
        env = gym.make_vec("llm_envs/CodeRepair-v0", **options)
    examples = env.unwrapped.envs[0].unwrapped.task.problems("train")[:500]
    tokenizer = train_tokenizer((f"{e.prompt}{e.gold}" for e in examples), 512)
    return tokenizer, gym.make_vec("llm_envs/CodeRepair-v0", tokenizer=tokenizer, max_new_tokens=48, **options)


def check_sampler(device: torch.device) -> None:
    """Full precision on the device: another batch shape and the cache change log-probs by float order only."""
    torch.manual_seed(0)
    with device:
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=4, max_position_embeddings=128, bos_token_id=None, eos_token_id=1,
            )
        )  # fmt: skip
    policy = Policy(model)
    prefixes = [np.arange(2, 2 + n) for n in (3, 9, 17, 30)]
    allowed, generator = torch.ones(64, dtype=torch.bool), torch.Generator(device).manual_seed(0)
    turns = TorchEngine(policy).generate(prefixes, np.full(4, 20), frozenset([1]), allowed, Sampling(), generator)
    worst = 0.0
    for prefix, turn in zip(prefixes, turns, strict=True):
        tokens = torch.from_numpy(np.concatenate([prefix, turn.ids]))[None]
        positions = torch.arange(len(prefix), tokens.shape[1])[None]
        scores = policy.score(tokens, torch.tensor([tokens.shape[1]]), positions, Sampling(), allowed)
        worst = max(worst, float((scores.logprobs[0].detach().cpu() - torch.from_numpy(turn.logprobs)).abs().max()))
    print(f"log-probs, cached and left-padded against a full forward pass: largest difference {worst:.1e} nats")
    if worst > 1e-4:
        raise SystemExit("that is above 1e-4: sampler and trainer disagree on this device")


def check_bandit(device: torch.device) -> None:
    """PPO on the device reaches the closed-form optimum of the KL-regularised bandit."""
    model = bandit_model().to(device)
    best, _ = optimum(arm_probabilities(model).cpu())
    config = PPOConfig(
        optimizer=OptimizerConfig(learning_rate=3e-3, schedule="linear"), critic=CriticConfig(learning_rate=3e-2),
        kl=KLConfig(coef=BETA), epochs=4, minibatches=4, micro_batch=512, gae_lambda=1.0, eval_every=0,
    )  # fmt: skip
    PPO(model, BanditVectorEnv(512), config).learn(512 * 100)
    distance = total_variation(arm_probabilities(model).cpu(), best)
    print(f"bandit: total variation to the closed-form optimum {distance:.4f} (at most 0.02)")
    if distance > 0.02:
        raise SystemExit("PPO missed the optimum on this device")


def measure(label: str, model: Any, env: Any, config: PPOConfig, dtype: torch.dtype | None, iterations: int) -> None:
    """A few PPO iterations; the first is not counted."""
    if model.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    history: list[dict[str, float]] = []
    agent = PPO(
        model, env, config, autocast_dtype=dtype, on_iteration=lambda _agent, metrics, _batch: history.append(metrics)
    )
    rollout = agent.collect()
    before = score_rollout(agent.reference, rollout, config.micro_batch).logprobs
    while agent.iteration <= iterations:
        agent.learn(agent.num_timesteps + 1)
    after = score_rollout(agent.reference, rollout, config.micro_batch).logprobs
    counted = history[1:]
    sampled = sum(m["tokens/sampled"] for m in counted)
    phases = {phase: sum(m[f"seconds/{phase}"] for m in counted) for phase in ("generation", "scoring", "update")}
    speeds = ", ".join(f"{phase} {sampled / seconds:.0f}" for phase, seconds in phases.items())
    memory = ", ".join(f"{name} {value / 2**30:.2f} GiB" for name, value in peak_memory(model.device).items())
    per_iteration = sum(m["seconds/iteration"] for m in counted) / len(counted)
    worst = max(m["mismatch/max"] for m in history)
    print(f"{label}: sampled tokens per second: {speeds}; {per_iteration:.1f} s per iteration; peak {memory}")
    print(f"    sampler against trainer: worst {worst:.1e} nats, median {counted[-1]['mismatch/p50']:.1e}")
    print(f"    the reference moved by {float((before - after).abs().max()):.1e} nats (the same answers, scored twice)")


if __name__ == "__main__":
    main(tyro.cli(Args))

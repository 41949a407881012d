"""Sets planned memory beside measured memory: generation, scoring and an update of a tiny and of a 135M model.

    python benchmarks/memory.py

Every phase runs in a process of its own, and twice. Once for the growth of the resident set, from before the models
were built to the phase's peak: what the process took, with all that no plan counts. Once for the tensors: those that
stay, and the peak of what torch's allocator handed out (on CUDA its own counter).
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import tyro
from transformers import LlamaConfig, LlamaForCausalLM

from agents.activations import Workload
from agents.engine import TorchEngine
from agents.memory import peak_growth, plan_memory
from agents.models import TinyConfig, build_tiny
from agents.policy import Policy
from agents.sampling import Sampling

Phase = Literal["generation", "scoring", "update"]
WORKLOADS = {
    "tiny": Workload(rows=256, prompt_tokens=250, new_tokens=48, micro_batch=64, minibatches=2, shortest_prompt=240),
    "135M": Workload(rows=8, prompt_tokens=128, new_tokens=32, micro_batch=4, shortest_prompt=118),
}


@dataclass
class Args:
    """What to measure."""

    cases: tuple[Literal["tiny", "135M"], ...] = ("tiny", "135M")
    phases: tuple[Phase, ...] = ("generation", "scoring", "update")
    device: Literal["cpu", "cuda"] = "cpu"
    checkpointing: bool = False
    """Gradient checkpointing."""
    here: bool = False
    """Measure in this process and print JSON; what the script asks of its children."""


def main(args: Args) -> None:
    """A table of planned and measured peaks."""
    if args.here:
        print(json.dumps(measure(args.cases[0], args.phases[0], args)))
        return
    print(
        f"torch {torch.__version__}, {args.device}, float32, checkpointing {'on' if args.checkpointing else 'off'}; MB"
    )
    print("| model | phase | worst moment | plan | tensors | plan / tensors | resident set | plan / resident set |")
    print("|---|---|---|---|---|---|---|---|")
    for case in args.cases:
        for phase in args.phases:
            m = measure_apart(case, phase, args)
            resident = f"{m['resident'] / 1e6:,.0f} | {m['plan'] / m['resident']:.2f}" if m["resident"] else "- | -"
            print(
                f"| {case} | {phase} | {m['when']} | {m['plan'] / 1e6:,.0f} | {m['tensors'] / 1e6:,.0f} "
                f"| {m['plan'] / m['tensors']:.2f} | {resident} |",
                flush=True,
            )


def measure_apart(case: str, phase: str, args: Args) -> dict[str, Any]:
    """`measure` in a fresh process, whose C allocator returns blocks of 64 KiB and more as soon as they are freed."""
    command = [sys.executable, __file__, "--here", "--cases", case, "--phases", phase, "--device", args.device]
    command += ["--checkpointing"] if args.checkpointing else []
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{case}, {phase} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(case: str, phase: str, args: Args) -> dict[str, Any]:
    """Plan and measurements of one phase, bytes."""
    torch.manual_seed(0)
    small = replace(WORKLOADS["tiny"], rows=2, prompt_tokens=4, new_tokens=2, shortest_prompt=4)
    for warm_up in Run(build("tiny"), small, args).phases().values():
        warm_up()  # libraries load their kernels and keep workspaces
    before = resident_set("VmRSS")
    run = Run(build(case), WORKLOADS[case], args)
    run.fill_optimizer()
    call = run.phases()[phase]
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of building
    call()
    resident = resident_set("VmHWM") - before if args.device == "cpu" else 0
    run.fill_optimizer()
    if phase == "update":  # it starts so, and the profiler does not see blocks freed that it did not see allocated
        run.optimizer.zero_grad(set_to_none=True)
    moment = run.plan().phases[phase]
    tensors = run.stored_bytes() + peak_growth(call, torch.device(args.device))
    return {"plan": moment.total, "when": moment.when, "tensors": tensors, "resident": resident}


def build(case: str) -> Any:
    """A random model of the case's shape."""
    if case == "tiny":
        return build_tiny(Tokens(), TinyConfig(), max_length=320, seed=0)
    return LlamaForCausalLM(
        LlamaConfig(  # SmolLM2-135M
            vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
            num_key_value_heads=3, max_position_embeddings=2048, tie_word_embeddings=True, bos_token_id=None,
        )
    )  # fmt: skip


class Tokens:
    """As much of a tokenizer as a model is built from."""

    pad_token_id, eos_token_id = 0, 1

    def __len__(self) -> int:
        return TinyConfig().vocab_size


class Run:
    """A policy with its value head, a frozen copy, an optimiser and a random batch."""

    def __init__(self, model: Any, workload: Workload, args: Args) -> None:
        model.to(args.device)
        self.reference = Policy(copy.deepcopy(model).requires_grad_(False), value_head=False)
        self.policy = Policy(model, gradient_checkpointing=args.checkpointing)
        self.workload, self.checkpointing = workload, args.checkpointing
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=1e-6)
        w, vocabulary = workload, model.config.vocab_size
        rng = np.random.default_rng(0)
        lengths = np.linspace(w.shortest_prompt or w.prompt_tokens, w.prompt_tokens, w.rows).astype(int)
        lengths = np.resize(lengths[:: -(-w.rows // w.micro_batch)], w.rows)  # every micro-batch has all lengths
        self.prompts = [rng.integers(2, vocabulary, n) for n in lengths]
        self.lengths = torch.from_numpy(lengths) + w.new_tokens
        self.tokens = torch.from_numpy(rng.integers(2, vocabulary, (w.rows, w.prompt_tokens + w.new_tokens)))
        self.positions = torch.from_numpy(lengths)[:, None] + torch.arange(w.new_tokens)
        self.allowed = torch.ones(vocabulary, dtype=torch.bool, device=args.device)

    def phases(self) -> dict[str, Callable[[], None]]:
        """What can be measured."""
        return {"generation": self.generate, "scoring": self.score, "update": self.update}

    def plan(self) -> Any:
        """What the plan says of this run."""
        return plan_memory(self.policy.model, self.workload, gradient_checkpointing=self.checkpointing)

    def fill_optimizer(self) -> None:
        """Gradients and moments as after a step, without the time of one."""
        for parameter in self.policy.parameters():
            parameter.grad = torch.zeros_like(parameter)
        self.optimizer.step()

    def generate(self) -> None:
        """One batch of answers, none of which ends early."""
        generator = torch.Generator(self.policy.device).manual_seed(0)
        budgets = np.full(self.workload.rows, self.workload.new_tokens)
        TorchEngine(self.policy).generate(
            self.prompts, budgets, frozenset(), self.allowed, Sampling(temperature=0.5), generator
        )

    @torch.no_grad()
    def score(self) -> None:
        """Policy and reference over the batch."""
        for model in (self.policy, self.reference):
            for rows in torch.arange(self.workload.rows).split(self.workload.micro_batch):
                self._score(model, rows)

    def update(self) -> None:
        """One optimiser step over the first minibatch."""
        self.optimizer.zero_grad(set_to_none=True)
        for rows in (
            torch.arange(self.workload.rows).chunk(self.workload.minibatches)[0].split(self.workload.micro_batch)
        ):
            scores = self._score(self.policy, rows)
            (scores.logprobs.exp().mean() + scores.values.square().mean() - 0.0 * scores.entropy.mean()).backward()
            del scores
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self.optimizer.step()

    def stored_bytes(self) -> int:
        """Bytes of the tensors that stay."""
        parameters = [*self.policy.parameters(), *self.reference.parameters()]
        tensors = parameters + [p.grad for p in parameters if p.grad is not None]
        tensors += [value for state in self.optimizer.state.values() for value in state.values()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def _score(self, policy: Policy, rows: torch.Tensor) -> Any:
        return policy.score(
            self.tokens[rows], self.lengths[rows], self.positions[rows], Sampling(temperature=0.5), self.allowed
        )


def resident_set(field: str) -> int:
    """Bytes of VmRSS (now) or VmHWM (peak) of this process, from Linux."""
    match = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


if __name__ == "__main__":
    main(tyro.cli(Args))

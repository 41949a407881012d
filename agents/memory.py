"""How much memory a run takes, planned before it starts: exact bytes of what stays, estimates of what comes and goes.

    print(plan_memory(model, Workload(rows=256, prompt_tokens=250, new_tokens=48)))

Weights, gradients, optimiser state and KV cache are counted from the tensors, exactly; what a phase needs beside them
is estimated in `agents.activations`. 1 GB is 1e9 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, PretrainedConfig

from agents.activations import Estimate, Moment, Shape, Workload
from agents.policy import base_of

Model = nn.Module | PretrainedConfig | int
"""A `transformers` causal LM (tied weights count once), the configuration of one, or a number of parameters."""
KINDS = ("weights", "master weights", "optimizer", "gradients")


@dataclass(frozen=True)
class ModelMemory:
    """Bytes of one model that stay; exact."""

    name: str
    parameters: int
    trained: int
    stored: dict[str, int]
    """By kind: weights, master weights, optimizer, gradients."""


@dataclass(frozen=True)
class MemoryPlan:
    """What a run stores, and the worst moment of each phase."""

    models: tuple[ModelMemory, ...]
    phases: dict[str, Moment] = field(default_factory=dict)
    """`generation`, `scoring`, `update`; none without a configuration or a workload."""
    kv_cache: int = 0
    """Bytes of the full cache; exact. Sampling's worst moment is often earlier, while the prompts are read."""
    rollout: int = 0
    """Bytes of the stored batch. It lies in host memory, so no phase counts it."""

    def stored(self, kind: str) -> int:
        """Bytes of one kind (see `ModelMemory`) over all models."""
        return sum(model.stored[kind] for model in self.models)

    @property
    def training_state(self) -> int:
        """Bytes before activations, KV cache and buffers."""
        return sum(map(self.stored, KINDS))

    def table(self) -> str:
        """Text for a person: what stays, model by model, and what each phase holds at its worst moment."""
        lines = [["GB = 1e9 bytes", "parameters", "trained", *KINDS]]
        for m in self.models:
            lines.append([m.name, f"{m.parameters:,}", f"{m.trained:,}", *(_gb(m.stored[kind]) for kind in KINDS)])
        lines.append(["all", "", "", *(_gb(self.stored(kind)) for kind in KINDS)])
        parts = [*_align(lines), f"training state: {_gb(self.training_state)} GB"]
        if not self.phases:
            return "\n".join([*parts, "what comes and goes is unknown without a configuration and a workload"])
        moments = self.phases.values()
        names = dict.fromkeys(name for moment in moments for name in moment.items)
        lines = [["", *self.phases], ["worst moment", *(m.when for m in moments)]]
        lines += [[name, *(_gb(m.items.get(name, 0)) for m in moments)] for name in names]
        parts += ["", *_align([*lines, ["peak", *(_gb(m.total) for m in moments)]])]
        parts.append(f"full KV cache: {_gb(self.kv_cache)} GB; batch, in host memory: {_gb(self.rollout)} GB")
        return "\n".join(parts)

    __str__ = table


def plan_memory(
    model: Model,
    workload: Workload | None = None,
    *,
    critic: Model | Literal["head", "copy"] | None = "head",
    reference: Model | Literal["copy", "adapter"] | None = "copy",
    frozen: Sequence[Model] = (),
    adapter_parameters: int = 0,
    dtype: torch.dtype | None = None,
    autocast_dtype: torch.dtype | None = None,
    optimizer: Literal["adamw", "adamw_8bit"] | None = "adamw",
    master_weights: bool = False,
    gradient_checkpointing: bool = False,
    foreach: bool | None = None,
) -> MemoryPlan:
    """Plans the memory of an on-policy agent on one device.

    Args:
        model: the policy. Of a module, tensors that require a gradient are trained; else all are, or only the adapter.
        workload: sizes of a batch; without it only what stays is planned.
        critic: `head` (float32, on the policy), `copy` (a trunk like the policy's, with a head), a model, or None.
        reference: `copy` of the policy, `adapter` (the policy with its adapter off: no bytes), a model, or None.
        frozen: other models that only answer, such as a reward model.
        adapter_parameters: parameters that an adapter will add to the policy, the rest of which is then frozen.
        dtype: of weights given as configuration or number; None for the configuration's own, or float32.
        autocast_dtype: mixed precision; its casts of the weights are counted, too.
        optimizer: `adamw` keeps two numbers per trained one, in the type of what it updates; `adamw_8bit` (that of
            bitsandbytes) two bytes, and twice 4 per block of 256 for their scales; None nothing.
        master_weights: whether the optimiser updates float32 copies of weights in a smaller type.
        gradient_checkpointing: whether a layer's activations are computed again in the backward pass.
        foreach: whether AdamW takes all tensors at once, as torch does on CUDA: its temporaries are then as large as
            one moment of everything, else as two of the largest tensor. None: by the module's device, else True.

    Source: the example of four 7B models (252 GB) in the PPO chapter, section 3.1.

    Raises:
        ValueError: `reference="adapter"` without an adapter.
    """
    if reference == "adapter" and not (adapter_parameters or hasattr(model, "disable_adapter")):
        raise ValueError("reference='adapter' needs a PEFT model, or adapter_parameters")
    policy = _tensors(model, dtype, adapter_parameters)
    shape = None if isinstance(model, int) else Shape.of(_config(model))
    head = [Weights(shape.hidden, 4), Weights(1, 4)] if shape is not None else []
    trained = {"policy": policy + (head if critic == "head" else [])}
    if critic is not None and critic != "head":
        trained["critic"] = head + _tensors(model if isinstance(critic, str) else critic, dtype, trunk_only=True)
    answering = [("frozen", _tensors(other, dtype)) for other in frozen]
    if reference is not None and reference != "adapter":
        answering.insert(0, ("reference", policy if isinstance(reference, str) else _tensors(reference, dtype)))
    models = [_model_memory(name, tensors, optimizer, master_weights) for name, tensors in trained.items()]
    models += [_model_memory(name, [t._replace(trained=False) for t in tensors]) for name, tensors in answering]
    if shape is None or workload is None:
        return MemoryPlan(tuple(models))
    if foreach is None:
        foreach = not isinstance(model, nn.Module) or next(model.parameters()).device.type == "cuda"
    estimate = Estimate(
        shape,
        workload,
        **_types_and_gradients(policy, shape, autocast_dtype),
        head=critic == "head",
        trunks=len(trained),
        step=_step(models, policy, master_weights, foreach and optimizer == "adamw"),
        checkpointing=gradient_checkpointing,
        stays={kind: sum(m.stored[kind] for m in models) for kind in KINDS},
    )
    phases = {"generation": estimate.generation(), "scoring": estimate.scoring(), "update": estimate.update()}
    worst = {name: max(moments, key=lambda moment: moment.total) for name, moments in phases.items()}
    full = estimate.kv_cache(workload.prompt_tokens + workload.new_tokens - 1)  # the last token is never read
    return MemoryPlan(tuple(models), worst, full, estimate.rollout())


def peak_growth(call: Callable[[], object], device: torch.device) -> int:
    """Bytes by which torch's allocations grow at most while `call` runs, to set beside a plan.

    On the CPU they come from the profiler, which does not see that blocks allocated before are freed.
    """
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    results: Any = profiler.profiler
    events = [(e.start_ns(), e.nbytes()) for e in results.kineto_results.events() if e.name() == "[memory]"]
    return max(accumulate(nbytes for _, nbytes in sorted(events)), default=0)


class Weights(NamedTuple):
    """One weight tensor, or many of which only the number of parameters is known."""

    numel: int
    size: int
    trained: bool = True
    tensors: int = 1
    """Tensors it stands for; 0 when unknown."""


def _config(model: Any) -> PretrainedConfig:
    return (base_of(model).config if isinstance(model, nn.Module) else model).get_text_config()


def _tensors(model: Model, dtype: torch.dtype | None, adapter: int = 0, trunk_only: bool = False) -> list[Weights]:
    """Every weight tensor; with `trunk_only` an untied language-model head gets no gradient, since nobody reads it."""
    if isinstance(model, int):
        found = [Weights(model, (dtype or torch.float32).itemsize, tensors=0)]
    else:
        if not isinstance(model, nn.Module):
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(model, dtype=dtype or model.dtype or torch.float32)
        assert isinstance(model, nn.Module)
        unread: Any = None
        if trunk_only:
            output: Any = base_of(model).get_output_embeddings().weight
            unread = None if output is base_of(model).get_input_embeddings().weight else output
        found = [Weights(p.numel(), p.element_size(), p.requires_grad and p is not unread) for p in model.parameters()]
    if adapter:
        found = [w._replace(trained=False) for w in found] + [Weights(adapter, found[0].size, tensors=0)]
    return found


def _types_and_gradients(policy: list[Weights], shape: Shape, autocast_dtype: torch.dtype | None) -> dict[str, Any]:
    """What the formulas need of the policy's tensors."""
    size = policy[0].size
    embeddings = [t for t in policy if t.numel == shape.vocabulary * shape.hidden]
    product = size if autocast_dtype is None else autocast_dtype.itemsize
    return {
        "w": size,
        "a": product,
        "trains": any(t.trained for t in policy),
        "tied": len(embeddings) == 1,
        "embedding_gradient": max((t.numel * t.size for t in embeddings if t.trained), default=0),
        # Autocast remembers its casts of trained weights until a forward pass ends; those of frozen ones come and go.
        "casts": 0 if autocast_dtype is None else product * sum(t.numel for t in policy if t.trained),
    }


def _model_memory(name: str, tensors: list[Weights], optimizer: str | None = None, master: bool = False) -> ModelMemory:
    trained = [t for t in tensors if t.trained]
    copied = [t for t in trained if master and t.size < 4]
    stored = {
        "weights": sum(t.numel * t.size for t in tensors),
        "master weights": sum(4 * t.numel for t in copied),
        "optimizer": sum(_optimizer_state(t, optimizer, master) for t in trained),
        "gradients": sum(t.numel * t.size for t in trained),
    }
    return ModelMemory(name, sum(t.numel for t in tensors), sum(t.numel for t in trained), stored)


def _optimizer_state(weights: Weights, optimizer: str | None, master: bool) -> int:
    """Two moments, and a float32 step counter per tensor; 8-bit AdamW has none and leaves small tensors whole."""
    if optimizer is None:
        return 0
    if optimizer == "adamw_8bit":
        scales = 4 * -(-weights.numel // 256)  # one float32 for every 256 numbers
        return 2 * (weights.numel + scales if not weights.tensors or weights.numel >= 4096 else 4 * weights.numel)
    return 2 * weights.numel * (max(4, weights.size) if master else weights.size) + 4 * weights.tensors


def _step(models: list[ModelMemory], policy: list[Weights], master: bool, foreach: bool) -> int:
    """Temporaries of AdamW's step: one moment of a group at once, or two of the largest tensor."""
    if foreach:
        return max(m.stored["optimizer"] // 2 for m in models)
    return 2 * max((t.numel * (4 if master else t.size) for t in policy if t.trained), default=0)


def _gb(n: int) -> str:
    return f"{n / 1e9:.3f}" if n < 10e9 else f"{n / 1e9:.1f}"


def _align(lines: list[list[str]]) -> list[str]:
    """Columns of equal width, the first one to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]

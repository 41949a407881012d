"""A scored rollout: everything an update needs, and how to keep it for inspection."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from agents.jsonable import jsonable
from agents.rollout import Rollout
from agents.sampling import Sampling
from agents.scoring import LogprobComparison


@dataclass
class Batch:
    """What all agents learn from: fixed (B, T) float32 tensors on the CPU, without gradient."""

    rollout: Rollout
    mask: Tensor
    """(B, T) bool: actions that train."""
    old_logprobs: Tensor
    """Denominators of the ratio."""
    ref_logprobs: Tensor
    entropy: Tensor
    """Of the distribution each action was drawn from."""
    score_rewards: Tensor
    """The environment's rewards, their score processed, before the KL cost."""
    rewards: Tensor
    """Shaped rewards."""
    advantages: Tensor
    importance: Tensor | None
    """Weights that correct for another sampler; None when the trainer sampled itself."""
    kl_coef: float
    """beta that was in the rewards, or is in the loss."""
    comparison: LogprobComparison | None
    """Sampler against trainer; None when the engine gave no log-probs."""


def save_batch(path: Path, batch: Any) -> None:
    """Write a batch of any agent to a file that `load_batch` reads; infos as JSON."""
    fields = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch) if field.name != "rollout"}
    comparison = fields.pop("comparison")
    rollout = {field.name: getattr(batch.rollout, field.name) for field in dataclasses.fields(batch.rollout)}
    rollout["infos"] = json.dumps([jsonable(info) for info in rollout["infos"]])
    rollout["sampling"] = dataclasses.asdict(batch.rollout.sampling)
    content = {"batch": fields, "rollout": rollout, "comparison": comparison and comparison._asdict()}
    torch.save(content, path)


def load_batch(path: str | Path, kind: type = Batch) -> Any:
    """Read a batch; `kind` is the agent's class of batches.

    Raises:
        ValueError: the file is no batch, or one of another kind.
    """
    content = torch.load(path, map_location="cpu", weights_only=True)
    expected = {field.name for field in dataclasses.fields(kind)} - {"rollout", "comparison"}
    if not isinstance(content, dict) or set(content.get("batch", ())) != expected:
        raise ValueError(f"{path} is not a saved {kind.__name__}")
    rollout = content["rollout"]
    rollout = Rollout(**{**rollout, "infos": json.loads(rollout["infos"]), "sampling": Sampling(**rollout["sampling"])})
    comparison = content["comparison"] and LogprobComparison(**content["comparison"])
    return kind(rollout=rollout, comparison=comparison, **content["batch"])

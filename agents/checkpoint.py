"""Checkpoints: a folder that any `transformers` user can load, plus what training needs to go on."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from agents.policy import Policy


def save_checkpoint(folder: Path, policy: Policy, state: dict[str, Any], config: Any, tokenizer: Any = None) -> None:
    """Write model, value head, tokenizer, configuration and trainer state; the folder appears whole or not at all.

    Args:
        folder: must not exist.
        policy: saved with `save_pretrained`, so that `AutoModelForCausalLM.from_pretrained(folder)` loads it.
        state: tensors and numbers of the trainer.
        config: the agent's configuration dataclass.
        tokenizer: saved beside the model when given.
    """
    if folder.exists():
        raise FileExistsError(f"checkpoint folder {folder} exists; give a new one")
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        policy.model.save_pretrained(unfinished)
        if policy.value_head is not None:
            head = {name: tensor.contiguous() for name, tensor in policy.value_head.state_dict().items()}
            save_file(head, unfinished / "value_head.safetensors")
        if tokenizer is not None:
            tokenizer.save_pretrained(unfinished)
        torch.save(state, unfinished / "trainer_state.pt")
        (unfinished / "agent_config.json").write_text(json.dumps(dataclasses.asdict(config), indent=2) + "\n")
        os.replace(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def load_checkpoint(folder: Path, policy: Policy) -> dict[str, Any]:
    """Load weights and value head into a policy of the same architecture; returns the trainer's state."""
    if not (folder / "trainer_state.pt").exists():
        raise FileNotFoundError(f"{folder} is not a checkpoint: trainer_state.pt is missing")
    loaded = type(policy.model).from_pretrained(folder, dtype=policy.model.dtype)
    policy.model.load_state_dict(loaded.state_dict())
    if policy.value_head is not None:
        policy.value_head.load_state_dict(load_file(folder / "value_head.safetensors"))
    return torch.load(folder / "trainer_state.pt", map_location="cpu", weights_only=True)

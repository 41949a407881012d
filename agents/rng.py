"""Random number generators: derived from numbers, and all of the process as something a checkpoint can hold."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def derived_generator(entropy: list[int], device: torch.device) -> torch.Generator:
    """A generator that depends on the given numbers only."""
    seed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1)
    return torch.Generator(device).manual_seed(seed)


def derived_seed(entropy: list[int]) -> int:
    """A seed of 32 bits, as NumPy's global generator takes it, that depends on the given numbers only."""
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])


def rng_state() -> dict[str, Any]:
    """States of Python's, NumPy's and torch's global generators: tensors, numbers and lists."""
    numpy_state: Any = np.random.get_state(legacy=True)
    name, keys, *rest = numpy_state
    return {
        "python": random.getstate(),
        "numpy": [name, keys.tolist(), *rest],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_rng_state(state: dict[str, Any]) -> None:
    """Set them again; CUDA's only where the same number of devices is there."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count() and state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])

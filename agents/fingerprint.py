"""Which weights these are: a hash that tells two policies apart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor


def weight_fingerprint(parameters: Iterable[tuple[str, Tensor]]) -> str:
    """Hash of the bytes of (name, parameter) pairs: two policies with the same fingerprint are the same policy."""
    digest = hashlib.sha256()
    for name, parameter in sorted(parameters, key=lambda pair: pair[0]):
        digest.update(name.encode())
        digest.update(parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]

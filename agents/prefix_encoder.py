"""A small causal transformer over token prefixes, as the features extractor of a Stable-Baselines3 policy.

Legend: B rows, S tokens of the longest prefix, H width.
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium.spaces import Dict
from torch import Tensor, nn


class Block(nn.Module):
    """A transformer layer in which no position sees a later one."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_in, self.norm_out = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, S, H) -> (B, S, H)"""
        n, s, width = hidden.shape
        parts = self.attend(self.norm_in(hidden)).view(n, s, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.project(mixed.transpose(1, 2).reshape(n, s, width))
        return hidden + self.feed(self.norm_out(hidden))


class PrefixEncoder(nn.Module):
    """Features of a token prefix, for any Stable-Baselines3 policy: the hidden state at its last real token.

    Attention is causal and what lies beyond `length` is overwritten, so padding cannot change them.

    Args:
        observation_space: with `tokens`, `length` and perhaps `remaining`.
        width: H.
        layers: transformer layers.
        heads: attention heads; must divide `width`.

    Raises:
        ValueError: see `check_shape`.
    """

    def __init__(self, observation_space: Dict, width: int = 64, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        check_shape(width, layers, heads)
        tokens: Any = observation_space["tokens"]
        self.padding = int(tokens.high.max()) + 1  # a token of its own
        self.embedding = nn.Embedding(self.padding + 1, width)
        self.positions = nn.Embedding(tokens.shape[0], width)
        nn.init.normal_(self.positions.weight, std=0.5)  # beside token embeddings of size 1
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        remaining: Any = observation_space.spaces.get("remaining")
        self.budget = None if remaining is None else remaining.high.max()
        self.features_dim = width + (self.budget is not None)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """(B, H + 1): the last column is the share of the budget that is left."""
        length = observation["length"].long().reshape(-1, 1)
        longest = max(1, int(length.max()))
        beyond = torch.arange(longest, device=length.device) >= length
        tokens = observation["tokens"][:, :longest].long().masked_fill(beyond, self.padding)
        hidden = self.embedding(tokens) + self.positions.weight[:longest]
        for block in self.blocks:
            hidden = block(hidden)
        last = (length.squeeze(1) - 1).clamp(min=0)
        features = self.norm(hidden[torch.arange(len(last), device=last.device), last])
        if self.budget is None:
            return features
        return torch.cat([features, observation["remaining"].float().reshape(-1, 1) / max(1.0, float(self.budget))], 1)


def check_shape(width: int, layers: int, heads: int) -> None:
    """Raises ValueError when no `PrefixEncoder` can have these."""
    for name, value in (("width", width), ("layers", layers), ("heads", heads)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if width % heads:
        raise ValueError(f"width must be a multiple of heads, got {width} and {heads}")

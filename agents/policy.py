"""The policy: any `transformers` causal language model, with a value head on its last hidden states.

Legend: B rows, S tokens of the longest row, T actions of the longest row, V vocabulary, H hidden size.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from agents.sampling import Sampling, entropy, log_distribution


class Scores(NamedTuple):
    """What one forward pass says about stored actions."""

    logprobs: Tensor
    """(B, T) log-prob of each action under the sampling distribution."""
    entropy: Tensor
    """(B, T) entropy of the distribution each action was drawn from, nats."""
    values: Tensor
    """(B, T + 1) V(s_t) read *before* action t; the last column is V(s_T), after everything. (B, 0) without a head."""


class Policy(nn.Module):
    """A causal language model, its value head, and the arithmetic it runs in.

    Args:
        model: a `transformers` causal LM. It stays in eval mode: dropout would make two scorings of one answer differ.
        value_head: whether to add the critic; the reference has none.
        value_trunk_gradient: how much of the critic's gradient enters the trunk, 0 (cut) to 1.
        autocast_dtype: bfloat16 or float16 for mixed precision; None computes in the weights' own type.
    """

    def __init__(
        self,
        model: Any,
        *,
        value_head: bool = True,
        value_trunk_gradient: float = 0.0,
        autocast_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.model = model.eval()
        self.value_trunk_gradient = value_trunk_gradient
        self.autocast_dtype = autocast_dtype
        self.value_head: nn.Linear | None = None
        if value_head:
            # Zero, not random: an untrained critic must say "no idea", not noise that enters the first advantages.
            self.value_head = nn.Linear(model.get_output_embeddings().weight.shape[1], 1, device=model.device)
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self.model.device

    def autocast(self) -> AbstractContextManager:
        """The mixed-precision context every forward pass, sampling included, runs under."""
        if self.autocast_dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.autocast_dtype)

    def score(self, tokens: Tensor, lengths: Tensor, positions: Tensor, sampling: Sampling, allowed: Tensor) -> Scores:
        """Log-probs, entropies and values of stored actions.

        The token at position p was drawn from the logits at p - 1, and V(s_t) is read from the same hidden state, the
        one *before* the action. Rows are right-padded, so a causal model never sees padding and needs no mask.

        Args:
            tokens: (B, S) int64.
            lengths: (B,) int64, real tokens of each row.
            positions: (B, T) int64, where each action stands in `tokens`; >= 1; any valid index on padding.
            sampling: the transformations of the behaviour policy.
            allowed: (V,) or (B, T, V) bool.
        """
        tokens, lengths, positions, allowed = (x.to(self.device) for x in (tokens, lengths, positions, allowed))
        before = torch.cat([positions, lengths[:, None]], dim=1) - 1  # (B, T + 1); the last column is s_T
        first = int(before.min())
        with self.autocast():
            keep: dict[str, Any] = {}
            if self._keeps_logits:  # logits of the prompt are the largest tensor and nobody reads them
                keep["logits_to_keep"] = torch.arange(first, tokens.shape[1], device=self.device)
            output = self.model(tokens, use_cache=False, output_hidden_states=self.value_head is not None, **keep)
        logits = output.logits
        row = torch.arange(tokens.shape[0], device=self.device)[:, None]
        offset = first if self._keeps_logits else 0
        log_dist = log_distribution(logits[row, before[:, :-1] - offset], sampling, allowed)  # (B, T, V) float32
        actions = tokens[row, positions]
        logprobs = log_dist.gather(-1, actions[..., None]).squeeze(-1)
        values = logprobs.new_zeros(logprobs.shape[0], 0)
        if self.value_head is not None:
            values = self._values(output.hidden_states[-1][row, before])
        return Scores(logprobs, entropy(log_dist), values)

    def _values(self, hidden: Tensor) -> Tensor:
        """(B, T + 1, H) hidden states -> (B, T + 1) values, float32."""
        assert self.value_head is not None
        scale, hidden = self.value_trunk_gradient, hidden.float()
        if scale != 1.0:
            hidden = hidden.detach() if scale == 0.0 else scale * hidden + (1 - scale) * hidden.detach()
        return self.value_head(hidden).squeeze(-1)

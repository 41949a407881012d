"""The policy: any `transformers` causal language model, with a value head on its last hidden states; and the critic.

Legend: B rows, S tokens of the longest row, T actions of the longest row, V vocabulary, H hidden size.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from agents.fingerprint import weight_fingerprint
from agents.sampling import Sampling, entropy, log_distribution


class Scores(NamedTuple):
    """What one forward pass says about stored actions."""

    logprobs: Tensor
    """(B, T) log-prob of each action under the sampling distribution."""
    entropy: Tensor
    """(B, T) entropy of the distribution each action was drawn from, nats."""
    values: Tensor
    """(B, T + 1) V(s_t) read *before* action t; the last column is V(s_T), after everything. (B, 0) without a head."""


class LanguageModel(nn.Module):
    """A `transformers` model and the arithmetic it runs in.

    Args:
        model: a causal LM. Its dropout is switched off for good: it would make two scorings of one answer differ.
        autocast_dtype: bfloat16 for mixed precision; None computes in the weights' own type. Not float16, in which
            small gradients vanish unless a loss scaler looks after them.
        gradient_checkpointing: keep few activations of a forward pass with gradient, compute the others again.
    """

    def __init__(
        self, model: Any, *, autocast_dtype: torch.dtype | None = None, gradient_checkpointing: bool = False
    ) -> None:
        super().__init__()
        if autocast_dtype not in (None, torch.bfloat16):
            raise ValueError(f"autocast_dtype must be torch.bfloat16 or None, got {autocast_dtype}")
        disable_dropout(model)
        self.model = model.eval()
        self.autocast_dtype = autocast_dtype
        self.gradient_checkpointing = gradient_checkpointing
        if gradient_checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self.model.device

    def autocast(self) -> AbstractContextManager:
        """The mixed-precision context every forward pass, sampling included, runs under."""
        if self.autocast_dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.autocast_dtype)

    def set_mode(self) -> None:
        """`transformers` checkpoints in train mode only, and gives up its cache there: train where gradients flow."""
        self.model.train(self.gradient_checkpointing and torch.is_grad_enabled())


class Policy(LanguageModel):
    """A causal language model and, where it is also the critic, its value head.

    Args:
        model: a `transformers` causal LM, or a PEFT model around one.
        value_head: whether to add the critic; the reference has none, nor has a policy with a critic of its own.
        value_trunk_gradient: how much of the critic's gradient enters the trunk, 0 (cut) to 1.
        arithmetic: `autocast_dtype` and `gradient_checkpointing`.
    """

    def __init__(
        self, model: Any, *, value_head: bool = True, value_trunk_gradient: float = 0.0, **arithmetic: Any
    ) -> None:
        super().__init__(model, **arithmetic)
        self.value_head = ValueHead(model, value_trunk_gradient) if value_head else None
        self._keeps_logits = "logits_to_keep" in inspect.signature(base_of(model).forward).parameters

    def fingerprint(self) -> str:
        """Hash of the weights that are trained (of an adapter alone, where only that is)."""
        return weight_fingerprint((name, p) for name, p in self.model.named_parameters() if p.requires_grad)

    def score(self, tokens: Tensor, lengths: Tensor, positions: Tensor, sampling: Sampling, allowed: Tensor) -> Scores:
        """Log-probs, entropies and values of stored actions.

        The token at position p was drawn from the logits at p - 1, and V(s_t) is read from the same hidden state, the
        one *before* the action. Rows are right-padded, so a causal model never sees padding and needs no mask.

        Args:
            tokens: (B, S) int64.
            lengths: (B,) int64, real tokens of each row.
            positions: (B, T) int64, where each action stands in `tokens`; >= 1; any valid index on padding.
            sampling: the transformations of the behaviour policy.
            allowed: (V,) or (B, T, V) bool, tokens that could be drawn.
        """
        tokens, lengths, positions, allowed = (x.to(self.device) for x in (tokens, lengths, positions, allowed))
        before = states_before(lengths, positions)
        first = int(before.min())
        self.set_mode()
        with self.autocast():
            keep: dict[str, Any] = {}
            if self._keeps_logits:  # logits of the prompt are the largest tensor and nobody reads them
                keep["logits_to_keep"] = torch.arange(first, tokens.shape[1], device=self.device)
            output = self.model(
                input_ids=tokens, use_cache=False, output_hidden_states=self.value_head is not None, **keep
            )
        logits = output.logits
        row = torch.arange(tokens.shape[0], device=self.device)[:, None]
        offset = first if self._keeps_logits else 0
        log_dist = log_distribution(logits[row, before[:, :-1] - offset], sampling, allowed)  # (B, T, V) float32
        actions = tokens[row, positions]
        logprobs = log_dist.gather(-1, actions[..., None]).squeeze(-1)
        values = logprobs.new_zeros(logprobs.shape[0], 0)
        if self.value_head is not None:
            values = self.value_head(output.hidden_states[-1][row, before])
        return Scores(logprobs, entropy(log_dist), values)


class Critic(LanguageModel):
    """A value model of its own: a second trunk, trained by nothing but the value loss.

    Args:
        model: a `transformers` causal LM; its language-model head is not used.
        arithmetic: `autocast_dtype` and `gradient_checkpointing`.
    """

    def __init__(self, model: Any, **arithmetic: Any) -> None:
        super().__init__(model, **arithmetic)
        self.value_head = ValueHead(model, trunk_gradient=1.0)

    def values(self, tokens: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        """(B, T + 1) V(s_t) before each action, and V(s_T) after everything; arguments as in `Policy.score`."""
        tokens, lengths, positions = (x.to(self.device) for x in (tokens, lengths, positions))
        self.set_mode()
        with self.autocast():
            hidden = base_of(self.model).base_model(input_ids=tokens, use_cache=False).last_hidden_state
        row = torch.arange(tokens.shape[0], device=self.device)[:, None]
        return self.value_head(hidden[row, states_before(lengths, positions)])


class ValueHead(nn.Linear):
    """Hidden state -> value, in float32 whatever the model's precision.

    Starts at zero, not at random: an untrained critic must say "no idea", not noise that enters the first advantages.

    Args:
        model: the causal LM whose hidden states it reads.
        trunk_gradient: how much of its gradient enters the trunk, 0 (cut) to 1.
    """

    def __init__(self, model: Any, trunk_gradient: float) -> None:
        width = model.get_output_embeddings().weight.shape[1]
        super().__init__(width, 1, device=model.device, dtype=torch.float32)
        self.trunk_gradient = trunk_gradient
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., H) -> (...)"""
        scale, hidden = self.trunk_gradient, hidden.float()
        if scale != 1.0:
            hidden = hidden.detach() if scale == 0.0 else scale * hidden + (1 - scale) * hidden.detach()
        return super().forward(hidden).squeeze(-1)


def states_before(lengths: Tensor, positions: Tensor) -> Tensor:
    """(B, T + 1) index of the hidden state before each action; the last column is that of s_T, after everything."""
    return torch.cat([positions, lengths[:, None]], dim=1) - 1


def base_of(model: Any) -> Any:
    """The `transformers` model inside a PEFT model; the model itself otherwise."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def disable_dropout(model: nn.Module) -> None:
    """Set every dropout probability to 0: of modules, and of attentions that keep it as a number."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, 0.0)

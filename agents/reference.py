"""The reference, the frozen policy that the KL is measured from: a copy, or the policy with its adapter off."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from agents.fingerprint import weight_fingerprint
from agents.policy import Policy, Scores
from agents.sampling import Sampling


class AdapterReference:
    """The policy's own base weights, its PEFT adapter switched off while it scores: no second copy in memory.

    The base weights are the reference, so an adapter that was already trained (a fine-tuned policy) must be merged into
    the base first; one that changes anything at the start is refused.

    Args:
        policy: around a PEFT model.

    Raises:
        ValueError: the model has no adapter, trains its base weights, or its adapter is not the identity yet.
    """

    value_head = None

    def __init__(self, policy: Policy) -> None:
        self.policy, self.model = policy, policy.model
        if not hasattr(self.model, "disable_adapter"):
            raise ValueError(
                f"reference='adapter' needs a PEFT model, got {type(self.model).__name__}: add an adapter with "
                "peft.get_peft_model(model, config), or use reference='copy'"
            )
        moving = [name for name, p in self._base_weights() if p.requires_grad]
        if moving:
            raise ValueError(
                f"reference='adapter' shares the base weights, but {moving[0]!r} is trained; freeze it or use 'copy'"
            )
        probe = torch.arange(min(8, self.model.get_input_embeddings().weight.shape[0]), device=policy.device)[None]
        with torch.no_grad():
            adapted = self.model(input_ids=probe).logits
            with self.model.disable_adapter():
                base = self.model(input_ids=probe).logits
        if not torch.equal(adapted, base):
            raise ValueError(
                "reference='adapter' is the base model, but the adapter already changes it; merge it first "
                "(model.merge_and_unload()) and add a new one, or use reference='copy'"
            )

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self.policy.device

    def score(self, tokens: Tensor, lengths: Tensor, positions: Tensor, sampling: Sampling, allowed: Tensor) -> Scores:
        """As `Policy.score`, by the base weights alone."""
        with self.model.disable_adapter():
            return self.policy.score(tokens, lengths, positions, sampling, allowed)

    def fingerprint(self) -> str:
        """Hash of the base weights."""
        return weight_fingerprint(self._base_weights())

    def _base_weights(self) -> list[tuple[str, Tensor]]:
        prefix = getattr(self.model, "base_model", self.model).prefix  # "lora_" for LoRA
        return [(name, p) for name, p in self.model.named_parameters() if prefix not in name]


class FrozenReference(Policy):
    """A model of its own that nothing trains."""

    def __init__(self, model: Any, autocast_dtype: torch.dtype | None = None) -> None:
        super().__init__(model.requires_grad_(False), value_head=False, autocast_dtype=autocast_dtype)

    def fingerprint(self) -> str:
        """Hash of all weights."""
        return weight_fingerprint(self.model.named_parameters())


Reference = FrozenReference | AdapterReference


def build_reference(reference: Any, policy: Policy) -> Reference:
    """The reference a person asked for.

    Args:
        reference: `"copy"` of the policy as it is now, `"adapter"` (the policy with its adapter switched off), or a
            model: another checkpoint with the same tokens.
        policy: the policy that will be trained.

    Raises:
        ValueError: an unknown word, or a model that is the policy's own or has another number of logits.
    """
    if isinstance(reference, str):
        if reference == "copy":
            return FrozenReference(copy.deepcopy(policy.model), policy.autocast_dtype)
        if reference == "adapter":
            return AdapterReference(policy)
        raise ValueError(f"reference must be 'copy', 'adapter' or a model, got {reference!r}")
    if reference is policy.model:
        raise ValueError("the reference is the very model that is trained, so it would move; use reference='copy'")
    own, other = (m.get_output_embeddings().weight.shape[0] for m in (policy.model, reference))
    if own != other:
        raise ValueError(f"the reference has {other} logits and the policy {own}: they must read the same tokens")
    return FrozenReference(reference, policy.autocast_dtype)

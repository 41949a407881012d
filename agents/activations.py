"""What comes and goes while a run works: estimates of the activations, logits and caches of each phase.

A phase is the worst of a few moments, and a moment is a formula of the tensors alive then. The formulas describe dense
decoders of `transformers` with fused attention (SDPA): RMS norm and gated MLP (Llama, Mistral, Qwen), or layer norm and
plain MLP (GPT-2); left-padded prompts, and answers that use all their budget. Left out: workspaces of kernels, gaps of
the allocator, CUDA's context, experts, sliding windows, norms of queries and keys. Upper bounds are taken where a plan
cannot know: an adapter's activations are those of full training (10 to 30% less in reality), stored sets are top-p's,
and a separate critic's activations are alive together with the policy's.

Legend: B rows of a batch, b of a micro-batch, P prompt tokens, N new tokens, S = P + N, L layers, H hidden size,
A = heads x head size, K = key-value heads x head size, I width of the MLP, V vocabulary; w bytes of a number in the
residual stream (the weights' type), a bytes of one in a matrix product (autocast's type, or w).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Workload:
    """The sizes that decide what comes and goes."""

    rows: int
    """B: answers of one batch."""
    prompt_tokens: int
    """P: of the longest prompt."""
    new_tokens: int
    """N: most tokens of an answer."""
    micro_batch: int = 64
    """b: rows of one forward pass of scoring and update."""
    minibatches: int = 1
    """Optimiser steps per pass over the batch."""
    max_rows: int = 512
    """Rows generated at once (`TorchEngine`)."""
    shortest_prompt: int | None = None
    """Of a micro-batch: logits are kept from its end on. None: as long as the longest."""
    stored_sets: bool = False
    """Whether tokens have allowed sets of their own (top-k, top-p, constraints): a byte per token and vocabulary entry
    while sampling and scoring, a bit in the stored batch."""

    def __post_init__(self) -> None:
        for name in ("rows", "prompt_tokens", "new_tokens", "micro_batch", "minibatches", "max_rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Moment:
    """What is in memory at one point of a phase: bytes by name."""

    when: str
    items: dict[str, int]

    @property
    def total(self) -> int:
        """Bytes."""
        return sum(self.items.values())


@dataclass(frozen=True)
class Shape:
    """What the formulas need of a configuration; names as in the legend above."""

    layers: int
    hidden: int
    heads: int
    attention: int
    kv: int
    mlp: int
    vocabulary: int
    gated: bool

    @classmethod
    def of(cls, config: Any) -> Shape:
        """Read from a `transformers` configuration of a decoder."""
        hidden, heads = config.hidden_size, config.num_attention_heads
        head_size = getattr(config, "head_dim", None) or hidden // heads
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
        mlp = getattr(config, "intermediate_size", None) or getattr(config, "n_inner", None) or 4 * hidden
        # Models with RMS norms have gated MLPs and rotary positions, older ones with layer norms have neither.
        gated, vocabulary = hasattr(config, "rms_norm_eps"), config.vocab_size
        return cls(
            config.num_hidden_layers, hidden, heads, heads * head_size, kv_heads * head_size, mlp, vocabulary, gated
        )


@dataclass(frozen=True)
class Estimate:
    """The moments of each phase of one run; every method returns bytes, or moments of bytes."""

    shape: Shape
    work: Workload
    w: int
    a: int
    head: bool
    """Whether the policy has the value head, which keeps every layer's hidden states."""
    trunks: int
    """Trained trunks: 2 with a critic of its own."""
    trains: bool
    """Whether any of the policy's weights is trained."""
    tied: bool
    embedding_gradient: int
    """Bytes of the token embedding's gradient; 0 when it is frozen."""
    casts: int
    """Bytes of the weights that autocast keeps in its type during a forward pass; 0 without it."""
    step: int
    """Bytes of the optimiser's temporaries."""
    checkpointing: bool
    stays: dict[str, int]
    """Bytes by kind that are there in every phase. A step's gradients are kept until the next one."""

    @property
    def length(self) -> int:
        """S."""
        return self.work.prompt_tokens + self.work.new_tokens

    def kv_cache(self, tokens: int) -> int:
        """2 B L K tokens. Rotary positions promote keys to the residual stream's type; the cache takes theirs."""
        rows = min(self.work.rows, self.work.max_rows)
        return rows * self.shape.layers * 2 * self.shape.kv * tokens * (self.w if self.shape.gated else self.a)

    def rollout(self) -> int:
        """Tokens (B, S), positions (B, N), nine float32 and two bool (B, N), and the bits of stored sets (B, N, V)."""
        sets = -(-self.shape.vocabulary // 8) if self.work.stored_sets else 0
        return self.work.rows * (8 * self.length + self.work.new_tokens * (8 + 9 * 4 + 2 + sets))

    def saved_per_token(self) -> int:
        """Bytes that one layer saves for its backward pass, per token.

        gated   4 H for the input of each norm (it computes in float32), w H normed, w H scaled
        plain   w H for the input of each norm, a H normed
        both    a (2 A + 2 K) queries, keys, values and output of attention, 4 bytes per head of log-sum-exp
        MLP     gated 4 a I: gate, SiLU, up, product; plain 5 a I: input and four steps of GELU
        """
        s, w, a = self.shape, self.w, self.a
        attention, statistics = a * (2 * s.attention + 2 * s.kv) + 4 * s.heads, 4 * (2 if s.gated else 4)
        if not s.gated:
            return 2 * (w + a) * s.hidden + attention + 5 * a * s.mlp + statistics
        inputs = 2 * w if a == w else 5 * a  # autocast casts the input of each of five projections anew
        return (2 * (4 + w) + inputs) * s.hidden + attention + 4 * a * s.mlp + statistics

    def layer_per_token(self) -> int:
        """Bytes alive inside a layer's MLP without gradient: embedding, residual, norm, and the widest step."""
        s = self.shape
        return 4 * self.w * s.hidden + 3 * self.a * s.mlp if s.gated else 6 * self.w * s.hidden + 4 * self.a * s.mlp

    def generation(self) -> list[Moment]:
        """Reading the prompts (the last layer, its cache complete), and drawing the last token."""
        s, a, rows = self.shape, self.a, min(self.work.rows, self.work.max_rows)
        cached = self.w if s.gated else a
        repeated = 2 * cached * s.attention if s.kv < s.attention else 0  # masked SDPA repeats grouped keys and values
        repeated += 2 * a * s.attention if a != cached else 0  # and autocast casts them
        attention = 3 * self.w * s.hidden + 2 * a * s.attention + repeated + a * self.work.prompt_tokens  # float mask
        rotary = 2 * self.w * s.attention // s.heads if s.gated else 0
        token = max(self.layer_per_token(), attention) + rotary + self.work.prompt_tokens  # and the mask itself
        prompts = {
            "KV cache": self.kv_cache(self.work.prompt_tokens),
            "activations": rows * self.work.prompt_tokens * token,
        }
        newest = cached * s.kv + repeated  # a layer's new cache beside its old one
        answers = {
            "KV cache": self.kv_cache(self.length - 1),
            "activations": rows * (self.length - 1) * newest,
            "logits": int((8.25 if self.work.stored_sets else 5.25) * 4 * rows * s.vocabulary),  # top-p sorts them
            "stored sets": rows * self.work.new_tokens * s.vocabulary * self.work.stored_sets,
        }
        return [self._moment("reading prompts", prompts), self._moment("drawing tokens", answers)]

    def scoring(self) -> list[Moment]:
        """A forward pass without gradient: in the last layer, and at the entropies."""
        s, b = self.shape, min(self.work.micro_batch, self.work.rows)
        tokens, kept = b * self.length, self.w * s.hidden * (s.layers - 2 if self.head else 0)
        last = {"activations": tokens * (self.layer_per_token() + kept)}
        hidden = self.w * s.hidden * (s.layers + 1 if self.head else 1)
        return [
            self._moment("last layer", last),
            self._moment("entropies", {"activations": tokens * hidden} | self._logits(b, 4)),
        ]

    def update(self) -> list[Moment]:
        """An optimiser step: log-probs, the backward pass of the last layer and of the embedding, AdamW."""
        if not self.trains:
            return self.scoring()
        s, minibatch = self.shape, -(-self.work.rows // self.work.minibatches)
        b = min(self.work.micro_batch, minibatch)
        accumulates = minibatch > b  # there are gradients before the last micro-batch's backward pass
        inputs, layer = s.layers * self.w * s.hidden, self.saved_per_token()
        saved = inputs if self.checkpointing else s.layers * layer
        if self.head and s.gated and self.w < 4 and not self.checkpointing:
            saved += inputs  # the norms save float32 copies of the hidden states, which the head keeps as they are
        final = (4 + 2 * self.w if s.gated else 2 * self.w) * s.hidden
        backward = 2 * self.a * s.mlp + self.w * s.hidden + (layer if self.checkpointing else 0)
        tokens = b * self.length
        last, log_probs = tokens * (self.trunks * saved + backward), tokens * self.trunks * (saved + final)
        # Tied weights: the gradient of the head, that of the lookup, and their sum; the first one becomes the gradient.
        embedding = (2 * self.tied + accumulates) * self.embedding_gradient
        return [
            self._moment("entropies", {"activations": log_probs} | self._logits(b, 4.25), accumulates),
            self._moment("backward, last layer", {"activations": last}, accumulates),
            self._moment("backward, embedding", {"embedding's gradients": embedding}),
            self._moment("optimiser step", {"optimiser's temporaries": self.step}),
        ]

    def _logits(self, b: int, copies: float) -> dict[str, int]:
        """Logits of the kept positions, and float32 (b, N, V): log-probs, probabilities and parts of the entropy."""
        entries = b * self.work.new_tokens * self.shape.vocabulary
        kept = b * (self.length - (self.work.shortest_prompt or self.work.prompt_tokens) + 1) * self.shape.vocabulary
        return {"logits": int(kept * self.a + copies * 4 * entries), "stored sets": 2 * entries * self.work.stored_sets}

    def _moment(self, when: str, items: dict[str, int], gradients: bool = True) -> Moment:
        stays = self.stays if gradients else {**self.stays, "gradients": 0}
        return Moment(when, stays | ({"autocast's weights": self.casts} if self.casts else {}) | items)

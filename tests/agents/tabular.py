"""Policies for the token tree: a table with the interface of a causal language model, and one-layer transformers."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from tests.agents.tree import ACTIONS, EOS, START, STATES, VOCABULARY, Tree

LOGITS = torch.randn(len(STATES), ACTIONS, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


class Table(nn.Module):
    """A causal LM whose hidden state is the one-hot index of the tree's state, so that its head is a table of logits.

    It walks the tree token by token. Its key-value cache holds the tokens themselves.
    """

    device = torch.device("cpu")
    dtype = torch.float32
    config = LlamaConfig(num_hidden_layers=1)  # the cache asks for the number of layers

    def __init__(self, tree: Tree, logits: Tensor = LOGITS) -> None:
        super().__init__()
        self.head = nn.Linear(len(STATES), ACTIONS, bias=False)
        self.head.weight.data = logits.T.float().contiguous()
        prefixes = {tree.tokens(prompt, s): i for prompt in tree.prompts for i, s in enumerate(STATES)}
        places = {prefix[:n]: 0 for prefix in prefixes for n in range(len(prefix) + 1)}
        places = {prefix: i for i, prefix in enumerate(places)}
        self.lost = len(places)
        self.follow = torch.full((len(places) + 1, VOCABULARY), self.lost)
        self.hidden = torch.zeros(len(places) + 1, len(STATES))
        for prefix, place in places.items():
            if prefix:
                self.follow[places[prefix[:-1]], prefix[-1]] = place
            if prefix in prefixes:
                self.hidden[place, prefixes[prefix]] = 1.0

    def get_output_embeddings(self) -> nn.Linear:
        return self.head

    @property
    def base_model(self) -> Any:
        return self._trunk

    def _trunk(self, input_ids, attention_mask=None, past_key_values=None, **unread):
        tokens = input_ids
        if past_key_values is not None:
            keys = tokens[:, None, :, None]
            tokens = past_key_values.update(keys, keys, 0)[0][:, 0, :, 0]
        real = torch.ones_like(tokens) if attention_mask is None else attention_mask
        place = torch.zeros(len(tokens), dtype=torch.int64)
        places = []
        for token, is_real in zip(tokens.T, real.T, strict=True):
            place = torch.where(is_real > 0, self.follow[place, token], place)
            places.append(place)
        return SimpleNamespace(last_hidden_state=self.hidden[torch.stack(places[-input_ids.shape[1] :], 1)])

    def forward(self, input_ids, use_cache=False, output_hidden_states=False, logits_to_keep=0, **arguments):
        hidden = self._trunk(input_ids, **arguments).last_hidden_state
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        return SimpleNamespace(logits=self.head(hidden[:, kept]), hidden_states=(hidden,))


PROMPTS = ((START,), (4, 5, START, 4, 5))


def llama(tree: Tree, least: Tensor | None = None) -> LlamaForCausalLM:
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=16, bos_token_id=None, eos_token_id=EOS, pad_token_id=EOS,
            initializer_range=0.2, tie_word_embeddings=False,
        )
    )  # fmt: skip
    return fit(model, tree, least)


def gpt2(tree: Tree, least: Tensor | None = None) -> GPT2LMHeadModel:
    """Its positions are learned: whoever counts padding as positions gives it another prefix. And it has dropout."""
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY, n_embd=32, n_layer=1, n_head=2, n_positions=16, bos_token_id=EOS, eos_token_id=EOS,
            pad_token_id=EOS, initializer_range=0.2, tie_word_embeddings=False,
        )
    )  # fmt: skip
    return fit(model, tree, least)


def adapted(tree: Tree, least: Tensor | None = None) -> Any:
    """A Llama with an adapter on every matrix, the head's included, so that it can be any policy on the tree."""
    peft = pytest.importorskip("peft")
    every = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"]
    return peft.get_peft_model(llama(tree, least), peft.LoraConfig(r=8, lora_alpha=16, target_modules=every))


def fit(model: Any, tree: Tree, least: Tensor | None = None, steps: int = 300) -> Any:
    """Trains a transformer to a table of random logits for each prompt: far from uniform, yet no string is rare.

    Args:
        model: a causal LM.
        tree: for its prompts.
        least: (S,) a token of each state that shall be by far the least likely; None for no such tokens.
        steps: of Adam.
    """
    model.eval()
    generator = torch.Generator().manual_seed(1)
    shape = len(tree.prompts) * len(STATES), ACTIONS
    logits = torch.randn(shape, dtype=torch.float64, generator=generator)
    if least is not None:
        logits[torch.arange(shape[0]), least.repeat(len(tree.prompts))] -= 10
    target = torch.softmax(logits, -1).float()
    prefixes = [tree.tokens(prompt, s) for prompt in tree.prompts for s in STATES]
    width, rows = max(map(len, prefixes)), torch.arange(len(prefixes))
    tokens = torch.tensor([prefix + (EOS,) * (width - len(prefix)) for prefix in prefixes])
    last, everything = torch.tensor([len(prefix) - 1 for prefix in prefixes]), torch.ones_like(tokens)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        found = model(input_ids=tokens, attention_mask=everything).logits[rows, last, :ACTIONS]
        loss = -(target * torch.log_softmax(found, -1)).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def state_logits(model: Any, tree: Tree, prompt: tuple[int, ...]) -> Tensor:
    """(S, A) logits in each state, one forward pass for each prefix; with gradient."""
    prefixes = [torch.tensor([tree.tokens(prompt, s)]) for s in STATES]
    return torch.stack([model(input_ids=prefix).logits[0, -1, :ACTIONS] for prefix in prefixes]).double()


def log_policy(logits: Tensor, allowed: Tensor, temperature: float = 1.0) -> Tensor:
    """(S, A) log-probs over the allowed tokens."""
    return torch.log_softmax((logits / temperature).masked_fill(~allowed, -torch.inf), -1)

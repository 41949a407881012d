"""A five-armed bandit as a token environment, with the closed form of its KL-regularised optimum."""

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from transformers import LlamaConfig, LlamaForCausalLM

REFERENCE = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05])
REWARDS = torch.tensor([0.0, 0.0, 1.0, 0.0, 1.0])
BETA = 0.5
START = 5  # the prompt: one token outside the action space


class BanditVectorEnv(VectorEnv):
    """One action per episode, no whole turns: steps token by token."""

    def __init__(self, num_envs, rewards=REWARDS):
        self.num_envs, self.rewards = num_envs, rewards.numpy()
        self.metadata = {"autoreset_mode": AutoresetMode.DISABLED}
        self.single_action_space = spaces.Discrete(len(REWARDS))
        self.single_observation_space = spaces.Dict(
            tokens=spaces.Box(0, START, (2,), np.int64), length=spaces.Box(1, 2, (1,), np.int64)
        )
        self.tokens = np.full((num_envs, 2), START)

    def _observation(self, length):
        return {"tokens": self.tokens.copy(), "length": np.full((self.num_envs, 1), length)}

    def reset(self, *, seed=None, options=None):
        return self._observation(1), {}

    def step(self, actions):
        self.tokens[:, 1] = actions
        ended = np.ones(self.num_envs, dtype=bool)
        return self._observation(2), self.rewards[actions], ended, ~ended, {}


def bandit_model(seed=0):
    """A one-layer transformer whose distribution after START is REFERENCE (fitted, to about 1e-4)."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=6, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1,
            num_key_value_heads=1, max_position_embeddings=4, bos_token_id=None, eos_token_id=None,
            tie_word_embeddings=False,
        )
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(200):
        loss = -(REFERENCE * torch.log_softmax(model(torch.tensor([[START]])).logits[0, 0, :5], -1)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@torch.no_grad()
def arm_probabilities(model):
    return torch.softmax(model(torch.tensor([[START]], device=model.device)).logits[0, 0, :5], -1)


def optimum(reference, rewards=REWARDS, beta=BETA):
    """(pi*, J*): pi* is proportional to ref exp(R / beta), and J* = beta log sum ref exp(R / beta)."""
    weights = reference * torch.exp(rewards / beta)
    return weights / weights.sum(), beta * float(torch.log(weights.sum()))


def total_variation(p, q):
    return 0.5 * float((p - q).abs().sum())

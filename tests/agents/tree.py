"""A token tree small enough to enumerate, as a token environment, with the closed form of its KL-regularised optimum.

An answer is a string over {a, b, EOS}: it ends with EOS, or after three actions. There are seven strings that can be
continued (states) and fifteen that cannot (leaves).

Legend: N nodes (all strings, states first, each after its parent), S states, A actions.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

A, B, EOS = 0, 1, 2
ACTIONS, LONGEST = 3, 3
START = 3  # the last token of every prompt; it stands nowhere else
VOCABULARY = 8
BETA = 0.3

String = tuple[int, ...]
STATES: list[String] = [s for n in range(LONGEST) for s in itertools.product((A, B), repeat=n)]
LEAVES: list[String] = [s + (a,) for s in STATES for a in range(ACTIONS) if a == EOS or len(s) + 1 == LONGEST]
NODES = STATES + LEAVES
CHILD = np.array([[NODES.index(s + (a,)) for a in range(ACTIONS)] for s in STATES])  # (S, A)


@dataclass(frozen=True)
class Tree:
    """What the environment adds to the strings."""

    rewards: Mapping[String, float] = field(default_factory=lambda: {(A, EOS): 1.0, (A, B, EOS): 1.0})
    """Reward of the action that completes a string; 0 for the others."""
    prompts: tuple[String, ...] = ((START,),)
    gap: Mapping[int, String] = field(default_factory=dict)
    """First action -> tokens that the environment inserts after it; the first action is then a turn of its own."""
    forbidden: frozenset[String] = frozenset()
    """Strings that the token mask rules out."""

    def tokens(self, prompt: String, string: String) -> String:
        """The prefix that stands in the environment after some actions."""
        return prompt + string[:1] + self.inserted(string) + string[1:]

    def inserted(self, string: String) -> String:
        return self.gap[string[0]] if string and string[0] in self.gap else ()

    def remaining(self, string: String) -> int:
        """Actions that the present turn may still have."""
        return 1 if self.gap and not string else LONGEST - len(string)

    @property
    def node_rewards(self) -> np.ndarray:
        return np.array([self.rewards.get(s, 0.0) for s in NODES])  # (N,)

    @property
    def allowed(self) -> np.ndarray:
        return np.array([[s + (a,) not in self.forbidden for a in range(ACTIONS)] for s in STATES])  # (S, A)


class TreeVectorEnv(VectorEnv):
    """Steps token by token; rows take the prompts in turn. Prefixes are padded with EOS, which is an action, too."""

    def __init__(self, tree, num_envs):
        self.tree, self.num_envs, self.stop_token_ids = tree, num_envs, [EOS]
        self.metadata = {"autoreset_mode": AutoresetMode.DISABLED}
        prefixes = [[tree.tokens(prompt, s) for s in NODES] for prompt in tree.prompts]
        width = max(len(tokens) for row in prefixes for tokens in row)
        self._lengths = np.array([[len(tokens) for tokens in row] for row in prefixes])
        self._tokens = np.array([[tokens + (EOS,) * (width - len(tokens)) for tokens in row] for row in prefixes])
        self._remaining = np.array([tree.remaining(s) for s in NODES])
        self._rewards = tree.node_rewards
        self._allowed = np.concatenate([tree.allowed, np.ones((len(LEAVES), ACTIONS), dtype=bool)])
        self.prompt, self.node = np.arange(num_envs) % len(prefixes), np.zeros(num_envs, dtype=np.int64)
        self.single_action_space = spaces.Discrete(ACTIONS)
        self.single_observation_space = spaces.Dict(
            tokens=spaces.Box(0, VOCABULARY - 1, (width,), np.int64),
            length=spaces.Box(1, width, (1,), np.int64),
            remaining=spaces.Box(0, LONGEST, (1,), np.int64),
        )

    def action_masks(self):
        return self._allowed[self.node]

    def reset(self, *, seed=None, options=None):
        self.node[(options or {}).get("reset_mask", slice(None))] = 0
        return self._observation(), {}

    def step(self, actions):
        self.node = CHILD[self.node, actions]
        ended = self.node >= len(STATES)
        return self._observation(), self._rewards[self.node], ended, np.zeros_like(ended), {}

    def _observation(self):
        of = self.prompt, self.node
        remaining = self._remaining[self.node]
        return {"tokens": self._tokens[of], "length": self._lengths[of][:, None], "remaining": remaining[:, None]}


class TurnTreeVectorEnv(TreeVectorEnv):
    """Takes whole turns."""

    def next_token_mask(self, turns):
        """The mask within a turn; only for trees without a gap, where a turn is the whole string."""
        return self._allowed[[NODES.index(tuple(turn)) for turn in turns]] if self.tree.forbidden else None

    def send(self, rows, turns):
        self._sent, self._earned = rows, np.zeros(len(rows))
        for k, (row, turn) in enumerate(zip(rows, turns, strict=True)):
            for action in turn:
                self.node[row] = CHILD[self.node[row], action]
                self._earned[k] += self._rewards[self.node[row]]

    def recv(self):
        rows = self._sent
        observation = {key: value[rows] for key, value in self._observation().items()}
        ended = self.node[rows] >= len(STATES)
        return rows, observation, self._earned, ended, np.zeros_like(ended), [{} for _ in rows]


# Closed forms. `log_policy` is (S, A), -inf where a token has no probability; everything else is per leaf.


def leaf_logprobs(log_policy: Tensor) -> Tensor:
    """(leaves,) log-prob of each complete string."""
    nodes = [log_policy.new_zeros(())] * len(NODES)
    for s, children in enumerate(CHILD):
        for a, child in enumerate(children):
            nodes[child] = nodes[s] + log_policy[s, a]
    return torch.stack(nodes[len(STATES) :])


def leaf_rewards(tree: Tree) -> Tensor:
    """(leaves,) sum of the rewards on the way to each complete string."""
    return torch.tensor(
        [sum(tree.rewards.get(y[:n], 0.0) for n in range(1, len(y) + 1)) for y in LEAVES], dtype=torch.float64
    )


def optimum(tree: Tree, log_ref: Tensor, beta: float = BETA) -> tuple[Tensor, float]:
    """((leaves,) log pi*(y), V(s0)): pi*(y) is proportional to ref(y) exp(R(y) / beta), V(s0) = beta log Z."""
    weights = leaf_logprobs(log_ref) + leaf_rewards(tree) / beta
    log_z = torch.logsumexp(weights, 0)
    return weights - log_z, beta * float(log_z)


def soft_bellman(tree: Tree, log_ref: Tensor, beta: float = BETA) -> tuple[Tensor, Tensor]:
    """((S, A) log pi*, (S,) V) by V(s) = beta log sum_a ref(a|s) exp(Q(s, a) / beta), backwards."""
    values, log_policy = torch.zeros(len(NODES)).double(), torch.zeros_like(log_ref)
    rewards = torch.from_numpy(tree.node_rewards)
    for s in reversed(range(len(STATES))):
        weights = log_ref[s] + (rewards + values)[CHILD[s]] / beta
        values[s] = beta * torch.logsumexp(weights, 0)
        log_policy[s] = torch.log_softmax(weights, 0)
    return log_policy, values[: len(STATES)]


def policy_values(tree: Tree, log_policy: Tensor, log_ref: Tensor, beta: float = BETA) -> Tensor:
    """(S,) expected reward to come minus beta times the KL to come, under the policy."""
    values = [torch.zeros(()).double() for _ in NODES]
    rewards = torch.from_numpy(tree.node_rewards)
    for s in reversed(range(len(STATES))):
        gains = rewards[CHILD[s]] + torch.stack([values[c] for c in CHILD[s]]) - beta * (log_policy[s] - log_ref[s])
        values[s] = torch.where(log_policy[s] > -torch.inf, log_policy[s].exp() * gains, 0.0).sum()
    return torch.stack(values[: len(STATES)])


def total_variation(log_p: Tensor, log_q: Tensor) -> float:
    return 0.5 * float((log_p.exp() - log_q.exp()).abs().sum())

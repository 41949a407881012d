"""The critic: read before the action, zero at the start, apart from the trunk; and the reference, which never moves."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from agents.policy import Policy
from agents.sampling import Sampling
from agents.scoring import score_rollout
from tests.agents.small import MODELS, gradients, iterate, make_agent, same, snapshot


class PositionModel(nn.Module):
    """A causal LM whose hidden state is the index of the token it stands on."""

    device = torch.device("cpu")

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(1, 12, bias=False)

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, use_cache=False, output_hidden_states=False):
        hidden = torch.arange(input_ids.shape[1]).float().expand(len(input_ids), -1)[..., None]
        return SimpleNamespace(logits=self.head(hidden), hidden_states=[-hidden, hidden])


def test_a_value_is_read_before_its_action_and_the_last_one_after_everything():
    policy = Policy(PositionModel())
    assert policy.value_head is not None
    nn.init.ones_(policy.value_head.weight)
    positions = torch.tensor([[3, 4, 7], [2, 1, 1]])  # row 0: two tokens were inserted before the last action
    tokens, allowed = torch.zeros(2, 9, dtype=torch.int64), torch.ones(12, dtype=torch.bool)
    scores = policy.score(tokens, torch.tensor([8, 3]), positions, Sampling(), allowed)
    assert scores.values[0].tolist() == [2.0, 3.0, 6.0, 7.0]
    assert scores.values[1, [0, 3]].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", MODELS)
def test_an_untrained_critic_says_exactly_zero(name):
    agent = make_agent(MODELS[name]())
    batch = agent.score(agent.collect())
    assert not batch.values.any()
    assert not score_rollout(agent.policy, batch.rollout, 8).values.any()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_critic_warm_up_leaves_the_policy_bit_for_bit(share):
    agent = make_agent(critic__warmup=2, optimizer__weight_decay=0.1, critic__trunk_gradient=share)
    before, head = snapshot(agent.policy.model), snapshot(agent.policy.value_head)
    iterate(agent, 2)
    assert same(before, snapshot(agent.policy.model))
    assert not same(head, snapshot(agent.policy.value_head))
    iterate(agent, 1)
    assert not same(before, snapshot(agent.policy.model))


def trunk_gradient_of_value_loss(share):
    agent = make_agent(critic__trunk_gradient=share)
    nn.init.normal_(agent.policy.value_head.weight, generator=torch.Generator().manual_seed(0))
    batch = agent.score(agent.collect())
    _, found = gradients(agent, batch, [torch.arange(8)], critic_only=True)
    n = len(agent.groups["policy"][0])
    assert all(g.abs().sum() > 0 for g in found[n:])
    return found[:n]


def test_the_share_of_the_critics_gradient_that_enters_the_trunk():
    none, half, all_of_it = (trunk_gradient_of_value_loss(share) for share in (0.0, 0.5, 1.0))
    assert all(g is None or not g.any() for g in none)
    assert sum(float(g.abs().sum()) for g in all_of_it if g is not None) > 1e-3
    for part, whole in zip(half, all_of_it, strict=True):
        assert (part is None) == (whole is None)
        if part is not None:
            torch.testing.assert_close(part, 0.5 * whole)


@pytest.mark.parametrize("name", MODELS)
def test_the_reference_never_moves(name):
    agent = make_agent(MODELS[name](), critic__trunk_gradient=1.0, entropy_coef=0.1, optimizer__weight_decay=0.1)
    rollout = agent.collect()
    tensors = {**snapshot(agent.reference), **{name: b.clone() for name, b in agent.reference.named_buffers()}}
    scores = score_rollout(agent.reference, rollout, 8).logprobs
    start = snapshot(agent.policy.model)
    iterate(agent, 2)
    assert not same(start, snapshot(agent.policy.model))
    after = {**snapshot(agent.reference), **dict(agent.reference.named_buffers())}
    assert same(tensors, after)
    assert torch.equal(scores, score_rollout(agent.reference, rollout, 8).logprobs)
    assert not any(p.requires_grad for p in agent.reference.parameters())
    assert all(p.grad is None for p in agent.reference.parameters())
    assert agent.reference.value_head is None
    trained = {id(p) for group in agent.optimizer.param_groups for p in group["params"]}
    assert not trained & {id(p) for p in agent.reference.parameters()}


def test_the_reference_is_scored_at_the_sampling_temperature():
    agent = make_agent(temperature=0.5)
    batch = agent.score(agent.collect())
    torch.testing.assert_close(batch.ref_logprobs, batch.old_logprobs, atol=1e-4, rtol=0)
    iterate(agent, 2)
    moved = agent.score(agent.collect())
    assert float((moved.ref_logprobs - moved.old_logprobs).abs().max()) > 1e-3

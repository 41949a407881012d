"""A critic with a trunk of its own, its warm-up on Monte-Carlo returns, and a lambda of its own for return targets."""

import math

import pytest
import torch

from agents.checkpoint import CheckpointError
from agents.ppo import objective
from agents.ppo.agent import independent_copy, settled
from agents.scoring import value_rollout
from tests.agents.small import MODELS, gpt2, iterate, llama, make_agent, same, scripted_batch, snapshot

SEPARATE = {"critic__kind": "separate", "critic__learning_rate": 1e-2}


def separate(model=None, critic_model=None, **changes):
    return make_agent(model, agent_options={"critic_model": critic_model}, **SEPARATE, **changes)


@pytest.mark.parametrize("name", MODELS)
def test_an_untrained_critic_says_exactly_zero(name):
    agent = separate(MODELS[name]())
    batch = agent.score(agent.collect())
    assert not batch.values.any()
    assert not batch.last_value.any()
    assert agent.policy.value_head is None


@pytest.mark.parametrize("name", MODELS)
def test_values_are_those_of_the_state_before_each_action(name):
    agent = iterate(separate(MODELS[name]()), 1)
    rollout = agent.collect()
    values = value_rollout(agent.critic, rollout, 3)
    assert values.shape == (8, rollout.positions.shape[1] + 1)
    assert not values[:, :-1][~rollout.real].any()
    for row in range(8):
        n, length = int(rollout.n_actions[row]), int(rollout.lengths[row])
        with torch.no_grad():
            hidden = agent.critic.model.base_model(rollout.tokens[row : row + 1, :length]).last_hidden_state
            expected = agent.critic.value_head(hidden[0])
        before = rollout.positions[row, :n] - 1
        torch.testing.assert_close(values[row, :n], expected[before], atol=1e-5, rtol=0)
        torch.testing.assert_close(values[row, -1], expected[length - 1], atol=1e-5, rtol=0)
    assert values.abs().max() > 1e-3


def test_no_gradient_of_the_value_loss_enters_the_policy_and_none_of_the_policy_loss_the_critic():
    agent = separate()
    torch.nn.init.normal_(agent.critic.value_head.weight, generator=torch.Generator().manual_seed(0))
    batch = agent.score(agent.collect())
    batch.returns = batch.returns + 1.0
    weights = batch.mask / batch.mask.sum()

    def found(advantages):
        batch.advantages = advantages
        for module in (agent.policy, agent.critic):
            module.zero_grad(set_to_none=True)
        loss, _ = agent.loss(batch, torch.arange(8), weights, weights)
        loss.backward()
        return [
            [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in module.parameters()]
            for module in (agent.policy, agent.critic)
        ]

    policy, critic = found(torch.zeros_like(batch.advantages))
    assert not any(g.any() for g in policy)
    assert sum(float(g.abs().sum()) for g in critic) > 1e-3
    policy, again = found(torch.ones_like(batch.advantages))
    assert sum(float(g.abs().sum()) for g in policy) > 1e-3
    assert all(torch.equal(a, b) for a, b in zip(critic, again, strict=True))


def test_the_critic_trains_all_of_its_trunk_at_a_rate_of_its_own():
    agent = separate()
    before = snapshot(agent.critic)
    assert [group["base_lr"] for group in agent.optimizer.param_groups] == [1e-3, 1e-2]
    iterate(agent, 2)
    after = snapshot(agent.critic)
    still = {name for name in before if torch.equal(before[name], after[name])}
    assert still == {"model.lm_head.weight"}, "the head for tokens is not read"
    shared = {id(p) for p in agent.critic.parameters()} & {id(p) for p in agent.policy.parameters()}
    assert not shared


def test_the_critic_learns_the_returns():
    agent = separate(critic__warmup=1, kl__coef=0.0)
    batch = agent.score(agent.collect())
    losses = [agent.step(batch, torch.arange(8))["loss/value_avg"] for _ in range(40)]
    assert losses[-1] < 0.1 * losses[0]
    values = value_rollout(agent.critic, batch.rollout, 8)[:, :-1]
    assert objective.explained_variance(values, batch.returns, batch.mask) > 0.8


def test_another_model_may_be_the_critic():
    agent = separate(critic_model=gpt2(seed=2))
    assert type(agent.critic.model).__name__ == "GPT2LMHeadModel"
    iterate(agent, 1)
    with pytest.raises(ValueError, match="critic_model needs critic.kind='separate'"):
        make_agent(agent_options={"critic_model": gpt2()})


def test_dropout_of_the_critic_never_acts():
    agent = separate(critic_model=gpt2(dropout=0.5).train())
    iterate(agent, 1)
    rollout = agent.collect()
    assert torch.equal(*(value_rollout(agent.critic, rollout, 8) for _ in range(2)))


def test_a_critic_that_starts_from_an_adapted_policy_has_it_merged():
    pytest.importorskip("peft")
    from agents.models import add_adapter

    model = add_adapter(llama(), 2, 0)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_B" in name:
                p.fill_(0.1)
    trunk, tokens = independent_copy(model), torch.tensor([[1, 2, 3]])
    assert not hasattr(trunk, "merge_and_unload")
    assert all(p.requires_grad for p in trunk.parameters())
    torch.testing.assert_close(trunk(tokens).logits, model(tokens).logits, atol=1e-5, rtol=0)
    agent = make_agent(add_adapter(llama(), 2, 0), agent_options={"reference": "adapter"}, **SEPARATE)
    iterate(agent, 1)


def test_it_is_saved_and_restored(tmp_path):
    agent = iterate(separate(), 2)
    rollout = agent.collect()
    values = value_rollout(agent.critic, rollout, 8)
    agent.save(tmp_path / "checkpoint")
    other = separate(critic_model=llama(seed=4)).restore(tmp_path / "checkpoint")
    assert torch.equal(value_rollout(other.critic, rollout, 8), values)
    assert same(snapshot(iterate(agent, 1).critic), snapshot(iterate(other, 1).critic))
    assert same(snapshot(agent.policy), snapshot(other.policy))
    with pytest.raises(CheckpointError, match="the critic in .* is separate .*, this agent.s is value head"):
        make_agent().restore(tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match="the critic in .* is separate LlamaForCausalLM"):
        separate(critic_model=gpt2()).restore(tmp_path / "checkpoint")


# Return targets and the warm-up


def test_return_targets_have_a_lambda_of_their_own():
    changes = {"kl__coef": 0.0, "whiten_advantages": False, "gae_lambda": 0.5}
    _, coupled = scripted_batch([[2, 11], [0, 0, 2, 11]], **changes)
    _, batch = scripted_batch([[2, 11], [0, 0, 2, 11]], critic__gae_lambda=1.0, **changes)
    torch.testing.assert_close(batch.returns[1], torch.full((4,), 3.0))
    assert torch.equal(batch.advantages, coupled.advantages)
    torch.testing.assert_close(coupled.returns, (coupled.advantages + coupled.values) * coupled.mask)
    assert float((batch.returns - coupled.returns).abs().max()) > 0.1
    expected = objective.gae(batch.rewards, batch.values, batch.last_value, batch.mask, 1.0, 0.5)
    torch.testing.assert_close(batch.advantages, expected)


def test_a_lambda_of_zero_is_a_lambda():
    _, batch = scripted_batch([[0, 0, 2, 11]], kl__coef=0.0, critic__gae_lambda=0.0)
    torch.testing.assert_close(batch.returns[0], torch.tensor([0.7, 0.7, 0.7, 3.0]))  # this critic says 0.7


def test_warm_up_learns_monte_carlo_returns_whatever_lambda_comes_after():
    agent, batch = scripted_batch([[0, 0, 2, 11]], kl__coef=0.0, critic__gae_lambda=0.0, critic__warmup=1)
    torch.testing.assert_close(batch.returns[0], torch.full((4,), 3.0))
    agent.iteration = 1
    torch.testing.assert_close(agent.score(batch.rollout).returns[0], torch.tensor([0.7, 0.7, 0.7, 3.0]))


@pytest.mark.parametrize(
    ("explained", "tolerance", "ends"),
    [
        ([0.1, 0.5, 0.51], 0.02, False),  # rose by 0.4 and 0.01
        ([0.1, 0.5, 0.51, 0.52], 0.02, True),
        ([0.1, 0.5, 0.51, 0.9], 0.02, False),
        ([0.5, 0.3, 0.1], 0.02, True),
        ([0.5, 0.5], 0.02, False),
        ([math.nan] * 5, 0.02, False),
        ([0.5, math.nan, 0.5], 0.02, False),
        ([0.5] * 5, None, False),
    ],
)
def test_a_critic_has_settled_when_two_iterations_bring_little(explained, tolerance, ends):
    assert settled(explained, tolerance) is ends


@pytest.mark.parametrize("kind", ["head", "separate"])
def test_warm_up_ends_when_the_critic_has_settled(kind):
    agent = make_agent(critic__kind=kind, critic__warmup=50, critic__settled=0.5)
    before, moved = snapshot(agent.policy.model), []
    agent.on_iteration = lambda agent, metrics, batch: moved.append(not same(before, snapshot(agent.policy.model)))
    iterate(agent, 10)
    last = len(agent.explained)
    assert 3 <= last < 10
    assert moved == [False] * last + [True] * (10 - last)
    assert settled(agent.explained, 0.5)
    assert not settled(agent.explained[:-1], 0.5)


def test_warm_up_ends_at_its_limit_all_the_same(tmp_path):
    agent = iterate(make_agent(critic__warmup=3, critic__settled=0.0), 2)
    agent.save(tmp_path / "half")
    explained = agent.explained
    resumed = make_agent(critic__warmup=3, critic__settled=0.0).restore(tmp_path / "half")
    assert resumed.explained == explained
    assert len(explained) == 2
    for one in (agent, resumed):
        assert one.warming_up
        iterate(one, 2)
        assert not one.warming_up
        assert len(one.explained) <= 3

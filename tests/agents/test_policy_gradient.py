"""Before the first update, PPO's expected gradient is that of J = E[R] - beta KL(pi || ref), exactly.

At ratio 1 and without whitening, the gradients of all complete strings, each weighted with its probability, add up to
-grad J / C, with C the constant that the loss divides by. The right side is autograd through the closed form of J.
"""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.engine import Turn
from agents.losses import loss_weights
from agents.ppo import PPO, PPOConfig
from agents.rollout import collect
from tests.agents.small import configure
from tests.agents.tabular import Table, gpt2, llama, log_policy, state_logits
from tests.agents.test_closed_forms import GAP, MASKED, PLAIN
from tests.agents.tree import (
    BETA,
    EOS,
    LEAVES,
    TurnTreeVectorEnv,
    leaf_logprobs,
    leaf_rewards,
    policy_values,
)

C = 7.0
ONE_PROMPT_MASKED = replace(MASKED, prompts=PLAIN.prompts)
CONFIG = configure(
    PPOConfig(), kl__coef=BETA, gae_lambda=1.0, whiten_advantages=False, aggregation="constant",
    aggregation_constant=C, eval_every=0,
)  # fmt: skip
MODELS = {"table": Table, "llama": llama, "gpt2": gpt2}


class WriteAll:
    """An engine that writes the n-th string in the n-th row and does not know with which probability."""

    weight_version, reports_kept_sets = 0, True

    def __init__(self, strings):
        self.left = [list(string) for string in strings]

    def generate(self, prefixes, budgets, stop_token_ids, allowed, sampling, generator):
        turns, rows = [], [left for left in self.left if left]
        for left, budget in zip(rows, budgets, strict=True):
            ids, left[:] = np.array(left[:budget]), left[budget:]
            masks = allowed([ids[:n].tolist() for n in range(len(ids))]) if callable(allowed) else None
            turns.append(Turn(ids, None, "stop" if ids[-1] == EOS else "length", masks))
        return turns


class AllStrings:
    """Every string that the policy may write, in one batch, after the policy has left the reference."""

    def __init__(self, tree, make, **changes):
        model = make(tree)
        self.tree, self.config = tree, configure(CONFIG, **changes)
        self.agent = PPO(model, TurnTreeVectorEnv(tree, 1), self.config)
        torch.manual_seed(3)
        for parameter in model.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        self.log_policy = self.distribution(model)
        self.log_ref = self.distribution(copy.deepcopy(self.agent.reference.model)).detach()
        self.logprobs = leaf_logprobs(self.log_policy)
        self.possible = self.logprobs > -torch.inf
        self.strings = [y for y, possible in zip(LEAVES, self.possible, strict=True) if possible]

    def distribution(self, model):
        allowed = torch.from_numpy(self.tree.allowed)
        return log_policy(state_logits(model, self.tree, self.tree.prompts[0]), allowed, self.config.temperature)

    @property
    def value_head(self):
        head = self.agent.policy.value_head
        assert head is not None
        return head

    @property
    def objective(self):
        """J, differentiable, in closed form over the strings."""
        logprobs, log_ref = self.logprobs[self.possible], leaf_logprobs(self.log_ref)[self.possible]
        return (logprobs.exp() * (leaf_rewards(self.tree)[self.possible] - BETA * (logprobs - log_ref))).sum()

    def expected_gradient(self):
        """Sum over strings of probability times the gradient of the loss of a batch with that string alone."""
        agent, config = self.agent, self.config
        env = TurnTreeVectorEnv(self.tree, len(self.strings))
        batch = agent.score(collect(env, WriteAll(self.strings), agent.sampling, None))
        agent.policy.zero_grad(set_to_none=True)
        for row, probability in enumerate(self.logprobs[self.possible].exp().tolist()):
            rows = torch.tensor([row])
            weights = loss_weights(batch.mask[rows], config.aggregation, config.aggregation_constant)
            weights = weights[:, : int(batch.rollout.n_actions[row])]
            loss, stats = agent.loss(batch, rows, weights, weights)
            assert float(stats["val/ratio"]) == pytest.approx(float(weights.sum()), rel=1e-6)  # every ratio is 1
            (probability * loss).backward()
        return flat([p.grad for p in agent.policy.model.parameters()])

    def exact_gradient(self):
        parameters = list(self.agent.policy.model.parameters())
        return flat(torch.autograd.grad(self.objective, parameters, allow_unused=True)) / -C


def flat(gradients):
    return torch.cat([g.flatten() for g in gradients if g is not None])


def error(a, b):
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("tree", [PLAIN, ONE_PROMPT_MASKED, GAP], ids=["plain", "token mask", "inserted"])
@pytest.mark.parametrize("name", MODELS)
def test_the_expected_gradient_is_that_of_the_objective(name, tree, temperature):
    everything = AllStrings(tree, MODELS[name], temperature=temperature)
    exact = everything.exact_gradient()
    assert float(exact.norm()) > 1e-3
    assert error(everything.expected_gradient(), exact) < 1e-4


@pytest.mark.parametrize("lam", [0.0, 0.5, 0.95])
def test_with_the_exact_values_it_is_so_for_every_lambda(lam):
    everything = AllStrings(GAP, Table, gae_lambda=lam)
    exact = everything.exact_gradient()
    assert error(everything.expected_gradient(), exact) > 0.01  # the critic says 0
    values = policy_values(GAP, everything.log_policy.detach(), everything.log_ref)
    assert float(values[0]) == pytest.approx(float(everything.objective.detach()), abs=1e-9)
    everything.value_head.weight.data = values.float()[None]
    assert error(everything.expected_gradient(), exact) < 1e-4


def test_at_lambda_one_any_values_will_do():
    everything = AllStrings(GAP, Table)
    torch.nn.init.normal_(everything.value_head.weight)
    assert error(everything.expected_gradient(), everything.exact_gradient()) < 1e-4


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean"])
def test_a_mean_that_depends_on_what_was_sampled_has_another_gradient(aggregation):
    everything = AllStrings(PLAIN, Table, aggregation=aggregation, aggregation_constant=None)
    found, exact = everything.expected_gradient(), everything.exact_gradient()
    cosine = torch.nn.functional.cosine_similarity(found, exact, dim=0)
    assert float(cosine) < 0.99


def test_another_estimator_in_the_reward_has_another_gradient(monkeypatch):
    def k2(rewards, old, ref, kl_coef, mask):
        return (rewards - kl_coef * 0.5 * (old - ref) ** 2).masked_fill(~mask, 0.0)

    monkeypatch.setattr("agents.ppo.agent.shaped_rewards", k2)
    everything = AllStrings(PLAIN, Table)
    assert error(everything.expected_gradient(), everything.exact_gradient()) > 0.05

"""PPO reaches the closed-form optimum of the KL-regularised token tree in every setting; broken copies of it do not.

Accepted: total variation over all complete strings < 0.02, and |V(s0) - beta log Z| < 0.02.
"""

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch

from agents import policy
from agents.policy import ValueHead
from agents.ppo import PPO, PPOConfig
from agents.reference import FrozenReference
from agents.rollout import Rollout
from agents.sampling import Sampling
from agents.scoring import LogprobMismatchError, score_rollout
from tests.agents.small import configure
from tests.agents.tabular import LOGITS, PROMPTS, Table, adapted, gpt2, llama, log_policy, state_logits
from tests.agents.tree import (
    BETA,
    EOS,
    STATES,
    A,
    B,
    Tree,
    TreeVectorEnv,
    TurnTreeVectorEnv,
    leaf_logprobs,
    leaf_rewards,
    optimum,
    soft_bellman,
    total_variation,
)

CONFIG = configure(
    PPOConfig(), optimizer__learning_rate=5e-2, critic__learning_rate=1e-1, optimizer__schedule="linear", epochs=4,
    micro_batch=512, kl__coef=BETA, gae_lambda=1.0, eval_every=0,
)  # fmt: skip
SLOWER = {"optimizer__learning_rate": 2e-3, "critic__learning_rate": 3e-2, "minibatches": 2}  # for transformers
SEPARATE = {"critic__kind": "separate", "critic__learning_rate": 3e-3}

PLAIN = Tree()
SEVERAL_PROMPTS = Tree(prompts=PROMPTS)
MASKED = Tree(prompts=PROMPTS, forbidden=frozenset({(EOS,), (B, A), (A, A, B)}))
# The environment answers the first action with one token or three; b costs something at once, bbb is cut and good.
GAP = Tree(gap={A: (6,), B: (7, 6, 7)}, rewards={(A, EOS): 1.0, (A, B, EOS): 1.0, (B,): -0.2, (B, B, B): 0.7})


class Outcome(NamedTuple):
    """The worst of all prompts."""

    distance: float
    """Total variation between the learned policy and the optimum."""
    value_error: float
    """|V(s0) - beta log Z|"""
    at_start: float
    """The least distance that the reference had."""


def train(tree, model, env=TurnTreeVectorEnv, *, iterations=50, rows=128, reference="copy", prepare=None, **changes):
    """Trains and compares with the optimum, which is computed from the model's logits at the start."""
    config = configure(CONFIG, **changes)
    before = [state_logits(model, tree, prompt).detach() for prompt in tree.prompts]
    agent = PPO(model, env(tree, rows), config, reference=reference)
    if prepare is not None:
        prepare(agent)
    agent.learn(int(2.5 * rows) * iterations)
    after = [state_logits(model, tree, prompt).detach() for prompt in tree.prompts]
    values = agent.score(agent.collect()).values[:, 0]
    outcomes = [
        compare(tree, old, new, float(value), config)
        for old, new, value in zip(before, after, values, strict=False)  # rows take the prompts in turn
    ]
    distances, errors, starts = zip(*outcomes, strict=True)
    return Outcome(max(distances), max(errors), min(starts))


def compare(tree, before, after, value, config):
    kept = torch.from_numpy(tree.allowed)
    if config.top_k:
        kept, at_end = ((x >= x.topk(config.top_k).values[:, -1:]) for x in (before, after))
        assert torch.equal(kept, at_end)  # else there is no one set over which the optimum is taken
    log_ref, learned = (leaf_logprobs(log_policy(x, kept, config.temperature)) for x in (before, after))
    best, best_value = optimum(tree, log_policy(before, kept, config.temperature))
    return Outcome(total_variation(learned, best), abs(value - best_value), total_variation(log_ref, best))


def assert_optimal(outcome):
    assert outcome.at_start > 0.25
    assert outcome.distance < 0.02
    assert outcome.value_error < 0.02


def test_the_string_formula_and_the_soft_bellman_equation_agree():
    for tree in (PLAIN, MASKED, GAP):
        log_ref = log_policy(LOGITS, torch.from_numpy(tree.allowed))
        best, value = optimum(tree, log_ref)
        log_best, values = soft_bellman(tree, log_ref)
        assert best.exp().sum() == pytest.approx(1.0, abs=1e-12)
        torch.testing.assert_close(leaf_logprobs(log_best).exp(), best.exp(), atol=1e-12, rtol=0)
        assert float(values[0]) == pytest.approx(value, abs=1e-12)
        rewards, kl = leaf_rewards(tree), torch.where(best > -torch.inf, best - leaf_logprobs(log_ref), 0.0)
        assert float((best.exp() * (rewards - BETA * kl)).sum()) == pytest.approx(value, abs=1e-12)
    assert optimum(PLAIN, log_policy(LOGITS, torch.from_numpy(PLAIN.allowed)))[1] == pytest.approx(0.26964, abs=5e-6)


@pytest.mark.parametrize("env", [TreeVectorEnv, TurnTreeVectorEnv])
@pytest.mark.parametrize("whiten", [True, False])
@pytest.mark.parametrize("lam", [1.0, 0.95])
def test_advantages_of_every_kind(lam, whiten, env):
    assert_optimal(train(PLAIN, Table(PLAIN), env, gae_lambda=lam, whiten_advantages=whiten))


@pytest.mark.parametrize("critic", ["head", "separate"])
@pytest.mark.parametrize("env", [TreeVectorEnv, TurnTreeVectorEnv])
@pytest.mark.parametrize("tree", [SEVERAL_PROMPTS, MASKED, GAP], ids=["several prompts", "token mask", "inserted"])
def test_trees_of_every_kind(tree, env, critic):
    assert_optimal(train(tree, Table(tree), env, gae_lambda=0.95, critic__kind=critic))


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperatures(temperature):
    assert_optimal(train(PLAIN, Table(PLAIN), temperature=temperature))


LEAST = torch.tensor([EOS, B, A, EOS, A, B, EOS])  # in each state another token that is never kept


@pytest.mark.parametrize("env", [TreeVectorEnv, TurnTreeVectorEnv])
def test_top_k_reaches_the_optimum_over_the_kept_tokens(env):
    logits = LOGITS.clone()
    logits[torch.arange(len(STATES)), LEAST] = logits.min(1).values - 3
    assert_optimal(train(PLAIN, Table(PLAIN, logits), env, top_k=2))


MODELS = {"llama": llama, "gpt2": gpt2, "adapter": adapted}
REFERENCE = {"llama": "copy", "gpt2": "copy", "adapter": "adapter"}


def train_transformer(name, tree, env=TurnTreeVectorEnv, iterations=150, **changes):
    changes = {**SLOWER, **changes}
    return train(tree, MODELS[name](tree), env, iterations=iterations, reference=REFERENCE[name], **changes)


@pytest.mark.parametrize("name", MODELS)
def test_transformers(name):
    """Prompts of one and five tokens in a batch, padded with the stop token."""
    assert_optimal(train_transformer(name, SEVERAL_PROMPTS))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("tree", "env", "changes"),
    [
        (SEVERAL_PROMPTS, TreeVectorEnv, {"gae_lambda": 0.95}),
        (SEVERAL_PROMPTS, TurnTreeVectorEnv, {"whiten_advantages": False}),
        (SEVERAL_PROMPTS, TurnTreeVectorEnv, {"temperature": 0.7}),
        (SEVERAL_PROMPTS, TurnTreeVectorEnv, SEPARATE),
        # With a head, Llama finds this policy, too, but says V(s0) 0.06 too low: its states differ by too little there.
        (MASKED, TurnTreeVectorEnv, SEPARATE),
        (MASKED, TreeVectorEnv, {}),
        (GAP, TurnTreeVectorEnv, {"gae_lambda": 0.95}),
        (GAP, TreeVectorEnv, {}),
    ],
    ids=["lambda", "not whitened", "temperature", "critic", "mask", "mask by token", "gap", "gap by token"],
)
def test_transformers_in_every_setting(name, tree, env, changes):
    assert_optimal(train_transformer(name, tree, env, iterations=400, **changes))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_transformers_that_draw_from_the_two_likeliest_tokens(name):
    # Nothing holds the logit of a token that is never drawn: at a higher rate it drifts into the set, which is another
    # optimum.
    slowest = {**SLOWER, **SEPARATE, "optimizer__learning_rate": 3e-4}
    model = MODELS[name](SEVERAL_PROMPTS, LEAST)
    assert_optimal(train(SEVERAL_PROMPTS, model, iterations=200, top_k=2, reference=REFERENCE[name], **slowest))


# Negative controls: each breaks one thing, and must miss.


def one_late(x):
    return torch.cat([x[:, 1:], x[:, -1:]], 1)


def test_values_of_the_state_after_the_action_miss(monkeypatch):
    right = ValueHead.forward
    monkeypatch.setattr(ValueHead, "forward", lambda self, hidden: right(self, one_late(hidden)))
    assert train(PLAIN, Table(PLAIN)).distance > 0.2


def test_log_probs_of_the_state_after_the_action_stop_training(monkeypatch):
    right = policy.states_before
    monkeypatch.setattr(policy, "states_before", lambda *arguments: one_late(right(*arguments)))
    with pytest.raises(LogprobMismatchError, match="before any update"):
        train(PLAIN, Table(PLAIN))


def test_a_mask_made_from_token_ids_misses(monkeypatch):
    """The pad token is the stop token: nobody learns to stop."""

    def not_padding(rollout):
        return rollout.real & (rollout.tokens.gather(1, rollout.positions) != EOS)

    monkeypatch.setattr(Rollout, "mask", property(not_padding))
    assert train(PLAIN, Table(PLAIN)).distance > 0.2


def test_a_reference_that_moves_misses():
    def unfreeze(agent):
        agent.reference = agent.policy

    assert train(PLAIN, Table(PLAIN), prepare=unfreeze).distance > 0.2


def test_a_reference_without_the_temperature_misses(monkeypatch):
    def unscaled(model, rollout, micro_batch):
        at_one = replace(rollout, sampling=Sampling()) if isinstance(model, FrozenReference) else rollout
        return score_rollout(model, at_one, micro_batch)

    monkeypatch.setattr("agents.ppo.agent.score_rollout", unscaled)
    assert train(PLAIN, Table(PLAIN), temperature=2.0).distance > 0.1

"""Changes that must change nothing, or a gradient in a known way, for every kind of loss and critic.

`test_padding.py` has the plainest case of some of them.
"""

from dataclasses import replace

import pytest
import torch

from agents.losses import loss_weights
from tests.agents.small import MODELS, assert_same_gradients, llama, make_agent, make_env
from tests.agents.test_padding import moved
from tests.agents.test_padding import widen as widen_fields

ROWS = 16
KINDS = {
    "token mean": {},
    "sequence mean": {"aggregation": "sequence_mean"},
    "constant": {"aggregation": "constant", "aggregation_constant": 5.0},
    "critic": {"critic__kind": "separate", "critic__trunk_gradient": 0.0, "critic__clip": 0.1},
    "importance": {"recompute_logprobs": True, "importance_cap": 1.1},
    "k2": {"kl__place": "loss", "kl__estimator": "k2", "kl__coef": 0.5},
    "k3": {"kl__place": "loss", "kl__estimator": "k3", "kl__coef": 0.5, "aggregation": "sequence_mean"},
    "top-k": {"top_k": 4, "temperature": 0.8},
    "top-p": {"top_p": 0.7, "aggregation": "sequence_mean"},
    "clips": {"clip": 0.05, "clip_high": 0.1, "dual_clip": 1.5, "critic__clip": 0.1},
}
every_kind = pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS.keys())


def collected(changes):
    """(agent, rollout): a head that is not zero, a policy that has left its reference, and, for importance weights,
    a sampler that was another.
    """
    defaults = {"entropy_coef": 0.1, "critic__trunk_gradient": 0.5, "mismatch_tolerance": 9.0}
    agent = make_agent(llama(seed=8), make_env(ROWS), **{**defaults, **changes})
    torch.manual_seed(2)
    for head in (agent.policy.value_head, agent.critic and agent.critic.value_head):
        if head is not None:
            torch.nn.init.normal_(head.weight, std=0.3)
    with torch.no_grad():
        agent.policy.model.lm_head.weight.add_(0.1 * torch.randn_like(agent.policy.model.lm_head.weight))
    rollout = agent.collect()
    rollout.logprobs += 0.2 * torch.randn_like(rollout.logprobs) if agent.config.importance_cap else 0.0
    assert len(set(rollout.n_actions.tolist())) > 2
    assert (rollout.allowed.ndim == 3) == agent.sampling.cuts
    return agent, rollout


def gradients(agent, batch, size=64):
    """Gradients of the policy's and the critic's parameters, in micro-batches of some size."""
    parameters = [p for group, _ in agent.groups.values() for p in group]
    rows = batch.mask.any(1).nonzero().squeeze(1)
    weights, mean_weights = torch.zeros(batch.mask.shape), torch.zeros(batch.mask.shape)
    weights[rows] = loss_weights(batch.mask[rows], agent.config.aggregation, agent.config.aggregation_constant)
    mean_weights[rows] = loss_weights(batch.mask[rows], "token_mean")
    agent.optimizer.zero_grad(set_to_none=True)
    for piece in rows.split(size):
        n = int(batch.rollout.n_actions[piece].max())
        agent.loss(batch, piece, weights[piece, :n], mean_weights[piece, :n])[0].backward()
    return [None if p.grad is None else p.grad.clone() for p in parameters]


def permuted(rollout, order):
    names = ("tokens", "lengths", "prompt_lengths", "positions", "n_actions", "logprobs", "rewards", "terminated",
             "truncated")  # fmt: skip
    allowed = rollout.allowed if rollout.allowed.ndim == 1 else rollout.allowed[order]
    infos = [rollout.infos[i] for i in order.tolist()]
    return replace(rollout, infos=infos, allowed=allowed, **{name: getattr(rollout, name)[order] for name in names})


def widen(rollout):
    wide = widen_fields(rollout)
    if rollout.allowed.ndim == 1:
        return wide
    extra = wide.positions.shape[1] - rollout.positions.shape[1]
    shape = rollout.allowed.shape[0], extra, rollout.allowed.shape[2]
    return replace(wide, allowed=torch.cat([rollout.allowed, torch.full(shape, 255, dtype=torch.uint8)], 1))


@every_kind
def test_the_order_of_rows_padding_and_micro_batches_change_no_gradient(changes):
    agent, rollout = collected(changes)
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(3))
    batches = {name: agent.score(x) for name, x in (
        ("plain", rollout), ("permuted", permuted(rollout, order)), ("wide", widen(rollout))
    )}  # fmt: skip
    moved(agent)
    whole = gradients(agent, batches["plain"])
    for name, size in (("permuted", 64), ("permuted", 3), ("wide", 64), ("plain", 1), ("plain", 2), ("plain", 5)):
        assert_same_gradients(gradients(agent, batches[name], size), whole, 5e-6)


@every_kind
def test_a_step_is_the_same_in_micro_batches_of_any_size(changes):
    norms = []
    for size in (1, 3, 64):
        agent, rollout = collected({**changes, "micro_batch": size})
        batch = agent.score(rollout)
        moved(agent)
        norms.append(agent.step(batch, torch.arange(ROWS)))
    assert norms[0]["grad_norm/policy"] > 1e-3
    assert norms[0]["grad_norm/critic"] > 1e-3
    for other in norms[1:]:
        assert other == pytest.approx(norms[0], rel=1e-3, abs=2e-6)


def actor_gradients(agent, rollout):
    """Of one scoring, before any update; without the critic's share."""
    batch = agent.score(rollout)
    policy = len(agent.groups["policy"][0])
    return batch, gradients(agent, batch)[:policy]


@pytest.mark.parametrize("kind", ["head", "separate"])
def test_a_constant_in_rewards_and_values_changes_no_actor_gradient(kind):
    agent, rollout = collected({"critic__kind": kind, "critic__trunk_gradient": 0.0})
    before, plain = actor_gradients(agent, rollout)
    last = (torch.arange(ROWS), rollout.n_actions - 1)
    rollout.rewards[last] += 10.0 * rollout.terminated
    head = agent.policy.value_head if agent.critic is None else agent.critic.value_head
    with torch.no_grad():
        head.bias += 10.0
    after, shifted = actor_gradients(agent, rollout)
    assert float((after.returns - before.returns)[before.mask].min()) == pytest.approx(10.0, abs=1e-4)
    assert_same_gradients(shifted, plain, 1e-5)


@pytest.mark.parametrize("whiten", [True, False])
@pytest.mark.parametrize("kind", ["head", "separate"])
def test_rewards_costs_and_values_times_k_scale_the_actor_gradient(kind, whiten):
    changes = {"critic__kind": kind, "critic__trunk_gradient": 0.0, "entropy_coef": 0.0, "whiten_advantages": whiten}
    agent, rollout = collected(changes)
    _, plain = actor_gradients(agent, rollout)
    rollout.rewards *= 4.0
    agent.kl.coef *= 4.0
    head = agent.policy.value_head if agent.critic is None else agent.critic.value_head
    with torch.no_grad():
        head.weight *= 4.0
        head.bias *= 4.0
    _, scaled = actor_gradients(agent, rollout)
    expected = plain if whiten else [None if g is None else 4.0 * g for g in plain]
    assert_same_gradients(scaled, expected, 1e-5)


@pytest.mark.parametrize("kind", ["head", "separate"])
@pytest.mark.parametrize("name", MODELS)
def test_gradient_checkpointing_changes_no_gradient(monkeypatch, name, kind):
    found = {}
    for checkpointing in (False, True):
        changes = {"critic__kind": kind, "critic__trunk_gradient": 0.5 if kind == "head" else 0.0}
        agent = make_agent(MODELS[name](), gradient_checkpointing=checkpointing, **changes)
        calls = count_checkpoints(agent, monkeypatch)
        batch = agent.score(agent.collect())
        moved(agent)
        assert not calls  # nothing is kept where nothing is trained
        found[checkpointing] = gradients(agent, batch)
        assert len(calls) == (checkpointing and (2 if kind == "head" else 4))  # a layer each
    assert_same_gradients(found[True], found[False])


def count_checkpoints(agent, monkeypatch):
    calls: list[int] = []
    for model in (agent.policy.model, agent.critic and agent.critic.model):
        for module in model.modules() if model is not None else ():
            if hasattr(module, "_gradient_checkpointing_func"):
                right = module._gradient_checkpointing_func

                def counted(*arguments, right=right, **keywords):
                    calls.append(1)
                    return right(*arguments, **keywords)

                monkeypatch.setattr(module, "_gradient_checkpointing_func", counted)
    return calls

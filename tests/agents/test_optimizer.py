"""The optimiser: schedules with a warm-up, 8-bit moments, gradient norms, and the early stop of an update."""

import builtins
import math

import pytest
import torch

from agents.optimizer import NonFiniteError, build_optimizer, clip_gradients, schedule_factor
from agents.settings import OptimizerConfig
from tests.agents.small import iterate, llama, make_agent, same, snapshot


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [("constant", [1, 1, 1, 1, 1]), ("linear", [1, 0.75, 0.5, 0.25, 0]), ("cosine", [1, 0.853553, 0.5, 0.146447, 0])],
)
def test_schedules_by_hand(schedule, factors):
    config = OptimizerConfig(schedule=schedule)
    found = [schedule_factor(config, 9, progress) for progress in (0, 0.25, 0.5, 0.75, 1)]
    assert found == pytest.approx(factors, abs=1e-6)
    assert schedule_factor(config, 9, 1.5) >= 0.0


def test_the_warm_up_rises_linearly_and_reaches_the_full_rate():
    config = OptimizerConfig(warmup_iterations=4)
    assert [schedule_factor(config, i, 0.0) for i in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    linear = OptimizerConfig(schedule="linear", warmup_iterations=4)
    assert schedule_factor(linear, 1, 0.5) == 0.25
    assert schedule_factor(OptimizerConfig(), 0, 0.0) == 1.0


def test_every_group_follows_the_schedule_from_its_own_rate():
    rates = []
    agent = make_agent(optimizer__warmup_iterations=2)
    agent.on_iteration = lambda agent, metrics, batch: rates.append(
        [group["lr"] for group in agent.optimizer.param_groups] + [metrics["lr"]]
    )
    iterate(agent, 3)
    assert rates == [pytest.approx([5e-4, 5e-3, 5e-4]), *[pytest.approx([1e-3, 1e-2, 1e-3])] * 2]


def test_a_step_outside_of_learn_has_each_groups_own_rate():
    agent = make_agent(optimizer__learning_rate=1e-5, critic__learning_rate=1e-4, optimizer__eps=1e-12)
    before = snapshot(agent.policy)
    agent.step(agent.score(agent.collect()), torch.arange(8))  # AdamW's first step is the rate itself
    after = snapshot(agent.policy)
    moves = {name: float((after[name] - before[name]).abs().max()) for name in before}
    assert moves["value_head.bias"] == pytest.approx(1e-4, rel=1e-2)
    assert moves["model.lm_head.weight"] == pytest.approx(1e-5, rel=1e-2)


def test_the_settings_of_adamw_reach_it():
    config = OptimizerConfig(betas=(0.8, 0.95), eps=1e-7, weight_decay=0.3)
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = build_optimizer({"policy": ([parameter], 1e-3)}, config)
    group = optimizer.param_groups[0]
    assert (group["betas"], group["eps"], group["weight_decay"], group["name"]) == ((0.8, 0.95), 1e-7, 0.3, "policy")
    assert isinstance(optimizer, torch.optim.AdamW)


def test_gradients_are_clipped_and_the_norm_before_is_told():
    a, b = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(3))
    a.grad = torch.tensor([3.0, 4.0])
    assert clip_gradients([a, b], 1.0, "policy") == 5.0
    torch.testing.assert_close(a.grad, torch.tensor([0.6, 0.8]))
    assert clip_gradients([a, b], 7.0, "policy") == pytest.approx(1.0)
    torch.testing.assert_close(a.grad, torch.tensor([0.6, 0.8]))
    a.grad[0] = math.nan
    with pytest.raises(NonFiniteError, match="gradient norm of the policy is nan"):
        clip_gradients([a, b], 1.0, "policy")


def eight_bit_agent(**changes):
    """A vocabulary of 512, since bitsandbytes keeps the moments of small tensors in 32 bits."""
    pytest.importorskip("bitsandbytes")
    return make_agent(llama(vocabulary=512), optimizer__eight_bit=True, **changes)


def test_eight_bit_moments_are_eight_bits():
    agent = iterate(eight_bit_agent(), 1)
    embeddings = agent.policy.model.get_input_embeddings().weight
    moments = agent.optimizer.state[embeddings]
    assert {moments[name].dtype for name in ("state1", "state2")} == {torch.uint8}
    assert moments["state1"].shape == embeddings.shape
    full = iterate(make_agent(llama(vocabulary=512)), 1)
    for name, tensor in full.policy.state_dict().items():
        torch.testing.assert_close(agent.policy.state_dict()[name], tensor, atol=2e-3, rtol=0)
    assert not same(snapshot(full.policy), snapshot(agent.policy)), "the moments were rounded"


def test_eight_bit_moments_survive_a_checkpoint(tmp_path):
    straight = iterate(eight_bit_agent(), 2)
    straight.save(tmp_path / "half")
    resumed = eight_bit_agent().restore(tmp_path / "half")
    for one in (straight, resumed):
        iterate(one, 2)
    assert same(snapshot(straight.policy), snapshot(resumed.policy))


def test_a_critics_warm_up_leaves_a_policy_with_eight_bit_moments_alone():
    agent = eight_bit_agent(critic__warmup=1, optimizer__weight_decay=0.1)
    before = snapshot(agent.policy.model)
    assert same(before, snapshot(iterate(agent, 1).policy.model))
    assert not same(before, snapshot(iterate(agent, 1).policy.model))


def test_eight_bits_without_bitsandbytes_say_what_to_install(monkeypatch):
    def missing(name, *arguments, **keywords):
        if name.startswith("bitsandbytes"):
            raise ImportError(name)
        return original(name, *arguments, **keywords)

    original = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"needs bitsandbytes: pip install 'llm-envs\[eight-bit\]'"):
        build_optimizer({}, OptimizerConfig(eight_bit=True))


# The early stop


def counted(agent):
    """Counts the steps of the optimiser."""
    steps = []
    agent.optimizer.register_step_post_hook(lambda *arguments: steps.append(1))
    return steps


def test_an_update_stops_when_the_policy_has_moved_too_far():
    agent = make_agent(target_kl=1e-3, optimizer__learning_rate=1e-2, epochs=4, minibatches=2)
    batch, steps = agent.score(agent.collect()), counted(agent)
    metrics = agent.update(batch)
    assert 1 <= len(steps) < 8
    assert metrics["policy/stopped_early"] == 1.0
    assert metrics["policy/steps"] == len(steps), "the step that was not taken is none"
    after = agent.score(agent.collect())
    assert after.comparison.max < 1e-4


def test_the_step_that_would_be_taken_beyond_the_target_is_not_taken():
    agent = make_agent(target_kl=1e-3)
    batch = agent.score(agent.collect())
    batch.old_logprobs = batch.old_logprobs - 0.2 * batch.mask  # e^-.2 - 1 + .2 is 0.0187 nats
    before = snapshot(agent.policy)
    stats = agent.step(batch, torch.arange(8))
    assert stats["policy/approxkl_avg"] == pytest.approx(math.exp(0.2) - 1 - 0.2, abs=1e-5)
    assert stats["policy/stopped_early"] == 1.0
    assert same(before, snapshot(agent.policy))


@pytest.mark.parametrize("target", [None, 1e9])
def test_an_update_that_stays_near_takes_every_step(target):
    agent = make_agent(target_kl=target, epochs=2, minibatches=2)
    batch, steps = agent.score(agent.collect()), counted(agent)
    metrics = agent.update(batch)
    assert len(steps) == 4
    assert metrics["policy/steps"] == 4
    assert "policy/stopped_early" not in metrics


def test_the_next_batch_starts_anew_after_an_early_stop():
    steps = []
    agent = make_agent(target_kl=1e-4, optimizer__learning_rate=1e-2)
    agent.on_iteration = lambda agent, metrics, batch: steps.append(metrics["policy/steps"])
    iterate(agent, 3)
    assert all(n >= 1 for n in steps)
    assert agent.engine.weight_version == 3

"""What an update does and reports: clipping, KL, gradient norms, explained variance, and scores of zero."""

import json
import math

import pytest
import torch

from agents import kl, losses
from agents.jsonable import jsonable
from agents.metrics import batch_metrics
from agents.ppo import PPOConfig
from agents.ppo.agent import critic_metrics
from tests.agents.small import EOS, configure, iterate, make_agent, make_env, scripted_batch, snapshot


def test_clip_fractions_ignore_padding():
    ratio = torch.tensor([[1.3, 0.7, 1.0, 9.0]])
    weights = losses.loss_weights(torch.tensor([[True, True, True, False]]), "token_mean")
    assert float(losses.weighted_sum(losses.outside(ratio, 0.2), weights)) == pytest.approx(2 / 3)
    for signs, cut in [([1, 1, 1, 1], 1 / 3), ([-1, -1, 1, 1], 1 / 3), ([1, -1, 1, 1], 2 / 3), ([-1, 1, 1, 1], 0)]:
        found = losses.weighted_sum(losses.clipped(ratio, torch.tensor([signs]), 0.2), weights)
        assert float(found) == pytest.approx(cut)


@pytest.mark.parametrize("size", [1e-6, 1e-4, 1e-2, 1.0])
def test_approximate_kl_is_exact_for_small_steps_and_never_negative(size):
    log_ratio = size * torch.tensor([[-1.0, -0.37, 0.2, 1.0]])
    for x in log_ratio.T:
        assert float(kl.approx_kl(x[None], torch.zeros(1, 1))) >= 0
    found = float(kl.approx_kl(log_ratio, torch.zeros(1, 4)).mean())
    exact = float((log_ratio.double().expm1() - log_ratio.double()).mean())
    assert found == pytest.approx(exact, rel=1e-2, abs=1e-13)


def test_approximate_kl_of_an_update_is_positive():
    agent = make_agent(optimizer__learning_rate=3e-3)
    batch = agent.score(agent.collect())
    stats = [agent.step(batch, torch.arange(8)) for _ in range(4)]
    assert stats[0]["policy/approxkl_avg"] == pytest.approx(0.0, abs=1e-9)
    assert all(a["policy/approxkl_avg"] < b["policy/approxkl_avg"] for a, b in zip(stats, stats[1:], strict=False))
    assert stats[-1]["policy/outside_fraction"] >= stats[-1]["policy/clipfrac_avg"] > 0


def test_the_gradient_norm_is_clipped_for_a_loss_a_thousand_times_as_large():
    agent = make_agent(optimizer__max_grad_norm=0.25)
    batch = agent.score(agent.collect())
    batch.advantages *= 1000
    batch.returns *= 1000
    seen = {}

    def look(optimizer, arguments, keywords):
        for name, group in zip(("policy", "critic"), optimizer.param_groups, strict=True):
            seen[name] = float(torch.cat([p.grad.flatten() for p in group["params"] if p.grad is not None]).norm())

    agent.optimizer.register_step_pre_hook(look)
    stats = agent.step(batch, torch.arange(8))
    assert stats["grad_norm/policy"] > 25
    assert stats["grad_norm/critic"] > 25
    assert seen == {"policy": pytest.approx(0.25, rel=1e-3), "critic": pytest.approx(0.25, rel=1e-3)}


def test_a_score_of_zero_is_a_score():
    agent, batch = scripted_batch(
        [[2, EOS], [0, EOS]], make_env(2), whiten_advantages=False, kl__coef=0.0, recompute_logprobs=True
    )
    batch.rollout.rewards[0] = 0.0
    batch = agent.score(batch.rollout)
    metrics = batch_metrics(batch)
    assert batch.mask.tolist() == [[True, True]] * 2
    assert batch.rollout.scores.tolist() == [0.0, 2.0]
    assert metrics["objective/scores"] == 1.0
    assert float(batch.returns[0, 1]) == 0.0
    assert float(batch.advantages[0, 1]) == pytest.approx(-0.7)  # the critic of this agent says 0.7
    stats = agent.step(batch, torch.tensor([0]))
    assert stats["grad_norm/policy"] > 1e-3


def test_scores_kl_and_lengths_of_a_batch_by_hand():
    agent, batch = scripted_batch([[2, EOS], [0, 0, EOS], [EOS], [0, 1, 2, 3, 4, 5]], kl__coef=0.1)
    metrics = batch_metrics(batch)
    kl = (batch.old_logprobs - batch.ref_logprobs).masked_fill(~batch.mask, 0.0).sum(1)
    assert metrics["objective/scores"] == pytest.approx((1 + 3 + 1 + 2) / 4)
    assert metrics["objective/pass_rate"] == 0.5
    assert metrics["objective/kl"] == pytest.approx(float(kl.mean()), abs=1e-5)
    assert metrics["objective/kl_answer_min"] == pytest.approx(float(kl.min()), abs=1e-5)
    assert metrics["objective/kl_answer_max"] == pytest.approx(float(kl.max()), abs=1e-5)
    assert metrics["objective/non_score_reward"] == pytest.approx(-0.1 * float(kl.mean()), abs=1e-5)
    assert metrics["objective/rlhf_reward"] == pytest.approx(float(batch.rewards.sum(1).mean()), abs=1e-5)
    assert metrics["tokens/responses_len_mean"] == 3.0
    assert metrics["tokens/sampled"] == 12
    assert metrics["val/num_eos_tokens"] == 3
    assert metrics["val/length_rate"] == 0.25
    assert metrics["ppo/advantages/mean"] == pytest.approx(0.0, abs=1e-6)
    assert metrics["ppo/advantages/std"] == pytest.approx(1.0, abs=1e-4)


def test_explained_variance_of_constant_returns_is_null_in_json():
    agent, batch = scripted_batch([[2, EOS], [3, EOS]], kl__coef=0.0, gae_lambda=1.0)
    metrics = batch_metrics(batch) | critic_metrics(batch)
    assert float(batch.returns.var()) == 0.0
    assert math.isnan(metrics["ppo/val/var_explained"])
    line = json.dumps(jsonable(metrics), allow_nan=False)
    assert json.loads(line)["ppo/val/var_explained"] is None
    assert json.loads(line)["objective/scores"] == 1.0


def test_entropy_coefficient_raises_entropy():
    found = {}
    for coefficient in (0.0, 1.0):
        agent = make_agent(entropy_coef=coefficient, optimizer__learning_rate=3e-3)
        batch = agent.score(agent.collect())
        for _ in range(5):
            agent.step(batch, torch.arange(8))
        found[coefficient] = agent.step(batch, torch.arange(8))["policy/entropy_avg"]
    assert found[1.0] > found[0.0] + 0.01


def test_linear_schedule_falls_and_each_group_keeps_its_own_rate():
    rates = []
    agent = make_agent(optimizer__schedule="linear")
    agent.on_iteration = lambda agent, metrics, batch: rates.append([g["lr"] for g in agent.optimizer.param_groups])
    agent.learn(150)
    assert rates[0] == [1e-3, 1e-2]
    assert all(a[0] > b[0] > 0 for a, b in zip(rates, rates[1:], strict=False))
    assert all(critic == pytest.approx(10 * policy) for policy, critic in rates)


def test_every_trained_row_is_in_every_epoch_once():
    agent, batch = scripted_batch([[0, EOS], [2, EOS], [7, EOS], [EOS], [3, EOS]], epochs=3, minibatches=2)
    before, seen = snapshot(agent.policy), []

    def step(batch, rows):
        seen.append(rows.tolist())
        return {"val/ratio": 1.0}

    agent.step = step
    agent.update(batch)
    assert len(seen) == 6
    epochs = [seen[i] + seen[i + 1] for i in (0, 2, 4)]
    assert all(sorted(epoch) == [0, 1, 3, 4] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1
    assert all(torch.equal(before[name], tensor) for name, tensor in agent.policy.state_dict().items())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("optimizer__learning_rate", 0.0),
        ("epochs", 0),
        ("clip", -0.1),
        ("gamma", 1.5),
        ("optimizer__schedule", "step"),
        ("temperature", 0),
    ],
)
def test_impossible_settings_are_refused_by_name(setting, value):
    with pytest.raises(ValueError, match=setting.rpartition("__")[2]):
        configure(PPOConfig(), **{setting: value})


def test_learn_counts_sampled_tokens():
    agent = iterate(make_agent(), 2)
    assert agent.iteration == 2
    assert agent.num_episodes == 16
    assert 16 <= agent.num_timesteps <= 96
    tokens = agent.num_timesteps
    assert agent.learn(tokens) is agent
    assert agent.num_timesteps == tokens

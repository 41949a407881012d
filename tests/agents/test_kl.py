"""KL: estimators and their gradients by enumeration, the adaptive coefficient, and the KL as a term of the loss."""

import math

import pytest
import torch

from agents.kl import KLController, approx_kl, estimate, kl_loss
from agents.metrics import answer_kls, batch_metrics
from agents.settings import KLConfig
from tests.agents.small import gradients, iterate, make_agent, scripted_batch

DOUBLE = torch.float64
POLICY = torch.tensor([0.5, 0.2, 0.2, 0.07, 0.03], dtype=DOUBLE)
REFERENCE = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05], dtype=DOUBLE)
SAMPLER = torch.tensor([0.3, 0.3, 0.2, 0.1, 0.1], dtype=DOUBLE)


def divergence(p, q):
    return (p * (p / q).log()).sum()


def expected_gradient(terms):
    """Gradient, in the logits of POLICY, of a sum over all actions weighted by a fixed distribution."""
    logits = POLICY.log().requires_grad_()
    (gradient,) = torch.autograd.grad(terms(torch.log_softmax(logits, -1)), logits)
    return gradient


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_k1_and_k3_are_unbiased(estimator):
    found = (POLICY * estimate(POLICY.log(), REFERENCE.log(), estimator)).sum()
    torch.testing.assert_close(found, divergence(POLICY, REFERENCE), atol=1e-12, rtol=0)


def test_k2_is_biased_and_by_how_much():
    x = (POLICY / REFERENCE).log()
    found = (POLICY * estimate(POLICY.log(), REFERENCE.log(), "k2")).sum()
    torch.testing.assert_close(found, (POLICY * x**2 / 2).sum(), atol=1e-15, rtol=0)
    assert abs(float(found - divergence(POLICY, REFERENCE))) > 1e-3
    near = 0.999 * REFERENCE + 0.001 * POLICY  # where the two policies are close the bias is of third order
    exact = divergence(near, REFERENCE)
    assert float((near * estimate(near.log(), REFERENCE.log(), "k2")).sum()) == pytest.approx(float(exact), rel=2e-3)


def test_k1_may_be_negative_and_the_others_never_are():
    a, b = POLICY.log(), REFERENCE.log()
    assert float(estimate(a, b, "k1").min()) < 0
    assert float(estimate(a, b, "k2").min()) >= 0
    assert float(estimate(a, b, "k3").min()) >= 0
    assert float(estimate(torch.tensor(0.8), torch.tensor(0.0), "k1")) == pytest.approx(0.8)
    assert float(estimate(torch.tensor(0.8), torch.tensor(0.0), "k2")) == pytest.approx(0.32)
    assert float(estimate(torch.tensor(0.8), torch.tensor(0.0), "k3")) == pytest.approx(math.exp(-0.8) - 0.2)


def test_as_a_loss_k1_has_no_gradient_k2_that_of_one_direction_and_k3_that_of_the_other():
    def of(estimator):
        return expected_gradient(lambda logp: (POLICY * estimate(logp, REFERENCE.log(), estimator)).sum())

    forward = expected_gradient(lambda logp: divergence(logp.exp(), REFERENCE))
    backward = expected_gradient(lambda logp: divergence(REFERENCE, logp.exp()))
    assert float((forward - backward).abs().max()) > 1e-2
    torch.testing.assert_close(of("k1"), torch.zeros(5, dtype=DOUBLE), atol=1e-12, rtol=0)
    torch.testing.assert_close(of("k2"), forward, atol=1e-12, rtol=0)
    torch.testing.assert_close(of("k3"), backward, atol=1e-12, rtol=0)


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_the_loss_of_actions_another_policy_drew_has_the_same_gradient(estimator):
    def off_policy(logp):
        return (SAMPLER * kl_loss(logp, SAMPLER.log(), REFERENCE.log(), estimator)).sum()

    on_policy = expected_gradient(lambda logp: (POLICY * estimate(logp, REFERENCE.log(), estimator)).sum())
    torch.testing.assert_close(expected_gradient(off_policy), on_policy, atol=1e-12, rtol=0)
    unweighted = expected_gradient(lambda logp: (SAMPLER * estimate(logp, REFERENCE.log(), estimator)).sum())
    assert float((unweighted - on_policy).abs().max()) > 1e-2


@pytest.mark.parametrize("log_ratio", [-1000.0, -100.0, 0.0, 100.0, 1000.0])
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_estimates_and_gradients_are_finite_however_far_apart(estimator, log_ratio):
    logprobs = torch.tensor([log_ratio], requires_grad=True)
    found = estimate(logprobs, torch.zeros(1), estimator)
    (gradient,) = torch.autograd.grad((found * torch.zeros(1)).sum() + found.sum() * 1e-30, logprobs)
    assert found.isfinite().all()
    assert gradient.isfinite().all()
    term = kl_loss(logprobs, torch.zeros(1), torch.zeros(1), "k3")
    (gradient,) = torch.autograd.grad(term.sum() * 0, logprobs)
    assert gradient.isfinite().all()


def test_k3_keeps_what_a_small_difference_says():
    found = estimate(torch.tensor([1e-4]), torch.zeros(1), "k3")
    assert float(found) == pytest.approx(5e-9, rel=2e-2)
    assert float(approx_kl(torch.tensor([1e-4]), torch.zeros(1))) == pytest.approx(5e-9, rel=2e-2)


@pytest.mark.parametrize(
    ("kl", "factor"), [(12.0, 1.00512), (0.0, 0.99488), (6.0, 1.0), (6.6, 1.00256), (-50.0, 0.99488)]
)
def test_the_adaptive_coefficient_by_hand(kl, factor):
    controller = KLController(KLConfig(coef=0.1, target=6.0, horizon=10_000))
    controller.update(kl, 256)
    assert controller.coef == pytest.approx(0.1 * factor, rel=1e-6)


def test_the_coefficient_stays_without_a_target_or_a_verdict():
    fixed, adaptive = KLController(KLConfig(coef=0.1)), KLController(KLConfig(coef=0.1, target=6.0))
    fixed.update(100.0, 256)
    adaptive.update(float("nan"), 0)
    assert fixed.coef == adaptive.coef == 0.1


def test_the_coefficient_never_turns_negative():
    controller = KLController(KLConfig(coef=0.1, target=6.0, horizon=10))
    controller.update(0.0, 1000)
    assert controller.coef == 0.0


def test_the_target_is_compared_with_an_answers_kl_and_not_a_tokens():
    agent = make_agent(kl__target=0.5, kl__horizon=100, optimizer__learning_rate=1e-2)
    iterate(agent, 2)
    batch = agent.score(agent.collect())
    per_answer = float(answer_kls(batch).mean())
    per_token = float((batch.old_logprobs - batch.ref_logprobs)[batch.mask].mean())
    assert abs(per_answer) > 2 * abs(per_token) > 0
    seen, coef = [], agent.kl.coef
    agent.kl.update = lambda kl, episodes: seen.append((kl, episodes))
    iterate(agent, 1)
    assert seen == [(pytest.approx(per_answer, abs=1e-6), 8)]
    assert agent.kl.coef == coef


def test_the_coefficient_moves_between_batches_and_is_logged_as_it_was_used():
    logged = []
    agent = make_agent(kl__target=1e-3, kl__horizon=80, kl__coef=0.1, optimizer__learning_rate=1e-2)
    agent.on_iteration = lambda agent, metrics, batch: logged.append((metrics["objective/kl_coef"], batch.kl_coef))
    iterate(agent, 3)
    assert logged[0] == (0.1, 0.1)
    assert logged[1][0] == pytest.approx(0.1 * 0.98)  # before the first update the KL was 0: 8 of 80 episodes at -0.2
    assert logged[2][0] == pytest.approx(0.1 * 0.98 * 1.02)  # then it was above its target


def test_the_coefficient_survives_a_checkpoint(tmp_path):
    def agent():
        return make_agent(kl__target=6.0, kl__horizon=80)

    first = iterate(agent(), 2)
    first.save(tmp_path / "checkpoint")
    assert first.kl.coef != 0.05
    assert agent().restore(tmp_path / "checkpoint").kl.coef == first.kl.coef


def test_a_critic_that_warms_up_moves_no_coefficient():
    agent = iterate(make_agent(kl__target=6.0, kl__horizon=80, critic__warmup=2), 2)
    assert agent.kl.coef == 0.05


@pytest.mark.parametrize("place", ["reward", "loss"])
def test_what_is_reported_as_the_rewards_kl_cost_is_what_was_in_the_rewards(place):
    estimator = {"reward": "k1", "loss": "k2"}[place]
    agent, batch = scripted_batch([[2, 11], [0, 0, 11]], kl__coef=0.1, kl__place=place, kl__estimator=estimator)
    metrics = batch_metrics(batch)
    cost = 0.1 * float((batch.old_logprobs - batch.ref_logprobs).masked_fill(~batch.mask, 0.0).sum(1).mean())
    assert abs(cost) > 0.05
    assert metrics["objective/non_score_reward"] == pytest.approx(-cost if place == "reward" else 0.0, abs=1e-5)
    total = metrics["objective/scores"] + metrics["objective/non_score_reward"]
    assert metrics["objective/rlhf_reward"] == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_the_kl_in_the_loss_is_in_the_loss_and_not_in_the_rewards(estimator):
    agent = make_agent(kl__place="loss", kl__estimator=estimator, kl__coef=0.3, critic__loss_coef=0.0)
    iterate(agent, 1)
    batch = agent.score(agent.collect())
    assert torch.equal(batch.rewards, batch.score_rewards)
    assert batch.kl_coef == 0.3
    rows = torch.arange(8)
    whole, _ = gradients(agent, batch, [rows])
    batch.kl_coef = 0.0
    without, _ = gradients(agent, batch, [rows])
    terms = estimate(batch.old_logprobs, batch.ref_logprobs, estimator)  # nothing has moved since: the weight is 1
    assert float(terms[batch.mask].mean()) > 1e-5
    assert whole - without == pytest.approx(0.3 * float(terms[batch.mask].mean()), abs=1e-5)


def test_the_kl_in_the_loss_holds_the_policy_back():
    def drift(coef):
        agent = make_agent(kl__place="loss", kl__estimator="k2", kl__coef=coef, optimizer__learning_rate=3e-3)
        return float(answer_kls(iterate(agent, 6).score(agent.collect())).mean())

    assert drift(0.0) > 3 * abs(drift(5.0))

"""The distribution that draws tokens: temperature, masks, entropy, padded vocabularies, half precision."""

import pytest
import torch

from agents.policy import Policy
from agents.sampling import Sampling, draw, entropy, log_distribution
from agents.scoring import score_rollout
from tests.agents.small import MODELS, llama, make_agent

ALL = torch.ones(3, dtype=torch.bool)


def test_temperature_divides_logits_and_not_log_probs():
    logits = torch.tensor([2.0, 1.0, 0.0])
    found = log_distribution(logits, Sampling(0.5), ALL)
    torch.testing.assert_close(found, torch.tensor([-0.1429, -2.1429, -4.1429]), atol=5e-5, rtol=0)
    divided = torch.log_softmax(logits, -1) / 0.5
    torch.testing.assert_close(divided, torch.tensor([-0.8152, -2.8152, -4.8152]), atol=5e-5, rtol=0)
    assert float((found - divided).abs().min()) > 0.5


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_entropy_is_that_of_the_sampling_distribution(temperature):
    logits = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    allowed = torch.tensor([True, False, True, True, False])
    expected = torch.distributions.Categorical(logits=logits[:, allowed] / temperature).entropy()
    torch.testing.assert_close(entropy(log_distribution(logits, Sampling(temperature), allowed)), expected)


def test_the_gradient_of_a_masked_entropy_is_finite():
    logits = torch.randn(4, 5, requires_grad=True)
    allowed = torch.tensor([True, False, True, True, False])
    entropy(log_distribution(logits, Sampling(0.7), allowed)).sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[:, allowed].any()
    assert not logits.grad[:, ~allowed].any()


def test_forbidden_tokens_have_probability_zero_and_the_others_sum_to_one():
    allowed = torch.tensor([[True, False, True], [False, True, True]])
    found = log_distribution(torch.tensor([[0.0, 9.0, 1.0], [5.0, 0.0, 0.0]]), Sampling(), allowed).exp()
    assert torch.equal(found == 0, ~allowed)
    torch.testing.assert_close(found.sum(1), torch.ones(2))
    drawn = draw(found.log().repeat(200, 1), Sampling(), torch.Generator().manual_seed(0)).reshape(200, 2)
    assert set(drawn[:, 0].tolist()) == {0, 2}
    assert set(drawn[:, 1].tolist()) == {1, 2}


def test_padded_logits_are_cut_before_the_softmax():
    logits = torch.tensor([2.0, 1.0, 0.0, 40.0])
    torch.testing.assert_close(log_distribution(logits, Sampling(), ALL), torch.log_softmax(logits[:3], -1))


def test_drawn_frequencies_follow_the_temperature():
    log_probs = log_distribution(torch.tensor([2.0, 1.0, 0.0]).repeat(20_000, 1), Sampling(0.5), ALL)
    drawn = draw(log_probs, Sampling(0.5), torch.Generator().manual_seed(0))
    frequencies = torch.bincount(drawn, minlength=3) / 20_000
    torch.testing.assert_close(frequencies, log_probs[0].exp(), atol=0.01, rtol=0)
    assert draw(log_probs[:1], Sampling(0.5, greedy=True), None).tolist() == [0]


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_a_temperature_that_is_none_is_refused(temperature):
    with pytest.raises(ValueError, match="temperature must be > 0"):
        Sampling(temperature)


def test_half_precision_logits_meet_a_float32_softmax():
    logits = torch.randn(50, 12, generator=torch.Generator().manual_seed(0)).bfloat16()
    found = log_distribution(logits, Sampling(), torch.ones(12, dtype=torch.bool))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.log_softmax(logits.float(), -1), atol=0, rtol=0)
    assert not torch.equal(found, torch.log_softmax(logits, -1).float())


@pytest.mark.parametrize("name", MODELS)
def test_autocast_scores_and_trains_in_float32_outputs(name):

    from agents.ppo import PPO
    from tests.agents.small import configure, iterate, make_env

    agent = PPO(MODELS[name](), make_env(), configure(critic__trunk_gradient=1.0), autocast_dtype=torch.bfloat16)
    rollout = agent.collect()
    scores = score_rollout(agent.policy, rollout, 8)
    assert {tensor.dtype for tensor in scores} == {torch.float32}
    exact = score_rollout(Policy(agent.policy.model, value_head=False), rollout, 8).logprobs
    assert 0 < float((scores.logprobs - exact).abs().max()) < 0.5  # it did compute in bfloat16, and not nonsense
    assert agent.mismatch_tolerance == 0.5
    iterate(agent, 1)
    assert all(torch.isfinite(p).all() and p.dtype == torch.float32 for p in agent.policy.parameters())


def test_tolerance_follows_the_precision():
    assert make_agent().mismatch_tolerance == 1e-4
    assert make_agent(llama().bfloat16()).mismatch_tolerance == 0.5
    assert make_agent(mismatch_tolerance=0.2).mismatch_tolerance == 0.2


def test_float16_is_refused_since_nothing_scales_its_gradients():
    with pytest.raises(ValueError, match="must be torch.bfloat16 or None, got torch.float16"):
        make_agent(agent_options={"autocast_dtype": torch.float16})

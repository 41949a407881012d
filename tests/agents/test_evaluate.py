"""Held-out evaluation, and acting."""

import numpy as np
import pytest
import torch

from agents.evaluate import evaluate, pass_rate, play, wilson_interval
from agents.sampling import Sampling
from tests.agents.bandit import BanditVectorEnv, bandit_model
from tests.agents.small import MODELS, Vowels, iterate, llama, make_agent, make_env, random_prefixes
from verifiers import VerifierError


def run(agent, env, episodes, **changes):
    arguments = {"episodes": episodes, "seed": 0, **changes}
    return evaluate(env, agent.engine, agent.policy, agent.reference, agent.sampling, **arguments)


def test_evaluation_is_deterministic():
    agent = iterate(make_agent(), 1)
    first, second = (run(agent, make_env(), 8) for _ in range(2))
    assert first == second
    other = run(agent, make_env(), 8, seed=1)
    assert (other.greedy, other.greedy_score) == (first.greedy, first.greedy_score)
    assert other.kl != first.kl


def test_the_last_partial_batch_is_counted_once():
    agent = iterate(make_agent(), 1)
    whole, parts = run(agent, make_env(8), 8), run(agent, make_env(3), 8)  # 3 + 3 + 2 of 3
    assert parts.episodes == whole.episodes == 8
    assert parts.greedy == whole.greedy
    assert parts.greedy_score == pytest.approx(whole.greedy_score)
    assert sum(parts.kinds.values()) == sum(whole.kinds.values()) == 8
    assert run(agent, make_env(3), 4).episodes == 4
    assert run(agent, make_env(3), 100).episodes == 8  # never a problem twice


def test_problems_are_played_in_order_and_rates_are_means():
    agent = make_agent()
    evaluation = run(agent, make_env(3), 8)
    env = make_env(1)
    passed, scores = [], []
    from agents.rollout import collect

    for index in range(8):
        rollout = collect(env, agent.engine, Sampling(greedy=True), None, indices=[index])
        if "verdict" in rollout.infos[0]:  # an answer that broke the judge has no score
            passed.append(rollout.infos[0]["verdict"]["passed"])
            scores += rollout.scores.tolist()
    assert evaluation.greedy == np.mean(passed)
    assert evaluation.greedy_score == pytest.approx(np.mean(scores))
    assert 0 < evaluation.greedy < 1


def test_kl_is_zero_before_training_and_not_after():
    agent = make_agent(optimizer__learning_rate=1e-2)
    before = run(agent, make_env(), 8)
    assert before.kl == before.kl_min == before.kl_max == 0.0
    after = run(iterate(agent, 1), make_env(), 8)
    assert after.kl_min < after.kl < after.kl_max
    assert after.metrics("eval")["eval/kl"] == after.kl


def test_learning_evaluates_when_it_should():
    seen = []
    agent = make_agent(eval_every=2, eval_episodes=4)
    agent.eval_env = make_env(2)
    agent.on_iteration = lambda agent, metrics, batch: seen.append("eval/greedy" in metrics)
    iterate(agent, 4)
    assert seen == [False, True, False, True]
    with pytest.raises(ValueError, match="eval_env"):
        make_agent().evaluate()


def test_pass_rate_of_infos_without_verdicts_is_zero_and_of_no_infos_undefined():
    assert pass_rate([{}, {"verdict": {"passed": True}}]) == 0.5
    assert np.isnan(pass_rate([]))


def test_with_every_judge_broken_nothing_is_zero(monkeypatch):
    def verify(self, example, answer):
        raise VerifierError("no judge today")

    monkeypatch.setattr(Vowels, "verify", verify)
    evaluation = run(make_agent(), make_env(), 8)
    assert evaluation.unscored == 16
    assert np.isnan([evaluation.greedy, evaluation.sampled, evaluation.greedy_score, evaluation.sampled_score]).all()


@pytest.mark.parametrize(
    ("rate", "n", "low", "high"),
    [(0.5, 100, 0.4038, 0.5962), (0.0, 10, 0.0, 0.2775), (1.0, 10, 0.7225, 1.0), (0.2, 20, 0.0807, 0.4160)],
)
def test_wilson_interval(rate, n, low, high):
    assert wilson_interval(rate, n) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def observed(prefixes):
    """A batched observation of token prefixes."""
    tokens = np.zeros((len(prefixes), 40), dtype=np.int64)
    for row, prefix in enumerate(prefixes):
        tokens[row, : len(prefix)] = prefix
    return {"tokens": tokens, "length": np.array([[len(prefix)] for prefix in prefixes])}


@pytest.mark.parametrize("name", MODELS)
def test_predict_takes_the_most_probable_allowed_token(name):
    agent = make_agent(MODELS[name]())
    prefixes = random_prefixes([2, 7, 4])
    with torch.no_grad():
        expected = [int(agent.policy.model(torch.from_numpy(p)[None]).logits[0, -1].argmax()) for p in prefixes]
    found, state = agent.predict(observed(prefixes), deterministic=True)
    assert found.dtype == np.int64
    assert found.tolist() == expected
    assert state is None
    single = {"tokens": prefixes[1], "length": np.array([len(prefixes[1])])}
    assert agent.predict(single, deterministic=True)[0] == expected[1]
    without = np.ones(12, dtype=bool)
    without[expected] = False
    assert not set(agent.predict(observed(prefixes), deterministic=True, action_masks=without)[0]) & set(expected)
    masks = np.ones((3, 12), dtype=bool)
    masks[np.arange(3), expected] = False
    assert (agent.predict(observed(prefixes), deterministic=True, action_masks=masks)[0] != expected).all()
    drawn = agent.predict(observed(prefixes * 20), action_masks=np.tile(masks, (20, 1)))[0]
    assert (drawn != expected * 20).all()


def test_no_masks_allow_every_action():
    """Those of the rows the agent trains in belong to other observations."""
    agent, prefixes = make_agent(), random_prefixes([2, 7, 4])
    expected = agent.predict(observed(prefixes), deterministic=True)[0].tolist()
    forbidden = np.ones(12, dtype=bool)
    forbidden[expected] = False
    agent.env.action_masks = lambda: forbidden
    assert agent.predict(observed(prefixes), deterministic=True)[0].tolist() == expected


def test_sampled_actions_follow_the_model():
    agent = make_agent(llama())
    prefix = random_prefixes([4])[0]
    torch.manual_seed(0)
    drawn, _ = agent.predict(observed([prefix] * 4000))
    with torch.no_grad():
        expected = torch.softmax(agent.policy.model(torch.from_numpy(prefix)[None]).logits[0, -1], -1)
    frequencies = torch.bincount(torch.from_numpy(drawn), minlength=12) / 4000
    torch.testing.assert_close(frequencies, expected, atol=0.03, rtol=0)


def test_answers_without_a_verdict_count_in_no_rate():
    agent = make_agent()
    evaluation = run(agent, make_env(), 8, samples=16)
    assert evaluation.unscored > 0
    infos = [
        info for rollout, n in play(make_env(), agent.engine, agent.sampling, np.repeat(np.arange(8), 16), 0)
        for info in rollout.infos[:n]
    ]  # fmt: skip
    problems = [[i["verdict"]["passed"] for i in infos[p : p + 16] if "verdict" in i] for p in range(0, 128, 16)]
    assert min(map(len, problems)) < 16
    assert evaluation.sampled == pytest.approx(np.mean([np.mean(passed) for passed in problems if passed]))


def test_several_answers_need_problems_that_can_be_asked_for():
    with pytest.raises(ValueError, match="num_examples"):
        run(make_agent(bandit_model(), BanditVectorEnv(8)), BanditVectorEnv(8), 8, samples=2)

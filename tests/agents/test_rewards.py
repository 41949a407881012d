"""From raw scores to shaped rewards: types, running moments, cuts, the price of length, and declared ranges."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.metrics import batch_metrics
from agents.ppo import objective
from agents.rewards import Moments, processed_rewards, shaped_rewards
from agents.rollout import collect
from agents.settings import RewardConfig
from tests.agents.small import EOS, Scripted, iterate, make_agent, make_env, scripted_batch
from tests.agents.test_rollouts import Inserting

MASK = torch.ones(1, 2, dtype=torch.bool)
TURNS = [[2, EOS], [0, EOS], [0, 0, 0, EOS], [0, 0, 0, 0, 0, 0]]  # scores 1, 2, 4, 7


def test_an_integer_reward_keeps_the_fraction_of_the_kl_cost():
    found = shaped_rewards(torch.tensor([[0, 1]]), torch.full((1, 2), -0.25), torch.full((1, 2), -0.5), 0.5, MASK)
    assert found.tolist() == [[-0.125, 0.875]]


def test_a_half_precision_reward_keeps_what_its_type_could_not():
    reward = torch.tensor([[0.0, 1.0]], dtype=torch.bfloat16)
    found = shaped_rewards(reward, torch.full((1, 2), -0.5), torch.full((1, 2), -0.4922), 1.0, MASK)
    assert found.dtype == torch.float32
    assert float(found[0, 1]) == pytest.approx(1.0078, abs=1e-6)
    assert float(torch.tensor(1.0078).bfloat16()) == pytest.approx(1.0078, abs=1e-4)
    assert float(torch.tensor(1.003).bfloat16()) == 1.0  # what would be lost


@pytest.mark.parametrize("dtype", [np.int64, np.float16, np.bool_])
def test_rewards_of_any_type_arrive_as_float32(dtype):
    class Typed(Inserting):
        def step(self, actions):
            observation, reward, *rest = super().step(actions)
            return observation, reward.astype(dtype), *rest

    agent = make_agent(env=Typed(2), mismatch_tolerance=1e9, kl__coef=0.01)
    rollout = collect(agent.env, Scripted([[[0, 2, 3]], [[4, 6, 7]]]), agent.sampling, None)
    assert rollout.rewards.dtype == torch.float32
    assert rollout.rewards.tolist() == [[0.0, 0.0, 1.0]] * 2
    batch = agent.score(rollout)
    cost = 0.01 * (batch.old_logprobs - batch.ref_logprobs)
    torch.testing.assert_close(batch.rewards, rollout.rewards - cost)
    assert float(cost.abs().min()) > 0


def test_moments_of_batches_are_those_of_all_numbers():
    numbers, moments = torch.randn(100, generator=torch.Generator().manual_seed(0)) * 3 + 7, Moments()
    for piece in numbers.split([1, 40, 0, 7, 52]):
        moments.update(piece)
    assert moments.count == 100
    assert moments.mean == pytest.approx(float(numbers.double().mean()), abs=1e-12)
    assert moments.std == pytest.approx(float(numbers.double().std(correction=0)), abs=1e-12)


@pytest.mark.parametrize("score", [0.0, 1.0, 0.1, -7.3])
@pytest.mark.parametrize("n", [1, 3, 7])
def test_equal_scores_have_a_deviation_of_one_since_it_divides(score, n):
    moments = Moments()
    for _ in range(3):
        moments.update(torch.full((n,), score))
    assert moments.std == 1.0
    assert Moments().std == 1.0


def scored(config, turns=TURNS, **changes):
    agent, batch = scripted_batch(turns, **{"kl__coef": 0.0, "whiten_advantages": False, **changes})
    moments = Moments()
    return batch.rollout, processed_rewards(batch.rollout, config, moments), moments


def test_without_settings_rewards_are_the_environments():
    rollout, rewards, moments = scored(RewardConfig())
    assert torch.equal(rewards, rollout.rewards)
    assert rollout.scores.tolist() == [1.0, 2.0, 4.0, 7.0]
    assert moments.count == 0


def test_normalised_scores_by_hand():
    rollout, rewards, moments = scored(RewardConfig(normalize=True))
    std = math.sqrt(((1 - 3.5) ** 2 + (2 - 3.5) ** 2 + (4 - 3.5) ** 2 + (7 - 3.5) ** 2) / 4)
    expected = (torch.tensor([1.0, 2.0, 4.0, 7.0]) - 3.5) / std
    torch.testing.assert_close(rewards.sum(1), expected)
    assert (moments.mean, moments.std) == (3.5, pytest.approx(std))
    assert [int(row.nonzero()) for row in rewards] == [1, 1, 3, 5]  # the last action's, wherever that is


def test_scores_are_cut_after_they_were_normalised():
    _, rewards, _ = scored(RewardConfig(clip=3.0))
    assert rewards.sum(1).tolist() == [1.0, 2.0, 3.0, 3.0]
    _, rewards, _ = scored(RewardConfig(normalize=True, clip=1.0))
    std = math.sqrt(5.25)
    torch.testing.assert_close(rewards.sum(1), torch.tensor([-1.0, -1.5 / std, 0.5 / std, 1.0]))


def test_each_action_beyond_the_budget_costs():
    _, rewards, _ = scored(RewardConfig(length_budget=3, length_penalty=0.25))
    assert rewards.sum(1).tolist() == [1.0, 2.0, 3.75, 6.25]
    _, rewards, _ = scored(RewardConfig(length_budget=3, length_penalty=0.25, clip=3.0))
    assert rewards.sum(1).tolist() == [1.0, 2.0, 2.75, 2.25]  # the penalty is not cut
    assert [int(row.nonzero()) for row in rewards] == [1, 1, 3, 5]


def test_rows_without_a_verdict_have_no_score_to_process():
    config = RewardConfig(normalize=True, length_budget=0, length_penalty=0.5, score_range=(1.0, 7.0))
    rollout, rewards, moments = scored(config, [[0, EOS], [7, EOS], [0, 0, 0, EOS]])  # a 7 breaks the judge
    assert rollout.judged.tolist() == [True, False, True]
    assert (moments.count, moments.mean, moments.std) == (2, 3.0, 1.0)
    assert rewards.sum(1).tolist() == [-2.0, 0.0, -1.0]


def test_an_episode_cut_off_from_outside_has_no_score_to_process():
    env = make_env(2, max_episode_steps=2)
    agent = make_agent(env=env, mismatch_tolerance=1e9)
    rollout = collect(env, Scripted([[[0], [2]], [[0], [EOS]]]), agent.sampling, None, indices=[0, 1])
    assert rollout.judged.tolist() == [False, True]
    config = RewardConfig(normalize=True, length_budget=0, length_penalty=1.0, score_range=(1.0, 9.0))
    moments = Moments()
    rewards = processed_rewards(rollout, config, moments)
    assert moments.count == 1
    assert rewards.sum(1).tolist() == [0.0, -2.0]


def test_moments_go_on_from_batch_to_batch():
    agent = make_agent(reward__normalize=True)
    seen = []
    agent.on_iteration = lambda agent, metrics, batch: seen.extend(batch.rollout.scores[batch.rollout.judged].tolist())
    iterate(agent, 2)
    assert agent.score_moments.count == len(seen) > 8
    assert agent.score_moments.mean == pytest.approx(np.mean(seen))
    assert agent.score_moments.std == pytest.approx(np.std(seen))


def test_raw_scores_are_logged_beside_processed_ones():
    changes = {"reward__normalize": True, "reward__clip": 0.5, "kl__coef": 0.1}
    agent, batch = scripted_batch(TURNS, **changes)
    metrics = batch_metrics(batch)
    assert metrics["objective/scores"] == 3.5
    assert batch.rollout.scores.tolist() == [1.0, 2.0, 4.0, 7.0]
    assert float(batch.score_rewards.sum(1).abs().max()) == pytest.approx(0.5)
    shaped = float(batch.score_rewards.sum(1).mean()) + metrics["objective/non_score_reward"]
    assert metrics["objective/rlhf_reward"] == pytest.approx(shaped, abs=1e-5)


def test_processed_scores_are_what_the_advantages_come_from():
    agent, batch = scripted_batch(TURNS, kl__coef=0.0, whiten_advantages=False, gae_lambda=1.0, reward__clip=3.0)
    torch.testing.assert_close(batch.returns[3], torch.full((6,), 3.0))
    torch.testing.assert_close(batch.returns[1, :2], torch.full((2,), 2.0))
    again = objective.gae(batch.score_rewards, batch.values, batch.last_value, batch.mask, 1.0, 1.0)
    torch.testing.assert_close(batch.advantages, again)


@pytest.mark.parametrize(("low", "high", "row"), [(1.0, 6.0, 3), (1.5, 9.0, 0)])
def test_a_score_outside_the_declared_range_is_refused(low, high, row):
    with pytest.raises(
        ValueError, match=rf"score of row {row} is {[1, 2, 4, 7][row]}, outside .*\[{low:g}, {high:g}\]"
    ):
        scripted_batch(TURNS, reward__score_range=(low, high))
    scripted_batch(TURNS, reward__score_range=(1.0, 7.0))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reward_that_is_not_finite_is_refused_and_names_its_row(value):
    agent, batch = scripted_batch(TURNS)
    rollout = replace(batch.rollout, rewards=batch.rollout.rewards.clone())
    rollout.rewards[2, 3] = value
    with pytest.raises(ValueError, match="row 2 a reward that is not finite"):
        agent.score(rollout)


def test_a_score_of_zero_is_a_score_like_any_other():
    """A 0/1 verifier gives it most of the time: it is normalised, charged for length, and counted."""
    agent, batch = scripted_batch([[2, EOS], [0, EOS]], kl__coef=0.0, recompute_logprobs=True)
    batch.rollout.rewards[0] = 0.0
    assert batch.rollout.judged.tolist() == [True, True]
    moments = Moments()
    found = processed_rewards(batch.rollout, RewardConfig(normalize=True), moments)
    assert (moments.count, moments.mean) == (2, 1.0)
    assert found.sum(1).tolist() == [-1.0, 1.0]

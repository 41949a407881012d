"""Agents that compare answers: GRPO and REINFORCE reach the closed-form optimum, and their advantages are by hand."""

import pytest
import torch

from agents.groups import group_moments, others_mean
from agents.grpo import GRPO, GRPOConfig
from agents.reinforce import Reinforce, ReinforceConfig
from agents.settings import KLConfig
from tests.agents.bandit import BETA, BanditVectorEnv, arm_probabilities, bandit_model, optimum, total_variation
from tests.agents.small import configure, iterate, llama, make_env, scripted_batch

KL_IN_REWARD = KLConfig(coef=BETA)
COMMON = {"optimizer__learning_rate": 3e-3, "optimizer__schedule": "linear", "group_size": 512, "micro_batch": 512,
          "eval_every": 0}  # fmt: skip
STEPS = {"epochs": 4, "minibatches": 4}
AGENTS = {
    "reinforce": (Reinforce, configure(ReinforceConfig(kl=KL_IN_REWARD), **COMMON), 250),
    "grpo": (GRPO, configure(GRPOConfig(kl=KL_IN_REWARD), **COMMON, **STEPS), 100),
    "grpo-k2-loss": (
        GRPO,
        configure(GRPOConfig(kl=KLConfig(BETA, "loss", "k2"), normalize=False), **COMMON, **STEPS),
        100,
    ),
}


@pytest.mark.parametrize("name", AGENTS)
def test_the_bandits_optimum_is_reached(name):
    kind, config, iterations = AGENTS[name]
    model = bandit_model()
    reference = arm_probabilities(model)
    best, _ = optimum(reference)
    assert total_variation(reference, best) > 0.3
    kind(model, BanditVectorEnv(512), config).learn(512 * iterations)
    assert total_variation(arm_probabilities(model), best) < 0.02


def test_leave_one_out_by_hand():
    totals = torch.tensor([[1.0, 0.0, 0.0, 1.0], [2.0, 4.0, 6.0, 9.0]])
    counted = torch.tensor([[True] * 4, [True, True, True, False]])
    found = totals - others_mean(totals, counted)
    torch.testing.assert_close(found[0], torch.tensor([2 / 3, -2 / 3, -2 / 3, 2 / 3]))
    torch.testing.assert_close(found[1, :3], torch.tensor([-3.0, 0.0, 3.0]))


def test_an_answer_that_stands_alone_has_no_advantage():
    totals, counted = torch.tensor([[5.0, 7.0]]), torch.tensor([[True, False]])
    assert float((totals - others_mean(totals, counted))[0, 0]) == 0.0


def test_group_moments_leave_out_what_has_no_verdict():
    mean, std = group_moments(torch.tensor([[1.0, 3.0, 100.0]]), torch.tensor([[True, True, False]]))
    assert (float(mean), float(std)) == (2.0, 1.0)


def test_large_scores_that_differ_are_compared():
    agent = GRPO(llama(), make_env(2), GRPOConfig(group_size=2))
    found = agent.compare(torch.tensor([[1000.0, 1001.0]]), torch.ones(1, 2, dtype=torch.bool))
    assert found.tolist() == [[-1.0, 1.0]]


def make(kind, config, rows=8, **changes):
    return kind(llama(), make_env(rows), configure(config, eval_every=0, group_size=4, **changes))


def test_neighbouring_rows_answer_the_same_problem_and_groups_differ():
    rollout = make(GRPO, GRPOConfig(), rows=32).collect()
    ids = [info["example_id"] for info in rollout.infos]
    assert all(len(set(ids[i : i + 4])) == 1 for i in range(0, 32, 4))
    assert len(set(ids)) > 2
    answers = [
        tuple(t[p:n].tolist()) for t, p, n in zip(rollout.tokens, rollout.prompt_lengths, rollout.lengths, strict=True)
    ]
    assert len(set(answers[:4])) > 1


@pytest.mark.parametrize("normalize", [True, False])
def test_groups_without_variance_teach_nothing_and_are_counted(normalize):
    agent = make(GRPO, GRPOConfig(kl=KLConfig(0.0)), normalize=normalize)
    batch = agent.score(agent.collect())
    batch.rollout.rewards.zero_()
    batch = agent.score(batch.rollout)
    assert not batch.advantages.any()
    assert agent.group_metrics(batch) == {"groups/without_variance": 1.0}


def test_every_action_of_an_answer_has_its_advantage_and_padding_none():
    agent = make(Reinforce, ReinforceConfig(kl=KLConfig(0.0)))
    batch = agent.score(agent.collect())
    for row in range(8):
        assert len(set(batch.advantages[row][batch.mask[row]].tolist())) <= 1
    assert not batch.advantages[~batch.mask].any()


@pytest.mark.parametrize(("kind", "config"), [(GRPO, GRPOConfig()), (Reinforce, ReinforceConfig())])
def test_the_same_seed_gives_the_same_run_and_a_checkpoint_goes_on(tmp_path, kind, config):
    straight, half = iterate(make(kind, config), 4), iterate(make(kind, config), 2)
    half.save(tmp_path / "half")
    resumed = iterate(make(kind, config).restore(tmp_path / "half"), 2)
    for a, b in zip(straight.policy.parameters(), resumed.policy.parameters(), strict=True):
        assert torch.equal(a, b)
    assert straight.num_timesteps == resumed.num_timesteps


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="8 rows, which is no multiple of group_size 3"):
        GRPO(llama(), make_env(8), GRPOConfig(group_size=3))
    with pytest.raises(ValueError, match="group_size must be 2 or more"):
        GRPOConfig(group_size=1)
    with pytest.raises(ValueError, match="one step per batch"):
        ReinforceConfig(epochs=2)
    with pytest.raises(ValueError, match="KL in the reward"):
        ReinforceConfig(kl=KLConfig(place="loss", estimator="k3"))


def test_a_checkpoint_of_another_agent_is_refused(tmp_path):
    make(GRPO, GRPOConfig()).save(tmp_path / "grpo")
    agent, _ = scripted_batch([[2, 11]])
    with pytest.raises(ValueError, match="checkpoint of agent 'grpo', expected 'ppo'"):
        agent.restore(tmp_path / "grpo")


@pytest.mark.parametrize("total", [0.0, 33.3, 100.1, 1000.1, -5e4])
@pytest.mark.parametrize("k", [2, 8, 12])
def test_equal_answers_have_no_advantage_however_large_their_score(total, k):
    agent = GRPO(llama(), make_env(k), GRPOConfig(group_size=k))
    found = agent.compare(torch.full((1, k), total), torch.ones(1, k, dtype=torch.bool))
    assert found.dtype == torch.float32
    assert (found == 0).all()

"""What a rollout holds: masks from lengths, the score on the last action, how it ended, tokens as they were sampled."""

import re
from dataclasses import fields

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from agents.environment import has_whole_turns
from agents.ppo import objective
from agents.rollout import collect
from agents.sampling import Sampling
from agents.scoring import score_rollout
from llm_envs import TextEnv, TokenVectorEnv
from tests.agents.small import (
    AB,
    EOS,
    Letters,
    Scripted,
    gradients,
    llama,
    make_agent,
    make_env,
    make_task,
    scripted_batch,
)

# text "a" scores 2, "" scores 1, six letters use the budget up, one letter and no stop needs a budget of 1
ENDINGS = {"eos": [0, 1, EOS], "budget": [0, 2, 3, 0, 4, 0], "eos_first": [EOS]}


@pytest.mark.parametrize("ending", [*ENDINGS, "one_token_budget"])
def test_the_score_lands_on_the_last_action(ending):
    turn, env = ([0], make_env(2, budget=1)) if ending == "one_token_budget" else (ENDINGS[ending], None)
    agent, batch = scripted_batch([turn, [EOS]], env, kl__coef=0.1)
    rollout, n = batch.rollout, len(turn)
    score = 1.0 + turn.count(0) + turn.count(AB)
    assert rollout.n_actions.tolist() == [n, 1]
    assert rollout.rewards[0].tolist() == [0.0] * (n - 1) + [score]
    assert rollout.scores.tolist() == [score, 1.0]
    assert rollout.infos[0]["stop_reason"] == ("stop" if turn[-1] == EOS else "length")
    assert rollout.terminated.all()
    assert not rollout.truncated.any()
    kl = (batch.old_logprobs - batch.ref_logprobs)[batch.mask].abs().sum()
    assert kl > 0.1
    for row in range(2):
        mask = batch.mask[row]
        answer_kl = (batch.old_logprobs - batch.ref_logprobs)[row][mask].sum()
        assert float(batch.rewards[row].sum()) == pytest.approx(float(rollout.scores[row] - 0.1 * answer_kl), abs=1e-5)
        last = int(mask.sum()) - 1
        cost = 0.1 * (batch.old_logprobs - batch.ref_logprobs)[row]
        assert float((batch.rewards + cost)[row, last]) == pytest.approx(float(rollout.scores[row]), abs=1e-6)
        torch.testing.assert_close((batch.rewards + cost)[row, :last], torch.zeros(last), atol=1e-6, rtol=0)


def test_a_stop_token_that_is_also_the_pad_token_trains():
    agent, batch = scripted_batch([[5, 6, EOS], [0, 1, 2, 3, 4, 5], [EOS]], whiten_advantages=False)
    assert batch.mask.tolist() == [[True] * 3 + [False] * 3, [True] * 6, [True] + [False] * 5]
    assert agent.env.pad_token_id == EOS
    _, with_stop = gradients(agent, batch, [torch.tensor([2])])  # this row's only action is the stop token
    trunk = with_stop[: len(agent.groups["policy"][0])]
    assert sum(float(g.abs().sum()) for g in trunk) > 1e-3
    assert float(batch.advantages[0, 2]) != 0
    batch.mask[0, 2] = False
    _, a = gradients(agent, batch, [torch.tensor([0])], torch.tensor(3))
    batch.mask[0, 2] = True
    _, b = gradients(agent, batch, [torch.tensor([0])], torch.tensor(3))
    assert not torch.allclose(a[0], b[0])


def test_sampled_stop_tokens_are_actions():
    agent = make_agent()
    rollout = agent.collect()
    ended = [info["stop_reason"] == "stop" for info in rollout.infos]
    assert any(ended)
    for row, stopped in enumerate(ended):
        last = int(rollout.n_actions[row]) - 1
        assert (int(rollout.tokens[row, rollout.positions[row, last]]) == EOS) == stopped
        assert int(rollout.positions[row, last]) == int(rollout.lengths[row]) - 1
        assert bool(rollout.real[row, last])


def test_the_token_budget_terminates_and_bootstraps_nothing():
    agent, batch = scripted_batch([ENDINGS["budget"], [0, EOS]], whiten_advantages=False, kl__coef=0.0, gae_lambda=1.0)
    assert batch.rollout.terminated.all()
    torch.testing.assert_close(batch.returns[0], torch.full((6,), 4.0))
    torch.testing.assert_close(batch.returns[1, :2], torch.full((2,), 2.0))


def test_a_time_limit_truncates_and_bootstraps_from_the_last_value():
    env = make_env(2, max_episode_steps=3)
    turns = [[[0], [2], [3]], [[0], [EOS]]]
    agent = make_agent(env=env, mismatch_tolerance=1e9, whiten_advantages=False, kl__coef=0.0, gae_lambda=1.0)
    torch.nn.init.normal_(agent.policy.value_head.weight, generator=torch.Generator().manual_seed(0))
    torch.nn.init.constant_(agent.policy.value_head.bias, 0.3)
    rollout = collect(env, Scripted(turns), agent.sampling, None, indices=[0, 1])
    assert rollout.truncated.tolist() == [True, False]
    assert rollout.terminated.tolist() == [False, True]
    assert not rollout.unscored.any()
    batch = agent.score(rollout)
    scores = agent.policy.score(rollout.tokens, rollout.lengths, rollout.positions, agent.sampling, rollout.allowed)
    last = float(scores.values[0, -1].detach())
    assert abs(last) > 0.01
    torch.testing.assert_close(batch.returns[0], torch.full((3,), last), atol=1e-5, rtol=0)
    torch.testing.assert_close(batch.returns[1, :2], torch.full((2,), 2.0), atol=1e-5, rtol=0)


def test_terminated_and_truncated_at_once_bootstraps_nothing():
    env = make_env(1, max_episode_steps=2)  # the stop token comes on the very step the time limit cuts
    agent, batch = scripted_batch([[0, EOS]], env, whiten_advantages=False, kl__coef=0.0, gae_lambda=1.0)
    assert batch.rollout.terminated.all()
    assert batch.rollout.truncated.all()
    torch.testing.assert_close(batch.returns[0], torch.full((2,), 2.0))


def test_ids_whose_text_encodes_to_other_ids_stay_as_they_were_sampled():
    tokenizer = make_env(1).format.tokenizer
    assert tokenizer.encode(tokenizer.decode([0, 1])) == [AB]
    agent, batch = scripted_batch([[0, 1, AB, 0, 1, EOS], [1, 0, 1, EOS]])
    assert batch.rollout.tokens[0, -6:].tolist() == [0, 1, AB, 0, 1, EOS]
    start = int(batch.rollout.prompt_lengths[1])
    assert batch.rollout.tokens[1, start : start + 4].tolist() == [1, 0, 1, EOS]


def test_an_environment_that_changes_sampled_tokens_is_refused():
    env = Inserting(2)
    env.rewrite = True
    with pytest.raises(RuntimeError, match="never be re-encoded"):
        collect(env, Scripted([[[2, 3]], [[3, 2]]]), Sampling(), None)


class StepOnly(gym.vector.VectorWrapper):
    """Hides the whole turns of a vector environment."""

    def __init__(self, env):
        super().__init__(env)

    @property
    def unwrapped(self):
        return self

    def __getattr__(self, name):
        if name in ("send", "recv", "play"):
            raise AttributeError(name)
        return getattr(self.env, name)


@pytest.mark.parametrize("rows", [1, 8])
def test_whole_turns_and_single_tokens_give_the_same_rollout(rows):
    env = make_env(rows)
    whole, single = make_agent(env=env), make_agent(env=StepOnly(make_env(rows)))
    assert has_whole_turns(whole.env)
    assert not has_whole_turns(single.env)
    greedy = Sampling(greedy=True)
    a, b = (collect(x.env, x.engine, greedy, None, indices=list(range(rows))) for x in (whole, single))
    assert int(a.n_actions.max()) > 2
    for field in fields(a):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if field.name == "logprobs":
            torch.testing.assert_close(one, other, atol=1e-4, rtol=0)
        elif isinstance(one, torch.Tensor):
            assert torch.equal(one, other), field.name
        elif field.name != "seconds":
            assert one == other, field.name


def test_a_vector_wrapper_is_not_bypassed():
    class Doubled(gym.vector.VectorRewardWrapper):
        def rewards(self, reward):
            return 2 * reward

    plain = make_env(2)
    env = Doubled(plain)
    rollout = collect(env, Scripted([[[0, EOS]], [[EOS]]]), Sampling(), None, indices=[0, 1])
    assert rollout.scores.tolist() == [4.0, 2.0]


class Inserting(VectorEnv):
    """Two-token answers; after the first action the environment itself writes two tokens. Reward 1 at the end."""

    rewrite = False

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.DISABLED}
        self.single_action_space = spaces.Discrete(12)
        self.single_observation_space = spaces.Dict(
            tokens=spaces.Box(0, 11, (16,), np.int64), length=spaces.Box(0, 16, (1,), np.int64)
        )

    def _observation(self):
        tokens = np.zeros((self.num_envs, 16), np.int64)
        for row, prefix in enumerate(self.prefixes):
            tokens[row, : len(prefix)] = prefix
        return {"tokens": tokens, "length": np.array([[len(prefix)] for prefix in self.prefixes])}

    def reset(self, *, seed=None, options=None):
        self.count = 0
        self.prefixes = [[5, 1 + row] for row in range(self.num_envs)]
        return self._observation(), {}

    def step(self, actions):
        self.count += 1
        for prefix, action in zip(self.prefixes, actions.tolist(), strict=True):
            prefix.append((action + 1) % 12 if self.rewrite else action)
            if self.count == 2:
                prefix += [8, 9]
        ended = np.full(self.num_envs, self.count == 3)
        return self._observation(), ended.astype(float), ended, ~ended & False, {}


def test_inserted_tokens_have_no_column_and_gae_is_the_compacted_one():
    env = Inserting(2)
    agent = make_agent(env=env, mismatch_tolerance=1e9)
    rollout = collect(env, Scripted([[[0, 2, 3]], [[4, 6, 7]]]), agent.sampling, None)
    assert rollout.tokens.tolist() == [[5, 1, 0, 2, 8, 9, 3], [5, 2, 4, 6, 8, 9, 7]]
    assert rollout.positions.tolist() == [[2, 3, 6]] * 2
    assert rollout.rewards.tolist() == [[0.0, 0.0, 1.0]] * 2
    assert rollout.mask.all()
    values = torch.tensor([[0.2, 0.5, 0.6]] * 2)  # trap 17: what stands between is nobody's business
    advantages = objective.gae(rollout.rewards, values, torch.zeros(2), rollout.mask, 1.0, 0.95)
    torch.testing.assert_close(advantages, torch.tensor([[0.756, 0.48, 0.4]] * 2), atol=5e-4, rtol=0)
    batch = agent.score(rollout)
    logits = agent.policy.model(rollout.tokens).logits.detach()
    expected = torch.log_softmax(logits, -1)[:, [1, 2, 5]].gather(2, rollout.tokens[:, [2, 3, 6], None])[..., 0]
    torch.testing.assert_close(batch.ref_logprobs, expected, atol=1e-5, rtol=0)


def test_inserted_tokens_with_a_sampling_engine_agree_with_the_trainer():
    agent = make_agent(env=Inserting(4))
    assert agent.score(agent.collect()).comparison.max < 1e-4


def test_what_is_sampled_depends_on_the_seed_and_the_iteration():
    def sampled(seed, iteration):
        agent = make_agent(env=Inserting(8), seed=seed)  # an environment that takes no notice of seeds
        agent.iteration = iteration
        return agent.collect().tokens

    assert torch.equal(sampled(1, 0), sampled(1, 0))
    assert not torch.equal(sampled(1, 0), sampled(2, 0))
    assert not torch.equal(sampled(1, 0), sampled(1, 1))


def test_masks_that_depend_on_the_turn_are_asked_before_every_token_and_stored():
    pytest.importorskip("llguidance")
    rows = [lambda: TextEnv(make_task(), "train", on_verifier_error="unscored")] * 6
    env = TokenVectorEnv(rows, max_length=40, autoreset_mode="Disabled", constraint="regex:a[bc]{2}d?")
    agent = make_agent(llama(vocabulary=258), env)
    generator = torch.Generator().manual_seed(0)
    rollout = collect(env, agent.engine, agent.sampling, generator, indices=[0] * 6)
    answers = [answer for _, answer in rollout.texts(env.decode)]
    assert all(re.fullmatch("a[bc]{2}d?", answer) for answer in answers), answers
    assert len(set(answers)) > 1
    allowed = rollout.allowed_tokens(torch.arange(6), rollout.logprobs.shape[1])
    assert allowed.shape == (6, rollout.logprobs.shape[1], 258)
    drawn = rollout.tokens.gather(1, rollout.positions)
    assert allowed.gather(2, drawn[:, :, None])[rollout.real].all()
    first = allowed[:, 0].sum(1)
    assert first.tolist() == [1] * 6, "only an a may come first"
    scores = score_rollout(agent.policy, rollout, 4)
    torch.testing.assert_close(scores.logprobs[rollout.real], rollout.logprobs[rollout.real], atol=1e-5, rtol=0)


def test_rows_of_gymnasiums_own_vector_environments_play_the_examples_they_are_told():
    from gymnasium.vector import SyncVectorEnv

    from llm_envs import TokenEnv

    def make():
        return TokenEnv(TextEnv(make_task(), "train", on_verifier_error="unscored"), tokenizer=Letters(), max_length=40)

    env = SyncVectorEnv([make] * 3, autoreset_mode="Disabled")
    agent = make_agent(env=env)
    for indices in ([5, 0, 3], [1, 1, 7]):
        rollout = collect(env, agent.engine, agent.sampling, torch.Generator().manual_seed(0), indices=indices)
        assert [info["example_id"] for info in rollout.infos] == [str(index) for index in indices]
    assert agent.evaluate(env, episodes=8).episodes == 8

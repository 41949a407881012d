"""MaskablePPO on token environments: encoder, refusals, checkpoints, randomness, memory; the example learns."""

import random
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete

import agents
from agents.base import AgentError
from agents.maskable_ppo import MaskablePPOAgent
from agents.prefix_encoder import PrefixEncoder
from agents.rng import rng_state
from agents.two_arms import TwoArms
from llm_envs import TextEnv, TokenEnv
from tests.agents.small import VOCABULARY, Letters, make_task, same, snapshot

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {"num_envs": 4, "n_steps": 8, "batch_size": 16, "width": 8, "layers": 2, "heads": 2}
SPACE = Dict(
    tokens=Box(0, 9, (12,), np.int64), length=Box(0, 12, (1,), np.int64), remaining=Box(0, 8, (1,), np.int64)
)  # fmt: skip


def letters_env(**options):
    return TokenEnv(
        TextEnv(make_task(), "train", on_verifier_error="unscored"),
        **{"tokenizer": Letters(), "max_length": 40, **options},
    )


def make(env=letters_env, **options):
    return MaskablePPOAgent.make(env, **{**SMALL, **options})


def encoder():
    torch.manual_seed(0)
    return PrefixEncoder(SPACE, width=16, layers=2, heads=4)


def observe(prefixes, padding=0, remaining=4):
    tokens = torch.full((len(prefixes), 12), padding)
    for row, prefix in zip(tokens, prefixes, strict=True):
        row[: len(prefix)] = torch.tensor(prefix, dtype=torch.long)
    length = torch.tensor([[len(prefix)] for prefix in prefixes])
    return {"tokens": tokens.float(), "length": length.float(), "remaining": torch.full_like(length, remaining).float()}


# The encoder


@torch.no_grad()
def test_padding_changes_no_bit_of_the_features():
    encode, prefixes = encoder(), [[1, 2, 3], [4], [], [5, 6, 7, 8, 9, 1, 2]]
    clean = encode(observe(prefixes))
    for padding in (9, 3, -1, 1000):
        assert torch.equal(encode(observe(prefixes, padding)), clean)
    for row, prefix in enumerate(prefixes):  # alone the batch is narrower: float order, nothing else
        torch.testing.assert_close(encode(observe([prefix]))[0], clean[row], atol=1e-6, rtol=0)


@torch.no_grad()
def test_features_depend_on_every_token_on_order_and_on_what_remains():
    encode = encoder()
    start, *others = encode(observe([[1, 2, 3, 4], [0, 2, 3, 4], [1, 2, 3, 5], [2, 1, 3, 4], [1, 2, 3]]))
    for other in others:
        assert float((start - other)[:16].abs().max()) > 1e-3
    assert encode.features_dim == 17
    assert encode(observe([[1]], remaining=2))[0, -1] == 0.25


# Acting and learning


def test_it_is_made_by_name_learns_in_tokens_and_never_writes_a_masked_one():
    gym.register("test/Letters-v0", letters_env)
    agent = agents.make("maskable_ppo", "test/Letters-v0", env_options={"allowed_tokens": [0, 1, 2]}, **SMALL)
    assert agent.learn(60) is agent
    assert agent.num_timesteps == 64  # whole batches of 4 x 8
    assert agent.learn(64).num_timesteps == 64
    assert agent.learn(65).num_timesteps == 96
    episodes = list(agent.play(lambda: letters_env(allowed_tokens=[0, 1, 2]), range(8), rows=3))
    assert {episode.info["stop_reason"] for episode in episodes} <= {"stop", "length"}


def test_learning_does_not_need_masks():
    class NoMasks(TwoArms):
        action_masks = property()  # type: ignore[assignment]

    agent = make(lambda: NoMasks(2, [0])).learn(32)
    assert agent.num_timesteps == 32
    observation, _ = TwoArms(2, [0]).reset(seed=0)
    assert agent.predict(observation)[0] in Discrete(8)


def test_a_run_depends_on_its_seed_alone_and_disturbs_nobody():
    def train(seed, outside):
        random.seed(outside), np.random.seed(outside), torch.manual_seed(outside)
        before = str(rng_state())
        agent = make(seed=seed).learn(64)
        observation, _ = letters_env().reset(seed=1)
        drawn = [int(agent.predict(observation)[0]) for _ in range(20)]
        assert str(rng_state()) == before
        return snapshot(agent.algorithm.policy), drawn

    (weights, drawn), (again, drawn_again), (other, drawn_other) = train(0, 1), train(0, 2), train(3, 1)
    assert same(weights, again)
    assert drawn == drawn_again
    assert not same(weights, other)
    assert drawn != drawn_other


def test_seeded_draws_depend_on_the_seed_alone():
    agent, (observation, _) = make(), letters_env().reset(seed=1)

    def drawn(seed):
        agent.seed(seed)
        return [int(agent.predict(observation)[0]) for _ in range(20)]

    first = drawn(7)
    assert drawn(8) != first
    assert drawn(7) == first


# Refusals


class NoLength(gym.Env):
    observation_space = Dict(tokens=Box(0, 7, (4,), np.int64))
    action_space = Discrete(8)


def test_environments_it_cannot_act_in_are_refused():
    import llm_envs  # noqa: F401

    with pytest.raises(AgentError, match=r"expected a token-level environment .*got <.*TransformText"):
        make("llm_envs/TransformText-v0")
    with pytest.raises(AgentError, match="expected observations with a Box 'tokens' and a Box 'length', got Dict"):
        make(NoLength)
    with pytest.raises(AgentError, match="expected a token-level environment"):
        make("CartPole-v1")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"width": 9}, "width must be a multiple of heads, got 9 and 2"),
        ({"heads": 0}, "heads must be at least 1, got 0"),
        ({"layers": -1}, "layers must be at least 1, got -1"),
        ({"width": "big"}, "width must be int, got 'big'"),
        ({"num_envs": 0}, "num_envs must be > 0, got 0"),
        ({"num_envs": True}, "num_envs must be int, got True"),
        ({"n_steps": 2.5}, "n_steps must be int, got 2.5"),
        ({"batch_size": "all"}, "batch_size must be int or None, got 'all'"),
        ({"learning_rate": "big"}, "learning_rate must be float or Callable, got 'big'"),
        ({"learning_rate": -1.0}, "learning_rate must be > 0, got -1.0"),
        ({"ent_coef": float("nan")}, "ent_coef must be 0 or more, got nan"),
        ({"gamma": 3}, r"gamma must be in \[0, 1\], got 3"),
        ({"seed": -1}, "seed must be 0 or more, got -1"),
        ({"policy_kwargs": [1]}, r"policy_kwargs must be Mapping or None, got \[1\]"),
        ({"learning_rat": 1.0}, "MaskablePPO refuses its options: .*learning_rat"),
        ({"device": "gpu"}, "MaskablePPO refuses its options: .*gpu"),
    ],
)
def test_wrong_options_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(**options)


def test_wrong_options_are_refused_before_anything_is_built():
    def never():
        raise AssertionError("an environment was made")

    with pytest.raises(ValueError, match="num_envs must be > 0"):
        make(never, num_envs=0)


def test_an_encoder_of_no_possible_shape_is_refused():
    for width, heads in ((8, 0), (8, 3), (0, 1)):
        with pytest.raises(ValueError, match="must be"):
            PrefixEncoder(SPACE, width=width, heads=heads)


# Memory


class LargeVocabulary(TwoArms):
    def __init__(self):
        super().__init__(2, [0])
        self.action_space = Discrete(50_000)

    def action_masks(self):
        return np.isin(np.arange(50_000), (2, 3))


@pytest.mark.parametrize(("num_envs", "n_steps", "megabytes"), [(1, 128, 25.6), (2, 128, 51.2), (2, 16, 6.4)])
def test_masks_take_four_bytes_per_token_of_the_vocabulary_and_action(num_envs, n_steps, megabytes):
    agent = make(LargeVocabulary, num_envs=num_envs, n_steps=n_steps)
    masks = agent.algorithm.rollout_buffer.action_masks
    assert masks.nbytes == n_steps * num_envs * 50_000 * 4 == megabytes * 1e6


def test_allowed_tokens_do_not_make_masks_narrower():
    for options in ({}, {"allowed_tokens": [0]}):
        agent = make(lambda options=options: letters_env(**options))
        assert agent.algorithm.rollout_buffer.action_masks.shape == (8, 4, VOCABULARY)


# The example


def run_example(*arguments):
    command = [sys.executable, EXAMPLES / "train_maskable_ppo.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=550)


def test_the_example_runs_saves_and_refuses(tmp_path):
    short = ("--total-tokens", "64", "--eval-problems", "8", "--num-envs", "4", "--n-steps", "16")
    done = run_example(*short, "--out", tmp_path / "agent")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["0", "64", "test", "saved"]
    assert (tmp_path / "agent" / "checkpoint.json").exists()
    refused = run_example(*short, "--out", tmp_path / "agent")
    assert refused.returncode == 1
    assert refused.stderr == f"error: --out {tmp_path / 'agent'} exists; give a new folder\n"


def test_the_example_refuses_numbers_that_make_no_sense():
    refused = run_example("--eval-every", "0")
    assert refused.returncode == 2
    assert "eval_every must be > 0, got 0" in refused.stderr + refused.stdout
    refused = run_example("--learning-rate", "-1")
    assert refused.stderr == "error: learning_rate must be > 0, got -1.0\n"


@pytest.mark.slow
def test_the_example_learns_to_reverse_words_it_has_not_seen():
    done = run_example("--seed", "1")
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) >= 0.95

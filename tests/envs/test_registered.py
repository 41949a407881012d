"""What Gymnasium and Stable-Baselines3 demand of every registered environment."""

import importlib.util
import json
import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence

import llm_envs  # noqa: F401 - registers

# The built-in tasks' modules are found without being imported, so that one missing does not stop the others.
IDS = sorted(
    id
    for id, spec in gym.registry.items()
    if id.startswith("llm_envs/") and importlib.util.find_spec(spec.kwargs["task"].partition(":")[0])
)
TOKEN_IDS = [id for id in IDS if "Text-v" not in id]

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("id", IDS)
def test_gymnasium_checker(id):
    env = gym.make(id)
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("id", TOKEN_IDS)
def test_stable_baselines3_checker(id):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of importing it
        from stable_baselines3.common.env_checker import check_env as check_env_sb3
    check_env_sb3(gym.make(id), warn=True)


def rollout(env, seed, steps=20):
    record = [env.reset(seed=seed)]
    env.action_space.seed(seed)
    for _ in range(steps):
        record.append(env.step(env.action_space.sample()))
        if record[-1][2] or record[-1][3]:
            record.append(env.reset())
    return record


@pytest.mark.parametrize("id", IDS)
def test_equal_seeds_give_equal_episodes(id):
    assert data_equivalence(rollout(gym.make(id), 5), rollout(gym.make(id), 5), exact=True)


@pytest.mark.parametrize("id", IDS)
def test_pickle_keeps_the_state(id):
    env = gym.make(id)
    env.reset(seed=1)
    if id in TOKEN_IDS:
        env.step(np.int64(65))
    copy = pickle.loads(pickle.dumps(env))
    assert copy.spec == env.spec
    action = "answer" if id not in TOKEN_IDS else np.int64(66)
    assert data_equivalence(env.step(action), copy.step(action), exact=True)
    assert data_equivalence(env.reset(), copy.reset(), exact=True)
    assert data_equivalence(rollout(env, 2), rollout(copy, 2), exact=True)


@pytest.mark.parametrize("id", IDS)
def test_specs_are_json(id):
    spec = gym.make(id, split="test").spec
    assert spec is not None
    again = gym.envs.registration.EnvSpec.from_json(spec.to_json())
    assert json.loads(spec.to_json())["kwargs"]["split"] == "test"
    assert gym.make(again).reset(seed=3)[1]["split"] == "test"


@pytest.mark.parametrize("id", TOKEN_IDS)
def test_make_vec(id):
    env = gym.make_vec(id, num_envs=3)
    assert isinstance(env, llm_envs.TokenVectorEnv)
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space
    obs, *_ = env.step(env.action_space.sample())
    assert obs in env.observation_space
    env.close()


@pytest.mark.parametrize("id", [id for id in IDS if id not in TOKEN_IDS])
def test_make_vec_of_the_text_level(id):
    env = gym.make_vec(id, num_envs=2)
    env.reset(seed=0)
    _, rewards, terminated, _, _ = env.step(("", ""))
    assert terminated.all() == ("Tools" not in id)  # with tools, an empty message gets a helpful answer
    env.close()

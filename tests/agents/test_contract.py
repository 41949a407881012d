"""`check_agent` passes our agents, and says of a broken one what is broken."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agents.base import AgentError
from agents.grpo import GRPO, GRPOConfig
from agents.maskable_ppo import MaskablePPOAgent
from agents.ppo import PPO, PPOConfig
from agents.random_agent import RandomAgent
from agents.reinforce import Reinforce, ReinforceConfig
from agents.scripted import ScriptedAgent
from agents.testing import ContractError, check_agent
from agents.two_arms import ARMS, VOCABULARY
from tests.agents.small import configure


def llama(vocabulary, length):
    """Not seeded: `check_agent` makes recipes repeat."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=length, bos_token_id=None, eos_token_id=None,
        )
    )  # fmt: skip


LANGUAGE_MODELS = {
    PPO: configure(PPOConfig(), optimizer__learning_rate=1e-2, critic__learning_rate=1e-2, eval_every=0),
    GRPO: configure(GRPOConfig(), optimizer__learning_rate=1e-2, eval_every=0),
    Reinforce: configure(ReinforceConfig(), optimizer__learning_rate=1e-2, eval_every=0),
}


@pytest.mark.parametrize("agent_class", LANGUAGE_MODELS)
def test_agents_that_are_language_models_keep_the_contract(agent_class):
    check_agent(agent_class, model=llama, config=LANGUAGE_MODELS[agent_class], num_envs=64, timesteps=3000)


def test_maskable_ppo_keeps_the_contract():
    check_agent(MaskablePPOAgent, width=16, layers=1, num_envs=16, timesteps=3000)


def test_the_random_agent_keeps_the_contract_and_need_not_learn():
    check_agent(RandomAgent)


def test_an_agent_that_acts_on_texts_is_refused():
    with pytest.raises(AgentError, match="ScriptedAgent acts on texts"):
        check_agent(ScriptedAgent)


class Learner(RandomAgent):
    """Learns by being told: a small agent that keeps the contract, for the broken ones to break."""

    name, learns = "learner", True

    def __init__(self, n_actions, seed=0):
        super().__init__(n_actions, seed)
        self.weights = np.ones(n_actions)
        self.env: Any = None

    @classmethod
    def make(cls, env, **options):
        agent = cls(VOCABULARY, **options)
        agent.env = env()
        return agent

    def learn(self, total_timesteps):
        while self.num_timesteps < total_timesteps:
            self.env.reset(seed=self.num_timesteps)
            arm = ARMS[self.num_timesteps % 2]
            self.weights[arm] += self.env.step(arm)[1]
            self.num_timesteps += 1
        return self

    def predict(self, observation, state=None, episode_start=None, deterministic=False, action_masks=None):
        batch = observation["length"].shape[:-1]
        scores = self.weights * np.broadcast_to(action_masks, (*batch, self.n_actions))
        if not deterministic:  # Gumbel's trick draws with probabilities in proportion to the scores
            scores = scores / -np.log(self.rng.random(scores.shape))
        return scores.argmax(-1), state

    def save(self, folder):
        super().save(folder)
        np.save(Path(folder) / "weights.npy", self.weights)

    @classmethod
    def load(cls, folder, env, **options):
        if not (Path(folder) / "weights.npy").exists():
            raise AgentError(f"{folder} is no checkpoint of a learner")
        agent: Any = super().load(folder, env, **options)
        agent.weights = np.load(Path(folder) / "weights.npy")
        return agent


def test_a_learner_of_forty_lines_keeps_the_contract():
    check_agent(Learner)


class IgnoresMasks(Learner):
    def predict(self, observation, *args, action_masks=None, **options):
        return super().predict(observation, *args, action_masks=np.ones_like(action_masks), **options)  # type: ignore[misc]


class Forgets(Learner):
    @classmethod
    def load(cls, folder, env, **options):
        agent: Any = super().load(folder, env, **options)
        agent.weights[:] = 1
        return agent


class Undecided(Learner):
    def predict(self, observation, *args, deterministic=False, **options):
        return super().predict(observation, *args, deterministic=False, **options)  # type: ignore[misc]


class Mutates(Learner):
    def predict(self, observation, *args, **options):
        observation["tokens"] *= 0
        return super().predict(observation, *args, **options)


class MutatesMasks(Learner):
    def predict(self, observation, *args, action_masks=None, **options):
        actions, state = super().predict(observation, *args, action_masks=action_masks, **options)  # type: ignore[misc]
        action_masks[...] = True
        return actions, state


class NeverLearns(Learner):
    def learn(self, total_timesteps):
        self.num_timesteps = total_timesteps
        return self


class MiscountsAndReturnsNothing(Learner):
    def learn(self, total_timesteps):
        super().learn(total_timesteps)
        self.num_timesteps = 7


class ReadsPadding(Learner):
    def predict(self, observation, state=None, episode_start=None, deterministic=False, action_masks=None):
        if not deterministic:
            return super().predict(observation, action_masks=action_masks)
        liked = (np.arange(self.n_actions) + observation["tokens"].sum(-1, keepdims=True)) % self.n_actions
        return (np.where(action_masks, liked, -1)).argmax(-1), state


class OneOfAFew(Learner):
    def predict(self, observation, *args, **options):
        actions, state = super().predict(observation, *args, **options)
        return (actions[0] if actions.shape == (4,) else actions), state


class StepsTheEnvironment(Learner):
    def predict(self, observation, *args, **options):
        self.env.reset()
        return super().predict(observation, *args, **options)


class Reseeds(Learner):
    @classmethod
    def make(cls, env, **options):
        torch.manual_seed(0)
        return super().make(env, **options)

    def learn(self, total_timesteps):
        random.seed(0)
        return super().learn(total_timesteps)

    def predict(self, *args, **options):
        np.random.seed(0)
        return super().predict(*args, **options)


class LoadsAnything(Learner):
    @classmethod
    def load(cls, folder, env, **options):
        return super().load(folder, env, **options) if (Path(folder) / "weights.npy").exists() else cls.make(env)


class Floats(Learner):
    def predict(self, *args, **options):
        actions, state = super().predict(*args, **options)
        return actions * 1.0, state


BROKEN = {
    IgnoresMasks: ["predict chooses a masked action"],
    Forgets: ["the agent that load returns acts otherwise than the one that was saved"],
    Undecided: ["predict(deterministic=True) gives the same observations different actions"],
    Mutates: ["predict changes the observation it is given"],
    MutatesMasks: ["predict changes the masks it is given"],
    NeverLearns: ["learn teaches it nothing"],
    MiscountsAndReturnsNothing: [
        "learn returns something else than the agent",
        "after learn(4000), num_timesteps is 7",
    ],
    ReadsPadding: ["predict reads tokens beyond the observation's length"],
    OneOfAFew: [
        f"predict fails in a vector environment with autoreset {mode}: TypeError: predict returns actions of shape ()"
        for mode in ("NextStep", "SameStep", "Disabled")
    ],
    StepsTheEnvironment: ["predict resets or steps an environment"],
    Reseeds: [
        "make reseeds the global generator of torch",
        "learn reseeds the global generator of python",
        "predict reseeds the global generator of numpy",
    ],
    LoadsAnything: ["load should refuse a folder without a checkpoint with AgentError, but returns an agent"],
    Floats: ["it cannot be made, or does not act: TypeError: predict returns actions of shape (400,) and type float64"],
}


@pytest.mark.parametrize("agent_class", BROKEN)
def test_a_broken_agent_is_told_what_it_breaks(agent_class):
    with pytest.raises(ContractError) as caught:
        check_agent(agent_class)
    found = caught.value.findings
    assert len(found) == len(BROKEN[agent_class]), found
    assert all(a.startswith(b) for a, b in zip(found, BROKEN[agent_class], strict=True)), found
    assert str(caught.value) == "\n".join([f"{agent_class.__name__} breaks the contract of an agent:", *found])


def test_what_the_program_draws_afterwards_does_not_depend_on_the_check():
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    check_agent(RandomAgent)
    drawn = random.random(), np.random.rand(), float(torch.rand(()))
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    assert drawn == (random.random(), np.random.rand(), float(torch.rand(())))

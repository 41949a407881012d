"""`check_agent` passes our agents, and says of a broken one what is broken."""

import random

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agents import registry
from agents.base import AgentError
from agents.grpo import GRPO, GRPOConfig
from agents.maskable_ppo import MaskablePPOAgent
from agents.ppo import PPO, PPOConfig
from agents.random_agent import RandomAgent
from agents.reinforce import Reinforce, ReinforceConfig
from agents.scripted import ScriptedAgent
from agents.testing import ContractError, check_agent
from tests.agents import broken_agents as broken
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


def test_a_learner_of_forty_lines_keeps_the_contract():
    check_agent(broken.Learner)


BROKEN: dict[type[broken.Learner], list[str]] = {
    broken.IgnoresMasks: ["predict chooses a masked action"],
    broken.NeedsMasks: ["acts without masks: TypeError"],
    broken.PassesOnlyArms: ["predict without masks acts otherwise than with masks that allow everything"],
    broken.Forgets: ["the agent that load returns acts otherwise than the one that was saved"],
    broken.Undecided: ["predict(deterministic=True) gives the same observations different actions"],
    broken.TakesTheLeastProbable: ["predict(deterministic=True) takes the less probable of two actions: one drawn 0%"],
    broken.TakesTheFirst: ["predict(deterministic=True) takes the less probable of two actions: one drawn 0%"],
    broken.CannotBeSeeded: ["predict does not draw the same again when seed(3) is called again"],
    broken.HasOneSeed: ["predict draws the same after seed(3) and seed(4)"],
    broken.Mutates: ["predict changes the observation it is given"],
    broken.MutatesMasks: ["predict changes the masks it is given"],
    broken.NeverLearns: ["learn teaches it nothing"],
    broken.LearnsAsManyMore: ["learn(4000) goes on learning although 4000 actions have been taken"],
    broken.StartsCountingAgain: ["learn(4000) goes on learning although 4000 actions have been taken"],
    broken.MiscountsAndReturnsNothing: [
        "learn returns something else than the agent",
        "after learn(4000), num_timesteps is 7",
    ],
    broken.ReadsPadding: ["predict reads tokens beyond the observation's length"],
    broken.OneOfAFew: [
        f"predict fails in a vector environment with autoreset {mode}: TypeError: predict returns actions of shape ()"
        for mode in ("NextStep", "SameStep", "Disabled")
    ],
    broken.StepsTheEnvironment: ["predict resets or steps an environment"],
    broken.Reseeds: [
        "make reseeds the global generator of torch",
        "learn reseeds the global generator of python",
        "predict reseeds the global generator of numpy",
    ],
    broken.LoadsAnything: ["load should refuse a folder without a checkpoint with AgentError, but takes it"],
    broken.LoadsWithoutEnvironment: ["learns after load: AttributeError: 'NoneType' object has no attribute 'reset'"],
    broken.LearnsNothingOnceLoaded: ["after load, learn teaches it nothing"],
    broken.ForgetsHowFarItWas: ["num_timesteps is 0 after load, but was 4000 when it was saved"],
    broken.SavesAfterAReset: [
        "save changes the agent that is saved",
        "the agent that load returns acts otherwise than the one that was saved",
    ],
    broken.SavesIntoItsClass: ["the agent that load returns acts otherwise than the one that was saved"],
    broken.SavesAPath: ["the agent that load returns acts otherwise than the one that was saved"],
    broken.SharesItsWeights: ["an agent changes when another one is made or loaded"],
    broken.Overwrites: ["save should refuse a folder that holds a checkpoint with FileExistsError, but takes it"],
    broken.PlaysNothing: [
        "play does not step the environment it is given",
        "play of [5, 2, 7] yields [(0, 2.0), (1, 2.0), (2, 2.0)] (numbers and scores), but predict reaches [(0, 2.0), "
        "(1, 1.0), (2, 2.0)]",
    ],
    broken.PlaysOthers: ["play of [5, 2, 7] yields [(0, 1.0), (1, 2.0), (2, 1.0)]"],
    broken.SwitchesGradientsOff: ["learn leaves torch's gradients switched off for everybody"],
    broken.HasNoName: ["it needs a name, a str that `agents.make` and checkpoints call it, but has None"],
    broken.Floats: [
        "it cannot be made, or does not act: TypeError: predict returns actions of shape (400,) and type fl"
    ],
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


def test_only_classes_that_can_be_made_are_found():
    for path in ("agents.base:Agent", "agents.policy_agent:PolicyAgent"):
        with pytest.raises(ValueError, match=rf"{path} is an abstract class, it lacks learn, .*save$"):
            registry.find(path)
    with pytest.raises(ValueError, match="broken_agents:HasNoName has no name: set `name`"):
        registry.find("tests.agents.broken_agents:HasNoName")
    assert registry.find("tests.agents.broken_agents:Learner") is broken.Learner


@pytest.mark.parametrize(("given", "meant"), [("PPO", "ppo"), ("Grpo", "grpo"), ("maskableppo", "maskable_ppo")])
def test_the_name_that_was_meant_is_suggested(given, meant):
    with pytest.raises(ValueError, match=f"unknown agent '{given}'.*did you mean '{meant}'"):
        registry.find(given)

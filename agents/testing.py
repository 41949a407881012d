"""A contract test for token-level agents of your own, as Gymnasium's `check_env` is one for environments.

from agents.testing import check_agent

def test_my_agent():
    check_agent(MyAgent)
    check_agent(PPO, model=lambda vocabulary, length: my_tiny_model(vocabulary, length), config=...)
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agents.base import Agent, AgentError
from agents.random_agent import RandomAgent
from agents.rng import rng_state, set_rng_state
from agents.two_arms import ARMS, DRAWS, LENGTH, SURE, VOCABULARY, Behaviour, Bench, seed_everything, standard_errors


class ContractError(AssertionError):
    """An agent does not keep the contract of `Agent`; one sentence for each promise it breaks.

    Args:
        agent: name of the class.
        findings: the sentences.
    """

    def __init__(self, agent: str, findings: list[str]) -> None:
        super().__init__("\n".join([f"{agent} breaks the contract of an agent:", *findings]))
        self.findings = findings


def check_agent(agent_class: type[Agent], *, timesteps: int = 4000, **options: Any) -> None:
    """Check what `Agent` promises on a two-armed bandit; takes about as long as learning it twice.

    * `name` is there.
    * `predict`: an integer for one observation and B for a batch, never a masked one, whatever stands behind `length`;
      deterministic when asked, alone and in a batch, and then what is drawn most. No masks allow everything. It changes
      neither observation nor masks, and steps nothing. It acts through every autoreset mode of Gymnasium's vectors.
    * `seed` gives the same draws again, and another one others. (That an agent never draws is no finding: it may be
      sure of what it does.)
    * `learn` makes the better arm more probable (unless `learns` is False), counts `num_timesteps`, returns the agent,
      and does nothing when that many actions have been taken already.
    * `save` changes nothing and refuses a folder that exists. `load` gives what was saved, also after the original went
      on and the folder was moved; it can learn on, and other agents stay as they are. It refuses a folder without a
      checkpoint and another agent's.
    * `play` plays the episodes it was asked for as `predict` does, and new environments can be used afterwards.
    * `make`, `seed`, `learn` and `predict` do not reseed the generators that Python, NumPy and torch share with
      everybody, nor leave torch's gradients switched off.

    Args:
        agent_class: acts at the token level.
        timesteps: actions to learn from; raise it, or a learning rate, for an agent that learns slowly.
        options: of `make` and `load`. One that is a function of `vocabulary` and `length` (number of tokens, and
            how many fit an observation) is called, and its result handed over: `model` of a language model's agent.

    Raises:
        ContractError: a promise is broken; `findings` holds a sentence for each.
        AgentError: the agent acts at the text level.
    """
    if agent_class.level != "token":
        raise AgentError(f"check_agent checks token-level agents, but {agent_class.__name__} acts on texts")
    outside = rng_state()
    try:
        findings = _Check(agent_class, timesteps, options).findings()
    finally:
        set_rng_state(outside)
    if findings:
        raise ContractError(agent_class.__name__, findings)


class _Check(Bench):
    """One run of `check_agent`."""

    def __init__(self, agent_class: Any, timesteps: int, options: dict[str, Any]) -> None:
        super().__init__(agent_class, options)
        self.timesteps = timesteps
        self.agent: Any = None
        self.taught = False
        self.folder = Path()
        self.saved: dict[str, tuple[Behaviour, int]] = {}  # by name of the folder: behaviour and num_timesteps

    def findings(self) -> list[str]:
        """A sentence for each broken promise."""
        name = getattr(self.agent_class, "name", None)
        if not (isinstance(name, str) and name):
            self.note(f"it needs a name, a str that `agents.make` and checkpoints call it, but has {name!r}")
        try:
            self.agent = self.make()
            # There must be something to learn whatever it started from.
            if self.agent_class.learns and self.share(self.agent) > 0.6:
                self.better = ARMS[0]
                self.agent = self.make()
        except Exception as error:
            return [*self.found, f"it cannot be made, or does not act: {type(error).__name__}: {error}"]
        checks = (
            self.acts, self.acts_without_masks, self.acts_in_vectors, self.seeds, self.saves_untrained, self.learns,
            self.prefers, self.saves_trained, self.refuses, self.loads, self.learns_after_load, self.plays,
            self.leaves_the_process,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            self.folder = Path(folder)
            for check in checks:
                try:
                    with torch.enable_grad():  # whatever the check before left behind
                        check()
                except Exception as error:  # of somebody else's code
                    self.note(f"{check.__name__.replace('_', ' ')}: {type(error).__name__}: {error}")
        return list(self.found)

    def draws(self) -> np.ndarray:
        return self.act(self.agent, self.observations, self.masks, False)

    def acts(self) -> None:
        self.draws()
        first = self.greedy(self.agent)
        if not np.array_equal(first, self.greedy(self.agent)):
            self.note("predict(deterministic=True) gives the same observations different actions")
            return
        padded = copy.deepcopy(self.observations)
        beyond = np.arange(LENGTH) >= padded["length"]
        padded["tokens"][beyond] = self.rng.integers(VOCABULARY, size=int(beyond.sum()))
        if not np.array_equal(first, self.act(self.agent, padded, self.masks, True)):
            self.note("predict reads tokens beyond the observation's length")
        for row in range(20):
            observation = {key: value[row] for key, value in self.observations.items()}
            if self.act(self.agent, observation, self.masks[row], True) != first[row]:
                self.note("predict(deterministic=True) gives an observation another action alone than in a batch")

    def acts_without_masks(self) -> None:
        self.act(self.agent, self.observations, None, False)
        actions = []
        for masks in (None, np.ones(VOCABULARY, dtype=bool)):
            self.agent.seed(3)
            actions.append(self.act(self.agent, self.observations, masks, True))
        if not np.array_equal(actions[0], actions[1]):
            self.note("predict without masks acts otherwise than with masks that allow everything")

    def acts_in_vectors(self) -> None:
        for mode in AutoresetMode:
            env = SyncVectorEnv([self.env] * 4, autoreset_mode=mode)
            observation, _ = env.reset(seed=0)
            for _ in range(8):
                masks = np.stack(env.call("action_masks"))
                try:
                    actions = self.act(self.agent, observation, masks, False)
                except Exception as error:
                    what = f"{type(error).__name__}: {error}"
                    self.note(f"predict fails in a vector environment with autoreset {mode.value}: {what}")
                    break
                observation, _, terminated, *_ = env.step(actions)
                if mode == AutoresetMode.DISABLED and terminated.any():
                    observation, _ = env.reset(options={"reset_mask": terminated})

    def seeds(self) -> None:
        """Before it has learned anything to be sure of."""
        self.agent.seed(3)
        first, later = self.draws(), self.draws()
        self.agent.seed(3)
        again = self.draws()
        self.agent.seed(4)
        other = self.draws()
        if not np.array_equal(first, again):
            self.note("predict does not draw the same again when seed(3) is called again")
        elif (first != later).mean() > 0.05 and np.array_equal(first, other):  # 20 rows that differ are no chance
            self.note("predict draws the same after seed(3) and seed(4)")

    def learns(self) -> None:
        found = len(self.found)
        self.teach(self.agent, "")
        self.taught = len(self.found) == found
        if self.taught:
            calls, taken = self.calls[0], self.agent.num_timesteps
            self.agent.learn(self.timesteps)
            # An evaluation at the end steps an environment, too, but not that often.
            if self.agent.num_timesteps != taken or self.calls[0] - calls >= self.timesteps:
                self.note(f"learn({self.timesteps}) goes on learning although {taken} actions have been taken")

    def teach(self, agent: Any, when: str) -> None:
        before, goal = self.share(agent), agent.num_timesteps + self.timesteps
        if agent.learn(goal) is not agent:
            self.note(f"{when}learn returns something else than the agent")
        if not self.agent_class.learns:
            return
        if agent.num_timesteps < goal:
            self.note(f"{when}after learn({goal}), num_timesteps is {agent.num_timesteps}")
        after = self.share(agent)
        if standard_errors(before, after) < SURE:
            figures = f"{before:.2f} before and {after:.2f} after {self.timesteps} actions"
            self.note(f"{when}learn teaches it nothing: the probability of the better of two arms is {figures}")

    def prefers(self) -> None:
        """Of two arms the more probable one is drawn at least every other time, at each observation."""
        masks = self.env().action_masks()
        greedy, drawn = (self.act(self.agent, self.observations, masks, greedily) for greedily in (True, False))
        share = float((greedy == drawn).mean())
        if share < 0.5 - SURE * 0.5 / DRAWS**0.5:
            self.note(f"predict(deterministic=True) takes the less probable of two actions: one drawn {share:.0%}")

    def saves_untrained(self) -> None:
        self.save("untrained")

    def saves_trained(self) -> None:
        self.save("trained")

    def save(self, name: str) -> None:
        before, taken = self.behaviour(self.agent), self.agent.num_timesteps
        self.agent.save(self.folder / "new" / name)
        self.saved[name] = before, taken
        if not self.acts_as(self.agent, before) or self.agent.num_timesteps != taken:
            self.note("save changes the agent that is saved")

    def refuses(self) -> None:
        empty, other, taken = (self.folder / name for name in ("empty", "other", "taken"))
        empty.mkdir()
        promise = "load should refuse {} with AgentError"
        self.refused(promise.format("a folder without a checkpoint"), AgentError, lambda: self.make(empty))
        if not issubclass(self.agent_class, RandomAgent):
            RandomAgent(VOCABULARY).save(other)
            self.refused(promise.format("a checkpoint of another agent"), AgentError, lambda: self.make(other))
        self.agent.save(taken)
        promise = "save should refuse a folder that holds a checkpoint with FileExistsError"
        self.refused(promise, FileExistsError, lambda: self.agent.save(taken))

    def refused(self, promise: str, expected: type[Exception], call: Callable[[], Any]) -> None:
        try:
            call()
        except expected:
            return
        except Exception as error:
            self.note(f"{promise}, but raises {type(error).__name__}: {error}")
        else:
            self.note(f"{promise}, but takes it")

    def loads(self) -> None:
        """From folders that were moved, into a process in which other agents live."""
        now = self.behaviour(self.agent)
        if self.saved:
            (self.folder / "new").rename(self.folder / "moved")
        self.make()
        for name, (before, taken) in self.saved.items():
            again = self.make(self.folder / "moved" / name)
            if not self.acts_as(again, before):
                self.note("the agent that load returns acts otherwise than the one that was saved")
                self.taught = False  # whether that one learns is another question
            if again.num_timesteps != taken:
                self.note(f"num_timesteps is {again.num_timesteps} after load, but was {taken} when it was saved")
            if not self.acts_as(self.agent, now):
                self.note("an agent changes when another one is made or loaded")

    def learns_after_load(self) -> None:
        if self.taught and "untrained" in self.saved:
            self.teach(self.make(self.folder / "moved" / "untrained"), "after load, ")

    def plays(self) -> None:
        asked, calls = [5, 2, 7], self.calls[0]
        episodes = self.agent.play(self.env, asked, deterministic=True, rows=2)
        played = sorted((episode.number, float(episode.score)) for episode in episodes)
        if self.calls[0] - calls < 2 * len(asked):
            self.note("play does not step the environment it is given")
        expected = [(number, self.score(self.agent, index)) for number, index in enumerate(asked)]
        if played != expected:
            self.note(f"play of {asked} yields {played} (numbers and scores), but predict reaches {expected}")
        env = self.env()
        observation, _ = env.reset(seed=0)
        stepped, *_ = env.step(ARMS[0])
        if observation not in env.observation_space or stepped not in env.observation_space:
            self.note("an environment made afterwards gives observations outside its space")

    def leaves_the_process(self) -> None:
        """Drawing from the shared generators is allowed, reseeding is not: afterwards they must depend on before."""
        options = [self.resolved(), self.resolved()]
        calls: dict[str, Callable[[], Any]] = {
            "make": lambda: self.agent_class.make(self.env, **options.pop()),
            "seed": lambda: self.agent.seed(3),
            "learn": lambda: self.agent.learn(self.agent.num_timesteps + 1),
            "predict": lambda: self.share(self.agent),
        }
        for what, call in calls.items():
            states = []
            for seed in (1, 2):
                seed_everything(seed)
                call()
                states.append({**rng_state(), "torch": torch.get_rng_state().tolist()})
                if not torch.is_grad_enabled():
                    self.note(f"{what} leaves torch's gradients switched off for everybody")
                    torch.set_grad_enabled(True)
            for module in ("python", "numpy", "torch"):
                if states[0][module] == states[1][module]:
                    self.note(f"{what} reseeds the global generator of {module}: others draw the same numbers again")

"""A contract test for token-level agents of your own, as Gymnasium's `check_env` is one for environments.

from agents.testing import check_agent

def test_my_agent():
    check_agent(MyAgent)
    check_agent(PPO, model=lambda vocabulary, length: my_tiny_model(vocabulary, length), config=...)
"""

from __future__ import annotations

import copy
import inspect
import random
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
from agents.two_arms import ARMS, LENGTH, VOCABULARY, TwoArms

DRAWS = 400
"""Actions drawn to measure a probability."""
SURE = 4.0
"""Standard errors by which probabilities must differ: an agent that learns nothing passes once in 30,000 times."""


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

    * `predict`: an integer for one observation and B for a batch, never a masked one, whatever stands behind `length`;
      deterministic when asked, alone and in a batch. It changes neither observation nor masks, and steps nothing.
      It acts through every autoreset mode of Gymnasium's vector environments.
    * `learn` makes the better arm more probable (unless `learns` is False), counts `num_timesteps`, returns the agent.
    * `save` and `load` keep the behaviour; `load` refuses a folder without a checkpoint and another agent's.
    * `make`, `learn` and `predict` do not reseed the generators that Python, NumPy and torch share with everybody.
    * `play` plays the episodes it was asked for, and new environments can be used afterwards.

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


class _Check:
    """One run of `check_agent`."""

    def __init__(self, agent_class: Any, timesteps: int, options: dict[str, Any]) -> None:
        self.agent_class, self.timesteps, self.options = agent_class, timesteps, options
        self.found: dict[str, None] = {}  # in order, each once
        self.calls = [0]
        self.better = ARMS[0]
        self.agent: Any = None
        self.rng = np.random.default_rng(0)
        env = self.env()
        rows = [env.reset(seed=seed)[0] for seed in range(DRAWS)]
        self.observations = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
        self.masks = self.rng.random((DRAWS, VOCABULARY)) < 0.4
        self.masks[np.arange(DRAWS), self.rng.integers(VOCABULARY, size=DRAWS)] = True

    def findings(self) -> list[str]:
        """A sentence for each broken promise."""
        try:
            self.agent = self.make()
            # The arm it likes less: then there is something to learn whatever it started from.
            if self.agent_class.learns and self.share(self.agent) > 0.5:
                self.better = ARMS[1]
                self.agent = self.make()
        except Exception as error:
            return [*self.found, f"it cannot be made, or does not act: {type(error).__name__}: {error}"]
        for check in (self.acts, self.acts_in_vectors, self.learns, self.saves, self.plays, self.leaves_generators):
            try:
                check()
            except Exception as error:  # of somebody else's code
                self.note(f"{check.__name__}: {type(error).__name__}: {error}")
        return list(self.found)

    def note(self, sentence: str) -> None:
        self.found[sentence] = None

    def env(self) -> TwoArms:
        return TwoArms(self.better, self.calls)

    def resolved(self) -> dict[str, Any]:
        """The options, with those that are made for this environment."""
        return {
            name: value(vocabulary=VOCABULARY, length=LENGTH) if _is_recipe(value) else value
            for name, value in self.options.items()
        }

    def make(self, folder: Path | None = None) -> Any:
        """A new agent, or one from a folder; always from the same global generators, so that recipes repeat."""
        _seed(0)
        if folder is None:
            return self.agent_class.make(self.env, **self.resolved())
        return self.agent_class.load(folder, self.env, **self.resolved())

    def act(self, agent: Any, observation: dict[str, np.ndarray], masks: np.ndarray, deterministic: bool) -> np.ndarray:
        """`predict`, with all that must hold of every call."""
        before, calls = copy.deepcopy((observation, masks)), self.calls[0]
        actions, _ = agent.predict(observation, deterministic=deterministic, action_masks=masks)
        if any(not np.array_equal(before[0][key], observation[key]) for key in before[0]):
            self.note("predict changes the observation it is given")
        if not np.array_equal(before[1], masks):
            self.note("predict changes the masks it is given")
        if calls != self.calls[0]:
            self.note("predict resets or steps an environment")
        actions, shape = np.asarray(actions), observation["length"].shape[:-1]
        if actions.shape != shape or actions.dtype.kind not in "iu":
            expected = f"expected integers of shape {shape}"
            raise TypeError(f"predict returns actions of shape {actions.shape} and type {actions.dtype}, {expected}")
        if actions.min() < 0 or actions.max() >= VOCABULARY:
            raise ValueError(f"predict returns {actions.min()} to {actions.max()}, outside Discrete({VOCABULARY})")
        if not np.take_along_axis(np.broadcast_to(masks, (*shape, VOCABULARY)), actions[..., None], -1).all():
            self.note("predict chooses a masked action")
        return actions

    def greedy(self, agent: Any) -> np.ndarray:
        return self.act(agent, self.observations, self.masks, True)

    def share(self, agent: Any) -> float:
        """How often the better arm is drawn."""
        drawn = self.act(agent, self.observations, self.env().action_masks(), False)
        return float((drawn == self.better).mean())

    def acts(self) -> None:
        self.act(self.agent, self.observations, self.masks, False)
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

    def learns(self) -> None:
        before = self.share(self.agent)
        if self.agent.learn(self.timesteps) is not self.agent:
            self.note("learn returns something else than the agent")
        if not self.agent_class.learns:
            return
        if self.agent.num_timesteps < self.timesteps:
            self.note(f"after learn({self.timesteps}), num_timesteps is {self.agent.num_timesteps}")
        after = self.share(self.agent)
        if _standard_errors(before, after) < SURE:
            figures = f"{before:.2f} before and {after:.2f} after {self.timesteps} actions"
            self.note(f"learn teaches it nothing: the probability of the better of two arms is {figures}")

    def saves(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "new" / "checkpoint"
            self.agent.save(folder)
            again = self.make(folder)
            greedy = np.array_equal(self.greedy(self.agent), self.greedy(again))
            if not greedy or abs(_standard_errors(self.share(self.agent), self.share(again))) > SURE:
                self.note("the agent that load returns acts otherwise than the one that was saved")
            (Path(name) / "empty").mkdir()
            others = {"a folder without a checkpoint": Path(name) / "empty"}
            if not issubclass(self.agent_class, RandomAgent):
                others["a checkpoint of another agent"] = Path(name) / "other"
                RandomAgent(VOCABULARY).save(Path(name) / "other")
            for what, other in others.items():
                try:
                    self.make(other)
                except AgentError:
                    continue
                except Exception as error:
                    self.note(f"load should refuse {what} with AgentError, but raises {type(error).__name__}: {error}")
                else:
                    self.note(f"load should refuse {what} with AgentError, but returns an agent")

    def plays(self) -> None:
        episodes = sorted(self.agent.play(self.env, range(3), deterministic=True, rows=2))
        if [episode.number for episode in episodes] != [0, 1, 2] or any(not 0 <= e.score <= 2 for e in episodes):
            self.note(f"play of 3 episodes yields {[(e.number, e.score) for e in episodes]} (numbers and scores)")
        env = self.env()
        observation, _ = env.reset(seed=0)
        stepped, *_ = env.step(ARMS[0])
        if observation not in env.observation_space or stepped not in env.observation_space:
            self.note("an environment made afterwards gives observations outside its space")

    def leaves_generators(self) -> None:
        """Drawing from the shared generators is allowed, reseeding is not: afterwards they must depend on before."""
        options = [self.resolved(), self.resolved()]
        calls: dict[str, Callable[[], Any]] = {
            "make": lambda: self.agent_class.make(self.env, **options.pop()),
            "learn": lambda: self.agent.learn(self.agent.num_timesteps + 1),
            "predict": lambda: self.share(self.agent),
        }
        for what, call in calls.items():
            states = []
            for seed in (1, 2):
                _seed(seed)
                call()
                states.append(rng_state())
            for module in ("python", "numpy", "torch"):
                first, second = (_plain(state[module]) for state in states)
                if first == second:
                    self.note(f"{what} reseeds the global generator of {module}: others draw the same numbers again")


def _is_recipe(option: Any) -> bool:
    """Whether an option is a function of `vocabulary` and `length`."""
    try:
        return callable(option) and set(inspect.signature(option).parameters) == {"vocabulary", "length"}
    except (TypeError, ValueError):
        return False


def _plain(state: Any) -> Any:
    return state.tolist() if isinstance(state, torch.Tensor) else state


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _standard_errors(before: float, after: float) -> float:
    """By how many standard errors a share of `DRAWS` draws rose."""
    mean = (before + after) / 2
    return 0.0 if before == after else (after - before) / (2 * mean * (1 - mean) / DRAWS) ** 0.5

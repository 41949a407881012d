"""What every agent offers, in Stable-Baselines3's vocabulary: `learn`, `predict`, `save`, `load`, and how one is made.

An agent acts at one level: `token` (observations with `tokens` and `length`, actions token ids) or `text` (observations
and actions are messages). `agents.testing.check_agent` checks the contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import gymnasium as gym
import numpy as np

EnvSource = str | Callable[[], gym.Env]
"""A registered id, or a function that makes one environment."""


class AgentError(ValueError):
    """Agent and environment, or agent and checkpoint, do not fit each other; says what was expected and given."""


class Episode(NamedTuple):
    """How one episode of an evaluation went."""

    number: int
    """Which of the asked-for episodes it is, from 0."""
    info: dict[str, Any]
    """The last info of the environment; holds the verdict."""
    score: float
    """Sum of its rewards."""
    failed: str = ""
    """What broke outside the agent (an endpoint, a judge): then there is no score, and the 0 means nothing."""


class Agent(ABC):
    """Learns from a Gymnasium environment, or just acts in it.

    At the text level, `play` also uses two methods that an agent may have: `begin(env)`, called after each reset, gives
    the function that acts in that episode, with `predict`'s arguments; `interrupt()` ends at once what is under way.
    Episodes run in threads there: `predict`, or what `begin` gives, is called from several at once.
    """

    name: ClassVar[str]
    """What `agents.make` and checkpoints call it."""
    level: ClassVar[Literal["token", "text"]] = "token"
    """At which level of the environments it acts."""
    learns: ClassVar[bool] = True
    """Whether `learn` makes it better; False for one that just acts."""
    writes_turns: ClassVar[bool] = False
    """Whether it has an `engine` and a `sampling` (see `agents.engine`) that `play` writes whole turns with, and a
    `policy` they belong to; `predict` is asked for every token otherwise."""
    num_timesteps: int = 0
    """Actions taken for training so far: tokens at the token level."""

    @classmethod
    @abstractmethod
    def make(cls, env: EnvSource, *_: Any, **options: Any) -> Any:
        """Build the agent for an environment; it makes as many of these as it wants, in the vector class it wants.

        Args:
            env: a registered id, or a function that makes one environment.
            options: the agent's own, among them `env_options`, keyword arguments of `gymnasium.make` for an id.

        Raises:
            AgentError: the environment is none it can act in.
        """

    @abstractmethod
    def learn(self, total_timesteps: int) -> Any:
        """Train until that many actions have been taken in all, those of earlier calls included; returns itself."""

    @abstractmethod
    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: np.ndarray | None = None,
    ) -> tuple[Any, Any]:
        """The next action of each observation, and None.

        Args:
            observation: of one environment, or a batch; then so is the action.
            state: unread, there for Stable-Baselines3's own functions, as `episode_start`.
            episode_start: unread.
            deterministic: the most probable action instead of a drawn one.
            action_masks: (V,) or (B, V) bool, `env.action_masks()` at this observation; None allows every action.
        """

    def seed(self, seed: int) -> None:  # noqa: B027  (what draws nothing has nothing to seed)
        """Draw in `predict` what that seed of 32 bits gives; an agent that draws nothing leaves this as it is.

        `play` calls it, so the problems that `learn` draws must not depend on it.
        """

    @abstractmethod
    def save(self, folder: str | Path) -> None:
        """Write everything needed to go on into a new folder, whole or not at all.

        Raises:
            FileExistsError: the folder exists.
        """

    @classmethod
    @abstractmethod
    def load(cls, folder: str | Path, env: EnvSource, **options: Any) -> Any:
        """An agent from `save`; arguments as of `make`.

        Raises:
            AgentError: the folder holds no checkpoint, or another agent's.
        """

    def play(
        self,
        env: EnvSource,
        indices: Iterable[int],
        *,
        env_options: Mapping[str, Any] | None = None,
        deterministic: bool = False,
        seed: int = 0,
        sample: int = 0,
        rows: int = 16,
    ) -> Iterator[Episode]:
        """Play one episode on each of these examples, `rows` at a time; yields them as they end.

        Args:
            env: as of `make`; at the agent's level.
            indices: examples, as `reset(options={"index": i})` takes them.
            env_options: as of `make`.
            deterministic: as of `predict`.
            seed: of the environment's draws (with the index) and the agent's.
            sample: which answer to these problems it is: another one changes the agent's draws, not the environment's.
            rows: episodes at once.
        """
        from agents.play import play_texts, play_tokens

        play = play_tokens if self.level == "token" else play_texts
        wanted, options = [int(index) for index in indices], dict(env_options or {})
        return play(self, env, wanted, options, deterministic, int(seed), sample, rows)

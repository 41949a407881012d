"""sb3-contrib's MaskablePPO on token environments: a small transformer that learns from nothing, token by token.

For short answers over small vocabularies. Its rollout buffer keeps a float32 mask of the whole vocabulary for every
action, `n_steps * num_envs * V * 4` bytes: 0.5 MB for 128 steps of 32 environments and 30 tokens, but for a vocabulary
of 50,000 it is 26 MB per environment and 128 steps, 0.8 GB for 32 environments. Lower `n_steps` or `num_envs`, give
the environment a tokenizer with fewer tokens, or use agent `ppo`, which packs masks into bits. `allowed_tokens` makes
exploring easier, but masks stay as wide as the vocabulary.

Legend: B rows, V vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete

from agents.base import Agent, AgentError, EnvSource
from agents.checkpoint import SUMMARY, read_summary, require_entries
from agents.environment import environment_id, plain_options
from agents.files import whole_folder
from agents.fingerprint import weight_fingerprint
from agents.prefix_encoder import PrefixEncoder, check_shape
from agents.rng import derived_generator, derived_seed, rng_state, set_rng_state
from agents.sampling import Sampling, draw, log_distribution
from agents.settings import check_ranges

MODEL, RNG = "model.zip", "rng.pt"
Schedule = Callable[[float], float]


@dataclass(frozen=True)
class Options:
    """The options that are checked; of a wrong one MaskablePPO says at best what broke inside it.

    SB3's own defaults are made for long episodes; with these, four seeds of four learn `examples/reverse_words.py`.
    """

    num_envs: int = 64
    seed: int = 0
    """Of weights, draws, minibatches and the environments."""
    width: int = 64
    layers: int = 2
    heads: int = 4
    """Of the `PrefixEncoder`, as the two before."""
    n_steps: int = 64
    batch_size: int | None = 512
    n_epochs: int = 3
    learning_rate: float | Schedule = 2e-3
    gamma: float = 1.0
    gae_lambda: float = 0.95
    ent_coef: float = 0.05
    vf_coef: float = 0.5
    clip_range: float | Schedule = 0.2
    clip_range_vf: float | Schedule | None = None
    max_grad_norm: float = 0.5
    target_kl: float | None = None
    normalize_advantage: bool = True
    policy_kwargs: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        schedules = ("learning_rate", "clip_range", "clip_range_vf")
        check_ranges(self, positive=tuple(name for name in schedules if not callable(getattr(self, name))))
        check_ranges(self, positive=("num_envs", "n_steps", "batch_size", "n_epochs", "max_grad_norm", "target_kl"))
        check_ranges(self, non_negative=("seed", "ent_coef", "vf_coef"), unit=("gamma", "gae_lambda"))
        check_shape(self.width, self.layers, self.heads)


class MaskablePPOAgent(Agent):
    """sb3-contrib's MaskablePPO with a `PrefixEncoder`; build it with `make`.

    An episode whose judge broke counts as one that was cut off: the critic's value stands for its score.

    Args:
        algorithm: a `sb3_contrib.MaskablePPO` on SB3's own vector of single environments, which is also how to get at
            callbacks, loggers and everything else of SB3.
        settings: all options of `make`, for checkpoints.
        rng: states of the generators that SB3 shares with the whole process; it gets them back while it learns.
    """

    name = "maskable_ppo"

    def __init__(self, algorithm: Any, settings: Mapping[str, Any], rng: dict[str, Any]) -> None:
        self.algorithm, self.settings, self.rng = algorithm, dict(settings), rng
        self.seed(settings["seed"])

    def seed(self, seed: int) -> None:
        """Of `predict` alone; what training draws depends on the option `seed`."""
        self.acting = derived_generator([seed, 1], self.algorithm.device)

    @classmethod
    def make(cls, env: EnvSource, *, env_options: Mapping[str, Any] | None = None, **options: Any) -> MaskablePPOAgent:
        """Build the agent and `num_envs` single environments, stepped one after the other in this process.

        Args:
            env: a registered id of the token level, or a function that makes one such environment.
            env_options: keyword arguments of `gymnasium.make`.
            options: fields of `Options`, and MaskablePPO's other keyword arguments.

        Raises:
            AgentError: not a token-level environment, or an option that MaskablePPO does not have.
            ValueError: an option of a wrong type or out of its range.
        """
        from sb3_contrib import MaskablePPO
        from stable_baselines3.common.vec_env import DummyVecEnv

        names = {field.name for field in fields(Options)}
        checked = vars(Options(**{name: value for name, value in options.items() if name in names}))
        settings = {**checked, **options}
        encoder = {name: settings[name] for name in ("width", "layers", "heads")}
        kwargs = {name: value for name, value in settings.items() if name not in ("num_envs", *encoder)}
        make_env = maker(env, env_options)
        spaces_of(make_env)
        kwargs["policy_kwargs"] = {
            "features_extractor_class": PrefixEncoder, "features_extractor_kwargs": encoder,
            "net_arch": {"pi": [], "vf": [settings["width"]]}, **(kwargs["policy_kwargs"] or {}),
        }  # fmt: skip
        rows = DummyVecEnv([make_env] * settings["num_envs"])
        outside = rng_state()
        try:
            algorithm = MaskablePPO("MultiInputPolicy", rows, **kwargs)  # reseeds the whole process
            return cls(algorithm, settings, rng_state())
        except BaseException as error:
            rows.close()
            if isinstance(error, TypeError | AssertionError | RuntimeError):
                raise AgentError(f"MaskablePPO refuses its options: {error}") from error
            raise
        finally:
            set_rng_state(outside)

    @property
    def num_timesteps(self) -> int:  # type: ignore[override]
        """Tokens written for training so far."""
        return self.algorithm.num_timesteps

    def learn(self, total_timesteps: int, callback: Any = None) -> MaskablePPOAgent:
        """Train until that many tokens have been written in all; `callback` is SB3's."""
        missing = total_timesteps - self.num_timesteps
        masks = self.algorithm.env.envs[0].has_wrapper_attr("action_masks")
        if missing > 0:
            with self._own_randomness():
                self.algorithm.learn(missing, callback, reset_num_timesteps=False, use_masking=masks)
        return self

    @torch.no_grad()
    def predict(self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False,
                action_masks: np.ndarray | None = None) -> tuple[Any, Any]:  # fmt: skip
        """The next token of each observation; without masks, any."""
        policy, single = self.algorithm.policy, np.ndim(observation["tokens"]) == 1
        policy.set_training_mode(False)
        inputs = {}
        for key in policy.observation_space.spaces:
            value = torch.tensor(np.asarray(observation[key]), device=policy.device)
            inputs[key] = value[None] if single else value
        logits = policy.get_distribution(inputs).distribution.logits
        allowed = torch.ones_like(logits, dtype=torch.bool)
        if action_masks is not None:
            allowed &= torch.tensor(np.asarray(action_masks), dtype=torch.bool, device=policy.device)
        sampling = Sampling(greedy=deterministic)
        actions = draw(log_distribution(logits, sampling, allowed), sampling, self.acting).cpu().numpy()
        return (actions[0] if single else actions), state

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint, whole or not at all; SB3 itself loads its `model.zip`.

        Raises:
            FileExistsError: the folder exists.
            OSError: it cannot be written.
        """
        algorithm, env = self.algorithm, self.algorithm.env.envs[0]
        plain = {name: value for name, value in self.settings.items() if is_plain(value)}
        summary = {
            "agent": self.name, "num_timesteps": self.num_timesteps,
            "weights": weight_fingerprint(algorithm.policy.named_parameters()),
            "settings": plain, "not_saved": sorted(self.settings.keys() - plain.keys()),
            "observation_space": str(algorithm.observation_space), "action_space": str(algorithm.action_space),
            "env": {"id": environment_id(env), "options": plain_options(env)},
        }  # fmt: skip
        with whole_folder(folder) as unfinished:
            algorithm.save(unfinished / MODEL)
            torch.save({"global": self.rng, "acting": self.acting.get_state()}, unfinished / RNG)
            (unfinished / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n")

    @classmethod
    def load(
        cls, folder: str | Path, env: EnvSource, *, env_options: Mapping[str, Any] | None = None, **options: Any
    ) -> MaskablePPOAgent:
        """An agent from `save`, which can go on learning (the environments start new episodes).

        Args:
            folder: the checkpoint; nothing in it is executed.
            env, env_options: as of `make`.
            options: as of `make`; the checkpoint's own where left out.

        Raises:
            AgentError: no checkpoint, a damaged one, another agent's, one for other spaces or of a policy of another
                shape, or one whose settings held functions (schedules), which must be given again.
        """
        from stable_baselines3.common.save_util import load_from_zip_file

        summary = read_summary(Path(folder), cls.name)
        needed = ("num_timesteps", "settings", "not_saved", "observation_space", "action_space")
        require_entries(Path(folder), summary, *needed)
        own = spaces_of(maker(env, env_options))
        for name, space in zip(("observation_space", "action_space"), own, strict=True):
            if str(space) != summary[name]:
                raise AgentError(f"{folder} was trained with {name} {summary[name]}, the environment has {space}")
        if missing := [name for name in summary["not_saved"] if name not in options]:
            raise AgentError(f"{folder} cannot hold the settings {', '.join(missing)}: pass them to load")
        parameters = contents(
            Path(folder) / MODEL, ("policy", "policy.optimizer"),
            lambda path: load_from_zip_file(path, device="cpu", load_data=False)[1],
        )  # fmt: skip
        rng = contents(Path(folder) / RNG, ("global", "acting"), lambda path: torch.load(path, weights_only=True))
        agent = cls.make(env, env_options=env_options, **{**summary["settings"], **options})
        try:
            agent.algorithm.set_parameters(parameters)
        except (ValueError, RuntimeError) as error:
            agent.algorithm.env.close()
            trained = {name: summary["settings"].get(name) for name in options}
            raise AgentError(f"{folder} holds the weights of a policy with {trained}, got {options}") from error
        agent.algorithm.num_timesteps = summary["num_timesteps"]
        agent.rng = rng["global"]
        if len(rng["acting"]) == len(agent.acting.get_state()):  # another device has another kind of state
            agent.acting.set_state(rng["acting"])
        # Not the episodes that the first run began with.
        agent.algorithm.env.seed(derived_seed([agent.settings["seed"], agent.num_timesteps]))
        return agent

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """SB3 draws from the process's generators: lend it this agent's states, so that nobody else's draws change."""
        outside = rng_state()
        set_rng_state(self.rng)
        try:
            yield
        finally:
            self.rng = rng_state()
            set_rng_state(outside)


def maker(env: EnvSource, env_options: Mapping[str, Any] | None) -> Callable[[], gym.Env]:
    """A function that makes one environment."""
    if not isinstance(env, str):
        return env
    return lambda: gym.make(env, disable_env_checker=True, **(env_options or {}))


def spaces_of(make_env: Callable[[], gym.Env]) -> tuple[Dict, Discrete]:
    """Observation and action space.

    Raises:
        AgentError: they are not a token level's.
    """
    env = make_env()
    space, actions = env.observation_space, env.action_space
    env.close()
    if not isinstance(space, Dict) or not isinstance(actions, Discrete):
        raise AgentError(f"expected a token-level environment (Dict observations, Discrete actions), got {env}")
    for key in ("tokens", "length"):
        if not isinstance(space.get(key), Box):
            raise AgentError(f"expected observations with a Box 'tokens' and a Box 'length', got {space}")
    return space, actions


def is_plain(value: Any) -> bool:
    """Whether JSON holds it."""
    try:
        return json.loads(json.dumps(value)) == value
    except (TypeError, ValueError):
        return False


def contents(path: Path, names: tuple[str, ...], read: Callable[[Path], Any]) -> dict[str, Any]:
    """What a file of a checkpoint holds under these names.

    Raises:
        AgentError: it is missing or cannot be read.
    """
    if not path.is_file():
        raise AgentError(f"{path.parent} is damaged: {path.name} is missing")
    try:
        found = read(path)
        return {name: found[name] for name in names}
    except Exception as error:  # each reader raises what it likes
        raise AgentError(f"{path.parent} is damaged: {path.name} cannot be read") from error

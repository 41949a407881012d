"""Playing chosen episodes with any agent: token by token or turn by turn through `collect`, texts in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from agents.base import Agent, AgentError, EnvSource, Episode
from agents.engine import Turn, TurnMask
from agents.environment import attribute, vocabulary_size
from agents.rng import derived_generator, derived_seed
from agents.rollout import collect
from agents.sampling import Sampling


class InfrastructureError(RuntimeError):
    """Something outside agent and environment broke while an episode was played: it has no score."""


class SingleRows(SyncVectorEnv):
    """Single environments in a row, autoreset disabled; what each says in its info stays as it is."""

    def __init__(self, make: Callable[[], gym.Env], rows: int) -> None:
        super().__init__([make] * rows, autoreset_mode=AutoresetMode.DISABLED)

    def _add_info(self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int) -> dict[str, Any]:
        """Gymnasium would merge dictionaries into typed arrays, where 0.5 may become 0."""
        for key, value in env_info.items():
            vector_infos.setdefault(key, np.full(self.num_envs, None, dtype=object))[env_num] = value
            vector_infos.setdefault(f"_{key}", np.zeros(self.num_envs, dtype=np.bool_))[env_num] = True
        return vector_infos


def make_vec(env: EnvSource, rows: int, options: dict[str, Any]) -> VectorEnv:
    """A token-level vector environment with autoreset disabled.

    Raises:
        AgentError: the environment is not a token-level one.
    """

    def make_row() -> gym.Env:
        return gym.make(env, disable_env_checker=True, **options) if isinstance(env, str) else env()

    row = make_row()
    space, spec = row.observation_space, row.spec
    row.close()
    if not isinstance(space, gym.spaces.Dict) or not {"tokens", "length"} <= space.keys():
        raise AgentError(f"expected a token-level environment (observations with 'tokens' and 'length'), got {space}")
    if isinstance(env, str) and spec is not None and spec.vector_entry_point is not None:
        made: VectorEnv = gym.make_vec(env, num_envs=rows, autoreset_mode=AutoresetMode.DISABLED, **options)
    else:
        made = SingleRows(make_row, rows)
        made.spec = spec
    vocabulary_size(made)
    return made


def make_text(env: EnvSource, options: dict[str, Any]) -> gym.Env:
    """A text-level environment.

    Raises:
        AgentError: the environment is not a text-level one.
    """
    made = gym.make(env, disable_env_checker=True, **options) if isinstance(env, str) else env()
    if not isinstance(made.action_space, gym.spaces.Text):
        space = made.action_space
        made.close()
        raise AgentError(f"expected a text-level environment (messages as actions; ids end in 'Text-v0'), got {space}")
    return made


class PredictEngine:
    """An engine made of an agent's `predict`, one token at a time; says nothing about probabilities.

    Args:
        agent: acts on the environment's observations.
        deterministic: as of `predict`.
    """

    weight_version, reports_kept_sets = 0, False

    def __init__(self, agent: Agent, deterministic: bool) -> None:
        self.agent, self.deterministic = agent, deterministic
        self._observation: dict[str, np.ndarray] = {}

    def observe(self, observation: dict[str, np.ndarray]) -> None:
        """What the next turns begin with."""
        self._observation = observation

    def generate(
        self,
        prefixes: Sequence[np.ndarray],
        budgets: np.ndarray,
        stop_token_ids: frozenset[int],
        allowed: torch.Tensor | TurnMask,
        sampling: Sampling,
        generator: torch.Generator | None,
    ) -> list[Turn]:
        """Continue each prefix until a stop token or its budget."""
        turns: list[list[int]] = [[] for _ in prefixes]
        active = list(range(len(prefixes)))
        now = {name: np.array(values) for name, values in self._observation.items()}
        while active:
            observation = {name: values[active] for name, values in now.items()}
            masks = self._masks(allowed, turns, active)
            actions, _ = self.agent.predict(observation, deterministic=self.deterministic, action_masks=masks)
            for row, action in zip(active, actions, strict=True):
                now["tokens"][row, len(prefixes[row]) + len(turns[row])] = action
                turns[row].append(int(action))
                now["length"][row] += 1
                if "remaining" in now:
                    now["remaining"][row] -= 1
            active = [r for r in active if turns[r][-1] not in stop_token_ids and len(turns[r]) < budgets[r]]
        return [Turn(np.array(t), None, "stop" if t[-1] in stop_token_ids else "length") for t in turns]

    def _masks(self, allowed: torch.Tensor | TurnMask, turns: list[list[int]], active: list[int]) -> np.ndarray:
        if not isinstance(allowed, torch.Tensor):
            return allowed([turns[row] for row in active])
        masks = allowed.numpy()
        return np.broadcast_to(masks, (len(turns), masks.shape[-1]))[active]


def play_tokens(
    agent: Any, env: EnvSource, indices: list[int], options: dict[str, Any], deterministic: bool, seed: int,
    sample: int, rows: int,
) -> Iterator[Episode]:  # fmt: skip
    """Episodes of a token-level agent; one that generates whole turns does so."""
    made = make_vec(env, min(rows, max(1, len(indices))), options)
    try:
        engine, sampling = PredictEngine(agent, deterministic), Sampling()
        if agent.writes_turns:
            engine, sampling = agent.engine, agent.sampling
        if deterministic:
            sampling = Sampling(sampling.temperature, greedy=True)
        device = agent.policy.device if agent.writes_turns else torch.device("cpu")
        available = attribute(made, "num_examples")
        for start in range(0, len(indices), made.num_envs):
            chunk = indices[start : start + made.num_envs]
            padded = np.resize(chunk, made.num_envs).tolist()
            draws = [seed, sample, start, *chunk]
            agent.seed(derived_seed(draws))
            rollout = collect(
                made, engine, sampling, derived_generator(draws, device),
                seeds=[seed + index for index in padded], indices=None if available is None else padded,
            )  # fmt: skip
            for row in range(len(chunk)):
                info = rollout.infos[row]
                yield Episode(start + row, info, float(rollout.scores[row]), what_failed(info))
    finally:
        made.close()


def play_texts(
    agent: Agent, env: EnvSource, indices: list[int], options: dict[str, Any], deterministic: bool, seed: int,
    sample: int, rows: int,
) -> Iterator[Episode]:  # fmt: skip
    """Episodes of a text-level agent, each in a thread and an environment of its own."""
    make_text(env, options).close()  # refuses here, before any thread starts
    agent.seed(derived_seed([seed, sample, *indices]))
    stopped = threading.Event()

    def one(number: int) -> Episode:
        made = make_text(env, options)
        try:
            return play_text(agent, made, number, indices[number], deterministic, seed, stopped)
        finally:
            made.close()

    pool = ThreadPoolExecutor(max_workers=max(1, rows))
    try:
        waiting = [pool.submit(one, number) for number in range(len(indices))]
        for done in as_completed(waiting):
            yield done.result()
    except BaseException as error:
        stopped.set()  # before `interrupt`, which only ends what has begun
        pool.shutdown(wait=False, cancel_futures=True)
        if hasattr(agent, "interrupt") and not isinstance(error, GeneratorExit):
            agent.interrupt()  # a request under way may take minutes
        raise
    pool.shutdown()


def play_text(
    agent: Any, env: gym.Env, number: int, index: int, deterministic: bool, seed: int, stopped: threading.Event
) -> Episode:
    """One episode; an agent with `begin` is shown the environment first (scripted ones know the answer)."""
    observation, info = env.reset(seed=seed + index, options={"index": index})
    act: Callable[..., Any] = agent.begin(env) if hasattr(agent, "begin") else agent.predict
    state, score, ended = None, 0.0, False
    while not ended:
        if stopped.is_set():
            return Episode(number, info, 0.0, "interrupted")
        try:
            action, state = act(observation, state=state, deterministic=deterministic)
        except InfrastructureError as error:
            return Episode(number, info, 0.0, str(error))
        observation, reward, terminated, truncated, new = env.step(action)
        info, score, ended = {**info, **new}, score + float(reward), terminated or truncated
    return Episode(number, info, score, what_failed(info))


def what_failed(info: dict[str, Any]) -> str:
    """Why an episode has no score; empty when it has one."""
    return str(info.get("verifier_error", "the judge broke")) if info.get("unscored") else ""

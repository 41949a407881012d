"""Playing chosen episodes with any agent: token by token or turn by turn through `collect`, texts in threads."""

from __future__ import annotations

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
from agents.rng import derived_generator
from agents.rollout import collect
from agents.sampling import Sampling


class InfrastructureError(RuntimeError):
    """Something outside agent and environment broke while an episode was played: it has no score."""


def make_vec(env: EnvSource, rows: int, options: dict[str, Any]) -> VectorEnv:
    """A token-level vector environment with autoreset disabled.

    Raises:
        AgentError: the environment is not a token-level one.
    """
    row = gym.make(env, disable_env_checker=True, **options) if isinstance(env, str) else env()
    space = row.observation_space
    row.close()
    if not isinstance(space, gym.spaces.Dict) or not {"tokens", "length"} <= space.keys():
        raise AgentError(f"expected a token-level environment (observations with 'tokens' and 'length'), got {space}")
    if isinstance(env, str):
        made = gym.make_vec(env, num_envs=rows, autoreset_mode=AutoresetMode.DISABLED, **options)
    else:
        made = SyncVectorEnv([env] * rows, autoreset_mode=AutoresetMode.DISABLED)
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
        agent: acts on observations with `tokens`, `length` and `remaining`.
        max_length: positions of such an observation.
        deterministic: as of `predict`.
    """

    weight_version, reports_kept_sets = 0, False

    def __init__(self, agent: Agent, max_length: int, deterministic: bool) -> None:
        self.agent, self.max_length, self.deterministic = agent, max_length, deterministic

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
        while active:
            tokens = np.zeros((len(active), self.max_length), dtype=np.int64)
            length = np.zeros((len(active), 1), dtype=np.int64)
            for k, row in enumerate(active):
                prefix = [*prefixes[row], *turns[row]]
                tokens[k, : len(prefix)], length[k] = prefix, len(prefix)
            remaining = np.array([[budgets[row] - len(turns[row])] for row in active])
            observation = {"tokens": tokens, "length": length, "remaining": remaining}
            masks = self._masks(allowed, turns, active)
            actions, _ = self.agent.predict(observation, deterministic=self.deterministic, action_masks=masks)
            for row, action in zip(active, actions, strict=True):
                turns[row].append(int(action))
            active = [r for r in active if turns[r][-1] not in stop_token_ids and len(turns[r]) < budgets[r]]
        return [Turn(np.array(t), None, "stop" if t[-1] in stop_token_ids else "length") for t in turns]

    def _masks(self, allowed: torch.Tensor | TurnMask, turns: list[list[int]], active: list[int]) -> np.ndarray:
        if not isinstance(allowed, torch.Tensor):
            return allowed([turns[row] for row in active])
        masks = allowed.numpy()
        return np.broadcast_to(masks, (len(turns), masks.shape[-1]))[active]


def play_tokens(
    agent: Any, env: EnvSource, indices: list[int], options: dict[str, Any], deterministic: bool, seed: int, rows: int
) -> Iterator[Episode]:
    """Episodes of a token-level agent; one that generates whole turns does so."""
    made = make_vec(env, min(rows, max(1, len(indices))), options)
    try:
        max_length = int(made.single_observation_space["tokens"].shape[0])  # type: ignore[index]
        engine = getattr(agent, "engine", None) or PredictEngine(agent, max_length, deterministic)
        sampling = getattr(agent, "sampling", Sampling())
        if deterministic:
            sampling = Sampling(sampling.temperature, greedy=True)
        available = attribute(made, "num_examples")
        for start in range(0, len(indices), made.num_envs):
            chunk = indices[start : start + made.num_envs]
            device = agent.policy.device if hasattr(agent, "policy") else torch.device("cpu")
            generator = derived_generator([seed, start], device)
            padded = np.resize(chunk, made.num_envs).tolist()
            seeds = [seed + start + row for row in range(made.num_envs)]
            asked = None if available is None else padded
            rollout = collect(made, engine, sampling, generator, seeds=seeds, indices=asked)
            for row in range(len(chunk)):
                info = rollout.infos[row]
                failed = str(info.get("verifier_error", "the judge broke")) if info.get("unscored") else ""
                yield Episode(start + row, info, float(rollout.scores[row]), failed)
    finally:
        made.close()


def play_texts(
    agent: Agent, env: EnvSource, indices: list[int], options: dict[str, Any], deterministic: bool, seed: int, rows: int
) -> Iterator[Episode]:
    """Episodes of a text-level agent, each in a thread and an environment of its own."""
    make_text(env, options).close()  # refuses here, before any thread starts

    def one(number: int) -> Episode:
        made = make_text(env, options)
        try:
            return play_text(agent, made, number, indices[number], deterministic, seed)
        finally:
            made.close()

    with ThreadPoolExecutor(max_workers=max(1, rows)) as pool:
        waiting = [pool.submit(one, number) for number in range(len(indices))]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            for future in waiting:
                future.cancel()


def play_text(agent: Any, env: gym.Env, number: int, index: int, deterministic: bool, seed: int) -> Episode:
    """One episode; an agent with `begin` is shown the environment first (scripted ones know the answer)."""
    observation, info = env.reset(seed=seed + number, options={"index": index})
    act: Callable[..., Any] = agent.begin(env) if hasattr(agent, "begin") else agent.predict
    state, score, ended = None, 0.0, False
    while not ended:
        try:
            action, state = act(observation, state=state, deterministic=deterministic)
        except InfrastructureError as error:
            return Episode(number, info, 0.0, str(error))
        observation, reward, terminated, truncated, new = env.step(action)
        info, score, ended = {**info, **new}, score + float(reward), terminated or truncated
    failed = str(info.get("verifier_error", "the judge broke")) if info.get("unscored") else ""
    return Episode(number, info, score, failed)

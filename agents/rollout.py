"""Rollouts: the aligned record of one batch of episodes, and the loop that collects it from any token environment.

Legend: B rows (episodes), S tokens of the longest row, T actions of the longest row, V vocabulary.

The record is compact: column t holds the t-th *action* of a row, wherever it stands among the tokens. Prompt tokens and
tokens that the environment inserted have no column, so no loss, KL or value can touch them, and "the next action" is
always the next column.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from agents.engine import Engine, Turn
from agents.environment import (
    action_masks,
    has_whole_turns,
    next_token_mask,
    prefixes,
    remaining,
    reset,
    row_info,
    stop_tokens,
    vocabulary_size,
)
from agents.sampling import Sampling


class StaleBatchError(RuntimeError):
    """A batch was written by other weights than the ones about to be updated, or by several."""


@dataclass
class Rollout:
    """One batch of finished episodes, padded on the right."""

    tokens: Tensor  # (B, S) int64: prompt, actions and inserted tokens as they stood in the environment
    lengths: Tensor  # (B,) int64 real tokens of each row
    prompt_lengths: Tensor  # (B,) int64
    positions: Tensor  # (B, T) int64: index in `tokens` of action t; the last one's on padding
    n_actions: Tensor  # (B,) int64 real actions of each row
    logprobs: Tensor  # (B, T) float32: behaviour log-probs, stored when the token was drawn
    rewards: Tensor  # (B, T) float32: the environment's reward of each action
    terminated: Tensor  # (B,) bool: the task ended the episode
    truncated: Tensor  # (B,) bool: cut off from outside, no verdict was given
    allowed: Tensor  # (V,) bool tokens that could be drawn, or (B, T, ceil(V / 8)) uint8: the same per action, as bits
    n_tokens: int  # V
    infos: list[dict[str, Any]]  # each row's last info
    sampling: Sampling
    weight_version: int  # of the weights that wrote all of it
    has_logprobs: bool = True  # False: the engine could not say with which probability it drew the tokens
    fingerprint: str = ""  # of these weights; empty when nobody took it
    seconds: dict[str, float] = field(default_factory=dict)  # generation, verification (all of the environment)

    @property
    def unscored(self) -> Tensor:
        """(B,) bool: rows whose judge broke; masked out of training, counted in the log."""
        return torch.tensor([bool(info.get("unscored", False)) for info in self.infos])

    @property
    def judged(self) -> Tensor:
        """(B,) bool: rows whose episode came to its end and got a verdict."""
        return ~self.unscored & (self.terminated | ~self.truncated)

    def allowed_tokens(self, rows: Tensor, n_actions: int) -> Tensor:
        """(V,) or (n, n_actions, V) bool: tokens that could be drawn at the first actions of some rows."""
        if self.allowed.ndim == 1:
            return self.allowed
        bits = self.allowed[rows, :n_actions].numpy()
        return torch.from_numpy(np.unpackbits(bits, axis=-1, count=self.n_tokens).view(np.bool_))

    @property
    def real(self) -> Tensor:
        """(B, T) bool: real actions, from lengths and never from token ids (the pad token may be the stop token)."""
        return torch.arange(self.positions.shape[1]) < self.n_actions[:, None]

    @property
    def mask(self) -> Tensor:
        """(B, T) bool: real actions that train."""
        return self.real & ~self.unscored[:, None]

    @property
    def scores(self) -> Tensor:
        """(B,) raw score of each episode: the sum of the environment's rewards."""
        return self.rewards.sum(1)

    def texts(self, decode: Any) -> list[tuple[str, str]]:
        """(prompt, answer) of each row; `decode` maps ids to text."""
        pairs = []
        for tokens, start, end in zip(self.tokens, self.prompt_lengths.tolist(), self.lengths.tolist(), strict=True):
            pairs.append((decode(tokens[:start].tolist()), decode(tokens[start:end].tolist())))
        return pairs


@dataclass
class _Row:
    """One episode while it is being collected."""

    tokens: list[int]
    prompt_length: int
    positions: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    allowed: list[np.ndarray] = field(default_factory=list)  # as bits: 50,000 bools per action are much
    has_logprobs: bool = True
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = field(default_factory=dict)

    def append(self, turn: Turn, reward: float, prefix: np.ndarray, allowed: np.ndarray) -> None:
        """Add a turn's actions and whatever the environment inserted after them."""
        start = len(self.tokens)
        written = prefix[start : start + len(turn.ids)]
        if not np.array_equal(written, turn.ids):
            raise RuntimeError(
                "the environment's prefix does not continue with the sampled tokens "
                f"(sampled {turn.ids.tolist()[:8]}, prefix has {written.tolist()[:8]}): tokens must never be re-encoded"
            )
        self.positions += range(start, start + len(turn.ids))
        self.logprobs += [0.0] * len(turn.ids) if turn.logprobs is None else turn.logprobs.tolist()
        self.has_logprobs &= turn.logprobs is not None
        self.rewards += [0.0] * (len(turn.ids) - 1) + [float(reward)]
        self.allowed += [allowed] * len(turn.ids) if turn.allowed is None else list(np.packbits(turn.allowed, axis=-1))
        self.tokens = prefix.tolist()


def collect(
    env: VectorEnv,
    engine: Engine,
    sampling: Sampling,
    generator: torch.Generator | None,
    *,
    seeds: Sequence[int] | None = None,
    indices: Sequence[int] | None = None,
) -> Rollout:
    """Play one episode in every row of a vector environment whose autoreset is disabled.

    Args:
        env: Discrete(V) actions and a Dict observation with `tokens` and `length` (token prefix).
        engine: the generator.
        sampling: how tokens are drawn.
        generator: source of randomness for sampling.
        seeds: one per row; a run that resets with seeds derived from (run, iteration, row) needs no hidden state.
        indices: the example each row plays (evaluation); drawn by the environment otherwise.
    """
    observation, infos = reset(env, seeds, indices)
    rows = [_Row(list(map(int, prefix)), len(prefix), info=infos[i]) for i, prefix in prefixes(observation)]
    player = _WholeTurns(env) if has_whole_turns(env) else _TokenByToken(env)
    stops, turn_mask, version = stop_tokens(env), next_token_mask(env), engine.weight_version
    seconds = {"generation": 0.0, "verification": 0.0}
    active, n_tokens = list(range(len(rows))), vocabulary_size(env)
    while active:
        started = time.perf_counter()
        masks = np.broadcast_to(np.asarray(action_masks(env)), (len(rows), n_tokens))
        bits = np.packbits(masks, axis=-1)
        budgets = np.minimum(remaining(observation, active), player.longest_turn)
        if hasattr(engine, "observe"):
            engine.observe({name: np.asarray(values)[active] for name, values in observation.items()})
        turns = engine.generate(
            [np.asarray(rows[i].tokens) for i in active],
            budgets, stops, turn_mask or torch.from_numpy(masks[active].copy()), sampling, generator,
        )  # fmt: skip
        if turn_mask is not None and any(turn.allowed is None for turn in turns):
            raise RuntimeError(
                f"{type(engine).__name__} must say which tokens each one could be drawn from (Turn.allowed): in this "
                "environment that depends on what was written"
            )
        if engine.weight_version != version:
            raise StaleBatchError(
                f"the engine's weights changed from version {version} to {engine.weight_version} while a batch was "
                "being collected: its log-probs belong to several policies"
            )
        seconds["generation"] += time.perf_counter() - started
        started = time.perf_counter()
        observation, results = player.play(active, turns, observation)
        for i, turn in zip(active, turns, strict=True):
            reward, terminated, truncated, info = results[i]
            length = int(observation["length"][i].item())
            rows[i].append(turn, reward, observation["tokens"][i][:length], bits[i])
            rows[i].terminated, rows[i].truncated, rows[i].info = terminated, truncated, {**rows[i].info, **info}
        seconds["verification"] += time.perf_counter() - started
        active = [i for i in active if not (rows[i].terminated or rows[i].truncated)]
    return pack(rows, n_tokens, sampling, version, seconds)


class _WholeTurns:
    """Hands turns to an environment that offers `send` and `recv`; verdicts run in parallel behind them."""

    longest_turn = np.iinfo(np.int64).max

    def __init__(self, env: VectorEnv) -> None:
        self.env: Any = env

    def play(self, active: list[int], turns: list[Turn], observation: dict[str, np.ndarray]):
        self.env.send(np.array(active), [turn.ids for turn in turns])
        observation = {key: value.copy() for key, value in observation.items()}
        results: dict[int, tuple[float, bool, bool, dict]] = {}
        while len(results) < len(active):
            rows, obs, rewards, terminated, truncated, infos = self.env.recv()
            for k, row in enumerate(int(r) for r in rows):
                results[row] = (float(rewards[k]), bool(terminated[k]), bool(truncated[k]), infos[k])
                for key in observation:
                    observation[key][row] = obs[key][k]
        return observation, results


class _TokenByToken:
    """Steps any vector environment one token at a time; rows that have ended are reset and played on unrecorded."""

    longest_turn = 1

    def __init__(self, env: VectorEnv) -> None:
        self.env = env
        self.ended = np.zeros(env.num_envs, dtype=bool)

    def play(self, active: list[int], turns: list[Turn], observation: dict[str, np.ndarray]):
        if self.ended.any():
            observation, _ = self.env.reset(options={"reset_mask": self.ended.copy()})
        actions = np.zeros(self.env.num_envs, dtype=np.int64)
        actions[:] = np.asarray(action_masks(self.env)).reshape(-1, vocabulary_size(self.env)).argmax(-1)
        for i, turn in zip(active, turns, strict=True):
            actions[i] = turn.ids[0]
        observation, rewards, terminated, truncated, infos = self.env.step(actions)
        self.ended = np.asarray(terminated) | np.asarray(truncated)
        results = {i: (float(rewards[i]), bool(terminated[i]), bool(truncated[i]), row_info(infos, i)) for i in active}
        return observation, results


def pack(
    rows: list[_Row], n_tokens: int, sampling: Sampling, weight_version: int, seconds: dict[str, float]
) -> Rollout:
    """Rows of unequal length -> right-padded tensors."""
    width, n_actions = max(len(r.tokens) for r in rows), max(len(r.positions) for r in rows)
    tokens = torch.zeros(len(rows), width, dtype=torch.int64)
    positions = torch.ones(len(rows), n_actions, dtype=torch.int64)
    logprobs, rewards = torch.zeros(len(rows), n_actions), torch.zeros(len(rows), n_actions)
    for i, row in enumerate(rows):
        n = len(row.positions)
        tokens[i, : len(row.tokens)] = torch.tensor(row.tokens)
        positions[i, :n] = torch.tensor(row.positions)
        positions[i, n:] = row.positions[-1]  # not 1: scoring needs no logits before the earliest action of a batch
        logprobs[i, :n], rewards[i, :n] = torch.tensor(row.logprobs), torch.tensor(row.rewards)
    return Rollout(
        tokens=tokens,
        lengths=torch.tensor([len(row.tokens) for row in rows]),
        prompt_lengths=torch.tensor([row.prompt_length for row in rows]),
        positions=positions,
        n_actions=torch.tensor([len(row.positions) for row in rows]),
        logprobs=logprobs,
        rewards=rewards,
        terminated=torch.tensor([row.terminated for row in rows]),
        truncated=torch.tensor([row.truncated for row in rows]),
        allowed=_pack_allowed(rows, n_actions, n_tokens),
        n_tokens=n_tokens,
        infos=[row.info for row in rows],
        sampling=sampling,
        weight_version=weight_version,
        has_logprobs=all(row.has_logprobs for row in rows),
        seconds=seconds,
    )


def _pack_allowed(rows: list[_Row], n_actions: int, n_tokens: int) -> Tensor:
    """(V,) when every action had the same mask (the usual case), else the bits of each action."""
    first = rows[0].allowed[0]
    if all(mask is first or np.array_equal(mask, first) for row in rows for mask in row.allowed):
        return torch.from_numpy(np.unpackbits(first, count=n_tokens).view(np.bool_))
    allowed = torch.full((len(rows), n_actions, len(first)), 255, dtype=torch.uint8)
    for i, row in enumerate(rows):
        allowed[i, : len(row.allowed)] = torch.from_numpy(np.stack(row.allowed))
    return allowed

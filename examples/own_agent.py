"""An agent of your own: registered by name, trained, and evaluated like any other.

    python examples/own_agent.py

This one counts: for every last token it remembers what followed when the episode ended well, and draws from that. It
knows nothing of language models, yet trains on the same environment ids and is evaluated by the same command.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import agents
from agents.environment import action_masks, vocabulary_size
from agents.evaluate import passes
from agents.files import whole_folder
from agents.play import make_vec
from agents.registry import register
from llm_envs import register_task


class CountingAgent(agents.Agent):
    """P(next token | last token) from counts over the episodes that it played, each as often as its score says."""

    name = "counting"

    def __init__(self, env: Any, seed: int = 0) -> None:
        self.env, self.problems, self.num_timesteps = env, np.random.default_rng(seed), 0
        self.seed(seed)
        self.counts = np.full((vocabulary_size(env),) * 2, 0.1)

    @classmethod
    def make(
        cls, env: agents.EnvSource, *, env_options: Mapping[str, Any] | None = None, seed: int = 0
    ) -> CountingAgent:
        """Sixteen rows of a token-level environment."""
        return cls(make_vec(env, 16, dict(env_options or {})), seed)

    def learn(self, total_timesteps: int) -> CountingAgent:
        """Play, and count what episodes that scored did."""
        while self.num_timesteps < total_timesteps:
            observation, _ = self.env.reset(seed=int(self.problems.integers(2**31)))
            ended, scores, steps = np.zeros(16, dtype=bool), np.zeros(16), []
            while not ended.all():
                actions, _ = self.predict(observation, action_masks=action_masks(self.env))
                steps.append((self.last(observation), actions, ~ended))
                observation, rewards, terminated, truncated, _ = self.env.step(actions)
                scores += np.where(ended, 0.0, rewards)
                ended |= terminated | truncated
                if ended.any() and not ended.all():  # rows that are done play on, unrecorded
                    observation, _ = self.env.reset(options={"reset_mask": ended.copy()})
            for last, actions, counted in steps:
                np.add.at(self.counts, (last[counted], actions[counted]), scores[counted].clip(0))
                self.num_timesteps += int(counted.sum())
        return self

    def last(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        """The newest token of each prefix, or of the only one."""
        return np.take_along_axis(observation["tokens"], observation["length"] - 1, axis=-1)[..., 0]

    def predict(self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False,
                action_masks: np.ndarray | None = None) -> tuple[Any, Any]:  # fmt: skip
        """Drawn from the counts, or the likeliest."""
        scores = np.log(self.counts[self.last(observation)])
        if not deterministic:
            scores = scores + self.rng.gumbel(size=scores.shape)
        return np.where(True if action_masks is None else action_masks, scores, -np.inf).argmax(-1), state

    def seed(self, seed: int) -> None:
        """Of every token from now on."""
        self.rng = np.random.default_rng(seed)

    def save(self, folder: str | Path) -> None:
        """Counts and tokens played: all there is. A folder that exists is left alone."""
        with whole_folder(folder) as unfinished:
            np.savez(unfinished / "counting.npz", counts=self.counts, num_timesteps=self.num_timesteps)

    @classmethod
    def load(cls, folder: str | Path, env: agents.EnvSource, **options: Any) -> CountingAgent:
        """An agent that goes on from a folder."""
        path, agent = Path(folder) / "counting.npz", cls.make(env, **options)
        if not path.exists():
            raise agents.AgentError(f"{folder} is no checkpoint of a counting agent: {path.name} is missing")
        saved = np.load(path)
        agent.counts, agent.num_timesteps = saved["counts"], int(saved["num_timesteps"])
        return agent


if __name__ == "__main__":
    register("counting", CountingAgent)
    starts = "abcdefghijklmnopqrstuvw"
    problems = [{"start": letter, "answer": chr(ord(letter) + 1) + chr(ord(letter) + 2)} for letter in starts]
    register_task(
        "Alphabet",
        problems={"train": problems[::2], "test": problems[1::2]},
        prompt="{start}",
        verifier="exact_match",
        max_new_tokens=2,
    )
    options = {"allowed_tokens": [ord(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]}
    for steps in (0, 60_000):
        agent = agents.make("counting", "llm_envs/Alphabet-v0", env_options={**options, "split": "train"}).learn(steps)
        held_out = list(agent.play("llm_envs/Alphabet-v0", range(11), env_options={**options, "split": "test"}))
        score, passed = np.mean([e.score for e in held_out]), np.mean([passes(e.info) for e in held_out])
        print(f"after {agent.num_timesteps} tokens: held-out score {score:.3f}, pass rate {passed:.3f}")

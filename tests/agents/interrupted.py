"""A run that can be killed: `python -m tests.agents.interrupted FOLDER ITERATIONS` starts it or goes on."""

import random
import sys
from pathlib import Path

import numpy as np
import torch

from agents.ppo import PPO, PPOConfig
from agents.run import RunFolder
from tests.agents.small import configure, llama, make_env

CONFIG = configure(
    PPOConfig(), optimizer__learning_rate=1e-3, optimizer__schedule="cosine", optimizer__warmup_iterations=2,
    critic__learning_rate=1e-2, critic__trunk_gradient=0.5, critic__warmup=3, critic__settled=0.5, kl__target=0.5,
    kl__horizon=100, reward__normalize=True, epochs=2, minibatches=2, eval_every=2, eval_episodes=8,
    checkpoint_every=1, keep_checkpoints=2,
)  # fmt: skip
EPISODES = 8


class Noisy(PPO):
    """Uses every global generator in each iteration, as an environment or a verifier of somebody's own might."""

    def iterate(self):
        batch, metrics = super().iterate()
        drawn = {"python": random.random(), "numpy": float(np.random.rand()), "torch": float(torch.rand(()))}
        return batch, metrics | {f"drawn/{name}": value for name, value in drawn.items()}


def run(path: Path, iterations: int) -> PPO:
    torch.set_num_threads(1)
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    folder = RunFolder(path)
    started = (path / "config.json").exists()
    newest = None
    if started:
        newest = folder.resume()
    else:
        folder.create({"seed": CONFIG.seed})
    env, eval_env = make_env(EPISODES), make_env(EPISODES)
    torch.manual_seed(3)
    agent = Noisy(llama(), env, CONFIG, eval_env=eval_env, run=folder)
    random.seed(3)
    if newest is not None:
        agent.restore(newest)
    print("ready", flush=True)
    # A total far away makes the schedule depend on the tokens sampled; the iterations are what ends the run.
    agent.on_iteration = lambda agent, metrics, batch: _stop(agent, iterations)
    try:
        if agent.iteration < iterations:
            agent.learn(3000)
    except Finished:
        pass
    folder.save_last(agent)
    folder.close()
    return agent


class Finished(Exception):
    pass


def _stop(agent, iterations):
    if agent.iteration >= iterations:
        raise Finished


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))

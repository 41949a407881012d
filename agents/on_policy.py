"""Learning from one's own samples: what PPO, REINFORCE and GRPO share. Each agent adds its own page:

    iterate     collect -> score -> update, and what it logs
    score       rollout -> batch with advantages
    loss        batch -> loss of some rows

Acting and evaluating are in `agents.policy_agent`. Legend: B rows, T actions of the longest row.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from agents.base import EnvSource
from agents.batch import Batch
from agents.checkpoint import (
    load_checkpoint,
    read_summary,
    require_entries,
    require_same_actions,
    save_checkpoint,
    saved_model,
)
from agents.interrupt import deferred_interrupt
from agents.kl import KLController
from agents.losses import loss_weights
from agents.metrics import mean_metrics
from agents.optimizer import NonFiniteError, build_optimizer, clip_gradients, drop_gradients, schedule_factor
from agents.policy_agent import PolicyAgent
from agents.rewards import Moments
from agents.rng import derived_generator
from agents.rollout import Rollout, StaleBatchError, collect
from agents.run import RunFolder
from agents.scoring import Behaviour, behaviour, micro_batches

Groups = dict[str, tuple[Sequence[torch.nn.Parameter], float]]


class OnPolicyAgent(PolicyAgent):
    """An agent that samples a batch with its policy, scores it, updates on it, and throws it away.

    Args:
        model: as of `PolicyAgent`, as are `env` and most options.
        env: one iteration plays one episode in each of its rows.
        config: settings.
        run: folder for metrics, samples and checkpoints; None writes nothing.
        on_iteration: called after each iteration with (agent, metrics, batch).
        options: what `PolicyAgent` takes.

    Raises:
        ValueError: model, environment, engine and settings do not fit each other.
    """

    def __init__(
        self,
        model: Any,
        env: VectorEnv,
        config: Any,
        *,
        run: RunFolder | None = None,
        on_iteration: Callable[[Any, dict[str, float], Any], None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, env, config, **options)
        self.run, self.on_iteration = run, on_iteration
        self.groups = self.parameter_groups()
        self.optimizer = build_optimizer(self.groups, config.optimizer)
        self.kl = KLController(config.kl)
        self.score_moments = Moments()
        self.iteration = self.num_timesteps = self.num_episodes = 0
        self.schedule_total: int | None = None  # tokens that the schedule counts to, where `learn` is called in stages
        self.sampler_reports = True  # whether the engine gives log-probs
        self.seconds: dict[str, float] = {}  # of the iteration's parts

    # What an agent adds

    @abstractmethod
    def iterate(self) -> tuple[Batch, dict[str, float]]:
        """Collect, score and update once; returns the batch and what to log of it."""

    @abstractmethod
    def advantages(self, batch: Any, rewards: Tensor) -> Tensor:
        """(B, T) advantages of a batch if its shaped rewards were these."""

    @abstractmethod
    def loss(self, batch: Any, rows: Tensor, weights: Tensor, mean_weights: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The share of a minibatch's loss that `rows` contribute, and their share of its statistics.

        Args:
            batch: from `score`.
            rows: (n,) indices into the batch.
            weights: (n, T') weight of each action in the loss, T' actions of the longest of them.
            mean_weights: (n, T') weights that make a mean over the minibatch's actions.
        """

    def parameter_groups(self) -> Groups:
        """Name -> (parameters, learning rate): whose gradient norms are clipped apart."""
        trained = [p for p in self.policy.model.parameters() if p.requires_grad]
        return {"policy": (trained, self.config.optimizer.learning_rate)}

    def rows_per_problem(self) -> int:
        """How many neighbouring rows answer the same problem."""
        return 1

    def resting(self) -> set[str]:
        """Groups that do not move in this iteration."""
        return set()

    def extra_state(self) -> dict[str, Any]:
        """What a checkpoint must hold besides what all agents have."""
        return {}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Take `extra_state` back."""

    # The loop

    def learn(self, total_timesteps: int) -> Any:
        """Train until `total_timesteps` tokens have been sampled in all.

        A Ctrl-C is raised after the iteration it falls into, so that what is saved then can be resumed.

        Raises:
            NonFiniteError: a loss or gradient is NaN or infinite; the batch is in the run folder.
            OSError: the run folder cannot be written; what was written before is whole.
        """
        while self.num_timesteps < total_timesteps:
            with deferred_interrupt():
                self._learn_once(self.schedule_total or total_timesteps)
        return self

    def _learn_once(self, schedule_total: int) -> None:
        """One iteration, evaluated, logged and saved."""
        started = time.perf_counter()
        factor = schedule_factor(self.config.optimizer, self.iteration, self.num_timesteps / schedule_total)
        for group in self.optimizer.param_groups:
            group["lr"] = group["base_lr"] * factor
        batch, metrics = self.iterate()
        self.iteration += 1
        self.num_timesteps += int(batch.rollout.n_actions.sum())
        self.num_episodes += len(batch.rollout.infos)
        metrics |= {"episode": self.num_episodes, "timesteps": self.num_timesteps}
        metrics |= {"lr": self.optimizer.param_groups[0]["lr"]}
        self.seconds |= batch.rollout.seconds | {"iteration": time.perf_counter() - started}
        metrics |= {f"seconds/{name}": value for name, value in self.seconds.items()}
        every = self.config.eval_every
        if every and self.iteration % every == 0 and self.eval_env is not None:
            metrics |= self.evaluate().metrics("eval")
        if self.run is not None:
            self.run.iteration(self, metrics, batch)
        if self.on_iteration is not None:
            self.on_iteration(self, metrics, batch)

    def collect(self) -> Rollout:
        """One episode per row under the current policy; the seeds depend on (run, iteration, row) only.

        Rows that start from the same seed get the same problem.
        """
        n, k = self.env.num_envs, self.rows_per_problem()
        seeds = np.random.SeedSequence([self.config.seed, self.iteration]).generate_state(n // k).repeat(k)
        fingerprint = self.policy.fingerprint()
        rollout = collect(self.env, self.engine, self.sampling, self._generator("sampling"), seeds=seeds.tolist())
        rollout.fingerprint = fingerprint
        return rollout

    def behaviour(self, rollout: Rollout, own: Tensor) -> Behaviour:
        """What the ratio divides by, how far sampler and trainer differ, and the weights that make up for it."""
        self.sampler_reports = rollout.has_logprobs
        return behaviour(rollout, own, self.config, self.mismatch_tolerance)

    @property
    def ratio_denominator(self) -> str:
        """Whose log-probs the ratio divides by, for the record."""
        if not self.sampler_reports:
            return "recomputed by the trainer: the engine gave none"
        return "recomputed by the trainer" if self.config.recompute_logprobs else "stored at sampling"

    def update(self, batch: Any) -> dict[str, float]:
        """Several epochs of minibatch updates over one stored batch.

        Raises:
            StaleBatchError: the batch was written by other weights than the policy's present ones.
            NonFiniteError: a loss or gradient is NaN or infinite.
        """
        self.require_fresh(batch.rollout)
        generator = self._generator("minibatches")
        trained = batch.mask.any(1).nonzero().squeeze(1)  # a row without a verdict is in no minibatch
        stats: list[dict[str, float]] = []
        for _ in range(self.config.epochs if len(trained) else 0):
            order = trained[torch.randperm(len(trained), generator=generator)]
            for rows in order.chunk(self.config.minibatches):
                try:
                    stats.append(self.step(batch, rows))
                except NonFiniteError as error:
                    raise self._stopped(error, batch) from None
                if "policy/stopped_early" in stats[-1]:
                    break
            else:
                continue
            break
        self.engine.weight_version += 1
        taken = len(stats) - sum("policy/stopped_early" in step for step in stats)
        return {**mean_metrics(stats), "policy/steps": float(taken)}

    def step(self, batch: Any, rows: Tensor) -> dict[str, float]:
        """One optimiser step on some rows; micro-batches share the minibatch's own weights."""
        config = self.config
        weights, mean_weights = torch.zeros(batch.mask.shape), torch.zeros(batch.mask.shape)
        weights[rows] = loss_weights(batch.mask[rows], config.aggregation, config.aggregation_constant)
        mean_weights[rows] = loss_weights(batch.mask[rows], "token_mean")
        self.optimizer.zero_grad(set_to_none=True)
        stats: dict[str, float] = {}
        for piece in micro_batches(batch.rollout, rows, config.micro_batch):
            n = int(batch.rollout.n_actions[piece].max())
            loss, parts = self.loss(batch, piece, weights[piece, :n], mean_weights[piece, :n])
            loss.backward()
            for name, value in parts.items():
                stats[name] = stats.get(name, 0.0) + float(value.detach())
        for name, total in stats.items():
            if name.startswith("loss/") and not np.isfinite(total):
                raise NonFiniteError(f"{name} is {total}")
        resting = self.resting()
        if config.target_kl is not None and not resting and stats["policy/approxkl_avg"] > config.target_kl:
            return {**stats, "policy/stopped_early": 1.0}
        for name, (parameters, _) in self.groups.items():
            if name in resting:
                drop_gradients(parameters)
            else:
                stats[f"grad_norm/{name}"] = clip_gradients(parameters, config.optimizer.max_grad_norm, name)
        self.optimizer.step()
        return stats

    def require_fresh(self, rollout: Rollout) -> None:
        """Raises StaleBatchError when the rollout was written by other weights than the present ones."""
        version, now = self.engine.weight_version, self.policy.fingerprint()
        if rollout.weight_version != version or rollout.fingerprint not in ("", now):
            raise StaleBatchError(
                f"the batch was written by weights {rollout.fingerprint or '?'} (version {rollout.weight_version}), "
                f"but the policy is now {now} (version {version}): update on each batch once, right after collecting it"
            )

    # Saving

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint that `AutoModelForCausalLM.from_pretrained` loads; whole or not at all."""
        save_checkpoint(Path(folder), self)

    def restore(self, folder: str | Path) -> Any:
        """Go on from a checkpoint as if there had been no interruption: weights, optimiser, counters, generators.

        Raises:
            CheckpointError: no checkpoint, another agent's, or one of another architecture.
        """
        load_checkpoint(Path(folder), self)
        return self

    @classmethod
    def load(cls, folder: str | Path, env: EnvSource, *, model: Any = None, **options: Any) -> Any:
        """An agent that acts like the one `save` wrote, made anew around an environment.

        Args:
            folder: the checkpoint.
            env: as of `make`.
            model: what the run started from, as of `make`, to go on training; else the checkpoint's own weights become
                policy and reference, and training starts anew from them.
            options: as of `make`; the settings are the checkpoint's unless given.
        """
        folder = Path(folder)
        summary = read_summary(folder, cls.name)
        require_entries(folder, summary, "config", "env")
        config = cls.settings(options.pop("config", summary["config"]))
        options = {"config": config, "num_envs": getattr(config, "group_size", 64), **options}
        agent = cls.make(env, model=saved_model(folder) if model is None else model, **options)
        try:
            require_same_actions(folder, summary, agent.env)
            return agent if model is None else agent.restore(folder)
        except BaseException:
            agent.env.close()
            raise

    @property
    def mismatch_tolerance(self) -> float:
        """Nats by which sampler and trainer may differ: float order in full precision, rounding in mixed precision."""
        if self.config.mismatch_tolerance is not None:
            return self.config.mismatch_tolerance
        full = self.policy.autocast_dtype is None and self.policy.model.dtype == torch.float32
        return 1e-4 if full else 0.5

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measure a part of the iteration, seconds."""
        started = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - started

    def _stopped(self, error: NonFiniteError, batch: Any) -> NonFiniteError:
        """The error with where the batch and the last good weights are."""
        where = f"{error} in iteration {self.iteration}"
        return NonFiniteError(where if self.run is None else f"{where}; {self.run.stopped(batch, self.iteration)}")

    def _generator(self, purpose: str) -> torch.Generator:
        """Randomness that depends on (run, iteration, purpose) only, so that a resumed run draws the same."""
        device = self.policy.device if purpose == "sampling" else torch.device("cpu")
        return derived_generator([self.config.seed, self.iteration, {"sampling": 1, "minibatches": 2}[purpose]], device)

"""PPO for language models: one loop.

    collect -> score with reference and critic -> shape rewards -> GAE -> clipped epochs -> evaluate -> log and save

Left out on purpose: several processes, adapters, other KL estimators. Legend: B rows, T actions of the longest row.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from agents.base import Agent
from agents.checkpoint import load_checkpoint, save_checkpoint
from agents.engine import TorchEngine
from agents.environment import action_masks, stop_tokens, vocabulary_size
from agents.evaluate import Evaluation, evaluate
from agents.policy import Policy
from agents.ppo import objective
from agents.ppo.config import PPOConfig
from agents.ppo.metrics import batch_metrics, mean_metrics
from agents.rollout import Rollout, collect
from agents.sampling import Sampling
from agents.scoring import (
    LogprobComparison,
    compare_logprobs,
    micro_batches,
    require_match,
    score_rollout,
    score_rows,
)  # fmt: skip


@dataclass
class Batch:
    """A scored rollout: everything an update needs, fixed (B, T) float32 tensors without gradient."""

    rollout: Rollout
    mask: Tensor
    old_logprobs: Tensor
    ref_logprobs: Tensor
    entropy: Tensor
    values: Tensor
    rewards: Tensor
    advantages: Tensor
    returns: Tensor
    comparison: LogprobComparison


class PPO(Agent):
    """Proximal policy optimisation with a value head, a frozen reference and a KL cost in the reward.

    Args:
        model: a `transformers` causal LM; trained in place.
        env: vector environment with autoreset disabled; one iteration plays one episode in each of its rows.
        config: settings.
        eval_env: like `env`, over held-out problems; None skips evaluation.
        reference: the frozen policy; a copy of `model` as it is now when None.
        autocast_dtype: mixed precision type, None for full precision.
        on_iteration: called after each iteration with (agent, metrics, batch), for logging.
    """

    def __init__(
        self,
        model: Any,
        env: VectorEnv,
        config: PPOConfig | None = None,
        *,
        eval_env: VectorEnv | None = None,
        reference: Any = None,
        autocast_dtype: torch.dtype | None = None,
        on_iteration: Callable[[PPO, dict[str, float], Batch], None] | None = None,
    ) -> None:
        self.config = config = config or PPOConfig()
        n_logits, n_actions = model.get_output_embeddings().weight.shape[0], vocabulary_size(env)
        if n_logits < n_actions:
            raise ValueError(f"the model has {n_logits} logits, fewer than the environment's {n_actions} tokens")
        self.env, self.eval_env, self.on_iteration = env, eval_env, on_iteration
        trunk = config.value_trunk_gradient
        self.policy = Policy(model, value_trunk_gradient=trunk, autocast_dtype=autocast_dtype)
        frozen = (copy.deepcopy(model) if reference is None else reference).requires_grad_(False)
        self.reference = Policy(frozen, value_head=False, autocast_dtype=autocast_dtype)
        self.engine = TorchEngine(self.policy)
        self.sampling = Sampling(temperature=config.temperature)
        self.policy_parameters = [p for p in self.policy.model.parameters() if p.requires_grad]
        assert self.policy.value_head is not None
        self.critic_parameters = list(self.policy.value_head.parameters())
        self.optimizer = torch.optim.AdamW(
            [
                {"params": self.policy_parameters, "base_lr": config.learning_rate},
                {"params": self.critic_parameters, "base_lr": config.critic_learning_rate},
            ],
            betas=config.adam_betas,
            eps=config.adam_eps,
            weight_decay=config.weight_decay,
        )
        self._acting = torch.Generator(self.policy.device).manual_seed(config.seed)  # of `predict` alone
        self.iteration = 0
        self.num_timesteps = 0
        self.num_episodes = 0

    # The loop

    def learn(self, total_timesteps: int) -> PPO:
        """Train until `total_timesteps` tokens have been sampled in all."""
        while self.num_timesteps < total_timesteps:
            started = time.perf_counter()
            self._set_learning_rates(self.num_timesteps / total_timesteps)
            rollout = self.collect()
            scored = time.perf_counter()
            batch = self.score(rollout)
            updated = time.perf_counter()
            metrics = {**batch_metrics(batch, self.config), **self.update(batch)}
            ended = time.perf_counter()
            self.iteration += 1
            self.num_timesteps += int(rollout.n_actions.sum())
            self.num_episodes += len(rollout.infos)
            metrics |= {"episode": self.num_episodes, "lr": self.optimizer.param_groups[0]["lr"]}
            metrics |= {f"seconds/{name}": value for name, value in rollout.seconds.items()}
            metrics |= {"seconds/scoring": updated - scored, "seconds/update": ended - updated}
            metrics["seconds/iteration"] = ended - started
            if self.config.eval_every and self.iteration % self.config.eval_every == 0 and self.eval_env is not None:
                metrics |= self.evaluate().metrics("eval")
            if self.on_iteration is not None:
                self.on_iteration(self, metrics, batch)
        return self

    def collect(self) -> Rollout:
        """One episode per row under the current policy; the seeds depend on (run, iteration, row) only."""
        seeds = np.random.SeedSequence([self.config.seed, self.iteration]).generate_state(self.env.num_envs)
        return collect(self.env, self.engine, self.sampling, self._generator("sampling"), seeds=seeds.tolist())

    @torch.no_grad()
    def score(self, rollout: Rollout) -> Batch:
        """Values, reference log-probs, shaped rewards (Eq. 3.1), advantages (Eq. 3.3) and return targets."""
        config, mask = self.config, rollout.mask
        scores = score_rollout(self.policy, rollout, config.micro_batch)
        ref_logprobs = score_rollout(self.reference, rollout, config.micro_batch).logprobs
        comparison = compare_logprobs(rollout.logprobs, scores.logprobs, rollout.real)
        require_match(comparison, self.mismatch_tolerance)
        old_logprobs = scores.logprobs if config.recompute_logprobs else rollout.logprobs
        # An episode that ended by itself as it was cut off has no future to estimate.
        values, last_value = scores.values[:, :-1], scores.values[:, -1] * (rollout.truncated & ~rollout.terminated)
        rewards = objective.shaped_rewards(rollout.rewards, old_logprobs, ref_logprobs, config.kl_coef, mask)
        advantages = objective.gae(rewards, values, last_value, mask, config.gamma, config.gae_lambda)
        returns = advantages + values
        if config.whiten_advantages:
            advantages = objective.whiten(advantages, mask)
        return Batch(
            rollout, mask, old_logprobs, ref_logprobs, scores.entropy, values, rewards, advantages, returns, comparison
        )

    def update(self, batch: Batch) -> dict[str, float]:
        """Several epochs of clipped minibatch updates over one stored batch (Eq. 3.4 and 3.9)."""
        generator = self._generator("minibatches")
        trained = batch.mask.any(1).nonzero().squeeze(1)  # a row without a verdict is in no minibatch
        stats: list[dict[str, float]] = []
        for _ in range(self.config.epochs if len(trained) else 0):
            order = trained[torch.randperm(len(trained), generator=generator)]
            for rows in order.chunk(self.config.minibatches):
                stats.append(self.step(batch, rows))
        self.engine.weight_version += 1
        return mean_metrics(stats)

    def step(self, batch: Batch, rows: Tensor) -> dict[str, float]:
        """One optimiser step on some rows; micro-batches share the minibatch's own denominator."""
        config, warming_up = self.config, self.iteration < self.config.critic_warmup
        denominator = batch.mask[rows].sum()
        self.optimizer.zero_grad(set_to_none=True)
        stats: dict[str, float] = {}
        for piece in micro_batches(batch.rollout, rows, config.micro_batch):
            loss, piece_stats = self.loss(batch, piece, denominator, critic_only=warming_up)
            loss.backward()
            stats = {name: stats.get(name, 0.0) + value for name, value in piece_stats.items()}
        stats["grad_norm/critic"] = float(torch.nn.utils.clip_grad_norm_(self.critic_parameters, config.max_grad_norm))
        if warming_up:  # no gradient at all, so AdamW skips the policy: zero gradients would still move it
            for parameter in self.policy_parameters:
                parameter.grad = None
        else:
            norm = torch.nn.utils.clip_grad_norm_(self.policy_parameters, config.max_grad_norm)
            stats["grad_norm/policy"] = float(norm)
        self.optimizer.step()
        return stats

    def loss(
        self, batch: Batch, rows: Tensor, denominator: Tensor, critic_only: bool = False
    ) -> tuple[Tensor, dict[str, float]]:
        """Share of the minibatch's loss that `rows` contribute, and their share of its statistics."""
        config = self.config
        scores = score_rows(self.policy, batch.rollout, rows)
        n = scores.logprobs.shape[1]
        mask, old, advantages, returns = (
            x[rows, :n].to(self.policy.device)
            for x in (batch.mask, batch.old_logprobs, batch.advantages, batch.returns)
        )
        share = mask.sum() / denominator.to(mask.device)  # mean over the piece -> share of the mean over the minibatch
        logprobs = torch.where(mask, scores.logprobs, old)
        surrogate = objective.clipped_surrogate(logprobs, old, advantages, config.clip)
        policy_loss = -objective.masked_mean(surrogate, mask) * share
        value_loss = objective.masked_mean(objective.value_loss(scores.values[:, :-1], returns), mask) * share
        entropy = objective.masked_mean(scores.entropy, mask) * share
        loss = config.value_coef * value_loss
        if not critic_only:
            loss = loss + policy_loss - config.entropy_coef * entropy
        with torch.no_grad():
            ratio = (logprobs - old).exp()
            parts = {
                "loss/policy_avg": policy_loss,
                "loss/value_avg": value_loss,
                "policy/entropy_avg": entropy,
                "policy/approxkl_avg": objective.approx_kl(logprobs, old, mask) * share,
                "policy/clipfrac_avg": objective.clipped_fraction(ratio, advantages, mask, config.clip) * share,
                "policy/outside_fraction": objective.outside_fraction(ratio, mask, config.clip) * share,
                "val/ratio": objective.masked_mean(ratio, mask) * share,
            }
        return loss, {name: float(value.detach()) for name, value in parts.items()}

    # Acting, evaluating, saving

    @torch.no_grad()
    def predict(self, prefixes: Sequence[np.ndarray], deterministic: bool = True) -> np.ndarray:
        """The next token of each prefix: (B,) int64."""
        masks = torch.as_tensor(np.asarray(action_masks(self.env)))
        allowed = masks if masks.ndim == 1 or len(masks) == len(prefixes) else masks[0]
        sampling = Sampling(self.config.temperature, greedy=deterministic)
        budgets = np.ones(len(prefixes), dtype=np.int64)
        turns = self.engine.generate(prefixes, budgets, stop_tokens(self.env), allowed, sampling, self._acting)
        return np.array([turn.ids[0] for turn in turns])

    def evaluate(self, env: VectorEnv | None = None, episodes: int | None = None) -> Evaluation:
        """Greedy and sampled pass rates, and KL to the reference, on held-out problems."""
        env = env if env is not None else self.eval_env
        if env is None:
            raise ValueError("evaluate() needs an environment: pass env, or build the agent with eval_env")
        return evaluate(
            env, self.engine, self.policy, self.reference, self.sampling,
            episodes=episodes or self.config.eval_episodes, seed=self.config.seed, micro_batch=self.config.micro_batch,
        )  # fmt: skip

    def save(self, folder: str | Path, tokenizer: Any = None) -> None:
        """Write a checkpoint that `AutoModelForCausalLM.from_pretrained` loads; whole or not at all."""
        state = {
            "optimizer": self.optimizer.state_dict(),
            "iteration": self.iteration,
            "num_timesteps": self.num_timesteps,
            "num_episodes": self.num_episodes,
            "weight_version": self.engine.weight_version,
        }
        save_checkpoint(Path(folder), self.policy, state, self.config, tokenizer)

    def restore(self, folder: str | Path) -> PPO:
        """Go on from a checkpoint: weights, value head, optimiser and counters."""
        state = load_checkpoint(Path(folder), self.policy)
        self.optimizer.load_state_dict(state["optimizer"])
        self.iteration, self.num_timesteps = state["iteration"], state["num_timesteps"]
        self.num_episodes, self.engine.weight_version = state["num_episodes"], state["weight_version"]
        return self

    @property
    def mismatch_tolerance(self) -> float:
        """Nats by which sampler and trainer may differ: float order in full precision, rounding in mixed precision."""
        if self.config.mismatch_tolerance is not None:
            return self.config.mismatch_tolerance
        full = self.policy.autocast_dtype is None and self.policy.model.dtype == torch.float32
        return 1e-4 if full else 0.5

    def _generator(self, purpose: str) -> torch.Generator:
        """Randomness that depends on (run, iteration, purpose) only, so that a resumed run draws the same."""
        entropy = [self.config.seed, self.iteration, {"sampling": 1, "minibatches": 2}[purpose]]
        seed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1)
        device = self.policy.device if purpose == "sampling" else torch.device("cpu")
        return torch.Generator(device).manual_seed(seed)

    def _set_learning_rates(self, progress: float) -> None:
        factor = 1.0 if self.config.lr_schedule == "constant" else max(0.0, 1.0 - progress)
        for group in self.optimizer.param_groups:
            group["lr"] = group["base_lr"] * factor

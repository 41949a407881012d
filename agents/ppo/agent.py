"""PPO for language models: one loop.

    collect -> score with reference and critic -> shape rewards -> GAE -> clipped epochs -> evaluate -> log and save

`learn` (in `agents.on_policy`, with whatever else is not PPO's own) calls `PPO.iterate` until the tokens are used up.
Left out on purpose: several processes. Legend: B rows, T actions of the longest row.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from agents.batch import Batch
from agents.kl import approx_kl, kl_loss
from agents.losses import clipped, clipped_surrogate, masked_mean, outside, weighted_sum
from agents.metrics import answer_kls, batch_metrics
from agents.on_policy import Groups, OnPolicyAgent
from agents.policy import Critic, Policy
from agents.ppo.config import PPOConfig
from agents.ppo.objective import explained_variance, gae, value_loss, whiten
from agents.rewards import processed_rewards, shaped_rewards
from agents.rollout import Rollout
from agents.scoring import score_rollout, score_rows, value_rollout, value_rows


@dataclass
class PPOBatch(Batch):
    """A batch with the critic's part."""

    values: Tensor
    """(B, T) V(s_t) when the batch was scored."""
    last_value: Tensor
    """(B,) V(s_T) where an episode was cut off, 0 where it ended."""
    returns: Tensor
    """(B, T) what the critic learns."""


class PPO(OnPolicyAgent):
    """Proximal policy optimisation with a critic, a frozen reference and a KL cost.

    Args:
        model: a `transformers` causal LM, or a PEFT model around one; trained in place.
        env: vector environment with autoreset disabled; one iteration plays one episode in each of its rows.
        config: settings.
        critic_model: where a separate critic starts from; a copy of `model` when None.
        options: what every agent takes, see `OnPolicyAgent`.
    """

    name, Config = "ppo", PPOConfig

    def __init__(
        self, model: Any, env: VectorEnv, config: PPOConfig | None = None, *, critic_model: Any = None, **options: Any
    ) -> None:
        config = self.settings(config)
        self.critic: Critic | None = None
        if config.critic.kind == "separate":
            dtype = options.get("autocast_dtype")
            if critic_model is model:
                raise ValueError("a separate critic needs a model of its own: critic_model is the policy's")
            trunk = independent_copy(model) if critic_model is None else critic_model
            self.critic = Critic(trunk, autocast_dtype=dtype, gradient_checkpointing=config.gradient_checkpointing)
        elif critic_model is not None:
            raise ValueError("critic_model needs critic.kind='separate': a value head reads the policy's own states")
        self.explained: list[float] = []  # explained variance of each warm-up iteration
        super().__init__(model, env, config, **options)

    def iterate(self) -> tuple[PPOBatch, dict[str, float]]:
        """One iteration: what the chapter's algorithm box says."""
        rollout = self.collect()
        with self.timed("scoring"):
            batch = self.score(rollout)
        metrics = batch_metrics(batch) | critic_metrics(batch)
        with self.timed("update"):
            metrics |= self.update(batch)
        if self.warming_up:  # the policy has not moved, so its KL says nothing about beta
            self.explained.append(metrics["ppo/val/var_explained"])
        else:
            self.kl.update(float(answer_kls(batch).mean()), len(rollout.infos))
        return batch, metrics

    @torch.no_grad()
    def score(self, rollout: Rollout) -> PPOBatch:
        """Values, reference log-probs, shaped rewards (Eq. 3.1), advantages (Eq. 3.3) and return targets."""
        config, mask = self.config, rollout.mask
        scores = score_rollout(self.policy, rollout, config.micro_batch)
        ref_logprobs = score_rollout(self.reference, rollout, config.micro_batch).logprobs
        old_logprobs, comparison, importance = self.behaviour(rollout, scores.logprobs)
        values = scores.values if self.critic is None else value_rollout(self.critic, rollout, config.micro_batch)
        score_rewards = processed_rewards(rollout, config.reward, self.score_moments)
        kl_coef = self.kl.coef if config.kl.place == "reward" else 0.0
        rewards = shaped_rewards(score_rewards, old_logprobs, ref_logprobs, kl_coef, mask)
        batch = PPOBatch(
            rollout, mask, old_logprobs, ref_logprobs, scores.entropy, score_rewards, rewards,
            torch.zeros_like(rewards), importance, self.kl.coef, comparison, values=values[:, :-1],
            # An episode that ended by itself as it was cut off has no future to estimate.
            last_value=values[:, -1] * (rollout.truncated & ~rollout.terminated), returns=torch.zeros_like(rewards),
        )  # fmt: skip
        batch.advantages = self.advantages(batch, rewards)
        batch.returns = batch.values + gae(
            rewards, batch.values, batch.last_value, mask, config.gamma, self.critic_lambda
        )
        return batch

    def advantages(self, batch: PPOBatch, rewards: Tensor) -> Tensor:
        """(B, T) generalised advantage estimates of these rewards (Eq. 3.3), whitened if the settings say so."""
        config = self.config
        found = gae(rewards, batch.values, batch.last_value, batch.mask, config.gamma, config.gae_lambda)
        return whiten(found, batch.mask) if config.whiten_advantages else found

    def loss(
        self, batch: PPOBatch, rows: Tensor, weights: Tensor, mean_weights: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The clipped surrogate (Eq. 3.9), the value loss (Eq. 3.4), and the KL and entropy terms if asked for."""
        config, device = self.config, self.policy.device
        scores = score_rows(self.policy, batch.rollout, rows)
        values = scores.values if self.critic is None else value_rows(self.critic, batch.rollout, rows)
        n = weights.shape[1]
        mask, old, ref, advantages, returns, old_values = (
            x[rows, :n].to(device)
            for x in (batch.mask, batch.old_logprobs, batch.ref_logprobs, batch.advantages, batch.returns, batch.values)
        )
        weights, mean_weights = weights.to(device), mean_weights.to(device)
        logprobs = torch.where(mask, scores.logprobs, old)
        surrogate = clipped_surrogate(logprobs, old, advantages, config.clip, config.clip_high, config.dual_clip)
        if batch.importance is not None:
            surrogate = surrogate * batch.importance[rows, :n].to(device)
        policy_loss = -weighted_sum(surrogate, weights)
        critic_loss = value_loss(values[:, :-1], returns, old_values, config.critic.clip)
        critic_loss = weighted_sum(critic_loss, mean_weights)
        entropy = weighted_sum(scores.entropy, mean_weights)
        loss = config.critic.loss_coef * critic_loss
        if not self.warming_up:
            loss = loss + policy_loss
            if config.entropy_coef:
                loss = loss - config.entropy_coef * weighted_sum(scores.entropy, weights)
            if config.kl.place == "loss":
                terms = kl_loss(logprobs, old, ref, config.kl.estimator)
                loss = loss + batch.kl_coef * weighted_sum(terms, weights)
        with torch.no_grad():
            ratio = (logprobs - old).exp()
            cut = clipped(ratio, advantages, config.clip, config.clip_high, config.dual_clip)
            stats = {
                "loss/policy_avg": policy_loss,
                "loss/value_avg": critic_loss,
                "policy/entropy_avg": entropy,
                "policy/approxkl_avg": weighted_sum(approx_kl(logprobs, old), mean_weights),
                "policy/clipfrac_avg": weighted_sum(cut, mean_weights),
                "policy/outside_fraction": weighted_sum(outside(ratio, config.clip, config.clip_high), mean_weights),
                "val/ratio": weighted_sum(ratio, mean_weights),
            }
        return loss, stats

    # The critic

    @property
    def warming_up(self) -> bool:
        """Whether this iteration trains the critic alone: until it has settled, `critic.warmup` iterations at most."""
        if self.iteration >= self.config.critic.warmup:
            return False
        return not settled(self.explained, self.config.critic.settled)

    @property
    def critic_lambda(self) -> float:
        """lambda of the return targets: 1 (Monte-Carlo) while warming up."""
        own = self.config.critic.gae_lambda
        return 1.0 if self.warming_up else self.config.gae_lambda if own is None else own

    def build_policy(self, model: Any, autocast_dtype: torch.dtype | None) -> Policy:
        """The policy, with a value head unless the critic is a model of its own."""
        return Policy(
            model, value_head=self.critic is None, value_trunk_gradient=self.config.critic.trunk_gradient,
            autocast_dtype=autocast_dtype, gradient_checkpointing=self.config.gradient_checkpointing,
        )  # fmt: skip

    def parameter_groups(self) -> Groups:
        """The policy's parameters, and the critic's at a rate of their own."""
        critic = self.policy.value_head if self.critic is None else self.critic
        assert critic is not None
        trained = [p for p in critic.parameters() if p.requires_grad]
        return super().parameter_groups() | {"critic": (trained, self.config.critic.learning_rate)}

    def resting(self) -> set[str]:
        """The policy, while the critic warms up."""
        return {"policy"} if self.warming_up else set()

    def extra_state(self) -> dict[str, Any]:
        """How the warm-up went."""
        return {"explained": self.explained}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Take it back."""
        self.explained = list(state["explained"])


def settled(explained: list[float], tolerance: float | None) -> bool:
    """Whether explained variance rose by less than `tolerance` in both of the last iterations; NaN never settles."""
    if tolerance is None or len(explained) < 3:
        return False
    return all(b - a < tolerance for a, b in zip(explained[-3:], explained[-2:], strict=False))


def independent_copy(model: Any) -> Any:
    """A copy whose every weight can be trained; the adapter of a PEFT model merged into it."""
    trunk = copy.deepcopy(model)
    if hasattr(trunk, "merge_and_unload"):
        trunk = trunk.merge_and_unload()
    return trunk.requires_grad_(True)


def critic_metrics(batch: PPOBatch) -> dict[str, float]:
    """How well the critic knew the returns before the update."""
    mask, returns = batch.mask, batch.returns[batch.mask]
    return {
        "ppo/val/var_explained": explained_variance(batch.values, batch.returns, mask),
        "ppo/val/value_mean": float(masked_mean(batch.values, mask)),
        "ppo/returns/mean": float(returns.mean()),
        "ppo/returns/var": float(returns.var(correction=0)) if len(returns) else float("nan"),
    }

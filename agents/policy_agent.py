"""An agent that is a language model: how it is made, acts and is evaluated.

Legend: B rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from agents.base import Agent, AgentError, EnvSource
from agents.engine import Engine, TorchEngine
from agents.environment import prefixes, stop_tokens, vocabulary_size
from agents.evaluate import Evaluation, evaluate
from agents.models import load_pretrained, spoken_by
from agents.play import make_vec
from agents.policy import Critic, Policy, base_of
from agents.reference import build_reference
from agents.sampling import Sampling
from agents.settings import TrainingConfig, from_plain


class PolicyAgent(Agent):
    """A language model with a frozen reference.

    Args:
        model: a `transformers` causal LM, or a PEFT model around one; trained in place.
        env: vector environment with autoreset disabled.
        config: as of `settings`.
        eval_env: like `env`, over held-out problems; None skips evaluation.
        reference: the frozen policy: `"copy"` of `model` as it is now, `"adapter"` (the PEFT model with its adapter
            switched off), or another model.
        engine: the generator; None samples with the model itself.
        autocast_dtype: mixed precision type, None for full precision.
        tokenizer: saved with every checkpoint when given.
    """

    writes_turns = True
    Config: type[TrainingConfig]
    """Its settings."""
    critic: Critic | None = None
    """A value model of its own, where the agent has one."""

    def __init__(
        self,
        model: Any,
        env: VectorEnv,
        config: Any,
        *,
        eval_env: VectorEnv | None = None,
        reference: Any = "copy",
        engine: Engine | None = None,
        autocast_dtype: torch.dtype | None = None,
        tokenizer: Any = None,
    ) -> None:
        if tokenizer is not None and not hasattr(tokenizer, "save_pretrained"):
            raise AgentError(f"tokenizer must be one of transformers, got {type(tokenizer).__name__}")
        self.config = config = self.settings(config)
        self.env, self.eval_env, self.tokenizer = env, eval_env, tokenizer
        self.sampling = Sampling(config.temperature, config.top_k, config.top_p, config.min_p)
        require_fit(model, env, engine, self.sampling)
        self.policy = self.build_policy(model, autocast_dtype)
        self.reference = build_reference(reference, self.policy)
        self.engine: Engine = engine or TorchEngine(self.policy)
        self.acting = torch.Generator(self.policy.device).manual_seed(config.seed)  # of `predict` alone

    @classmethod
    def settings(cls, config: Any) -> Any:
        """The settings; None stands for the defaults, and plain values, nested as the settings are, for settings.

        Raises:
            AgentError: another agent's settings.
        """
        if config is None or isinstance(config, Mapping):
            return from_plain(cls.Config, dict(config or {}))
        if not isinstance(config, cls.Config):
            raise AgentError(f"agent {cls.name!r} needs a {cls.Config.__name__}, got {type(config).__name__}")
        return config

    @classmethod
    def make(
        cls,
        env: EnvSource,
        *,
        model: Any = None,
        num_envs: int = 64,
        env_options: Mapping[str, Any] | None = None,
        config: Any = None,
        device: Any = None,
        **options: Any,
    ) -> Any:
        """Build the agent and `num_envs` rows of a token-level environment.

        Args:
            env: a registered id, or a function that makes one environment.
            model: as of the class, or a folder, a `.gguf` file or a name on the hub, whose tokenizer (and chat
                template) the environment of an id then gets.
            num_envs: episodes of one batch.
            env_options: keyword arguments of `gymnasium.make_vec`.
            config: as of `settings`.
            device: where the model is moved to, `"cuda"` say; None leaves it where it is.
            options: as of the class.
        """
        if model is None:
            raise AgentError(f"agent {cls.name!r} needs a language model: pass model=...")
        if isinstance(model, str | Path):
            model, tokenizer = load_pretrained(str(model))
            options.setdefault("tokenizer", tokenizer)
            env_options = {**(spoken_by(tokenizer) if isinstance(env, str) else {}), **(env_options or {})}
        made = make_vec(env, num_envs, dict(env_options or {}))
        try:
            require_model(model)
            return cls(model if device is None else moved(model, device), made, config, **options)
        except BaseException:
            made.close()
            raise

    def build_policy(self, model: Any, autocast_dtype: torch.dtype | None) -> Policy:
        """The policy around the model; agents with a value head build theirs."""
        checkpointing = self.config.gradient_checkpointing
        return Policy(model, value_head=False, autocast_dtype=autocast_dtype, gradient_checkpointing=checkpointing)

    @torch.no_grad()
    def predict(self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False,
                action_masks: np.ndarray | None = None) -> tuple[Any, Any]:  # fmt: skip
        """The next token of each observation; without masks, any of the environment's."""
        single = np.ndim(observation["tokens"]) == 1
        batch = {name: np.asarray(value)[None] if single else value for name, value in observation.items()}
        rows = [prefix for _, prefix in prefixes(batch)]
        any_token = np.ones(vocabulary_size(self.env), dtype=bool)
        allowed = torch.as_tensor(np.asarray(any_token if action_masks is None else action_masks))
        sampling = Sampling(self.config.temperature, greedy=True) if deterministic else self.sampling
        budgets = np.ones(len(rows), dtype=np.int64)
        turns = self.engine.generate(rows, budgets, stop_tokens(self.env), allowed, sampling, self.acting)
        actions = np.array([turn.ids[0] for turn in turns])
        return (actions[0] if single else actions), state

    def seed(self, seed: int) -> None:
        """Of `predict` alone; what training draws depends on the settings' seed."""
        self.acting.manual_seed(seed)

    def evaluate(self, env: VectorEnv | None = None, episodes: int | None = None, samples: int = 1) -> Evaluation:
        """Greedy and sampled pass rates, and KL to the reference, on held-out problems; `samples` answers of each."""
        env = env if env is not None else self.eval_env
        if env is None:
            raise ValueError("evaluate() needs an environment: pass env, or build the agent with eval_env")
        return evaluate(
            env, self.engine, self.policy, self.reference, self.sampling, samples=samples,
            episodes=episodes or self.config.eval_episodes, seed=self.config.seed, micro_batch=self.config.micro_batch,
        )  # fmt: skip


def require_model(model: Any) -> None:
    """Raises AgentError for what is no language model."""
    if not hasattr(model, "get_output_embeddings"):
        raise AgentError(f"model must be a causal language model of transformers, got {model!r:.80}")


def moved(model: Any, device: Any) -> Any:
    """The model, on that device.

    Raises:
        AgentError: there is no such device.
    """
    try:
        return model.to(device)
    except (RuntimeError, AssertionError) as error:  # torch was built without it, or does not know it
        reason = next(iter(str(error).splitlines()), "")
        raise AgentError(f"the model cannot be moved to device {device!r}: {reason}") from error


def require_fit(model: Any, env: VectorEnv, engine: Engine | None, sampling: Sampling) -> None:
    """Raises ValueError when model, environment, engine and sampling do not fit each other."""
    require_model(model)
    n_logits, n_actions = model.get_output_embeddings().weight.shape[0], vocabulary_size(env)
    if n_logits < n_actions:
        raise AgentError(f"the model has {n_logits} logits, fewer than the environment's {n_actions} tokens")
    if hasattr(model, "get_base_model") and adapts_tied_embeddings(base_of(model)):
        raise AgentError("an adapter on embeddings that are tied cannot be merged for a checkpoint; adapt other layers")
    if engine is not None and sampling.cuts and not engine.reports_kept_sets:
        raise AgentError(
            f"{type(engine).__name__} does not report which tokens top_k, top_p and min_p kept, so the trainer "
            "cannot know the sampler's distribution; sample from all tokens, or with another engine"
        )


def adapts_tied_embeddings(base: Any) -> bool:
    """Whether an adapter sits on an embedding whose weight is also the other one's."""
    layers = base.get_input_embeddings(), base.get_output_embeddings()
    adapted = any(hasattr(layer, "base_layer") for layer in layers)
    return adapted and bool(getattr(base.config, "tie_word_embeddings", False))

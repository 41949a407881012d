"""Checkpoints: a folder that any `transformers` user can load, plus what training needs to go on.

config.json, model.safetensors   the policy, its adapter merged: `AutoModelForCausalLM.from_pretrained(folder)`
adapter/                         the PEFT adapter alone, when there is one
value_head.safetensors           of a value head on the policy's trunk
critic/                          a separate critic: the model, and value_head.safetensors
trainer_state.pt                 optimiser, counters, controllers, generators
checkpoint.json                  agent, iteration, weights: what a person or a program looks at first
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from gymnasium.vector import VectorEnv
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModelForCausalLM

from agents.base import AgentError
from agents.environment import environment_id, plain_options, vocabulary_size
from agents.files import whole_folder
from agents.jsonable import jsonable
from agents.rewards import Moments
from agents.rng import rng_state, set_rng_state

if TYPE_CHECKING:
    from agents.on_policy import OnPolicyAgent

STATE, HEAD, SUMMARY = "trainer_state.pt", "value_head.safetensors", "checkpoint.json"


class CheckpointError(AgentError):
    """A folder is no checkpoint, or not one of this agent."""


def save_checkpoint(folder: Path, agent: OnPolicyAgent) -> None:
    """Write everything into a folder that appears whole or not at all, also when the machine stops in between.

    Args:
        folder: must not exist.
        agent: its policy, critic, tokenizer, settings and trainer state are saved.

    Raises:
        FileExistsError: the folder exists.
        OSError: it cannot be written, for instance on a full disk; nothing is left behind.
    """
    summary = {
        "agent": agent.name,
        "iteration": agent.iteration,
        "num_timesteps": agent.num_timesteps,
        "weights": agent.policy.fingerprint(),
        "reference": agent.reference.fingerprint(),
        "architecture": architecture(agent),
        "config": agent.config,
        "env": {
            "id": environment_id(agent.env),
            "options": plain_options(agent.env),
            "n_actions": vocabulary_size(agent.env),
        },
    }
    try:
        with whole_folder(folder) as unfinished:
            save_models(unfinished, agent)
            if agent.tokenizer is not None:
                agent.tokenizer.save_pretrained(unfinished)
            torch.save(trainer_state(agent), unfinished / STATE)
            (unfinished / SUMMARY).write_text(json.dumps(jsonable(summary), indent=2) + "\n")
    except Exception as error:
        if type(error).__module__.startswith("safetensors") or isinstance(error, RuntimeError):
            raise OSError(f"could not write checkpoint {folder}: {error}") from error  # how both report a full disk
        raise


def save_models(folder: Path, agent: OnPolicyAgent) -> None:
    """The policy, and whatever the critic is."""
    model = agent.policy.model
    if hasattr(model, "merge_and_unload"):
        model.save_pretrained(folder / "adapter")
        copy.deepcopy(model).merge_and_unload().save_pretrained(folder)
    else:
        model.save_pretrained(folder)
    if agent.policy.value_head is not None:
        save_head(agent.policy.value_head, folder)
    if agent.critic is not None:
        agent.critic.model.save_pretrained(folder / "critic")
        save_head(agent.critic.value_head, folder / "critic")


def save_head(head: nn.Module, folder: Path) -> None:
    """Write a value head's weights."""
    save_file({name: tensor.contiguous() for name, tensor in head.state_dict().items()}, folder / HEAD)


def read_summary(folder: Path, agent: str | None = None) -> dict[str, Any]:
    """What `checkpoint.json` says.

    Raises:
        CheckpointError: the folder is no checkpoint, or one of another agent than `agent`.
    """
    try:
        summary = json.loads((folder / SUMMARY).read_text())
        found = summary["agent"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{folder} is not a checkpoint: {SUMMARY} is missing or damaged") from error
    if agent is not None and found != agent:
        raise CheckpointError(f"{folder} is a checkpoint of agent {found!r}, expected {agent!r}")
    return summary


def require_entries(folder: Path, summary: dict[str, Any], *names: str) -> None:
    """Raises CheckpointError when `checkpoint.json` lacks an entry."""
    if missing := [name for name in names if name not in summary]:
        raise CheckpointError(f"{folder} is damaged or of another version: {SUMMARY} lacks {', '.join(missing)}")


def load_checkpoint(folder: Path, agent: OnPolicyAgent) -> None:
    """Load weights and trainer state into an agent of the same kind and shape.

    Raises:
        CheckpointError: no checkpoint, another agent's, or of another architecture, and nothing was loaded; or one that
            is damaged, and some of it may have been.
    """
    summary = read_summary(folder, agent.name)
    require_entries(folder, summary, "reference", "architecture", "env")
    if summary["reference"] != agent.reference.fingerprint():
        raise CheckpointError(
            f"the reference of {folder} was {summary['reference']}, this agent's is {agent.reference.fingerprint()}: "
            "build the agent around the weights the run started from"
        )
    require_same_actions(folder, summary, agent.env)
    own, there = architecture(agent), summary["architecture"]
    for part in {**own, **there}:
        if there.get(part) != own.get(part):
            raise CheckpointError(
                f"the {part} in {folder} is {there.get(part, 'absent')}, this agent's is {own.get(part, 'absent')}"
            )
    with reading(folder):
        state = torch.load(folder / STATE, map_location="cpu", weights_only=True)
        load_models(folder, agent)
        load_trainer_state(agent, state)


def load_models(folder: Path, agent: OnPolicyAgent) -> None:
    """What `save_models` wrote, into the same parts."""
    model: Any = agent.policy.model
    if hasattr(model, "merge_and_unload"):
        from peft import set_peft_model_state_dict

        set_peft_model_state_dict(model, load_file(folder / "adapter" / "adapter_model.safetensors"))
    else:
        load_model(model, folder)
    if agent.policy.value_head is not None:
        agent.policy.value_head.load_state_dict(load_file(folder / HEAD))
    if agent.critic is not None:
        load_model(agent.critic.model, folder / "critic")
        agent.critic.value_head.load_state_dict(load_file(folder / "critic" / HEAD))


def saved_model(folder: Path) -> Any:
    """The policy of a checkpoint alone, its adapter merged."""
    with reading(folder):
        return AutoModelForCausalLM.from_pretrained(folder)


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """What a damaged file makes its reader raise, as one CheckpointError."""
    try:
        yield
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise CheckpointError(f"{folder} cannot be read: {reason}") from error


def require_same_actions(folder: Path, summary: dict[str, Any], env: VectorEnv) -> None:
    """Raises CheckpointError when the environment has other tokens, by number, than the one trained in."""
    own = vocabulary_size(env)
    there = summary["env"].get("n_actions", own)
    if there != own:
        raise CheckpointError(
            f"{folder} was trained in an environment with {there} tokens, this one has {own}: give the tokenizer it had"
        )


COUNTERS = ("iteration", "num_timesteps", "num_episodes")


def trainer_state(agent: OnPolicyAgent) -> dict[str, Any]:
    """Everything but weights that decides how a run goes on."""
    return {
        **{name: getattr(agent, name) for name in COUNTERS},
        "optimizer": agent.optimizer.state_dict(),
        "weight_version": agent.engine.weight_version,
        "kl_coef": agent.kl.coef,
        "score_moments": asdict(agent.score_moments),
        "extra": agent.extra_state(),
        "acting": agent.acting.get_state(),
        "rng": rng_state(),
    }


def load_trainer_state(agent: OnPolicyAgent, state: dict[str, Any]) -> None:
    """Take it back."""
    for name in COUNTERS:
        setattr(agent, name, state[name])
    own = [{name: group[name] for name in group.keys() - {"params", "lr"}} for group in agent.optimizer.param_groups]
    agent.optimizer.load_state_dict(state["optimizer"])
    for group, settings in zip(agent.optimizer.param_groups, own, strict=True):
        group.update(settings)  # moments are restored, settings are the agent's own; `learn` makes lr of base_lr
    agent.engine.weight_version = state["weight_version"]
    if agent.config.kl.target is not None:
        agent.kl.coef = state["kl_coef"]
    agent.score_moments = Moments(**state["score_moments"])
    agent.load_extra_state(state["extra"])
    if len(state["acting"]) == len(agent.acting.get_state()):  # another device has another kind of state
        agent.acting.set_state(state["acting"])
    set_rng_state(state["rng"])


def load_model(model: Any, folder: Path) -> None:
    """Weights of a saved model of the same class into this one."""
    model.load_state_dict(type(model).from_pretrained(folder, dtype=model.dtype).state_dict())


def architecture(agent: OnPolicyAgent) -> dict[str, str]:
    """What must be the same for weights to fit: classes and numbers of parameters of policy and critic."""
    parts: dict[str, str] = {"policy": shape(agent.policy.model)}
    if agent.policy.value_head is not None:
        parts["critic"] = "value head"
    if agent.critic is not None:
        parts["critic"] = f"separate {shape(agent.critic.model)}"
    return parts


def shape(model: Any) -> str:
    """Class, size and layer shapes of a model, as text."""
    config = model.config
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    sizes = ", ".join(f"{name} {getattr(config, name, '?')}" for name in names)
    inner = type(model.get_base_model()).__name__ + " with adapter" if hasattr(model, "get_base_model") else ""
    n = sum(p.numel() for p in model.parameters())
    return f"{inner or type(model).__name__} of {n} parameters ({sizes})"

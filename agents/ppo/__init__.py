"""Proximal policy optimisation for language models; start reading at `agent.py`."""

from agents.ppo.agent import PPO, Batch
from agents.ppo.config import PPOConfig

__all__ = ["PPO", "Batch", "PPOConfig"]

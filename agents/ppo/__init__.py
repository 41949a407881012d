"""Proximal policy optimisation for language models; start reading at `agent.py`."""

from agents.ppo.agent import PPO, PPOBatch
from agents.ppo.config import CriticConfig, PPOConfig

__all__ = ["PPO", "CriticConfig", "PPOBatch", "PPOConfig"]

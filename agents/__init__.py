"""Agents that learn from token-level Gymnasium environments, or act in any of ours."""

from agents.base import Agent, AgentError, EnvSource, Episode
from agents.registry import load, make, names, register

__all__ = ["Agent", "AgentError", "EnvSource", "Episode", "load", "make", "names", "register"]

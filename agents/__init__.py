"""Agents that learn from token-level Gymnasium environments."""

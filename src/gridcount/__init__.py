"""Offline reinforcement learning that counts."""

__version__ = "0.1.0"

"""Baselines of Conch outside Triton."""

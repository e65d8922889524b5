"""The CTC model: encoders for chunks and whole segments, decoders, and the shipped weights."""

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"
"""Folder of the model and of its decoding graph."""

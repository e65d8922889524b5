"""The CTC model: encoders for chunks and whole segments, units, and the shipped weights."""

from pathlib import Path

BLANK = 0
"""Id of the blank, the first unit of every vocabulary."""
WEIGHTS = Path(__file__).parent / "weights"
"""Folder of the model and of its decoding graph."""

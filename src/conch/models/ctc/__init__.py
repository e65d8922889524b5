"""The CTC model: encoder for chunks and whole segments, its units, and the weights that ship."""

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"
"""The folder of the model and of the decoding graph made for it."""

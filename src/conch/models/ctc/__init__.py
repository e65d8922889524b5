"""The CTC model: encoder for chunks and whole segments, its units, and the weights that ship."""

from pathlib import Path

BLANK = 0
"""The blank is the first unit of every vocabulary."""
WEIGHTS = Path(__file__).parent / "weights"
"""The folder of the model and of the decoding graph made for it."""

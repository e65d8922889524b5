"""The BLS models of a server, which call its components."""

from pathlib import Path

ENTRY_POINTS = ("speech", "speech_stream")
"""Entry points of recognition."""
SYNTHESIS = ("synthesis", "synthesis_stream")
"""Entry points of synthesis."""

SERVED_VARIABLE = "CONCH_SERVED_MODELS"
"""Environment variable of `tritonserver`: the names of the models that it loads, with commas. So an
entry point that is loaded again knows which components come back too."""
DECODER_VARIABLE = "CONCH_DECODER"
"""Environment variable of `tritonserver`: the decoder that writes the text where a request leaves
that open; empty for those that are declared."""
CODE = Path(__file__).resolve().parents[1]
"""Folder of this code."""
CODE_VARIABLE = "CONCH_CODE"
"""Environment variable of `tritonserver`: the folder of the code that has started it."""

"""Limits of what a request carries. They hold in the entry points and in the components."""

MAX_PARAMETERS = 64
"""Parameters of a request. There are fewer options."""
MAX_TEXT = 10_000
"""Characters of an option, and of a text to score or align."""
MAX_HOTWORD_TEXT = 40_000
"""Characters of all hotwords together."""
MAX_QUERY = 100_000
"""Characters of an option in the query of a WebSocket: 64 known voices take 70,000."""
MAX_TEXTS = 128
"""Texts that a component scores in one call: the longest n-best list."""
MAX_SEGMENT_S = 40.0
"""Longest segment of the CTC models in seconds, whose positions repeat after 41 s."""
MAX_STEP_S = 120.0
"""Longest waveform in one call of the VAD or of the streaming encoder, in seconds."""
MAX_SHOWN = 80
"""Characters that an error repeats of what was sent."""


def clipped(sent: str) -> str:
    """Return what was sent as an error repeats it, with an ellipsis where it is cut.

    >>> clipped("nbset"), len(clipped("x" * 1_000_000))
    ('nbset', 80)
    """
    return sent if len(sent) <= MAX_SHOWN else f"{sent[: MAX_SHOWN - 1]}…"

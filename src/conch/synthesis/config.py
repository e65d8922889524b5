"""The limits of synthesis, set by the `parameters` of its config.pbtxt."""

from dataclasses import dataclass

from conch.bls.config import BlsConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisConfig(BlsConfig):
    max_wait_s: float = 300.0
    """Longest wait of a text without a deadline, in seconds, if all before it were made first. A
    text that would wait longer is refused at once."""
    max_encoder_calls: int = 2
    """Calls in flight at once to each component; others wait, and what will be heard first goes
    first. As many as vocoder has instances: what waits there cannot be overtaken."""
    max_calls_in_flight: int = 16
    max_passes_in_flight: int = 1
    max_text: int = 100_000
    """Longest text of a streamed answer, in characters."""
    references: bool = False
    """Whether requests may have the option `reference`: whoever runs the server has the consent of
    those who are heard. `conch serve --voices-from-recordings` sets it too."""
    max_whole_text: int = 10_000
    """Longest text of an answer in one piece, in characters: its audio takes 6 KB for each."""

"""The recogniser of `decoder=none`: it calls nothing, and writes no text."""

from conch.bls.calls import Calls
from conch.component import Array
from conch.recognition.decoded import NOTHING_DECODED, Decoded
from conch.recognition.hooks import Recogniser
from conch.wire.options import RecognitionOptions


class SilentRecogniser(Recogniser[None]):
    """Hears nothing: who speaks when is asked alone."""

    encoder = ""

    async def encode(self, calls: Calls, waveform: Array) -> None:
        """Return nothing."""

    async def decode(
        self, calls: Calls, encoded: None, options: RecognitionOptions, start: float | None
    ) -> Decoded:
        return NOTHING_DECODED


RECOGNISER = SilentRecogniser()

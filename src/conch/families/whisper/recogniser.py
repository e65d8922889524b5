"""Whisper as a recogniser, and as an opinion on the texts of others."""

from conch.bls.calls import Calls
from conch.families.attention.recogniser import AttentionRecogniser
from conch.families.whisper import COMPONENTS
from conch.recognition.hooks import Encodings
from conch.wire.options import RecognitionOptions

OPEN_WINDOW = {"min_window_ms": 7500, "window_margin_ms": 3000}
"""Parameters of the encoder for an open utterance: a shorter window than that of a recording costs
less, and the texts that repeat themselves for it are refused."""

WHISPER = AttentionRecogniser(*COMPONENTS, OPEN_WINDOW)


async def scores(
    calls: Calls, texts: list[str], encodings: Encodings, options: RecognitionOptions
) -> list[float]:
    return await WHISPER.text_scores(calls, await encodings.by(WHISPER), texts, options)

"""Whisper as a recogniser, and as an opinion on the texts of others."""

from conch.bls.calls import Calls
from conch.component import Array
from conch.families.attention.models import AttentionModels, EncodedSegment
from conch.families.attention.recogniser import AttentionRecogniser
from conch.families.whisper.declaration import COMPONENTS
from conch.recognition.hooks import TextScorer
from conch.recognition.speech import Heard
from conch.wire.options import RecognitionOptions

WINDOW = {"min_window_ms": 7500, "window_margin_ms": 3000}
"""Parameters of the encoder for an open utterance: a shorter window than that of a recording costs
less, and the texts that repeat themselves for it are refused."""


class Whisper(AttentionRecogniser):
    """The attention encoder and decoder."""

    reads_prompt = True

    async def encode_open(self, calls: Calls, waveform: Array) -> EncodedSegment:
        """See `Recogniser.encode_open`."""
        return await self.models.encode(calls, waveform, WINDOW)


WHISPER = Whisper(AttentionModels(*COMPONENTS))


class WhisperScorer(TextScorer):
    """The opinion of Whisper's decoder on which text was said."""

    score = "attention_score"

    def is_asked(self, options: RecognitionOptions) -> bool:
        """See `TextScorer.is_asked`."""
        return options.attention_rescore

    async def scores(
        self, calls: Calls, texts: list[str], heard: Heard, options: RecognitionOptions
    ) -> list[float]:
        """See `TextScorer.scores`."""
        return await WHISPER.models.text_scores(calls, await heard.by(WHISPER), texts, options)


SCORER = WhisperScorer()

"""Whisper as a recogniser, and as an opinion on the texts of others."""

from collections.abc import Sequence
from dataclasses import replace

from conch.bls.calls import Calls
from conch.component import Array
from conch.families.whisper import stubs
from conch.families.whisper.confidence import calibrated
from conch.families.whisper.hotwords import with_hotwords
from conch.families.whisper.stubs import EncodedSegment
from conch.recognition.decoded import Decoded
from conch.recognition.hooks import Recogniser, TextScorer
from conch.recognition.languages import with_language
from conch.recognition.speech import Heard
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Word

WINDOW = {"min_window_ms": 7500, "window_margin_ms": 3000}
"""Parameters of the encoder for an open utterance: a shorter window than that of a recording costs
less, and the texts that repeat themselves for it are refused."""


class Whisper(Recogniser[EncodedSegment]):
    """The attention encoder and decoder."""

    encoder = stubs.ENCODER
    decoder = stubs.DECODER
    writes_punctuation = True
    detects_language = True
    reads_prompt = True
    may_omit_speech = True
    is_rolling = True

    async def encode(self, calls: Calls, waveform: Array) -> EncodedSegment:
        """See `Encoder.encode`."""
        return await stubs.encode(calls, waveform)

    async def encode_open(self, calls: Calls, waveform: Array) -> EncodedSegment:
        """See `Recogniser.encode_open`."""
        return await stubs.encode(calls, waveform, WINDOW)

    async def decode(
        self,
        calls: Calls,
        encoded: EncodedSegment,
        options: RecognitionOptions,
        start: float | None,
    ) -> Decoded:
        """See `Recogniser.decode`. Hotwords replace words that sound alike."""
        found = await stubs.decode(calls, encoded, options, start)
        known = with_language(options, found.language)
        return replace(found, nbest=await with_hotwords(found.nbest, encoded, known, calls))

    async def align(
        self,
        calls: Calls,
        encoded: EncodedSegment,
        text: str,
        options: RecognitionOptions,
        start: float,
    ) -> tuple[Word, ...]:
        """See `Recogniser.align`."""
        return await stubs.align(calls, encoded, text, options, start)

    def calibrated(self, words: tuple[Word, ...], nbest: Sequence[Hypothesis]) -> tuple[Word, ...]:
        """See `Recogniser.calibrated`."""
        return calibrated(words, nbest)


WHISPER = Whisper()


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
        return await stubs.text_scores(calls, await heard.by(WHISPER), texts, options)


SCORER = WhisperScorer()

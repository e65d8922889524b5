"""An encoder and an attention decoder as a recogniser."""

from collections.abc import Sequence
from dataclasses import replace

from conch.bls.calls import Calls
from conch.component import Array
from conch.families.attention.confidence import calibrated
from conch.families.attention.hotwords import with_hotwords
from conch.families.attention.models import AttentionModels, EncodedSegment
from conch.recognition.decoded import Decoded
from conch.recognition.hooks import Recogniser
from conch.recognition.languages import with_language
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Word


class AttentionRecogniser(Recogniser[EncodedSegment]):
    """Recognises by two components; a family says which, and what they can do."""

    writes_punctuation = True
    detects_language = True
    may_omit_speech = True
    is_rolling = True

    def __init__(self, models: AttentionModels) -> None:
        """Recognise by these components."""
        self.models = models
        self.encoder, self.decoder = models.encoder, models.decoder

    async def encode(self, calls: Calls, waveform: Array) -> EncodedSegment:
        """See `Encoder.encode`."""
        return await self.models.encode(calls, waveform)

    async def decode(
        self,
        calls: Calls,
        encoded: EncodedSegment,
        options: RecognitionOptions,
        start: float | None,
    ) -> Decoded:
        """See `Recogniser.decode`. Hotwords replace words that sound alike."""
        found = await self.models.decode(calls, encoded, options, start)
        known = with_language(options, found.language)

        async def scores(texts: list[str]) -> list[float]:
            return await self.models.text_scores(calls, encoded, texts, known)

        return replace(found, nbest=await with_hotwords(found.nbest, known, scores))

    async def align(
        self,
        calls: Calls,
        encoded: EncodedSegment,
        text: str,
        options: RecognitionOptions,
        start: float,
    ) -> tuple[Word, ...]:
        """See `Recogniser.align`."""
        return await self.models.align(calls, encoded, text, options, start)

    def calibrated(self, words: tuple[Word, ...], nbest: Sequence[Hypothesis]) -> tuple[Word, ...]:
        """See `Recogniser.calibrated`."""
        return calibrated(words, nbest)

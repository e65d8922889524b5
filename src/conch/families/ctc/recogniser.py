"""The CTC model as a recogniser, with either of two searches, and as an opinion on other texts."""

from conch.bls.calls import Calls
from conch.component import Array
from conch.families.ctc import stubs
from conch.families.ctc.stubs import LogProbs
from conch.recognition.decoded import Decoded
from conch.recognition.hooks import Recogniser, TextScorer
from conch.recognition.speech import Heard
from conch.wire.options import RecognitionOptions


class Ctc(Recogniser[LogProbs]):
    """The CTC encoder and decoder; the option `decoder` names the search."""

    encoder = stubs.ENCODER
    decoder = stubs.DECODER

    def __init__(self, *, has_language_model: bool) -> None:
        """Choose the search.

        Args:
            has_language_model: Whether its scores always hold those of a language model.
        """
        self.has_language_model = has_language_model

    async def encode(self, calls: Calls, waveform: Array) -> LogProbs:
        """See `Encoder.encode`."""
        return await stubs.encode(calls, waveform)

    async def decode(
        self, calls: Calls, encoded: LogProbs, options: RecognitionOptions, start: float | None
    ) -> Decoded:
        """See `Recogniser.decode`. The words of all hypotheses are known in any case."""
        return await stubs.decode(calls, encoded, options, start or 0.0)


BEAM = Ctc(has_language_model=False)
GRAPH = Ctc(has_language_model=True)


class CtcScorer(TextScorer):
    """The opinion of the CTC model on which text was said."""

    score = "ctc_score"

    def is_asked(self, options: RecognitionOptions) -> bool:
        """See `TextScorer.is_asked`."""
        return options.ctc_rescore

    async def scores(
        self, calls: Calls, texts: list[str], heard: Heard, options: RecognitionOptions
    ) -> list[float]:
        """See `TextScorer.scores`."""
        return await stubs.text_scores(calls, await heard.by(BEAM), texts, options.language)


SCORER = CtcScorer()

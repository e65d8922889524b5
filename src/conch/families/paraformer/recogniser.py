"""Paraformer as a recogniser."""

from conch.bls.calls import Calls
from conch.component import Array
from conch.families.paraformer.declaration import NAME
from conch.recognition.decoded import WORD_COLUMNS, Decoded, hypotheses_of, words_of
from conch.recognition.hooks import Recogniser
from conch.wire.options import RecognitionOptions


class Paraformer(Recogniser[Array]):
    """One call writes a segment: what is encoded is the waveform itself."""

    encoder = NAME

    async def encode(self, calls: Calls, waveform: Array) -> Array:
        return waveform

    async def decode(
        self, calls: Calls, encoded: Array, options: RecognitionOptions, start: float | None
    ) -> Decoded:
        """See `Recogniser.decode`. The words are known in any case."""
        outputs = await calls(
            NAME,
            {"waveform": encoded},
            ("hypotheses", "scores", *WORD_COLUMNS),
            {"language": options.language},
        )
        nbest = hypotheses_of(outputs)
        return Decoded(nbest, {nbest[0].text: words_of(outputs, start or 0.0)})


PARAFORMER = Paraformer()

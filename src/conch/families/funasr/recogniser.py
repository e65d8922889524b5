"""FunASR's models as recognisers: one call writes a segment, so what is encoded is the waveform."""

import math
from dataclasses import replace

from conch.bls.calls import Calls
from conch.component import SAMPLE_RATE, Array
from conch.families.funasr import LIVE, ONLINE, PARAFORMER, SENSE_VOICE, UNITS
from conch.families.search.first_pass import SearchFirstPass
from conch.families.search.recogniser import COLUMNS, Seconds, decoded, search_parameters
from conch.recognition.hooks import Recogniser
from conch.recognition.speech import WORD_COLUMNS, Decoded, hypotheses_of, words_of
from conch.wire.options import RecognitionOptions


class _OneCall(Recogniser[Array]):
    async def encode(self, calls: Calls, waveform: Array) -> Array:
        return waveform


class ParaformerRecogniser(_OneCall):
    """Returns words even if the request asks for none."""

    def __init__(self, component: str) -> None:
        self.encoder = component

    async def decode(
        self, calls: Calls, encoded: Array, options: RecognitionOptions, start: float | None
    ) -> Decoded:
        outputs = await calls(
            self.encoder,
            {"waveform": encoded},
            ("hypotheses", "scores", *WORD_COLUMNS),
            {"language": options.language, "hotwords": options.hotwords},
        )
        nbest = hypotheses_of(outputs)
        return Decoded(nbest, {nbest[0].text: words_of(outputs, start or 0.0)})


class SenseVoiceRecogniser(_OneCall):
    """Returns the words of all hypotheses, even if the request asks for none."""

    encoder = SENSE_VOICE

    async def decode(
        self, calls: Calls, encoded: Array, options: RecognitionOptions, start: float | None
    ) -> Decoded:
        tags = ("language", "emotion", "event")
        outputs = await calls(
            SENSE_VOICE,
            {"waveform": encoded},
            (*COLUMNS, *tags, "language_probability"),
            {**search_parameters(options), "itn": options.itn},
            work=options.beam_size,
        )
        begin = start or 0.0
        audio = Seconds(begin, begin + len(encoded) / SAMPLE_RATE)
        probability = float(outputs["language_probability"].numpy()[0])
        return replace(
            decoded(outputs, options, begin, audio),
            **{tag: outputs[tag].numpy()[0].decode() for tag in tags},
            language_probability=None if math.isnan(probability) else round(probability, 4),
        )


class OnlineFirstPass(SearchFirstPass):
    encoder, decoder = LIVE
    frames = UNITS


PARAFORMER_RECOGNISER = ParaformerRecogniser(PARAFORMER)
ONLINE_RECOGNISER = ParaformerRecogniser(ONLINE)
SENSE_VOICE_RECOGNISER = SenseVoiceRecogniser()

"""A recogniser that says how loud each 640 ms are: of frames of its own, by components of its own.

Its live state is its own too: the components keep none, it sends all frames of the utterance.
"""

from dataclasses import replace

import numpy as np
from plain_components import STEP_S, PlainComponents
from plain_streams import STEP

from conch.bls.calls import Calls
from conch.component import Array, bytes_array
from conch.recognition.hooks import FirstPass, Recogniser
from conch.recognition.speech import WORD_COLUMNS, Decoded, SpeechProbs, hypotheses_of, words_of
from conch.wire.options import RecognitionOptions


class ToyComponents(PlainComponents):
    def toy_encoder(self, inputs, parameters):
        waveform = inputs["waveform"]
        frames = [np.abs(waveform[at : at + STEP]).max() for at in range(0, len(waveform), STEP)]
        return {"loudness": np.array(frames, np.float32)}

    def toy_decoder(self, inputs, parameters):
        spoken = [(at, level) for at, level in enumerate(inputs["loudness"].tolist()) if level]
        words = [f"loud{level:.1f}" for _, level in spoken]
        starts = np.array([at * STEP_S for at, _ in spoken], np.float32)
        return {
            "hypotheses": bytes_array([" ".join(words)]),
            "scores": np.array([-len(words)], np.float32),
            "words": bytes_array(words),
            "word_starts": starts,
            "word_ends": starts + 0.5,
            "word_confidences": np.full(len(words), 0.5, np.float32),
        }


class Toy(Recogniser[Array]):
    encoder = "toy_encoder"

    async def encode(self, calls: Calls, waveform: Array) -> Array:
        outputs = await calls(self.encoder, {"waveform": waveform}, ("loudness",))
        return outputs["loudness"].numpy()

    async def decode(
        self, calls: Calls, encoded: Array, options: RecognitionOptions, start: float | None
    ) -> Decoded:
        wanted = ("hypotheses", "scores", *WORD_COLUMNS)
        outputs = await calls("toy_decoder", {"loudness": encoded}, wanted)
        nbest = hypotheses_of(outputs)
        return Decoded(nbest, {nbest[0].text: words_of(outputs, start or 0.0)})


TOY = Toy()


class ToyFirstPass(FirstPass):
    def __init__(self, options, detached, keep_alive_s, end_firm) -> None:
        self._options = options
        self._loudness = np.zeros(0, np.float32)

    async def hear(self, waveform, utterance, calls, *, ends, finds_speech=False):
        frames = await TOY.encode(calls, waveform)
        self._loudness = np.concatenate([self._loudness, frames])
        return utterance, SpeechProbs((frames > 0).astype(np.float32), len(waveform))

    async def read(self, utterance, calls, *, is_over):
        start = utterance.start / 16_000
        found = await TOY.decode(calls, self._loudness, self._options, start)
        if is_over:
            self._loudness = self._loudness[:0]
        said = found.nbest[0].text.split()
        return utterance, replace(found, stable=" ".join(said[:-1]))

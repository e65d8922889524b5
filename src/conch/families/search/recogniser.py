"""An encoder and a search over its frames as a recogniser.

component_models/README.md has the tensors of the components.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from conch.bls.call import Parameter, TensorHandle
from conch.bls.calls import Calls
from conch.component import SAMPLE_RATE, Array
from conch.recognition.hooks import Recogniser, decoder_of
from conch.recognition.speech import WORD_COLUMNS, Decoded, hypotheses_of, words_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Word

COLUMNS = ("hypotheses", "scores", "am_scores", "lm_scores", "num_words", *WORD_COLUMNS)
"""Output tensors with all that a search knows."""


class Seconds(NamedTuple):
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class EncodedFrames:
    """Output of an encoder, passed to the decoder without a copy."""

    name: str
    """Name of the tensor with the frames; that of their number ends with `_lens`."""
    frames: Array | TensorHandle
    lens: Array | TensorHandle | None
    """Number of frames; None of a waveform, for a decoder that takes it as it is."""
    seconds: float

    @classmethod
    def of(cls, name: str, outputs: Mapping[str, TensorHandle], waveform: Array) -> "EncodedFrames":
        """Return the output of an encoder for FP32 [samples]."""
        return cls(name, outputs[name], outputs[f"{name}_lens"], len(waveform) / SAMPLE_RATE)

    @classmethod
    def of_samples(cls, waveform: Array) -> "EncodedFrames":
        return cls("waveform", waveform, None, len(waveform) / SAMPLE_RATE)

    @property
    def inputs(self) -> dict[str, Array | TensorHandle]:
        if self.lens is None:
            return {self.name: self.frames}
        return {self.name: self.frames, f"{self.name}_lens": self.lens}

    def numpy(self) -> Array:
        """Return the frames in host memory, FP32 [frames, size]."""
        return self.frames if isinstance(self.frames, np.ndarray) else self.frames.numpy()

    def part(self, start: float, end: float) -> "EncodedFrames":
        frames = self.numpy()
        # A copy: a view would keep the frames of the whole.
        frames = frames[round(start * len(frames)) : round(end * len(frames))].copy()
        lens = None if self.lens is None else np.array([len(frames)], np.int32)
        return EncodedFrames(self.name, frames, lens, (end - start) * self.seconds)


class SearchRecogniser(Recogniser[EncodedFrames]):
    def __init__(self, encoder: str, decoder: str, frames: str) -> None:
        """`frames` is the tensor between the components, which may be one."""
        self.encoder, self.decoder, self._frames = encoder, decoder, frames

    def parameters(self, options: RecognitionOptions) -> dict[str, Parameter]:
        return search_parameters(options)

    async def encode(self, calls: Calls, waveform: Array) -> EncodedFrames:
        if self.encoder == self.decoder:
            return EncodedFrames.of_samples(waveform)
        wanted = (self._frames, f"{self._frames}_lens")
        outputs = await calls(self.encoder, {"waveform": waveform}, wanted)
        return EncodedFrames.of(self._frames, outputs, waveform)

    async def decode(
        self, calls: Calls, encoded: EncodedFrames, options: RecognitionOptions, start: float | None
    ) -> Decoded:
        parameters, columns = self.parameters(options), list(COLUMNS)
        if options.lattice:
            parameters["lattice"] = True
            columns.append("lattice")
        outputs = await calls(
            self.decoder, encoded.inputs, columns, parameters, work=options.beam_size
        )
        begin = start or 0.0
        result = decoded(outputs, options, begin, Seconds(begin, begin + encoded.seconds))
        if not options.lattice:
            return result
        return replace(result, lattice=outputs["lattice"].numpy()[0].decode())


def search_parameters(options: RecognitionOptions) -> dict[str, Parameter]:
    weights = options.fusion_weights
    return {
        "decoder": options.decoder,
        "beam_size": options.beam_size,
        "nbest": options.beam_size if options.is_rescored else options.nbest,
        "lm_fusion": options.lm_fusion,
        "lm_weight": str(weights.lm),  # parameters of BLS calls cannot be floats
        "word_bonus": str(weights.word_bonus),
        "hotwords": options.hotwords,
        "hotword_weight": str(options.hotword_weight),
        "language": options.language,
    }


def decoded(
    outputs: Mapping[str, TensorHandle], options: RecognitionOptions, start: float, audio: Seconds
) -> Decoded:
    """Return what a search has found, of its output tensors `COLUMNS`.

    All words are in `audio`: an encoder may hear a word's last units in the silence behind it.
    `start` is the time of the first frame, in seconds.
    """
    timed = iter(within(words_of(outputs, start), audio))
    nbest, words = [], {}
    for hypothesis, am_score, lm_score, num_words in zip(
        hypotheses_of(outputs),
        *(outputs[name].numpy().tolist() for name in ("am_scores", "lm_scores", "num_words")),
        strict=True,
    ):
        has_lm = options.lm_fusion or decoder_of(options).has_language_model
        fused = {"lm_score": lm_score, "num_words": num_words} if has_lm else {}
        nbest.append(replace(hypothesis, am_score=am_score, **fused))
        words[hypothesis.text] = tuple(islice(timed, num_words))
    return Decoded(nbest, words)


def within(words: Sequence[Word], audio: Seconds) -> tuple[Word, ...]:
    """Return words with times within the audio."""
    clipped = []
    for word in words:
        start = min(max(word.start, audio.start), audio.end)
        end = max(start, min(word.end, audio.end))
        clipped.append(replace(word, start=round(start, 3), end=round(end, 3)))
    return tuple(clipped)

"""Typed calls of an encoder and its attention decoder.

component_models/README.md has their tensors.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from conch.bls.call import Parameter, Tensor
from conch.bls.calls import Calls
from conch.component import Array, bytes_array
from conch.recognition.decoded import WORD_COLUMNS, Decoded, hypotheses_of, words_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Word


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """Output of the encoder, passed to the decoder without a copy."""

    encoder_out: Tensor
    encoder_out_lens: Tensor


@dataclass(frozen=True, slots=True)
class AttentionModels:
    """The two components of a family, by name."""

    encoder: str
    decoder: str

    async def encode(
        self, calls: Calls, waveform: Array, window: Mapping[str, int] | None = None
    ) -> EncodedSegment:
        """Return the hidden states of a segment.

        Args:
            calls: Calls of the request.
            waveform: FP32 [samples], 16 kHz.
            window: Parameters of the encoder; None for those of its config.
        """
        outputs = await calls(
            self.encoder, {"waveform": waveform}, ("encoder_out", "encoder_out_lens"), window
        )
        return EncodedSegment(outputs["encoder_out"], outputs["encoder_out_lens"])

    async def decode(
        self,
        calls: Calls,
        segment: EncodedSegment,
        options: RecognitionOptions,
        start: float | None,
    ) -> Decoded:
        """Return the n-best hypotheses of a segment, the words of the best one, and the language.

        Args:
            calls: Calls of the request.
            segment: Result of `encode`.
            options: Options of the request. With rescoring or hotwords, all hypotheses of the beam
                are returned.
            start: Start of the segment in seconds; None for no words.
        """
        is_ranked_again = options.is_rescored or bool(options.hotwords)
        outputs = await calls(
            self.decoder,
            _inputs(segment),
            (
                *("hypotheses", "scores", "language", "language_probability"),
                *(() if start is None else WORD_COLUMNS),
            ),
            {
                "beam_size": options.beam_size,
                "nbest": options.beam_size if is_ranked_again else options.nbest,
                "align": start is not None,
                **_what(options),
                **({"prompt": options.prompt} if options.prompt else {}),
            },
            work=options.beam_size,
        )
        nbest = hypotheses_of(outputs)
        probability = float(outputs["language_probability"].numpy()[0])
        return Decoded(
            nbest,
            {} if start is None else {nbest[0].text: words_of(outputs, start)},
            language=outputs["language"].numpy()[0].decode(),
            language_probability=None if math.isnan(probability) else round(probability, 4),
        )

    async def align(
        self,
        calls: Calls,
        segment: EncodedSegment,
        text: str,
        options: RecognitionOptions,
        start: float,
    ) -> tuple[Word, ...]:
        """Return the words of a text with their times; `start` is the segment's, in seconds."""
        inputs = {**_inputs(segment), "text": bytes_array([text])}
        return words_of(await calls(self.decoder, inputs, WORD_COLUMNS, _what(options)), start)

    async def text_scores(
        self, calls: Calls, segment: EncodedSegment, texts: list[str], options: RecognitionOptions
    ) -> list[float]:
        """Return the log probability of each text by the decoder."""
        inputs = {**_inputs(segment), "texts": bytes_array(texts)}
        outputs = await calls(self.decoder, inputs, ("text_scores",), _what(options))
        return [float(score) for score in outputs["text_scores"].numpy()]


def nbest_outputs(
    nbest: Sequence[tuple[str, float]], language: str, probability: float
) -> dict[str, Array]:
    """Return a decoder's outputs of texts with their scores, best first, and of their language.

    Args:
        nbest: Texts and scores.
        language: Code of the language.
        probability: Its probability; NaN if it was not detected.
    """
    return {
        "hypotheses": bytes_array([text for text, _ in nbest]),
        "scores": np.array([score for _, score in nbest], dtype=np.float32),
        "language": bytes_array([language]),
        "language_probability": np.array([probability], dtype=np.float32),
    }


def words_outputs(words: Sequence[Word]) -> dict[str, Array]:
    """Return a decoder's outputs of words with their times and confidences."""
    return {
        "words": bytes_array([word.text for word in words]),
        "word_starts": np.array([word.start for word in words], dtype=np.float32),
        "word_ends": np.array([word.end for word in words], dtype=np.float32),
        "word_confidences": np.array([word.confidence for word in words], dtype=np.float32),
    }


def _inputs(segment: EncodedSegment) -> dict[str, Array | Tensor]:
    return {"encoder_out": segment.encoder_out, "encoder_out_lens": segment.encoder_out_lens}


def _what(options: RecognitionOptions) -> dict[str, Parameter]:
    """Return the parameters that say what the decoder writes; those of the default are left out."""
    what: dict[str, Parameter] = {"language": options.language}
    if options.languages:
        what["languages"] = options.languages
    if options.task != "transcribe":
        what["task"] = options.task
    return what

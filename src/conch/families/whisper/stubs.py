"""Typed calls of the attention components; component_models/README.md has their tensors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from conch.bls.call import Parameter, Tensor
from conch.bls.calls import Calls
from conch.component import Array, bytes_array
from conch.recognition.decoded import WORD_COLUMNS, Decoded, hypotheses_of, words_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Word

ENCODER, DECODER = "attention_encoder", "attention_decoder"


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """Output of the encoder, passed to the decoder without a copy."""

    encoder_out: Tensor
    encoder_out_lens: Tensor


async def encode(
    calls: Calls, waveform: Array, window: Mapping[str, int] | None = None
) -> EncodedSegment:
    """Return the hidden states of a segment.

    Args:
        calls: Calls of the request.
        waveform: FP32 [samples], 16 kHz.
        window: Parameters of the encoder's window; None for those of its config.
    """
    outputs = await calls(
        ENCODER, {"waveform": waveform}, ("encoder_out", "encoder_out_lens"), window
    )
    return EncodedSegment(outputs["encoder_out"], outputs["encoder_out_lens"])


async def decode(
    calls: Calls, segment: EncodedSegment, options: RecognitionOptions, start: float | None
) -> Decoded:
    """Return the n-best hypotheses of a segment, the words of the best one, and the language.

    Args:
        calls: Calls of the request.
        segment: Result of `encode`.
        options: Options of the request. With rescoring or hotwords, all hypotheses of the beam are
            returned.
        start: Start of the segment in seconds; None for no words.
    """
    is_ranked_again = options.is_rescored or bool(options.hotwords)
    outputs = await calls(
        DECODER,
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
    calls: Calls, segment: EncodedSegment, text: str, options: RecognitionOptions, start: float
) -> tuple[Word, ...]:
    """Return the words of a text with their times; `start` is the segment's, in seconds."""
    inputs = {**_inputs(segment), "text": bytes_array([text])}
    return words_of(await calls(DECODER, inputs, WORD_COLUMNS, _what(options)), start)


async def text_scores(
    calls: Calls, segment: EncodedSegment, texts: list[str], options: RecognitionOptions
) -> list[float]:
    """Return the log probability of each text by the decoder."""
    inputs = {**_inputs(segment), "texts": bytes_array(texts)}
    outputs = await calls(DECODER, inputs, ("text_scores",), _what(options))
    return [float(score) for score in outputs["text_scores"].numpy()]


def _inputs(segment: EncodedSegment) -> dict[str, Array | Tensor]:
    return {"encoder_out": segment.encoder_out, "encoder_out_lens": segment.encoder_out_lens}


def _what(options: RecognitionOptions) -> dict[str, Parameter]:
    """Return the parameters that say what Whisper writes; those of the default are left out."""
    what: dict[str, Parameter] = {"language": options.language}
    if options.languages:
        what["languages"] = options.languages
    if options.task != "transcribe":
        what["task"] = options.task
    return what

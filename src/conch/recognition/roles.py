"""Typed calls of the components; component_models/README.md has their tensors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from conch.bls.call import Parameter, Tensor
from conch.bls.calls import Calls
from conch.component import Array, bytes_array
from conch.wire.needs import RESCORERS
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Word


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """Output of the attention encoder, passed to the decoder without a copy."""

    encoder_out: Tensor
    encoder_out_lens: Tensor


@dataclass(frozen=True, slots=True)
class Decoded:
    """Output of the attention decoder."""

    nbest: list[Hypothesis]
    """Hypotheses, best first."""
    words: tuple[Word, ...]
    """Words of the best one, if they were asked for."""
    spoken: str
    """Code of the language of the speech."""
    probability: float | None
    """Its probability; None if it was not detected."""


WORD_COLUMNS = ("words", "word_starts", "word_ends", "word_confidences")


async def find_speech(
    calls: Calls, waveform: Array, state: Array | Tensor | None
) -> tuple[Array, Tensor]:
    """Return speech probabilities FP32 [frames] of 32 ms each, and the state for the next call.

    Args:
        calls: Calls of the request.
        waveform: FP32 [samples], 16 kHz.
        state: State of the call before; None for the start of the audio.
    """
    inputs: dict[str, Array | Tensor] = {"waveform": waveform}
    if state is not None:
        inputs["state"] = state
    outputs = await calls("vad", inputs, ("speech_probs", "state"))
    return outputs["speech_probs"].numpy(), outputs["state"]


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
        "attention_encoder",
        {"waveform": waveform},
        ("encoder_out", "encoder_out_lens"),
        window,
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
        "attention_decoder",
        {"encoder_out": segment.encoder_out, "encoder_out_lens": segment.encoder_out_lens},
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
    probability = float(outputs["language_probability"].numpy()[0])
    return Decoded(
        hypotheses(outputs),
        () if start is None else words(outputs, start),
        outputs["language"].numpy()[0].decode(),
        None if math.isnan(probability) else round(probability, 4),
    )


def _what(options: RecognitionOptions) -> dict[str, Parameter]:
    """Return the parameters that say what Whisper writes; those of the default are left out."""
    what: dict[str, Parameter] = {"language": options.language}
    if options.languages:
        what["languages"] = options.languages
    if options.task != "transcribe":
        what["task"] = options.task
    return what


async def align(
    calls: Calls, segment: EncodedSegment, text: str, options: RecognitionOptions, start: float
) -> tuple[Word, ...]:
    """Return the words of a text with their times; `start` is the segment's, in seconds."""
    outputs = await calls(
        "attention_decoder",
        {
            "encoder_out": segment.encoder_out,
            "encoder_out_lens": segment.encoder_out_lens,
            "text": bytes_array([text]),
        },
        WORD_COLUMNS,
        _what(options),
    )
    return words(outputs, start)


async def attention_scores(
    calls: Calls, segment: EncodedSegment, texts: list[str], options: RecognitionOptions
) -> list[float]:
    """Return the log probability of each text by the attention decoder."""
    outputs = await calls(
        "attention_decoder",
        {
            "encoder_out": segment.encoder_out,
            "encoder_out_lens": segment.encoder_out_lens,
            "texts": bytes_array(texts),
        },
        ("text_scores",),
        _what(options),
    )
    return [float(score) for score in outputs["text_scores"].numpy()]


async def language_scores(
    calls: Calls, texts: list[str], rescorer: str, context: str
) -> list[float]:
    """Return the language model's log probability of each text.

    Args:
        calls: Calls of the request.
        texts: The texts.
        rescorer: Key of `RESCORERS`.
        context: What was said before, for `neural`.
    """
    inputs = {"hypotheses": bytes_array(texts)}
    if context and rescorer == "neural":
        inputs["context"] = bytes_array([context])
    outputs = await calls(RESCORERS[rescorer], inputs, ("lm_scores",))
    return [float(score) for score in outputs["lm_scores"].numpy()]


def hypotheses(outputs: Mapping[str, Tensor]) -> list[Hypothesis]:
    """Return the hypotheses of a decoder's outputs, best first."""
    texts = [text.decode() for text in outputs["hypotheses"].numpy()]
    scores = [float(score) for score in outputs["scores"].numpy()]
    return [Hypothesis(*pair, am_score=pair[1]) for pair in zip(texts, scores, strict=True)]


def words(outputs: Mapping[str, Tensor], start: float) -> tuple[Word, ...]:
    """Return the words of a decoder's outputs; `start` is the segment's, in seconds."""
    columns = (
        [word.decode() for word in outputs["words"].numpy()],
        np.round(start + outputs["word_starts"].numpy().astype(float), 3).tolist(),
        np.round(start + outputs["word_ends"].numpy().astype(float), 3).tolist(),
        np.round(outputs["word_confidences"].numpy().astype(float), 4).tolist(),
    )
    return tuple(Word(*row) for row in zip(*columns, strict=True))

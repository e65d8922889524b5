"""The roles of CTC recognition as typed calls: of a whole segment, and of a stream step by step."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from conch.component import Array
from conch.orchestrator.calls import Calls, Parameter, Tensor
from conch.orchestrator.endpointing import SpeechProbs
from conch.orchestrator.roles import WORD_COLUMNS, hypotheses, words
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Word
from conch.wire.stream_place import StreamPlace

logger = logging.getLogger(__name__)

_ENCODED = ("log_probs", "log_probs_lens")
_COLUMNS = ("hypotheses", "scores", "am_scores", "lm_scores", "num_words", *WORD_COLUMNS)
_PARTIAL = ("hypotheses", "scores", "stable")


@dataclass(frozen=True, slots=True)
class LogProbs:
    """What a CTC encoder made of audio; it is handed on without being read."""

    log_probs: Tensor
    log_probs_lens: Tensor


@dataclass(frozen=True, slots=True)
class CtcDecoded:
    """What a search holds."""

    nbest: list[Hypothesis]
    """Best first, no two of one text."""
    words: Mapping[str, tuple[Word, ...]]
    """Of each text; of an utterance that is not over none."""
    stable: str = ""
    """Of an utterance that is not over: the beginning of the text that no audio will change."""


async def encode(calls: Calls, waveform: Array) -> LogProbs:
    """Return the log probabilities of a segment's units, FP32 [samples] at 16 kHz."""
    outputs = await calls("ctc_encoder", {"waveform": waveform}, _ENCODED)
    return LogProbs(outputs["log_probs"], outputs["log_probs_lens"])


async def decode(
    calls: Calls, segment: LogProbs, options: RecognitionOptions, start: float
) -> CtcDecoded:
    """Return the n-best of a segment, with a second pass all that the beam holds.

    Args:
        calls: of the request.
        segment: of `encode`.
        options: of the request.
        start: of the segment, in seconds.
    """
    inputs = {"log_probs": segment.log_probs, "log_probs_lens": segment.log_probs_lens}
    outputs = await calls("ctc_decoder", inputs, _COLUMNS, _search_parameters(options))
    return _decoded(outputs, options, start)


async def encode_step(calls: Calls, waveform: Array, place: StreamPlace) -> LogProbs:
    """Return the log probabilities of a stream's next samples."""
    outputs = await calls("ctc_streaming_encoder", {"waveform": waveform}, _ENCODED, place=place)
    return LogProbs(outputs["log_probs"], outputs["log_probs_lens"])


async def encode_and_find_speech(
    calls: Calls, waveform: Array, place: StreamPlace
) -> tuple[SpeechProbs, LogProbs]:
    """As `encode_step`, with the encoder's word on where somebody speaks."""
    outputs = await calls(
        "ctc_streaming_encoder",
        {"waveform": waveform},
        (*_ENCODED, "speech_probs", "frame_samples"),
        place=place,
    )
    speech = SpeechProbs(outputs["speech_probs"].numpy(), outputs["frame_samples"].numpy().item())
    return speech, LogProbs(outputs["log_probs"], outputs["log_probs_lens"])


async def decode_step(
    calls: Calls,
    step: LogProbs,
    options: RecognitionOptions,
    place: StreamPlace,
    *,
    start: float,
    is_over: bool,
) -> CtcDecoded:
    """Return the text of an utterance after its next frames; after the last, all that is known.

    A chunk is asked for no more, and says no more, than it needs: every tensor and every parameter
    of a call is carried between three processes.

    Args:
        calls: of the chunk.
        step: of `encode_step`.
        options: of the stream.
        place: of the call in the stream.
        start: of the utterance, in seconds.
        is_over: whether the utterance ends with these frames; the next ones begin another.
    """
    parameters = _search_parameters(options) if place.starts else {}
    if is_over:
        parameters["is_over"] = True
    outputs = await calls(
        "ctc_streaming_decoder",
        {"log_probs": step.log_probs, "log_probs_lens": step.log_probs_lens},
        _COLUMNS if is_over else _PARTIAL,
        parameters,
        place,
    )
    if is_over:
        return _decoded(outputs, options, start)
    return CtcDecoded(hypotheses(outputs), {}, outputs["stable"].numpy()[0].decode())


async def end(calls: Calls, place: StreamPlace) -> None:
    """Have the components forget a stream that ends without its last samples."""
    nothing = np.zeros(0, np.float32)
    no_frames = {"log_probs": nothing[:, None], "log_probs_lens": np.zeros(1, np.int32)}
    found = await asyncio.gather(
        calls("ctc_streaming_encoder", {"waveform": nothing}, ("log_probs_lens",), place=place),
        calls("ctc_streaming_decoder", no_frames, ("scores",), place=place),
        return_exceptions=True,
    )
    for error in found:
        if isinstance(error, BaseException):
            logger.warning("END of the components' stream %s failed: %r", place.stream_id, error)


def _search_parameters(options: RecognitionOptions) -> dict[str, Parameter]:
    has_second_pass = options.rescore or options.attention_rescore
    return {
        "decoder": options.decoder,
        "beam_size": options.beam_size,
        "nbest": options.beam_size if has_second_pass else options.nbest,
        "lm_fusion": options.lm_fusion,
        "lm_weight": str(options.lm_weight),  # parameters of BLS calls cannot be floats
        "word_bonus": str(options.word_bonus),
        "hotwords": options.hotwords,
        "hotword_weight": str(options.hotword_weight),
        "language": options.language,
    }


def _decoded(
    outputs: Mapping[str, Tensor], options: RecognitionOptions, start: float
) -> CtcDecoded:
    timed = iter(words(outputs, start))
    nbest, words_of = [], {}
    for hypothesis, am_score, lm_score, num_words in zip(
        hypotheses(outputs),
        outputs["am_scores"].numpy().tolist(),
        outputs["lm_scores"].numpy().tolist(),
        outputs["num_words"].numpy().tolist(),
        strict=True,
    ):
        has_lm = options.lm_fusion or options.decoder == "wfst"
        fused = {"lm_score": lm_score, "num_words": num_words} if has_lm else {}
        nbest.append(replace(hypothesis, am_score=am_score, **fused))
        words_of[hypothesis.text] = tuple(islice(timed, num_words))
    return CtcDecoded(nbest, words_of)

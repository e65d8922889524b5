"""Typed calls of the CTC components: for whole segments, and for live audio step by step.

component_models/README.md has their tensors.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from conch.bls.call import Parameter, Tensor
from conch.bls.calls import Calls
from conch.bls.errors import ComponentAwayError
from conch.component import Array, bytes_array
from conch.recognition.decoded import WORD_COLUMNS, Decoded, hypotheses_of, words_of
from conch.recognition.live.endpointing import SpeechProbs
from conch.wire.options import RecognitionOptions
from conch.wire.stream_place import StreamPlace

logger = logging.getLogger(__name__)

ENCODER, DECODER = "ctc_encoder", "ctc_decoder"
STREAMING_ENCODER, STREAMING_DECODER = "ctc_streaming_encoder", "ctc_streaming_decoder"
_ENCODED = ("log_probs", "log_probs_lens")
_COLUMNS = ("hypotheses", "scores", "am_scores", "lm_scores", "num_words", *WORD_COLUMNS)
IMPOSSIBLE = -1e4
"""Log probability of an impossible text: finite, so that sums and differences of scores are."""
_PARTIAL = ("hypotheses", "scores", "stable", *WORD_COLUMNS)


@dataclass(frozen=True, slots=True)
class LogProbs:
    """Output of an encoder, passed to the decoder without a copy."""

    log_probs: Array | Tensor
    log_probs_lens: Array | Tensor

    def numpy(self) -> Array:
        """Return the log probabilities in host memory, FP32 [frames, units]."""
        return self.log_probs if isinstance(self.log_probs, np.ndarray) else self.log_probs.numpy()

    def part(self, start: float, end: float) -> "LogProbs":
        """Return those of a part of the audio; arguments as of `Frames.part`."""
        frames = self.numpy()
        # A copy: a view would keep the frames of the whole.
        frames = frames[round(start * len(frames)) : round(end * len(frames))].copy()
        return LogProbs(frames, np.array([len(frames)], np.int32))


async def encode(calls: Calls, waveform: Array) -> LogProbs:
    """Return the log probabilities of a segment.

    Args:
        calls: Calls of the request.
        waveform: FP32 [samples], 16 kHz.
    """
    outputs = await calls(ENCODER, {"waveform": waveform}, _ENCODED)
    return LogProbs(outputs["log_probs"], outputs["log_probs_lens"])


async def decode(
    calls: Calls, segment: LogProbs, options: RecognitionOptions, start: float
) -> Decoded:
    """Return the n-best list of a segment: with rescoring, all hypotheses of the beam.

    Args:
        calls: Calls of the request.
        segment: Result of `encode`.
        options: Options of the request.
        start: Start of the segment in seconds.
    """
    inputs = {"log_probs": segment.log_probs, "log_probs_lens": segment.log_probs_lens}
    parameters = _search_parameters(options)
    if not options.lattice:
        found = await calls(DECODER, inputs, _COLUMNS, parameters, work=options.beam_size)
        return _decoded(found, options, start)
    parameters["lattice"] = True
    columns = (*_COLUMNS, "lattice")
    outputs = await calls(DECODER, inputs, columns, parameters, work=options.beam_size)
    lattice = outputs["lattice"].numpy()[0].decode()
    return replace(_decoded(outputs, options, start), lattice=lattice)


async def text_scores(
    calls: Calls, segment: LogProbs, texts: list[str], language: str
) -> list[float]:
    """Return the log probability of each text by the CTC model, over all alignments.

    A text with more letters than there are frames is impossible; it has `IMPOSSIBLE`.
    """
    outputs = await calls(
        DECODER,
        {
            "log_probs": segment.log_probs,
            "log_probs_lens": segment.log_probs_lens,
            "texts": bytes_array(texts),
        },
        ("text_scores",),
        {"language": language},
    )
    return [max(float(score), IMPOSSIBLE) for score in outputs["text_scores"].numpy()]


async def encode_step(calls: Calls, waveform: Array, place: StreamPlace) -> LogProbs:
    """Return the log probabilities of a live step; arguments as of `encode`, and its place."""
    outputs = await calls(STREAMING_ENCODER, {"waveform": waveform}, _ENCODED, place=place)
    return LogProbs(outputs["log_probs"], outputs["log_probs_lens"])


async def encode_and_find_speech(
    calls: Calls, waveform: Array, place: StreamPlace
) -> tuple[SpeechProbs, LogProbs]:
    """Return the speech probabilities of a live step by the encoder, and its log probabilities."""
    outputs = await calls(
        STREAMING_ENCODER,
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
) -> Decoded:
    """Return the text of an utterance after its next frames; after the last, all scores too.

    Each call carries only the tensors and parameters that it needs, because each is copied between
    three processes.

    Args:
        calls: Calls of the chunk.
        step: Result of `encode_step`.
        options: Options of the live stream.
        place: Place of the call in the component's stream.
        start: Start of the utterance in seconds.
        is_over: Whether the utterance ends with these frames.
    """
    parameters = _search_parameters(options) if place.starts else {}
    if place.starts and options.mode == "two_pass":
        # Hotwords that CTC cannot write may be for Whisper.
        parameters["skip_foreign"] = True
    if is_over:
        parameters["is_over"] = True
    outputs = await calls(
        STREAMING_DECODER,
        {"log_probs": step.log_probs, "log_probs_lens": step.log_probs_lens},
        _COLUMNS if is_over else _PARTIAL,
        parameters,
        place,
        work=options.beam_size if place.starts else 1,
    )
    if is_over:
        return _decoded(outputs, options, start)
    nbest = hypotheses_of(outputs)
    best = nbest[0].text
    said = words_of(outputs, start)[: len(best.split())]
    return Decoded(nbest, {best: said}, outputs["stable"].numpy()[0].decode())


async def end(calls: Calls, place: StreamPlace) -> None:
    """Free the components' state of a stream that ends without its last samples."""
    nothing = np.zeros(0, np.float32)
    no_frames = {"log_probs": nothing[:, None], "log_probs_lens": np.zeros(1, np.int32)}
    found = await asyncio.gather(
        calls(STREAMING_ENCODER, {"waveform": nothing}, ("log_probs_lens",), place=place),
        calls(STREAMING_DECODER, no_frames, ("scores",), place=place),
        return_exceptions=True,
    )
    for error in found:
        # A component that is away, or was, has nothing left to free.
        if isinstance(error, BaseException) and not isinstance(error, ComponentAwayError):
            logger.warning("END of the components' stream %s failed: %r", place.stream_id, error)


def _search_parameters(options: RecognitionOptions) -> dict[str, Parameter]:
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


def _decoded(outputs: Mapping[str, Tensor], options: RecognitionOptions, start: float) -> Decoded:
    timed = iter(words_of(outputs, start))
    nbest, words = [], {}
    for hypothesis, am_score, lm_score, num_words in zip(
        hypotheses_of(outputs),
        outputs["am_scores"].numpy().tolist(),
        outputs["lm_scores"].numpy().tolist(),
        outputs["num_words"].numpy().tolist(),
        strict=True,
    ):
        has_lm = options.lm_fusion or options.decoder == "wfst"
        fused = {"lm_score": lm_score, "num_words": num_words} if has_lm else {}
        nbest.append(replace(hypothesis, am_score=am_score, **fused))
        words[hypothesis.text] = tuple(islice(timed, num_words))
    return Decoded(nbest, words)

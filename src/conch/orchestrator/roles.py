"""The roles that components play, as typed calls: component_models/README.md in Python."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from conch.component import Array, bytes_array
from conch.options import RecognitionOptions
from conch.orchestrator.calls import Calls, Tensor
from conch.result import Hypothesis, Word


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """What an encoder made of a segment; it is handed on without being read."""

    encoder_out: Tensor
    encoder_out_lens: Tensor


@dataclass(frozen=True, slots=True)
class LogProbs:
    """What a CTC encoder made of a segment; it is handed on without being read."""

    log_probs: Tensor
    log_probs_lens: Tensor


_WORD_COLUMNS = ("words", "word_starts", "word_ends", "word_confidences")


async def find_speech(calls: Calls, waveform: Array, state: Tensor | None) -> tuple[Array, Tensor]:
    """Return speech probabilities FP32 [frames] and the state to go on from."""
    inputs: dict[str, Array | Tensor] = {"waveform": waveform}
    if state is not None:
        inputs["state"] = state
    outputs = await calls("vad", inputs, ("speech_probs", "state"))
    return outputs["speech_probs"].numpy(), outputs["state"]


async def encode(calls: Calls, waveform: Array) -> EncodedSegment:
    """Encode one segment, FP32 [samples] at 16 kHz."""
    outputs = await calls(
        "attention_encoder", {"waveform": waveform}, ("encoder_out", "encoder_out_lens")
    )
    return EncodedSegment(outputs["encoder_out"], outputs["encoder_out_lens"])


async def decode(
    calls: Calls, segment: EncodedSegment, options: RecognitionOptions
) -> list[Hypothesis]:
    """Return the n-best hypotheses of a segment; with rescoring, all that the beam holds."""
    outputs = await calls(
        "attention_decoder",
        {"encoder_out": segment.encoder_out, "encoder_out_lens": segment.encoder_out_lens},
        ("hypotheses", "scores"),
        {
            "beam_size": options.beam_size,
            "nbest": options.beam_size if options.rescore else options.nbest,
            "language": options.language,
        },
    )
    return _hypotheses(outputs)


async def align(
    calls: Calls, segment: EncodedSegment, text: str, language: str, start: float
) -> tuple[Word, ...]:
    """Return the words of a text with their times; `start` is the segment's, in seconds."""
    outputs = await calls(
        "attention_decoder",
        {
            "encoder_out": segment.encoder_out,
            "encoder_out_lens": segment.encoder_out_lens,
            "text": bytes_array([text]),
        },
        _WORD_COLUMNS,
        {"language": language},
    )
    return _words(outputs, start)


async def ctc_encode(calls: Calls, waveform: Array) -> LogProbs:
    """Return the log probabilities of a segment's units, FP32 [samples] at 16 kHz."""
    outputs = await calls("ctc_encoder", {"waveform": waveform}, ("log_probs", "log_probs_lens"))
    return LogProbs(outputs["log_probs"], outputs["log_probs_lens"])


async def ctc_decode(
    calls: Calls, segment: LogProbs, options: RecognitionOptions, start: float
) -> tuple[list[Hypothesis], dict[str, tuple[Word, ...]]]:
    """Return the n-best hypotheses and the words of each by its text; `start` as for `align`.

    With a second pass, all that the beam holds.
    """
    has_second_pass = options.rescore or options.attention_rescore
    outputs = await calls(
        "ctc_decoder",
        {"log_probs": segment.log_probs, "log_probs_lens": segment.log_probs_lens},
        ("hypotheses", "scores", "am_scores", "lm_scores", "num_words", *_WORD_COLUMNS),
        {
            "beam_size": options.beam_size,
            "nbest": options.beam_size if has_second_pass else options.nbest,
            "lm_fusion": options.lm_fusion,
            "lm_weight": str(options.lm_weight),  # BLS parameters cannot be floats
            "word_bonus": str(options.word_bonus),
            "hotwords": options.hotwords,
            "hotword_weight": str(options.hotword_weight),
            "language": options.language,
        },
    )
    words = iter(_words(outputs, start))
    nbest, words_of = [], {}
    for hypothesis, am_score, lm_score, num_words in zip(
        _hypotheses(outputs),
        outputs["am_scores"].numpy().tolist(),
        outputs["lm_scores"].numpy().tolist(),
        outputs["num_words"].numpy().tolist(),
        strict=True,
    ):
        fused = {"lm_score": lm_score, "num_words": num_words} if options.lm_fusion else {}
        nbest.append(replace(hypothesis, am_score=am_score, **fused))
        words_of[hypothesis.text] = tuple(islice(words, num_words))
    return nbest, words_of


async def attention_scores(
    calls: Calls, segment: EncodedSegment, texts: list[str], language: str
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
        {"language": language},
    )
    return [float(score) for score in outputs["text_scores"].numpy()]


async def language_scores(calls: Calls, texts: list[str]) -> list[tuple[float, int]]:
    """Return the language model's log probability and word count of each text."""
    outputs = await calls(
        "rescorer", {"hypotheses": bytes_array(texts)}, ("lm_scores", "num_words")
    )
    return list(
        zip(
            outputs["lm_scores"].numpy().tolist(),
            outputs["num_words"].numpy().tolist(),
            strict=True,
        )
    )


def _hypotheses(outputs: Mapping[str, Tensor]) -> list[Hypothesis]:
    texts = [text.decode() for text in outputs["hypotheses"].numpy()]
    scores = [float(score) for score in outputs["scores"].numpy()]
    return [Hypothesis(*pair, am_score=pair[1]) for pair in zip(texts, scores, strict=True)]


def _words(outputs: Mapping[str, Tensor], start: float) -> tuple[Word, ...]:
    columns = (
        [word.decode() for word in outputs["words"].numpy()],
        np.round(start + outputs["word_starts"].numpy().astype(float), 3).tolist(),
        np.round(start + outputs["word_ends"].numpy().astype(float), 3).tolist(),
        np.round(outputs["word_confidences"].numpy().astype(float), 4).tolist(),
    )
    return tuple(Word(*row) for row in zip(*columns, strict=True))

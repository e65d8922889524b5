"""Beam search over Whisper's decoder, and the guards against texts that nobody said."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import ctranslate2
import numpy as np

from conch.component.arrays import FloatArray
from conch.models.whisper.tokens import WhisperTokens

MAX_POSITIONS = 448
"""Positions of Whisper's decoder; CTranslate2 gives half of them to a text."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The n-best texts of one segment."""

    texts: list[str]
    """Best first, no two the same, at least one."""
    scores: list[float]
    """Of the best text the sum of the natural log probabilities of its tokens, end of text
    included; of each other text what its tokens have on average, times the tokens of the best."""
    average_log_prob: float
    """Natural log probability per token of the best text."""
    no_speech_prob: float
    """Probability that nobody speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """When not to believe a text (Radford et al., 2022, 4.5); see `WhisperDecoderConfig`."""

    no_speech_threshold: float
    log_prob_threshold: float
    compression_ratio_threshold: float
    no_repeat_ngram_size: int


def search(
    model: ctranslate2.models.Whisper,
    tokens: WhisperTokens,
    encoder_out: FloatArray,
    languages: Sequence[str],
    beam_size: int,
    guards: Guards,
) -> list[Decoded]:
    """Return the n-best texts of each segment, all `beam_size` of them where they differ.

    A text that repeats itself is searched anew with repetition forbidden. openai-whisper samples
    at a higher temperature instead, which gives another text each time. A text that is both
    improbable and most likely not speech is empty.

    Args:
        model: Whisper.
        tokens: of the model.
        encoder_out: float32 `[segments, frames, model size]`.
        languages: of each segment.
        beam_size: live hypotheses, at least 1.
        guards: thresholds.
    """
    prompts = [tokens.prompt(language) for language in languages]
    found = _beam_search(model, tokens, encoder_out, prompts, beam_size)
    if guards.no_repeat_ngram_size:
        again = [
            index
            for index, decoded in enumerate(found)
            if compression_ratio(decoded.texts[0]) > guards.compression_ratio_threshold
        ]
        if again:
            retried = _beam_search(
                model,
                tokens,
                encoder_out[again],
                [prompts[index] for index in again],
                beam_size,
                guards.no_repeat_ngram_size,
            )
            for index, decoded in zip(again, retried, strict=True):
                found[index] = decoded
    return [_silenced(decoded, guards) for decoded in found]


def compression_ratio(text: str) -> float:
    """Return how many times shorter zlib makes a text: above 2.4 it repeats itself."""
    data = text.encode()
    return len(data) / len(zlib.compress(data))


def _beam_search(
    model: ctranslate2.models.Whisper,
    tokens: WhisperTokens,
    encoder_out: FloatArray,
    prompts: Sequence[Sequence[int]],
    beam_size: int,
    no_repeat_ngram_size: int = 0,
) -> list[Decoded]:
    results = model.generate(
        ctranslate2.StorageView.from_array(np.ascontiguousarray(encoder_out)),
        prompts,
        beam_size=beam_size,
        num_hypotheses=beam_size,
        no_repeat_ngram_size=no_repeat_ngram_size,
        max_length=MAX_POSITIONS,
        return_scores=True,
        return_no_speech_prob=True,
    )
    return [_decoded(result, tokens) for result in results]


def _decoded(result: ctranslate2.models.WhisperGenerationResult, tokens: WhisperTokens) -> Decoded:
    # CTranslate2 divides the sum by the number of tokens without the end of text, though that
    # one's log probability is in the sum. Its order stays: by the sum, a text that ends at a pause
    # beats the one that goes on behind it.
    num_tokens = len(result.sequences_ids[0])
    best: dict[str, float] = {}
    for average, ids in zip(result.scores, result.sequences_ids, strict=True):
        # Two tokenisations of one text: the better one stands for it.
        best.setdefault(tokens.decode(ids).strip(), average * num_tokens)
    return Decoded(
        texts=list(best),
        scores=list(best.values()),
        average_log_prob=result.scores[0] * num_tokens / (num_tokens + 1),
        no_speech_prob=result.no_speech_prob,
    )


def _silenced(decoded: Decoded, guards: Guards) -> Decoded:
    if (
        decoded.no_speech_prob <= guards.no_speech_threshold
        or decoded.average_log_prob >= guards.log_prob_threshold
    ):
        return decoded
    return Decoded(
        texts=[""],
        scores=[float(np.log(decoded.no_speech_prob))],
        average_log_prob=decoded.average_log_prob,
        no_speech_prob=decoded.no_speech_prob,
    )

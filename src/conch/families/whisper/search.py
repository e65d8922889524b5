"""Beam search with Whisper's decoder, and guards against invented texts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import ctranslate2
import numpy as np

from conch.component.arrays import FloatArray
from conch.families.whisper.tokens import WhisperTokens
from conch.wire.joining import compression_ratio

MAX_POSITIONS = 448
"""Positions of Whisper's decoder; CTranslate2 gives half of them to a text."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The n-best texts of one segment."""

    texts: list[str]
    """Different texts, best first, at least one."""
    scores: list[float]
    """Score of the best text: the sum of the natural log probabilities of its tokens and of the end
    of text. Score of another text: its average per token, times the tokens of the best text."""
    average_log_prob: float
    """Natural log probability per token of the best text."""
    no_speech_prob: float


@dataclass(frozen=True, kw_only=True)
class Guards:
    """Thresholds against invented texts (Radford et al., 2022, 4.5)."""

    no_speech_threshold: float = 0.6
    """Probability of no speech above which the text is empty, if log_prob_threshold agrees."""
    log_prob_threshold: float = -1.0
    """Average log probability of tokens below which no_speech_threshold applies."""
    compression_ratio_threshold: float = 2.4
    """Compression ratio by zlib above which a text repeats itself and is decoded again."""
    no_repeat_ngram_size: int = 3
    """Length of token runs that may not repeat when a text is decoded again; 0 for never again. Of
    2 to 8, 3 gave the fewest errors for texts that repeat themselves because of short windows: 0.6
    errors per word, instead of 13."""


def search(
    model: ctranslate2.models.Whisper,
    tokens: WhisperTokens,
    encoder_out: FloatArray,
    prompts: Sequence[Sequence[int]],
    beam_size: int,
    guards: Guards,
) -> list[Decoded]:
    """Return the n-best texts of each segment: `beam_size` of them, without duplicates.

    A text that repeats itself is decoded again without repeated n-grams. openai-whisper samples at
    a higher temperature instead, which gives a different text each time. An improbable text of
    audio that is probably not speech becomes empty.

    `encoder_out` is float32 `[segments, frames, model size]`. All `prompts`, the tokens that each
    transcript begins with, have its start at one position.
    """

    def searched(rows: Sequence[int], no_repeat_ngram_size: int) -> list[Decoded]:
        taken = encoder_out if len(rows) == len(encoder_out) else encoder_out[rows]
        results = model.generate(
            ctranslate2.StorageView.from_array(np.ascontiguousarray(taken)),
            [prompts[row] for row in rows],
            beam_size=beam_size,
            num_hypotheses=beam_size,
            no_repeat_ngram_size=no_repeat_ngram_size,
            max_length=MAX_POSITIONS,
            return_scores=True,
            return_no_speech_prob=True,
        )
        return [_decoded(result, tokens) for result in results]

    found = searched(range(len(encoder_out)), 0)
    most = guards.compression_ratio_threshold
    again = [row for row, item in enumerate(found) if compression_ratio(item.texts[0]) > most]
    if again and guards.no_repeat_ngram_size:
        retried = searched(again, guards.no_repeat_ngram_size)
        for row, decoded in zip(again, retried, strict=True):
            found[row] = decoded
    return [_silenced(decoded, guards) for decoded in found]


def _decoded(result: ctranslate2.models.WhisperGenerationResult, tokens: WhisperTokens) -> Decoded:
    # CTranslate2 divides the sum by the number of tokens without the end of text, although the sum
    # includes it. Its order is kept: by the sum alone, a text that stops at a pause would win over
    # one that continues after it.
    num_tokens = len(result.sequences_ids[0])
    best: dict[str, float] = {}
    for average, ids in zip(result.scores, result.sequences_ids, strict=True):
        # Of two tokenisations of the same text, keep the better one.
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
    return replace(decoded, texts=[""], scores=[float(np.log(decoded.no_speech_prob))])

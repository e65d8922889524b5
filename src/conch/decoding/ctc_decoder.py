"""CTC log probabilities to text, as the `ctc_decoder` component."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conch.acoustic.ctc_graph import read_vocabulary
from conch.component import Outputs, Row, bytes_array
from conch.decoding.ctc_greedy import best_path, words_of
from conch.errors import InvalidRequestError, TranscriptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcDecoderConfig:
    """Parameters of the `ctc_decoder` component."""

    model: str = ""
    """The .onnx file whose units it writes; empty is the one that comes with Conch."""


class CtcDecoder:
    """Log probabilities of units to n-best texts and their words."""

    def __init__(self, config: CtcDecoderConfig) -> None:
        """Read the units.

        Raises:
            ConfigError: the model is missing or not one of the CTC encoder's.
        """
        self._vocabulary = read_vocabulary(config.model)

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs | TranscriptionError]:
        """Answer rows with `log_probs` and `log_probs_lens`."""
        return [self._answer(row) for row in rows]

    def _answer(self, row: Row) -> Outputs | TranscriptionError:
        length = int(row.inputs["log_probs_lens"].item())
        log_probs = row.inputs["log_probs"][:length]
        width = len(self._vocabulary.texts)
        if log_probs.shape != (length, width):
            return InvalidRequestError(
                f"log_probs takes [frames, {width}] with at least log_probs_lens frames; "
                f"sent: {list(row.inputs['log_probs'].shape)} and {length}"
            )
        if np.isnan(log_probs).any():
            return InvalidRequestError("log_probs holds values that are not numbers")
        emissions, score = best_path(log_probs)
        words = words_of(emissions, self._vocabulary.texts, self._vocabulary.frame_s)
        return {
            "hypotheses": bytes_array([" ".join(word.text for word in words)]),
            "scores": np.array([score], np.float32),
            "num_words": np.array([len(words)], np.int32),
            "words": bytes_array([word.text for word in words]),
            "word_starts": np.array([word.start for word in words], np.float32),
            "word_ends": np.array([word.end for word in words], np.float32),
            "word_confidences": np.array([word.confidence for word in words], np.float32),
        }

"""CTC search over streams, chunk by chunk, as the `ctc_streaming_decoder` component."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conch.component import Outputs, Row, bytes_array
from conch.decoding.ctc_decoder import CtcDecoder, CtcDecoderConfig
from conch.decoding.ctc_options import CtcSearchOptions
from conch.decoding.ctc_state import SearchState
from conch.decoding.search_parameters import nbest_count
from conch.errors import TranscriptionError
from conch.streams import Streams

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcStreamingDecoderConfig(CtcDecoderConfig):
    """Parameters of the `ctc_streaming_decoder` component."""

    stream_ttl_s: float = 90.0
    """Seconds without a chunk after which a stream expires."""


@dataclass(slots=True)
class _Stream:
    options: CtcSearchOptions | None = None
    """Of its first chunk."""
    search: SearchState | None = None
    """Of the utterance that is being said."""


class CtcStreamingDecoder:
    """The texts of streams so far; what one utterance says has no influence on the next."""

    def __init__(self, config: CtcStreamingDecoderConfig) -> None:
        """Load the units and the language model.

        Raises:
            ConfigError: one of them is missing or broken.
        """
        self._decoder = CtcDecoder(config)
        self._streams = Streams(_Stream, config.stream_ttl_s)

    def __len__(self) -> int:
        """Return how many streams are open."""
        return len(self._streams)

    def close(self) -> None:
        """Forget every stream."""
        self._streams.close()

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs | TranscriptionError]:
        """Answer rows with `log_probs` and `log_probs_lens`, each the next frames of its stream."""
        answers: dict[int, Outputs | TranscriptionError] = {}
        streams: dict[int, _Stream] = {}
        searches: dict[int, tuple[SearchState, FloatArray]] = {}
        for index, row in enumerate(rows):
            try:
                streams[index], searches[index] = self._heard(row)
            except TranscriptionError as error:
                answers[index] = error
        for index, state in self._decoder.advanced(searches).items():
            is_over = rows[index].parameters.get("is_over", False) is True or rows[index].ends
            count = nbest_count(rows[index].parameters)
            streams[index].search = None if is_over else state
            answers[index] = {
                **self._decoder.outputs(state, count, is_final=is_over),
                "stable": bytes_array([self._decoder.stable_text(state, is_final=is_over)]),
            }
        return [answers[index] for index in range(len(rows))]

    def _heard(self, row: Row) -> tuple[_Stream, tuple[SearchState, FloatArray]]:
        """Return a row's stream, and the search that its frames continue."""
        stream = self._streams.take(row.stream_id, starts=row.starts, ends=row.ends)
        log_probs = self._decoder.checked_log_probs(row)
        if stream.options is None:
            stream.options = self._decoder.checked_options(row)
        return stream, (stream.search or self._decoder.start(stream.options), log_probs)

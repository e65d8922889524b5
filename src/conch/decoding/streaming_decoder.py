"""The `ctc_streaming_decoder` component: CTC search over streams, chunk by chunk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conch.component import Outputs, Row, bytes_array
from conch.component.streams import Streams
from conch.decoding.decoder import CtcDecoder, CtcDecoderConfig
from conch.decoding.search_parameters import nbest_count
from conch.decoding.utterance_search import UtteranceSearch
from conch.wire.errors import TranscriptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcStreamingDecoderConfig(CtcDecoderConfig):
    """Parameters of the `ctc_streaming_decoder` component."""

    stream_ttl_s: float = 90.0
    """Seconds without a chunk after which a stream expires."""


@dataclass(slots=True)
class _Stream:
    parameters: Mapping[str, Any] | None = None
    """Parameters of the first chunk."""
    search: UtteranceSearch | None = None
    """Search of the current utterance."""


class CtcStreamingDecoder:
    """Decoder of streams; every utterance has a new search."""

    def __init__(self, config: CtcStreamingDecoderConfig) -> None:
        """Load the units and the language model.

        Raises:
            ConfigError: one of them is missing or broken.
        """
        self._decoder = CtcDecoder(config)
        self._streams = Streams(_Stream, config.stream_ttl_s)

    def __len__(self) -> int:
        """Return the number of open streams."""
        return len(self._streams)

    def close(self) -> None:
        """Forget every stream."""
        self._streams.close()

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs | Exception]:
        """Answer rows with `log_probs` and `log_probs_lens`, each the next frames of its stream.

        A defect closes its stream. The other streams of the batch go on.
        """
        answers: list[Outputs | Exception] = []
        for row in rows:
            try:
                answers.append(self._answer(row))
            except Exception as error:
                if not isinstance(error, TranscriptionError):
                    self._streams.drop(row.stream_id)
                answers.append(error)
        return answers

    def _answer(self, row: Row) -> Outputs:
        stream = self._streams.take(row.stream_id, starts=row.starts, ends=row.ends)
        log_probs = self._decoder.checked_log_probs(row)
        if stream.parameters is None:
            stream.search = self._decoder.new_search(row.parameters)
            stream.parameters = row.parameters
        search = stream.search or self._decoder.new_search(stream.parameters)
        search.advance(log_probs)
        is_over = row.ends or row.parameters.get("is_over") is True
        found = search.nbest(nbest_count(stream.parameters), is_final=is_over)
        stable = found[0].text if is_over else search.stable_text()
        stream.search = None if is_over else search
        return {**self._decoder.outputs(found), "stable": bytes_array([stable])}

"""The `ctc_streaming_decoder` component: CTC search over streams, chunk by chunk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conch.component import Outputs, Row, bytes_array
from conch.component.arrays import FloatArray
from conch.component.streams import Streams
from conch.decoding.decoder import CtcDecoder, CtcDecoderConfig, outputs
from conch.decoding.search_parameters import nbest_count
from conch.decoding.utterance_search import UtteranceSearch, advance
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
        answers: dict[int, Outputs | Exception] = {}
        taken: dict[int, tuple[_Stream, UtteranceSearch, FloatArray]] = {}
        for index, row in enumerate(rows):
            try:
                taken[index] = self._taken(row)
            except Exception as error:
                answers[index] = error
        errors = advance([item[1] for item in taken.values()], [item[2] for item in taken.values()])
        for (index, (stream, search, _)), failed in zip(taken.items(), errors, strict=True):
            try:
                answers[index] = failed or _answer(rows[index], stream, search)
            except Exception as error:
                answers[index] = error
        for index, answer in answers.items():
            if isinstance(answer, Exception) and not isinstance(answer, TranscriptionError):
                self._streams.drop(rows[index].stream_id)
        return [answers[index] for index in range(len(rows))]

    def _taken(self, row: Row) -> tuple[_Stream, UtteranceSearch, FloatArray]:
        """Return a row's stream, the current search in it, and the row's frames."""
        stream = self._streams.take(row.stream_id, starts=row.starts, ends=row.ends)
        log_probs = self._decoder.checked_log_probs(row)
        if stream.parameters is None:
            stream.search = self._decoder.new_search(row.parameters)
            stream.parameters = row.parameters
        search = stream.search or self._decoder.new_search(stream.parameters)
        return stream, search, log_probs


def _answer(row: Row, stream: _Stream, search: UtteranceSearch) -> Outputs:
    """Return the outputs of a row whose frames the search has taken."""
    is_over = row.ends or row.parameters.get("is_over") is True
    assert stream.parameters is not None
    found = search.nbest(nbest_count(stream.parameters), is_final=is_over)
    stable = found[0].text if is_over else search.stable_text()
    stream.search = None if is_over else search
    return {**outputs(found), "stable": bytes_array([stable])}

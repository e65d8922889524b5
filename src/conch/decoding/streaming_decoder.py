"""Searches over streams, chunk by chunk, and over whole segments, of whatever searches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from conch.component import FloatArray, Outputs, Row, bytes_array
from conch.component.streams import Streams
from conch.decoding.hypothesis import CtcHypothesis
from conch.decoding.rows import nbest_count
from conch.wire.errors import TranscriptionError


class Search(Protocol):
    def nbest(self, count: int, *, is_final: bool) -> list[CtcHypothesis]:
        """Return the best hypotheses, best first; no frame may come after the final ones."""

    def stable_text(self) -> str:
        """Return the words at the beginning of the text that no later frame can change."""


OneSearch = TypeVar("OneSearch", bound=Search)


class Searcher(Protocol[OneSearch]):
    """Makes searches, and moves several of them on."""

    def new_search(self, parameters: Mapping[str, Any], /) -> OneSearch: ...

    def checked_frames(self, row: Row, /) -> FloatArray: ...

    def advance(
        self, searches: Sequence[OneSearch], frames: Sequence[FloatArray], /
    ) -> Sequence[Exception | None]: ...

    def outputs(self, hypotheses: Sequence[CtcHypothesis], /) -> Outputs: ...


def searched(
    searcher: Searcher[OneSearch], rows: Sequence[Row], frames_of: Callable[[Row], FloatArray]
) -> list[Outputs | Exception]:
    """Answer rows with a whole segment each, which move on together."""

    def begun(row: Row) -> "_Job[OneSearch]":
        search, count = searcher.new_search(row.parameters), nbest_count(row.parameters)
        return search, frames_of(row), lambda: searcher.outputs(search.nbest(count, is_final=True))

    return _answered(searcher, rows, begun)


_Job = tuple[OneSearch, FloatArray, Callable[[], Outputs]]
"""A search, its next frames, and what returns its outputs after these."""


def _answered(
    searcher: Searcher[OneSearch], rows: Sequence[Row], begun: Callable[[Row], _Job[OneSearch]]
) -> list[Outputs | Exception]:
    """Begin the job of each row and move all on together; a row that fails has its error."""
    jobs: dict[int, _Job[OneSearch]] = {}
    answers: dict[int, Outputs | Exception] = {}
    for index, row in enumerate(rows):
        try:
            jobs[index] = begun(row)
        except Exception as error:
            answers[index] = error
    searches, frames, outputs = zip(*jobs.values(), strict=True) if jobs else ((), (), ())
    failures = searcher.advance(searches, frames)
    for index, failure, make in zip(jobs, failures, outputs, strict=True):
        try:
            answers[index] = failure or make()
        except Exception as error:
            answers[index] = error
    return [answers[index] for index in range(len(rows))]


@dataclass(slots=True)
class _SearchStream(Generic[OneSearch]):
    parameters: Mapping[str, Any] | None = None
    """Parameters of the first chunk."""
    search: OneSearch | None = None


class StreamingDecoder(Generic[OneSearch]):
    """Decoder of streams; every utterance has a new search."""

    def __init__(self, searcher: Searcher[OneSearch], stream_ttl_s: float) -> None:
        self._searcher = searcher
        self._streams: Streams[_SearchStream[OneSearch]] = Streams(_SearchStream, stream_ttl_s)

    def __len__(self) -> int:
        return len(self._streams)

    def close(self) -> None:
        self._streams.close()

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs | Exception]:
        """Answer rows, each the next frames of its stream; a defect closes that stream alone."""
        answers = _answered(self._searcher, rows, self._job)
        for row, answer in zip(rows, answers, strict=True):
            if isinstance(answer, Exception) and not isinstance(answer, TranscriptionError):
                self._streams.drop(row.stream_id)
        return answers

    def _job(self, row: Row) -> _Job[OneSearch]:
        stream = self._streams.take(row.stream_id, starts=row.starts, ends=row.ends)
        frames = self._searcher.checked_frames(row)
        if stream.parameters is None:
            stream.search = self._searcher.new_search(row.parameters)
            stream.parameters = row.parameters
        search = stream.search or self._searcher.new_search(stream.parameters)
        count = nbest_count(stream.parameters)
        is_over = row.ends or row.parameters.get("is_over") is True

        def outputs() -> Outputs:
            hypotheses = search.nbest(count, is_final=is_over)
            stable = hypotheses[0].text if is_over else search.stable_text()
            stream.search = None if is_over else search
            return {**self._searcher.outputs(hypotheses), "stable": bytes_array([stable])}

        return search, frames, outputs

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
    jobs: dict[int, tuple[OneSearch, FloatArray]] = {}
    answers: dict[int, Outputs | Exception] = {}
    for index, row in enumerate(rows):
        try:
            jobs[index] = searcher.new_search(row.parameters), frames_of(row)
        except Exception as error:
            answers[index] = error
    searches, frames = [job[0] for job in jobs.values()], [job[1] for job in jobs.values()]
    for index, search, failure in zip(
        jobs, searches, searcher.advance(searches, frames), strict=True
    ):
        count = nbest_count(rows[index].parameters)
        answers[index] = failure or searcher.outputs(search.nbest(count, is_final=True))
    return [answers[index] for index in range(len(rows))]


@dataclass(slots=True)
class _SearchStream(Generic[OneSearch]):
    parameters: Mapping[str, Any] | None = None
    """Parameters of the first chunk."""
    search: OneSearch | None = None


@dataclass(frozen=True, slots=True)
class _SearchJob(Generic[OneSearch]):
    row: Row
    stream: _SearchStream[OneSearch]
    search: OneSearch
    frames: FloatArray


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
        jobs: dict[int, _SearchJob[OneSearch]] = {}
        answers: dict[int, Outputs | Exception] = {}
        for index, row in enumerate(rows):
            try:
                jobs[index] = self._job(row)
            except Exception as error:
                answers[index] = self._failed(row, error)
        errors = self._searcher.advance(
            [job.search for job in jobs.values()], [job.frames for job in jobs.values()]
        )
        for (index, job), failure in zip(jobs.items(), errors, strict=True):
            try:
                answers[index] = self._failed(job.row, failure) if failure else self._answer(job)
            except Exception as error:
                answers[index] = self._failed(job.row, error)
        return [answers[index] for index in range(len(rows))]

    def _failed(self, row: Row, error: Exception) -> Exception:
        if not isinstance(error, TranscriptionError):
            self._streams.drop(row.stream_id)
        return error

    def _job(self, row: Row) -> _SearchJob[OneSearch]:
        stream = self._streams.take(row.stream_id, starts=row.starts, ends=row.ends)
        frames = self._searcher.checked_frames(row)
        if stream.parameters is None:
            stream.search = self._searcher.new_search(row.parameters)
            stream.parameters = row.parameters
        search = stream.search or self._searcher.new_search(stream.parameters)
        return _SearchJob(row, stream, search, frames)

    def _answer(self, job: _SearchJob[OneSearch]) -> Outputs:
        assert job.stream.parameters is not None
        is_over = job.row.ends or job.row.parameters.get("is_over") is True
        hypotheses = job.search.nbest(nbest_count(job.stream.parameters), is_final=is_over)
        stable = hypotheses[0].text if is_over else job.search.stable_text()
        job.stream.search = None if is_over else job.search
        return {**self._searcher.outputs(hypotheses), "stable": bytes_array([stable])}

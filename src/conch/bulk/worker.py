"""What runs on the nodes: tasks that cut recordings, and actors that have units transcribed."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from conch.bulk import cut as cutting
from conch.bulk.inputs import Source, read_audio, size_of
from conch.bulk.lock import require
from conch.bulk.output import Output
from conch.bulk.rows import Row
from conch.bulk.sending import Sender
from conch.bulk.work import (
    Heard,
    Job,
    Outcome,
    Unit,
    cut_bytes,
    cut_from,
    finish,
    heard_bytes,
    outcome_there,
    row_for,
    rows_bytes,
    work_folder,
    write_beside,
    write_shard,
)
from conch.component.arrays import FloatArray
from conch.component.waveform import VAD_STATE_SIZE
from conch.wire.errors import BulkError, ConchError, ConfigError, TranscriptionError
from conch.wire.options import RecognitionOptions

if TYPE_CHECKING:
    from conch.families.silero.vad import SileroVad

MAX_REQUEST_S = 4 * 3600.0
"""Audio of one request that every server takes, in seconds (`max_audio_s`)."""
LEAST_BYTES_PER_S = 750
"""Bytes of a second of speech in the lowest usual quality: smaller files are not opened to find how
long they are."""
LOOKS_AT_ONCE = 16

Result = TypeVar("Result")
Columns = dict[str, Any]
"""A batch or row of Ray Data: `unit`, and `wav` with the FP32 samples of a piece."""


def cut_units(row: Columns, job: Job) -> Iterator[Columns]:
    """Yield the units of a shard: its short recordings in one, and each piece of a long one.

    Args:
        row: `unit`, the shard.
        job: The run.

    Raises:
        BulkError: the folder of work cannot be written.
    """
    unit = Unit.from_json(row["unit"])
    output = Output(job.out)
    options = RecognitionOptions.parse(job.options)
    unit = replace(unit, long=tuple(_long(unit, job, options)))
    yield {"unit": unit.to_json(), "wav": b""}
    for place in unit.long:
        yield from _pieces(unit, place, output, job, options)


def _long(unit: Unit, job: Job, options: RecognitionOptions) -> list[int]:
    """Return the places of the recordings to cut."""
    if not cutting.is_cuttable(options):
        return []
    longest_s = 2 * job.piece_s or MAX_REQUEST_S

    def is_long(source: Source, size: int | None) -> bool:
        if size is not None and size < longest_s * LEAST_BYTES_PER_S:
            return False
        try:
            return cutting.length_s(read_audio(source)) > longest_s
        except ConchError:
            return False  # the server says why

    with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        sizes = list(pool.map(size_of, unit.sources))
    # One after the other: these are large, and only one is in memory at a time.
    found = map(is_long, unit.sources, sizes)
    return [place for place, is_so in enumerate(found) if is_so]


def _pieces(
    unit: Unit, place: int, output: Output, job: Job, options: RecognitionOptions
) -> Iterator[Columns]:
    folder = work_folder(unit.shard)
    name = f"{folder}/{place:04d}.json"
    try:
        data = read_audio(unit.sources[place])
        try:
            found = cut_from(output.read(name))
        except FileNotFoundError:
            found = cutting.cut(data, options, _vad(), job.piece_s or MAX_REQUEST_S / 4)
            require(output, job.run)
            output.write(name, cut_bytes(found))
        for number, (piece, samples) in enumerate(cutting.audio_of(data, options, found.pieces)):
            made = replace(unit, place=place, piece=number, vad_state=piece.vad_state)
            yield {"unit": made.to_json(), "wav": samples.tobytes()}
    except TranscriptionError as error:
        # It has one piece, which has failed.
        failed = replace(unit, place=place)
        require(output, job.run)
        output.write(f"{folder}/{failed.key}.json", heard_bytes(Heard(None, error, 0.0)))
        output.write(name, cut_bytes(cutting.Cut((cutting.Piece(0, 0, 0),), 0.0, (), ())))
        yield {"unit": failed.to_json(), "wav": b""}


_VAD: "SileroVad | None" = None


def _vad() -> cutting.SpeechProbs:
    """Return the VAD that the server has, loaded once in a process."""
    global _VAD
    from conch.families.silero.vad import SileroConfig, SileroVad

    if _VAD is None:
        try:
            _VAD = SileroVad(SileroConfig())
        except ConfigError as error:
            raise BulkError(f"long recordings cannot be cut: {error}") from None
    vad = _VAD

    def speech_probs(
        samples: FloatArray, state: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        return vad.speech_probs(
            samples, np.zeros(VAD_STATE_SIZE, np.float32) if state is None else state
        )

    return speech_probs


class Transcriber:
    """The actor that has units transcribed, several at once, by the server of its node."""

    def __init__(self, job: Job, address: Callable[[str], str]) -> None:
        """Start the event loop of the requests; no server is asked yet.

        Args:
            job: The run.
            address: Returns the URL of a server, given the one that was lost, or "".
        """
        self._job = job
        self._output = Output(job.out)
        self._options = RecognitionOptions.parse(job.options)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="conch-bulk", daemon=True).start()

        places = iter(job.urls or ("",))

        async def made() -> Sender:
            first = next(places)

            async def found(lost: str) -> str:
                return first if first and not lost else await asyncio.to_thread(address, lost)

            return Sender(
                found,
                headers=job.headers,
                jobs=job.jobs,
                timeout_s=job.timeout_s,
                patience_s=job.patience_s,
            )

        self._senders = [self._run(made()) for _ in job.urls or ("",)]

    def __call__(self, batch: Columns) -> Columns:
        """Do units, and return what to tell of them."""
        units = zip(batch["unit"], batch["wav"], strict=True)
        told = [self._done(Unit.from_json(unit), wav).to_json() for unit, wav in units]
        return {"outcome": np.array(told, dtype=object)}

    def _done(self, unit: Unit, wav: bytes) -> Outcome:
        output, job, nbest = self._output, self._job, self._options.nbest
        shard = f"{unit.shard}.{job.kind}"
        if output.exists(shard):
            # Done before the worker died that should have told it.
            return outcome_there(output, unit.shard, job.kind)
        part = f"{work_folder(unit.shard)}/{unit.key}.json"
        if unit.place < 0:
            if unit.long and output.exists(part):
                return finish(job, output, unit, nbest)
            rows = self._run(self._rows(unit))
            require(output, job.run)
            if not unit.long:
                return write_shard(job, output, unit, rows)
            output.write(part, rows_bytes(rows))
        elif not output.exists(part):
            heard = self._run(self._piece(unit, wav))
            require(output, job.run)
            output.write(part, heard_bytes(heard))
        return finish(job, output, unit, nbest)

    async def _rows(self, unit: Unit) -> list[Row]:
        short = [item for place, item in enumerate(unit.sources) if place not in unit.long]
        tasks = [asyncio.ensure_future(self._row(source)) for source in short]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _row(self, source: Source) -> Row:
        async def read() -> bytes:
            return await asyncio.to_thread(read_audio, source)

        heard = await self._freest.transcribe(read, self._job.options)
        if heard.transcript is not None and self._job.formats:
            found = heard.transcript
            await asyncio.to_thread(write_beside, self._job, self._output, source, found)
        return row_for(self._job, source, heard, 1)

    async def _piece(self, unit: Unit, wav: bytes) -> Heard:
        samples = np.frombuffer(wav, np.float32)

        async def read() -> FloatArray:
            return samples

        options = {key: value for key, value in self._job.options.items() if key != "channels"}
        if unit.vad_state:
            options["vad_state"] = unit.vad_state
        return await self._freest.transcribe(read, options)

    @property
    def _freest(self) -> Sender:
        return min(self._senders, key=lambda sender: sender.in_flight)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

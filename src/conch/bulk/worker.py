"""Work on the nodes of Ray: tasks that cut, actors that transcribe, and the node's server.

This package runs in the client's environment. The server may have another one, with another numpy,
so only its command is known here: a process of `conch serve` that is started and watched.
"""

import asyncio
import contextlib
import json
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import conch
from conch.bulk import cut as cutting
from conch.bulk.inputs import Source, read_audio, size_of
from conch.bulk.sending import Answer, Sender
from conch.bulk.shards import Row, json_line, row_of
from conch.bulk.storage import Output, require
from conch.bulk.work import (
    Job,
    ShardOutcome,
    WorkUnit,
    cut_path,
    finish,
    read_cut,
    recorded_outcome,
    write_formats,
    write_shard,
)
from conch.client.aio import all_of
from conch.component import VAD_STATE_SIZE, FloatArray
from conch.wire.errors import BulkError, ConchError, ConfigError, TranscriptionError
from conch.wire.options import RecognitionOptions

MAX_REQUEST_S = 4 * 3600.0
"""Audio of one request that every server takes, in seconds (`max_audio_s`)."""
LEAST_BYTES_PER_S = 750
"""Bytes of a second of speech in the lowest usual quality: smaller files are not opened."""
LOOKS_AT_ONCE = 16

Result = TypeVar("Result")
Columns = dict[str, Any]
"""A batch or row of Ray Data: `unit`, pickled, and `wav` with the FP32 samples of a piece."""
READY = re.compile(r"^  gRPC +(grpc://\S+)", re.MULTILINE)
"""The line of `conch serve` with its address."""
START_S = 300.0
GRACE_S = 10.0
LOOK_S = 0.1
LOG_CHARS = 2000


def cut_units(row: Columns, job: Job) -> Iterator[Columns]:
    """Yield the units of a shard: its short recordings in one, and each piece of a long one."""
    unit: WorkUnit = pickle.loads(row["unit"])
    options = RecognitionOptions.parse(job.options)
    unit = replace(unit, long=tuple(_long(unit, job, options)))
    yield {"unit": pickle.dumps(unit), "wav": b""}
    for index in unit.long:
        for piece, wav in _pieces(replace(unit, index=index), job, options):
            yield {"unit": pickle.dumps(piece), "wav": wav}


def _long(unit: WorkUnit, job: Job, options: RecognitionOptions) -> list[int]:
    if not cutting.is_cuttable(options):
        return []
    longest_s = 2 * job.piece_s or MAX_REQUEST_S

    def is_long(source: Source, size: int | None) -> bool:
        if size is not None and size < longest_s * LEAST_BYTES_PER_S:
            return False
        try:
            return cutting.recording_of(read_audio(source)).length_s > longest_s
        except ConchError:
            return False  # the server says why

    with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        sizes = list(pool.map(size_of, unit.sources))
    # One after the other: these are large, and only one is in memory at a time.
    are_long = map(is_long, unit.sources, sizes)
    return [index for index, is_so in enumerate(are_long) if is_so]


def _pieces(
    unit: WorkUnit, job: Job, options: RecognitionOptions
) -> Iterator[tuple[WorkUnit, bytes]]:
    output, name = Output(job.out), cut_path(unit, unit.index)

    def write_cut(cut: cutting.CutRecording) -> None:
        output.write(name, json.dumps(asdict(cut)).encode())

    try:
        data = read_audio(unit.sources[unit.index])
        try:
            whole = read_cut(output, name)
        except FileNotFoundError:
            whole = cutting.cut(data, options, _vad(), job.piece_s or MAX_REQUEST_S / 4)
            require(output, job.run)
            write_cut(whole)
        for number, (piece, samples) in enumerate(cutting.audio_of(data, options, whole.pieces)):
            yield replace(unit, piece=number, vad_state=piece.vad_state), samples.tobytes()
    except TranscriptionError as error:
        # It has one piece, which has failed.
        require(output, job.run)
        output.write(unit.part, Answer(None, error).to_json().encode())
        write_cut(cutting.CutRecording((cutting.RequestPiece(0, 0, 0),), 0.0, (), ()))
        yield unit, b""


@cache
def _vad() -> cutting.SpeechProbs:
    """Return the VAD that the server has, loaded once in a process."""
    from conch.families.silero.vad import SileroConfig, SileroVad

    try:
        vad = SileroVad(SileroConfig())
    except ConfigError as error:
        raise BulkError(f"long recordings cannot be cut: {error}") from None
    start = np.zeros(VAD_STATE_SIZE, np.float32)
    return lambda samples, state: vad.speech_probs(samples, start if state is None else state)


class Transcriber:
    """The actor that has units transcribed, several at once, by the server of its node."""

    def __init__(self, job: Job, address: Callable[[], str]) -> None:
        """Start the event loop; `address` returns the node's server, where the job has no URLs."""
        self._job, self._output = job, Output(job.out)
        self._nbest = RecognitionOptions.parse(job.options).nbest
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="conch-bulk", daemon=True).start()
        urls = job.urls
        # Each begins with another server, and goes on to the next where that one is lost.
        addresses = [cycle(urls[n:] + urls[:n]).__next__ for n in range(len(urls))] or [address]
        self._senders = [Sender(item, job.sending) for item in addresses]

    def __call__(self, batch: Columns) -> Columns:
        units = map(pickle.loads, batch["unit"])
        outcomes = [self._done(*item) for item in zip(units, batch["wav"], strict=True)]
        return {"outcome": np.array([pickle.dumps(item) for item in outcomes], dtype=object)}

    def _done(self, unit: WorkUnit, wav: bytes) -> ShardOutcome:
        output, job = self._output, self._job
        if output.exists(f"{unit.shard}.{job.shard_format}"):
            # The worker that wrote it died before it could report that.
            return recorded_outcome(output, unit.shard, job.shard_format)
        if unit.long and output.exists(unit.part):
            return finish(job, output, unit, self._nbest)
        if unit.index >= 0:
            content = self._run(self._piece(unit, wav)).to_json().encode()
        else:
            rows = self._run(self._rows(unit))
            if not unit.long:
                require(output, job.run)
                return write_shard(job, output, unit.shard, rows)
            content = b"".join(map(json_line, rows))
        require(output, job.run)
        output.write(unit.part, content)
        return finish(job, output, unit, self._nbest)

    async def _rows(self, unit: WorkUnit) -> list[Row]:
        short = [item for index, item in enumerate(unit.sources) if index not in unit.long]
        return await all_of(self._row(source) for source in short)

    async def _row(self, source: Source) -> Row:
        async def read() -> bytes:
            return await asyncio.to_thread(read_audio, source)

        job = self._job
        answer = await self._freest.transcribe(read, job.options)
        if job.formats:
            answer = await asyncio.to_thread(write_formats, job, self._output, source, answer)
        return row_of(source, answer, job.options)

    async def _piece(self, unit: WorkUnit, wav: bytes) -> Answer:
        async def read() -> FloatArray:
            return np.frombuffer(wav, np.float32)

        options = {key: value for key, value in self._job.options.items() if key != "channels"}
        if unit.vad_state:
            options["vad_state"] = unit.vad_state
        return await self._freest.transcribe(read, options)

    @property
    def _freest(self) -> Sender:
        return min(self._senders, key=lambda sender: sender.in_flight)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def serve_command(given: str | None) -> tuple[str, ...]:
    """Return the command `conch` of the server: as given, next to this interpreter or on PATH."""
    if given is not None and shutil.which(given) is None:
        raise BulkError(f"--conch {given}: no such program")
    neighbour = Path(sys.executable).parent / "conch"
    program = shutil.which(given or (neighbour if neighbour.is_file() else "conch"))
    if program is None:
        raise BulkError(
            f"no program conch on {socket.gethostname()}, next to {sys.executable} or on PATH: "
            "give its path with --conch, or running servers with --url"
        )
    return (program,)


class NodeServer:
    """The actor of a Ray node: a `conch serve` on free ports, started again when it has died.

    It ends with this process, however that ends.
    """

    def __init__(self, command: Sequence[str], models: Sequence[str]) -> None:
        """Start the server by a `conch` and flags of its `serve`, or raise a BulkError."""
        program = shutil.which(command[0])
        if program is None:
            raise BulkError(f"no program {command[0]} on {socket.gethostname()}")
        self._serve = [
            *(program, "serve", "--no-gateway", "--no-access-log", "--models", ",".join(models)),
            *("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", *command[1:]),
        ]
        self._start()

    def url(self) -> str:
        """Return the address of the ready server, or raise a BulkError with the log's end."""
        if not self.is_running():
            self.stop()
            self._start()
        deadline = time.monotonic() + START_S
        while not (ready := READY.search(self._log_text())):
            problem = "" if self.is_running() else "did not start"
            if time.monotonic() > deadline:
                problem = f"was not ready after {START_S:g} s"
            if problem:
                log = self._log_text().strip()[-LOG_CHARS:] or "its log is empty"
                raise BulkError(f"the server of {socket.gethostname()} {problem}: {log}")
            time.sleep(LOOK_S)
        return ready[1]

    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        if self.is_running():
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
        if self.is_running():
            self._process.kill()
            self._process.wait()
        # The end of the socket, without a byte: the guard removes what is left.
        self._lifeline.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="conch-bulk-"))
        # The guard ends the server when this end of the socket closes.
        guard = Path(conch.__file__).parent / "launcher" / "guard.py"
        self._lifeline, theirs = socket.socketpair()
        arguments = [str(theirs.fileno()), "", str(self._folder), str(GRACE_S)]
        # Without the Python paths of a Ray worker.
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_PRELOAD")
        with theirs, (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(guard), *arguments, *self._serve],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={name: value for name, value in os.environ.items() if name not in hidden},
            )

    def _log_text(self) -> str:
        try:
            return (self._folder / "log").read_text(errors="replace")
        except FileNotFoundError:
            return ""

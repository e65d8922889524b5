"""Strangers at every door, a file that ends servers, and a flood of bytes."""

import asyncio
import io
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import soundfile

from conch.bench.memory import MemorySampler
from lab.chaos.answers import Answer
from lab.chaos.doors.target import Target, transcribed
from lab.chaos.doors.triton_grpc import message, unary
from lab.chaos.fuzz import Sent
from lab.chaos.served import Serve
from lab.chaos.speech import RATE, speech, wav_file
from lab.chaos.visits.battery import visit_all
from lab.chaos.visits.behaviours import GONE

VERSES = 90
"""Length of the file that ends servers: 288 s of speech, seconds of work."""
STRIKE_S = 3.0
"""Seconds from a strike at `speech` to the next one: it is back and has the file again."""
PATIENCE_S = 600.0
FLOOD_RATE = 48_000
"""Hz of the files of a flood, of two channels of float samples: few seconds in many bytes."""
CHUNK_S, AHEAD = 20, 4
"""Seconds of a chunk of a flood, and chunks of a stream that are sent without waiting: more than
`max_waiting_s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    files: int = 64
    file_mb: float = 199.0
    streams: int = 16
    """Many more end Triton 2.51, whose heap they damage: docs/notes/reliability.md."""
    seconds: float = 30.0
    """For which the streams send; the files are sent once."""


async def poison(serve: Serve, target: Target) -> Sent:
    """Kill `speech` whenever it has a certain file; the gateway refuses it after two servers."""
    sent = Sent("a file that ends servers")
    file = wav_file(np.tile(speech(), VERSES))
    asking = asyncio.create_task(_by_gateway(target, io.BytesIO(file)))
    killed: set[int] = set()
    num_strikes = 0
    while not (await asyncio.wait([asking], timeout=STRIKE_S))[0]:
        pids = {pid for pid, model in serve.stubs().items() if model == "speech"} - killed
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= pids
        num_strikes += bool(pids)
    begun = time.monotonic()
    again = await _by_gateway(target, io.BytesIO(file))
    for number, answer in enumerate((asking.result(), again)):
        is_refused = answer.status == "422"
        sent.count_answer(number, answer if is_refused else Answer("sent", str(answer)), "the file")
    if num_strikes != 2 or time.monotonic() - begun > STRIKE_S:
        sent.count_answer(2, Answer("sent", f"to {num_strikes} servers, or once more"), "the file")
    return sent


async def strangers(server: str, folder: Path) -> Sent:
    """Let strangers visit every door that a gateway declares, and honest clients next to them."""
    sent, findings = Sent("strangers at every door"), await visit_all(server, folder)
    for number, ((door, behaviour), answers) in enumerate(findings.answers.items()):
        for answer, is_right in answers:
            shown = Answer("200") if is_right and answer.status == GONE else answer
            sent.count_answer(
                number, shown if is_right else Answer("wrong", str(answer)), f"{door}: {behaviour}"
            )
    for door, pairs in findings.honest.items():
        for given, is_right in pairs:
            shown = Answer("200") if is_right else Answer("wrong", str(given))
            sent.count_answer(0, shown, f"{door}: an honest client")
    for what in (findings.left, findings.faults):
        for visits, rest in what.items():
            if rest:
                sent.count_answer(0, Answer("left", str(rest)), visits)
    return sent


async def flood(serve: Serve, target: Target, size: Flood) -> tuple[Sent, float, float]:
    """Send files all at once, and live streams as fast as they can.

    Return the answers, and the memory of the server in MB: before it, and at most during it.
    """
    sent = Sent("a flood of bytes")
    with MemorySampler(serve.pid) as sampler:
        before_mb = sampler.peak().total_mb
        async with _silence(size.file_mb) as path:
            files = [_file(target, path) for _ in range(size.files)]
            until = time.monotonic() + size.seconds
            streams = [_stream(target, number, until) for number in range(size.streams)]
            for answers in await asyncio.gather(*files, *streams):
                for number, answer in enumerate(answers):
                    sent.count_answer(number, answer, "a file or a chunk")
        return sent, before_mb, sampler.peak().total_mb


async def _file(target: Target, path: str) -> list[Answer]:
    with open(path, "rb") as file:
        return [await _by_gateway(target, file)]


async def _by_gateway(target: Target, file: IO[bytes]) -> Answer:
    answer = await transcribed(target, file, patience_s=PATIENCE_S)
    # Refused before its body was read, it may see no more than the end of the connection.
    return Answer("503", answer.text, is_gateway=True) if answer.status == "lost" else answer


async def _stream(target: Target, number: int, until: float) -> list[Answer]:
    """Send chunks of silence down one stream after the other, AHEAD of them without waiting."""
    samples = CHUNK_S * RATE
    all_answers = []
    starts = True
    while time.monotonic() < until:
        requests = []
        for index in range(AHEAD):
            tensors = {"PCM16": ("INT16", [1, samples], bytes(2 * samples))}
            flags = {"sequence_id": 1_000_000 + number, "sequence_start": starts and not index}
            request = message(
                "speech", tensors, {**flags, "mode": "streaming"} if starts else flags
            )
            requests.append(unary(target, request.SerializeToString(), patience_s=PATIENCE_S))
        answers = await asyncio.gather(*requests)
        all_answers += answers
        starts = any(answer.status != "OK" for answer in answers)
    return all_answers


@asynccontextmanager
async def _silence(megabytes: float) -> AsyncIterator[str]:
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        frames = round(megabytes * 1e6 / 8)
        with soundfile.SoundFile(file.name, "w", FLOOD_RATE, 2, "FLOAT") as out:
            for start in range(0, frames, FLOOD_RATE):
                out.write(np.zeros((min(FLOOD_RATE, frames - start), 2), np.float32))
        yield file.name

"""`python -m lab sherpa-onnx-live`: live streams to sherpa-onnx's own WebSocket server.

It serves the streaming transducer of a folder with a thread for each core, a batch of as many
streams as there are, and otherwise its defaults. The server does not say which chunk a text
answers: so the latency is that of the end of a stream.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import numpy as np

from conch.bench.figures import Script, StreamRecord, live_run
from conch.bench.live import LiveBenchmark, prepared, scripts
from conch.bench.memory import MemorySampler
from conch.families.transducer.folder import read_transducer
from conch.scoring.error_rates import number, percent, table
from conch.wire.errors import BenchError
from lab.command import Command
from lab.pacing import paced

CHUNK_S = 0.64
SERVER = "sherpa-onnx-online-websocket-server"


def run_command(args: argparse.Namespace) -> int:
    benchmark = LiveBenchmark(manifest=args.manifest, split=args.split, seconds=args.seconds)
    samples, scoring = prepared(benchmark)
    rows = []
    for streams in args.streams:
        said = scripts(samples, streams, benchmark)
        with served(args.folder, streams) as (port, memory):
            asyncio.run(all_streams(port, [_beginning(item) for item in said]))
            before = memory.cpu_s()
            records = asyncio.run(all_streams(port, said))
            used_s = sum(memory.cpu_since(before).values())
            run = live_run(records, benchmark.chunk_ms, scoring, used_s, memory.peak())
        end = (number(run.end_ms.p50, 0), number(run.end_ms.p99, 0))
        cells = (number(run.cpu_s_per_audio_s, 3), *end, percent(run.wer))
        rows.append([str(streams), *cells, number(run.peak_memory_mb, 0)])
    print(table(["streams", "CPU s per audio s", "end ms p50", "p99", "WER %", "MB"], rows))
    return 0


@contextmanager
def served(folder: Path, streams: int) -> Iterator[tuple[int, MemorySampler]]:
    """Yield the port of a server of a folder, and what samples its process."""
    program = shutil.which(SERVER)
    if not program:
        raise BenchError(f"{SERVER} is not on the PATH: pip install sherpa-onnx-bin")
    parts = read_transducer(folder).parts
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = [f"--{name}={path}" for name, path in parts.items()]
    flags += [f"--tokens={folder / 'tokens.txt'}", f"--port={port}", f"--max-batch-size={streams}"]
    flags += [f"--num-work-threads={min(2, streams)}"]
    with (
        tempfile.TemporaryDirectory() as log,
        subprocess.Popen(
            [program, *flags, f"--log-file={log}/log.txt"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        try:
            asyncio.run(_answers(port))
            yield port, MemorySampler(os.getpid(), with_root=False)
        finally:
            process.kill()


async def _answers(port: int) -> None:
    async with asyncio.timeout(120):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


def _beginning(script: Script) -> Script:
    samples = script.waveform[: 5 * script.sample_rate]
    return Script(samples, script.sample_rate, script.spans, script.text)


async def all_streams(port: int, said: Sequence[Script]) -> list[StreamRecord]:
    """Send all streams in real time, each with another start."""
    rng = random.Random(1)
    records = [StreamRecord(script, False) for script in said]
    async with aiohttp.ClientSession() as session:
        await asyncio.gather(
            *(_one_stream(session, port, item, rng.uniform(0, CHUNK_S)) for item in records)
        )
    return records


async def _one_stream(
    session: aiohttp.ClientSession, port: int, record: StreamRecord, delay_s: float
) -> None:
    script = record.script
    begun = time.perf_counter() + delay_s
    async with session.ws_connect(f"ws://127.0.0.1:{port}") as connection:

        async def send() -> None:
            async for chunk in paced(script.waveform, script.sample_rate, CHUNK_S, begun):
                await connection.send_bytes(np.ascontiguousarray(chunk, np.float32).tobytes())
            await connection.send_str("Done")

        sending = asyncio.create_task(send())
        segments: dict[int, str] = {}
        async for message in connection:
            if message.data == "Done!":
                ended = begun + len(script.waveform) / script.sample_rate
                record.end_s.append(time.perf_counter() - ended)
                break
            result = json.loads(message.data)
            segments[result["segment"]] = result["text"]
        await sending
        record.text = " ".join(segments[number].strip() for number in sorted(segments))


COMMAND = Command(
    run=run_command,
    description="Send live streams to sherpa-onnx's own WebSocket server, as `conch bench live` "
    "sends them to Conch.",
    epilog="""
examples:
  pip install sherpa-onnx-bin
  python -m lab sherpa-onnx-live FOLDER --manifest speech/manifest.tsv --split dev \\
      --streams 1,8,24 --seconds 30
  conch bench live --transducer FOLDER --manifest speech/manifest.tsv --split dev \\
      --streams 1,8,24 --seconds 30 --option decoder=transducer --option mode=streaming
""",
    flags="""
--manifest FILE!  utterances with their texts
--split NAME      of the manifest
--streams N[,N…]=8  at once
--seconds S=60    least audio of a stream
""",
    add=lambda parser: parser.add_argument("folder", type=Path),
    has_report=False,
)

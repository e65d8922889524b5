"""Time `conch transcribe` and `conch bulk` on the same files and the same server.

Both are timed as processes, from their start to their end. Ray takes a while to start, once; a run
of one short file shows how long. The rest is the extra cost of each file.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import soundfile

from conch.bench.header import Flat, Header
from conch.bench.report import origin
from conch.bench.servers import server_of, triton_version
from conch.cli.demo import SPEECH
from conch.scoring.tables import number, percent, table
from conch.wire.errors import BenchError
from lab.bulk import cluster
from lab.header import lab_header

SAMPLE_RATE = 16_000
MILLION_HOURS = 1e6
HOURS_A_MONTH = 730.0
SUBTYPE = "PCM_16"


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkBenchmark:
    """Settings of the benchmark."""

    seconds: tuple[int, ...] = (1, 10, 3600)
    """Lengths of files."""
    audio: int = 3600
    """Seconds of audio of each length, at least one file."""
    nodes: tuple[int, ...] = (1, 2, 4)
    jobs: int = 4
    turns: int = 3
    """Times that each is measured, in turn; the median counts."""
    bulk: str = ".venv-bulk/bin/python"
    """Python of the environment with Ray."""
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """The files of one length."""

    seconds: int
    files: int
    transcribe_s: float
    bulk_s: float

    def over(self, start_s: float) -> float:
        """Return what bulk takes more, without Ray's start, as a fraction of transcribe's time."""
        return (self.bulk_s - start_s - self.transcribe_s) / self.transcribe_s

    def per_file_ms(self, start_s: float) -> float:
        """Return what bulk takes more for each file, without Ray's start, in milliseconds."""
        return 1000 * (self.bulk_s - start_s - self.transcribe_s) / self.files


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """A run on some nodes of this machine, which share the server."""

    nodes: int
    wall_s: float
    rtfx: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkReport:
    """Every figure of the benchmark."""

    header: Flat[Header]
    settings: BulkBenchmark
    start_s: float
    """Seconds of a bulk run with one file of a second: mostly Ray's start and end."""
    lengths: tuple[Length, ...]
    nodes: tuple[Nodes, ...]


def run(settings: BulkBenchmark) -> BulkReport:
    """Measure.

    Raises:
        BenchError: a command fails, or there is no environment with Ray.
    """
    if not Path(settings.bulk).is_file():
        raise BenchError(f"--bulk {settings.bulk}: no such program; make bulk-env makes it")
    header = lab_header("bulk", settings)
    with server_of(settings.url) as (url, _), tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        header = header.with_triton(triton_version(url))
        one = _files(root / "one", 1, 1)
        # The first start reads the modules, which the others find in memory.
        starts = [_bulk(settings, url, one, root / f"start{n}") for n in range(settings.turns + 1)]
        start_s = median(starts[1:])
        lengths, folders = [], {}
        for seconds in settings.seconds:
            count = max(1, settings.audio // seconds)
            folders[seconds] = _files(root / str(seconds), seconds, count)
            lengths.append(_length(settings, url, seconds, folders[seconds]))
        middle = sorted(folders)[len(folders) // 2]
        runs = []
        for nodes in settings.nodes:
            with _cluster(settings, nodes) as address:
                out = root / f"nodes{nodes}"
                wall_s = _median_bulk(settings, url, folders[middle], out, "--ray", address)
            audio_s = middle * len(list(folders[middle].iterdir()))
            runs.append(Nodes(nodes=nodes, wall_s=wall_s, rtfx=audio_s / wall_s))
    return BulkReport(
        header=header,
        settings=settings,
        start_s=start_s,
        lengths=tuple(lengths),
        nodes=tuple(runs),
    )


def markdown(report: BulkReport) -> str:
    """Return the tables of a report."""
    start_s = report.start_s
    lengths = table(
        (
            *("files of", "files", "transcribe s", "bulk s", "without Ray's start s"),
            *("more %", "more for each file ms"),
        ),
        [
            (
                f"{item.seconds} s",
                *(str(item.files), number(item.transcribe_s), number(item.bulk_s)),
                number(item.bulk_s - start_s),
                percent(item.over(start_s), sign=True),
                number(item.per_file_ms(start_s), sign=True),
            )
            for item in report.lengths
        ],
    )
    nodes = table(
        ("nodes on this machine", "seconds", "RTFx"),
        [(str(item.nodes), number(item.wall_s), number(item.rtfx)) for item in report.nodes],
    )
    paper = table(
        ("files of", "RTFx here", "machine hours for a million hours", "such machines for a month"),
        [
            (
                f"{item.seconds} s",
                number(_rtfx(item, start_s)),
                number(_million(item, start_s), 0),
                number(_months(_million(item, start_s)), 0),
            )
            for item in report.lengths
        ],
    )
    files = sum(item.files for item in report.lengths)
    audio_s = sum(item.files * item.seconds for item in report.lengths)
    come_from = origin(report.header, f"{files} files", audio_s)
    start = f"A run of one file of a second takes {start_s:.1f} s, which is Ray's start and end."
    return "\n\n".join((come_from, start, lengths, nodes, paper))


def _rtfx(item: Length, start_s: float) -> float | None:
    """Return seconds of audio a second; None for a run that Ray's start hides."""
    if item.bulk_s <= start_s:
        return None
    return item.files * item.seconds / (item.bulk_s - start_s)


def _million(item: Length, start_s: float) -> float | None:
    """Return the hours of this machine for a million hours of such files."""
    rtfx = _rtfx(item, start_s)
    return None if rtfx is None else MILLION_HOURS / rtfx


def _months(hours: float | None) -> float | None:
    return None if hours is None else hours / HOURS_A_MONTH


def _files(folder: Path, seconds: int, count: int) -> Path:
    """Write files of the sample, repeated; each begins elsewhere, so that no two are equal."""
    folder.mkdir()
    sample, rate = soundfile.read(SPEECH, dtype="float32")
    assert rate == SAMPLE_RATE
    for place in range(count):
        begun = np.roll(sample, -997 * place)
        waveform = np.resize(begun, seconds * SAMPLE_RATE)
        soundfile.write(folder / f"{place:06d}.wav", waveform, SAMPLE_RATE, subtype=SUBTYPE)
    return folder


def _length(settings: BulkBenchmark, url: str, seconds: int, folder: Path) -> Length:
    print(f"files of {seconds} s", file=sys.stderr)
    files = sorted(map(str, folder.iterdir()))
    jobs = str(settings.jobs)
    transcribe = [sys.executable, "-m", "conch.cli", "transcribe", "--url", url, "--jobs", jobs]
    transcribe += ["--format", "json", "--output-dir"]
    shards = folder.with_name(f"{folder.name}-shards")
    transcribe_s, bulk_s = [], []
    for turn in range(settings.turns):
        out = folder.with_name(f"{folder.name}-texts{turn}")
        transcribe_s.append(_timed([*transcribe, str(out), *files]))
        bulk_s.append(_bulk(settings, url, folder, shards, "--overwrite"))
        line = f"  transcribe {transcribe_s[-1]:.1f} s, bulk {bulk_s[-1]:.1f} s"
        print(line, file=sys.stderr, flush=True)
    return Length(
        seconds=seconds,
        files=len(files),
        transcribe_s=median(transcribe_s),
        bulk_s=median(bulk_s),
    )


def _median_bulk(settings: BulkBenchmark, url: str, folder: Path, out: Path, *more: str) -> float:
    taken_s = []
    for _ in range(settings.turns):
        taken_s.append(_bulk(settings, url, folder, out, "--overwrite", *more))
        print(f"  bulk {taken_s[-1]:.1f} s", file=sys.stderr, flush=True)
    return median(taken_s)


def _bulk(settings: BulkBenchmark, url: str, folder: Path, out: Path, *more: str) -> float:
    bulk = [settings.bulk, "-m", "conch.cli", "bulk", str(folder), "--out", str(out)]
    return _timed([*bulk, "--url", url, "--jobs", str(settings.jobs), *more])


def _timed(command: Sequence[str]) -> float:
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"{' '.join(command[:5])} …: {done.stderr.strip()[-500:]}")
    return time.perf_counter() - begun


@contextmanager
def _cluster(settings: BulkBenchmark, nodes: int) -> Iterator[str]:
    """Run a Ray cluster of some nodes on this machine; yield its address."""
    print(f"{nodes} nodes", file=sys.stderr)
    command = [settings.bulk, cluster.__file__, str(nodes)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("ready "):
                    yield line.split()[1]
                    return
            raise BenchError(f"no Ray cluster of {nodes} nodes")
        finally:
            process.stdin.close()
            process.wait()

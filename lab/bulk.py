"""Time `conch transcribe` and `conch bulk` on the same files and the same server.

Both are timed as processes, from their start to their end. Ray takes a while to start, once; a run
of one short file shows how long. The rest is the extra cost of each file.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import soundfile

from conch.bench.header import Flat, Header, origin
from conch.bench.servers import server_of, triton_version
from conch.cli.bench import URL, settings_of
from conch.cli.demo import SPEECH
from conch.scoring.error_rates import number, percent
from conch.wire.errors import BenchError
from lab.command import Command, lab_header, reporting
from lab.reports import table_of

SAMPLE_RATE = 16_000
SUBTYPE = "PCM_16"


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkBenchmark:
    seconds: tuple[int, ...] = (1, 10, 3600)
    audio: int = 3600
    jobs: int = 4
    turns: int = 3
    bulk: str = ".venv-bulk/bin/python"
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    seconds: int
    files: int
    transcribe_s: float
    bulk_s: float

    def over(self, start_s: float) -> float:
        """Return what bulk takes more, without Ray's start, as a fraction of transcribe's time."""
        return (self.bulk_s - start_s - self.transcribe_s) / self.transcribe_s

    def rtfx(self, start_s: float) -> float | None:
        """Return seconds of audio a second; None for a run that Ray's start hides."""
        if self.bulk_s <= start_s:
            return None
        return self.files * self.seconds / (self.bulk_s - start_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkReport:
    header: Flat[Header]
    start_s: float
    """Seconds of a bulk run with one file of a second: mostly Ray's start and end."""
    lengths: tuple[Length, ...]


def run(settings: BulkBenchmark) -> BulkReport:
    if not Path(settings.bulk).is_file():
        raise BenchError(f"--bulk {settings.bulk}: no such program; make bulk-env makes it")
    header = lab_header("bulk", settings)
    with server_of(settings.url) as (url, _), tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        header = header.with_triton(triton_version(url))
        one = _files(root / "one", 1, 1)
        # The first start reads the modules, which the others find in memory.
        starts = [_bulk(settings, url, one, root / f"start{n}") for n in range(settings.turns + 1)]
        lengths = []
        for seconds in settings.seconds:
            count = max(1, settings.audio // seconds)
            made = _files(root / str(seconds), seconds, count)
            lengths.append(_length(settings, url, seconds, made))
    return BulkReport(header=header, start_s=median(starts[1:]), lengths=tuple(lengths))


def markdown(report: BulkReport) -> str:
    start_s = report.start_s
    shown = table_of(
        report.lengths,
        (
            ("files of", lambda item: f"{item.seconds} s"),
            ("files", lambda item: item.files),
            ("transcribe s", lambda item: number(item.transcribe_s)),
            ("bulk s", lambda item: number(item.bulk_s)),
            ("without Ray's start s", lambda item: number(item.bulk_s - start_s)),
            ("more %", lambda item: percent(item.over(start_s), sign=True)),
            ("RTFx", lambda item: number(item.rtfx(start_s))),
        ),
    )
    files = sum(item.files for item in report.lengths)
    audio_s = sum(item.files * item.seconds for item in report.lengths)
    come_from = origin(report.header, f"{files} files", audio_s)
    start = f"A run of one file of a second takes {start_s:.1f} s, which is Ray's start and end."
    return "\n\n".join((come_from, start, shown))


def _files(folder: Path, seconds: int, count: int) -> Path:
    """Write files of the sample, repeated; each begins elsewhere, so that no two are equal."""
    folder.mkdir()
    sample, rate = soundfile.read(SPEECH, dtype="float32")
    assert rate == SAMPLE_RATE
    for index in range(count):
        begun = np.roll(sample, -997 * index)
        waveform = np.resize(begun, seconds * SAMPLE_RATE)
        soundfile.write(folder / f"{index:06d}.wav", waveform, SAMPLE_RATE, subtype=SUBTYPE)
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


def _bulk(settings: BulkBenchmark, url: str, folder: Path, out: Path, *more: str) -> float:
    bulk = [settings.bulk, "-m", "conch.cli", "bulk", str(folder), "--out", str(out)]
    return _timed([*bulk, "--url", url, "--jobs", str(settings.jobs), *more])


def _timed(command: Sequence[str]) -> float:
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"{' '.join(command[:5])} …: {done.stderr.strip()[-500:]}")
    return time.perf_counter() - begun


COMMAND = Command(
    run=reporting(
        lambda args: run(settings_of(BulkBenchmark, args, seconds=tuple(args.seconds))), markdown
    ),
    description="Transcribe the same files with conch transcribe and with conch bulk, on one "
    "server. All files are the sample of conch demo, repeated.",
    epilog="""
The program of `conch bulk` is --bulk; it needs Ray, which is not in this environment.

examples:
  make bulk-env && python -m lab bulk
  python -m lab bulk --url grpc://127.0.0.1:8001 --audio 60 --seconds 1,10
""",
    flags="""
--seconds N[,N…]=1,10,3600  lengths of files
--audio N=3600              seconds of audio of each length in all, at least a file of it
--bulk PYTHON=.venv-bulk/bin/python  Python of the environment with Ray
--jobs N=4                  files in flight
--turns N=3                 times that each is measured; the median counts
"""
    + URL,
)

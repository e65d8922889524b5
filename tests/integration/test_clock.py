"""A server whose clock is set while it works: only time that has passed counts for it."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from conch.processes import model_processes

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
"""libfaketime (https://github.com/wolfcw/libfaketime), of Debian's package faketime."""

pytestmark = [
    pytest.mark.server,
    pytest.mark.nightly,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not LIBRARIES, reason="needs libfaketime: apt-get install faketime"),
]

RATE = 16_000
JUMPS_S = (3_600, -86_400, 31_536_000, 0)
"""How far the server's clock is from the machine's, one after the other."""
DEADLINE_MS = 60_000
"""Shorter than the jumps."""


class Clock:
    """The clock of the programs that were started with `environment`."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.turn(0)
        self.environment = {
            "LD_PRELOAD": str(LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            # A machine whose clock is set keeps this one.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def turn(self, seconds: int) -> None:
        """Set it so far from the clock of the machine."""
        whole = self._file.with_suffix(".new")
        whole.write_text(f"{seconds:+d}\n")
        whole.rename(self._file)  # it is read at any moment

    def ahead_s(self) -> float:
        """Return how far it is from the clock of the machine, as a program reads it."""
        told = subprocess.run(["date", "+%s"], capture_output=True, check=True, text=True)
        return float(told.stdout) - time.time()


def shared_memory() -> set[Path]:
    """Return what libfaketime has put into shared memory, where it stays."""
    return set(Path("/dev/shm").glob("*faketime_*"))


@pytest.fixture
def clock(tmp_path, monkeypatch) -> Iterator[Clock]:
    before, made = shared_memory(), Clock(tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    for path in shared_memory() - before:
        path.unlink(missing_ok=True)


@pytest.fixture
def turned(clock) -> Iterator[TritonServer]:
    models = ["speech", "vad", "ctc_encoder", "ctc_decoder"]
    models += ["ctc_streaming_encoder", "ctc_streaming_decoder"]
    with TritonServer(ServerConfig(models=models)) as running:
        yield running


def test_requests_with_deadlines_and_streams_outlive_jumps_of_the_clock(turned, clock, waveform):
    processes = model_processes(turned.pid)
    second = waveform[:RATE]
    options = {"decoder": "ctc", "deadline_ms": DEADLINE_MS}
    with (
        Client(f"grpc://{turned.grpc_url}") as client,
        client.live(mode="streaming", deadline_ms=DEADLINE_MS) as stream,
    ):
        expected = client.transcribe(waveform, **options).text
        assert expected
        stream.send(second)
        for seconds in JUMPS_S:
            clock.turn(seconds)
            assert clock.ahead_s() == pytest.approx(seconds, abs=10)
            stream.send(second)
            assert client.transcribe(waveform, **options).text == expected, seconds
        assert stream.finish().duration == len(JUMPS_S) + 1
    assert model_processes(turned.pid) == processes, "nothing was taken for frozen"

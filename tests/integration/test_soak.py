"""Streams that start, end, break off and fail at random: nothing lost, nothing left behind.

Twenty seconds as part of `make nightly`, five minutes by `make soak`, an hour by
`make soak SOAK_S=3600`.
"""

import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import psutil
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from live import Chunks
from metrics import metrics_of
from repositories import repositories_with
from tritonclient.utils import InferenceServerException
from waiting import wait_until

from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from conch.processes import model_processes

SOAK_S = float(os.environ.get("SOAK_S", "20"))

pytestmark = [pytest.mark.server, pytest.mark.nightly, pytest.mark.timeout(3 * SOAK_S + 300)]

CLIENTS = 12
KEEPERS = ("speech", "ctc_streaming_encoder", "ctc_streaming_decoder")
"""Models that keep state of a stream: the caches of one are 6 MB."""
KEEPERS_GROWTH_MB, GROWTH_MB = 80, 150
"""What allocators may still take after the warm-up: of these, and of all models."""
WARM_UPS = 6
"""At most: the largest batches come when they come, and an allocator keeps what they took."""


@pytest.fixture(scope="module")
def soaked(tmp_path_factory) -> Iterator[TritonServer]:
    """Yield a server on which abandoned streams expire within the test."""
    changes = {
        "speech": {"stream_ttl_s": "4"},
        "ctc_streaming_encoder": {"stream_ttl_s": "8"},
        "ctc_streaming_decoder": {"stream_ttl_s": "8"},
    }
    repositories = repositories_with(tmp_path_factory.mktemp("soak"), changes)
    config = ServerConfig(model_repositories=repositories, stop_timeout_s=8)
    with TritonServer(config) as running:
        yield running


class Caller(threading.Thread):
    """A client that uses streams in random ways."""

    def __init__(self, number: int, server: TritonServer, waveform, expected: str, until: float):
        super().__init__(name=f"caller {number}", daemon=True)
        self.number, self.server, self.until = number, server, until
        self.waveform, self.expected = waveform, expected
        self.random = random.Random(number)
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []

    def run(self) -> None:
        ways = [self.to_the_end, self.second_passes, self.abandoned, self.restarted]
        ways += [self.bad_chunk, self.late, self.recording]
        while time.monotonic() < self.until:
            way = self.random.choice(ways)
            try:
                way()
            except (Exception, pytest.fail.Exception) as error:
                self.failures.append(f"{way.__name__}: {error!r}")
            self.done[way.__name__] += 1

    def chunks(self, **parameters) -> Chunks:
        kind = self.random.choice((http, grpc))
        url = self.server.http_url if kind is http else self.server.grpc_url
        stream_id = (self.number + 1) * 1000 + self.random.randrange(1000)
        return Chunks(url, stream_id, kind, **parameters)

    def finish(self, chunks: Chunks, start: int = 0) -> str:
        while True:
            samples = self.random.randrange(2_000, 40_000)
            piece, start = self.waveform[start : start + samples], start + samples
            result = chunks.send(piece, ends=start >= len(self.waveform))
            if start >= len(self.waveform):
                chunks.client.close()
                return result["text"]

    def to_the_end(self) -> None:
        assert self.finish(self.chunks()) == self.expected

    def second_passes(self) -> None:
        assert self.finish(self.chunks(mode="two_pass"))

    def abandoned(self) -> None:
        chunks = self.chunks()
        for _ in range(self.random.randrange(1, 4)):
            chunks.send(self.waveform[: self.random.randrange(1, 30_000)])
        chunks.client.close()

    def restarted(self) -> None:
        chunks = self.chunks()
        chunks.send(self.waveform[:25_000])
        chunks.is_new = True
        assert self.finish(chunks) == self.expected

    def bad_chunk(self) -> None:
        chunks = self.chunks()
        chunks.send(self.waveform[:25_000])
        with pytest.raises(InferenceServerException, match="NaN"):
            chunks.send(np.full(100, np.nan))
        assert self.finish(chunks, 25_000) == self.expected

    def late(self) -> None:
        chunks = self.chunks(deadline_ms=1)
        with pytest.raises(InferenceServerException, match="deadline_ms of 1 ran out"):
            chunks.send(np.tile(self.waveform, 3))
        chunks.client.close()

    def recording(self) -> None:
        with Client(self.server.http_url) as client:
            assert client.transcribe(self.waveform, decoder="wfst", timeout_s=300).text


def call_for(server: TritonServer, recordings, expected: list[str], seconds: float) -> list[Caller]:
    until = time.monotonic() + seconds
    callers = [
        Caller(
            number,
            server,
            recordings[number % len(recordings)].waveform(),
            expected[number % len(recordings)],
            until,
        )
        for number in range(CLIENTS)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return callers


def is_quiet(server: TritonServer) -> bool:
    now = metrics_of(server.metrics_url)
    return not now["conch_open_streams"] + now["conch_component_streams"]


def own_mb(processes: dict[int, str]) -> dict[str, float]:
    """Return the memory that each model's processes share with no other, in MB."""
    found: dict[str, float] = defaultdict(float)
    for process, model in processes.items():
        found[model] += psutil.Process(process).memory_full_info().uss / 1e6
    return found


def test_soak(soaked, recordings):
    expected = []
    for item in recordings:
        chunks = Chunks(soaked.http_url, 1)
        expected.append(chunks.send_all(item.waveform(), 10_240)["text"])
    processes = model_processes(soaked.pid)
    before = own_mb(processes)
    for _ in range(WARM_UPS):
        call_for(soaked, recordings, expected, max(SOAK_S / 4, 10))
        wait_until(lambda: is_quiet(soaked))
        cold, before = before, own_mb(processes)
        if sum(before.values()) - sum(cold.values()) < KEEPERS_GROWTH_MB / 4:
            break

    callers = call_for(soaked, recordings, expected, SOAK_S)

    failures = [failure for caller in callers for failure in caller.failures]
    assert not failures, failures[:5]
    done = sum((caller.done for caller in callers), Counter())
    print("soak:", dict(done))
    assert len(done) == 7, "every way was taken"
    wait_until(lambda: is_quiet(soaked))
    assert metrics_of(soaked.metrics_url)["conch_streams_ended_total{how=expired}"] > 0
    assert model_processes(soaked.pid) == processes, "no model was restarted"
    after = own_mb(processes)
    grown = {model: round(after[model] - before[model], 1) for model in before}
    print("MB grown:", grown)
    assert sum(grown[model] for model in KEEPERS) < KEEPERS_GROWTH_MB, grown
    assert sum(grown.values()) < GROWTH_MB, grown

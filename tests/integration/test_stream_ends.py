"""Every way a stream can end on the real server frees what was kept of it."""

import socket
from collections.abc import Iterator

import numpy as np
import pytest
import tritonclient.grpc as grpc
from live import Chunks
from metrics import metrics_of
from repositories import repositories_with
from servers import wait_until
from tritonclient.utils import InferenceServerException

from conch.server import ServerConfig, TritonServer

pytestmark = pytest.mark.server

STEP = 10_240
TTL_S = "2"
COMPONENT_TTL_S = "4"


@pytest.fixture(scope="module")
def short_lived(tmp_path_factory) -> Iterator[TritonServer]:
    """A server on which streams soon expire."""
    changes = {
        "speech": {"stream_ttl_s": TTL_S, "max_streams": "8", "max_chunk_s": "120"},
        "ctc_streaming_encoder": {"stream_ttl_s": COMPONENT_TTL_S},
        "ctc_streaming_decoder": {"stream_ttl_s": COMPONENT_TTL_S},
    }
    repositories = repositories_with(tmp_path_factory.mktemp("short"), changes)
    # Triton waits for idle connections of clients as well.
    config = ServerConfig(model_repositories=repositories, stop_timeout_s=8)
    with TritonServer(config) as running:
        yield running


@pytest.fixture
def ended(short_lived):
    """Wait until nothing of any stream is left; return how streams ended during the test."""
    before = metrics_of(short_lived.metrics_url)

    def wait() -> dict[str, float]:
        def is_quiet() -> bool:
            now = metrics_of(short_lived.metrics_url)
            chunks = now["conch_streams_ended_total"] - before["conch_streams_ended_total"]
            return chunks > 0 and not now["conch_open_streams"] + now["conch_component_streams"]

        wait_until(is_quiet)
        now = metrics_of(short_lived.metrics_url)
        prefix = "conch_streams_ended_total{how="
        hows = {name.removeprefix(prefix)[:-1] for name in now if name.startswith(prefix)}
        counts = {how: now[f"{prefix}{how}}}"] - before[f"{prefix}{how}}}"] for how in hows}
        return {how: count for how, count in counts.items() if count}

    return wait


def test_end(short_lived, ended, recordings):
    for mode in ("streaming", "two_pass"):
        Chunks(short_lived.http_url, 1, mode=mode).send_all(recordings[0].waveform(), STEP)
    assert ended() == {"end": 2}


def test_silence(short_lived, ended):
    final = Chunks(short_lived.http_url, 1).send_all(np.zeros(8 * STEP, np.float32), STEP)
    assert final["text"] == ""
    assert ended() == {"end": 1}


def test_end_without_a_sample(short_lived, ended):
    chunks = Chunks(short_lived.http_url, 1)
    chunks.send(np.zeros(0), zeros=160)
    assert chunks.send(np.zeros(0), ends=True, zeros=160)["text"] == ""
    assert ended() == {"end": 1}


def test_an_error_in_mid_stream(short_lived, ended, recordings):
    chunks = Chunks(short_lived.http_url, 1, deadline_ms=1)
    with pytest.raises(InferenceServerException, match="deadline_ms of 1 ran out"):
        chunks.send(np.tile(recordings[0].waveform(), 10))
    with pytest.raises(InferenceServerException, match="send START"):
        chunks.send(recordings[0].waveform())
    assert ended() == {"error": 1}


def test_another_start(short_lived, ended, recordings):
    for _ in range(3):
        Chunks(short_lived.http_url, 1).send(recordings[0].waveform()[: 2 * STEP])
    Chunks(short_lived.http_url, 1).send(recordings[0].waveform(), ends=True)
    assert ended() == {"restart": 3, "end": 1}


def test_a_cancelled_grpc_call(short_lived, ended, recordings):
    chunks = Chunks(short_lived.grpc_url, 1, grpc)
    chunks.send(recordings[0].waveform()[:STEP])
    errors: list[Exception | None] = []
    before = metrics_of(short_lived.metrics_url)["conch_calls_total"]
    minute = np.tile(recordings[0].waveform(), 14)
    call = chunks.start(minute, lambda result, error: errors.append(error))
    wait_until(lambda: metrics_of(short_lived.metrics_url)["conch_calls_total"] > before)
    call.cancel()
    wait_until(lambda: bool(errors))
    assert "CANCELLED" in str(errors[0])
    assert ended() == {"error": 1}
    outcomes = metrics_of(short_lived.metrics_url)
    assert outcomes["conch_chunks_total{mode=streaming,outcome=cancelled}"] >= 1


def test_a_dropped_connection(short_lived, ended, recordings):
    """Cut off while the server works on a chunk: what is left of the stream expires."""
    chunks = Chunks(short_lived.http_url, 1)
    body, headers = chunks.request(recordings[0].waveform())
    host, port = short_lived.http_url.split(":")
    lines = [f"POST /v2/models/speech/infer HTTP/1.1\r\nHost: {host}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    before = metrics_of(short_lived.metrics_url)["conch_open_streams"]
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall("".join(lines).encode() + b"\r\n" + body)
        wait_until(lambda: metrics_of(short_lived.metrics_url)["conch_open_streams"] > before)
    assert ended() == {"expired": 1}


def test_idle_time_out(short_lived, ended, recordings):
    waveform = recordings[0].waveform()
    for stream_id in range(1, 9):
        Chunks(short_lived.http_url, stream_id).send(waveform[: 3 * STEP])
    with pytest.raises(InferenceServerException, match="8 streams are open, as many as"):
        Chunks(short_lived.http_url, 9).send(waveform)
    assert ended() == {"expired": 8}
    late = Chunks(short_lived.http_url, 1)
    late.is_new = False
    with pytest.raises(InferenceServerException, match="session 1 is expired or unknown; send STA"):
        late.send(waveform)

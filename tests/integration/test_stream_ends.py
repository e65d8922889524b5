"""Every end of a stream on the real server frees its state."""

import socket
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from live import Chunks
from metrics import metrics_of
from repositories import repositories_with
from tritonclient.utils import InferenceServerException
from waiting import wait_until

from conch.launcher import ServerConfig, TritonServer
from conch.wire.needs import components_of_path

pytestmark = pytest.mark.server

STEP = 10_240


@pytest.fixture(scope="module")
def short_lived(tmp_path_factory) -> Iterator[TritonServer]:
    """Yield a server on which streams soon expire."""
    changes = {
        "speech": {
            "stream_ttl_s": "3",
            "max_streams": "3",
            "max_chunk_s": "120",
            "max_waiting_s": "4",
        },
        "ctc_streaming_encoder": {"stream_ttl_s": "6"},
        "ctc_streaming_decoder": {"stream_ttl_s": "6"},
    }
    repositories = repositories_with(tmp_path_factory.mktemp("short"), changes)
    models = ("speech", *components_of_path("streaming"), *components_of_path("two_pass"))
    # Triton waits for idle connections of clients as well.
    config = ServerConfig(model_repositories=repositories, models=models, stop_timeout_s=8)
    with TritonServer(config) as running:
        yield running


@pytest.fixture
def wait_for_ends(short_lived) -> Callable[..., None]:
    """Wait until this many streams have ended this way in the test, and no state is left."""
    before = metrics_of(short_lived.metrics_url)

    def wait(**expected: int) -> None:
        def are_there() -> bool:
            now = metrics_of(short_lived.metrics_url)
            counts = {
                how: now[name] - before[name]
                for how in ("end", "restart", "error", "expired")
                if now[name := f"conch_streams_ended_total{{how={how}}}"] > before[name]
            }
            return counts == expected and not (
                now["conch_open_streams"] + now["conch_component_streams"]
            )

        wait_until(are_there, 60)

    return wait


@pytest.fixture
def steps(short_lived) -> Iterator[Callable[[], int]]:
    """Return the steps of streams that the encoder has taken so far, as Triton counts them."""
    with http.InferenceServerClient(short_lived.http_url) as triton:

        def taken() -> int:
            (stats,) = triton.get_inference_statistics("ctc_streaming_encoder")["model_stats"]
            return stats["inference_stats"]["success"]["count"]

        yield taken


@pytest.fixture(scope="module")
def two_minutes(recordings) -> np.ndarray:
    """So long a chunk that a client can give up while the server works on it."""
    waveform = recordings[0].waveform()
    return np.tile(waveform, 115 * 16_000 // len(waveform))


def test_end(short_lived, wait_for_ends, recordings):
    for mode in ("streaming", "two_pass"):
        Chunks(short_lived.http_url, 1, mode=mode).send_all(recordings[0].waveform(), STEP)
    wait_for_ends(end=2)


def test_silence(short_lived, wait_for_ends):
    final = Chunks(short_lived.http_url, 1).send_all(np.zeros(8 * STEP, np.float32), STEP)
    assert final["text"] == ""
    wait_for_ends(end=1)


def test_end_without_a_sample(short_lived, wait_for_ends):
    chunks = Chunks(short_lived.http_url, 1)
    chunks.send(np.zeros(0), zeros=160)
    assert chunks.send(np.zeros(0), ends=True, zeros=160)["text"] == ""
    wait_for_ends(end=1)


def test_a_deadline_that_runs_out(short_lived, wait_for_ends, recordings, two_minutes):
    chunks = Chunks(short_lived.http_url, 1, deadline_ms=2_000)
    assert "ctc_streaming_encoder" in chunks.send(recordings[0].waveform()[: 2 * STEP])["path"]
    with pytest.raises(InferenceServerException, match="deadline_ms of 2000 ran out"):
        chunks.send(two_minutes)
    with pytest.raises(InferenceServerException, match="send START"):
        chunks.send(recordings[0].waveform())
    wait_for_ends(error=1)


def test_more_audio_than_may_wait(short_lived, wait_for_ends, recordings):
    chunks = Chunks(short_lived.grpc_url, 1, grpc)
    chunks.send(recordings[0].waveform()[:STEP])
    errors: list[Exception | None] = []
    for _ in range(12):
        chunks.start(recordings[0].waveform(), lambda result, error: errors.append(error))
    wait_until(lambda: len(errors) == 12)
    said = [str(error) for error in errors if error]
    assert any("of the stream wait to be heard, and this chunk has" in text for text in said)
    wait_for_ends(error=1)


def test_another_start(short_lived, wait_for_ends, recordings):
    for _ in range(3):
        Chunks(short_lived.http_url, 1).send(recordings[0].waveform()[: 2 * STEP])
    Chunks(short_lived.http_url, 1).send(recordings[0].waveform(), ends=True)
    wait_for_ends(restart=3, end=1)


def test_a_cancelled_grpc_call(short_lived, wait_for_ends, steps, recordings, two_minutes):
    chunks = Chunks(short_lived.grpc_url, 1, grpc)
    chunks.send(recordings[0].waveform()[:STEP])
    errors: list[Exception | None] = []
    before = steps()
    call = chunks.start(two_minutes, lambda result, error: errors.append(error))
    wait_until(lambda: steps() > before)
    call.cancel()
    wait_until(lambda: bool(errors))
    assert "CANCELLED" in str(errors[0])
    wait_for_ends(error=1)
    outcomes = metrics_of(short_lived.metrics_url)
    assert outcomes["conch_chunks_total{mode=two_pass,outcome=cancelled}"] >= 1


def test_a_dropped_connection(short_lived, wait_for_ends, steps, two_minutes):
    """Cut off while the server works on a chunk: the state of the stream expires."""
    body, headers = Chunks(short_lived.http_url, 1).request(two_minutes)
    host, port = short_lived.http_url.split(":")
    lines = [f"POST /v2/models/speech/infer HTTP/1.1\r\nHost: {host}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    before = steps()
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall("".join(lines).encode() + b"\r\n" + body)
        wait_until(lambda: steps() > before)
    assert steps() - before < len(two_minutes) // STEP, "it was answered before it was cut off"
    wait_for_ends(expired=1)


def test_idle_time_out(short_lived, wait_for_ends, recordings):
    waveform = recordings[0].waveform()
    for stream_id in (1, 2, 3):
        Chunks(short_lived.http_url, stream_id).send(waveform[:STEP])
    with pytest.raises(InferenceServerException, match="3 streams are open, as many as"):
        Chunks(short_lived.http_url, 4).send(waveform)
    wait_for_ends(expired=3)
    late = Chunks(short_lived.http_url, 1)
    late.is_new = False
    with pytest.raises(InferenceServerException, match="session 1 is expired or unknown; send STA"):
        late.send(waveform)

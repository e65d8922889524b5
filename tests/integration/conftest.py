"""A real `tritonserver` with both model repositories, started once for all server tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tritonclient.http as http
from recordings import Recording, recordings_of

from conch.cli.demo import SPEECH
from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from conch.wire import entry_points

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
VERSE_S = 3.4
"""Seconds of the first verse."""


@pytest.fixture(scope="session")
def server() -> Iterator[TritonServer]:
    repositories = (
        *(ROOT / "bls_models", ROOT / "component_models"),
        # Steps of the option post.
        *(ROOT / "examples" / "text_steps", DATA / "text_steps"),
    )
    # Four such servers start at once. Triton waits for idle connections of clients as well.
    config = ServerConfig(repositories, startup_timeout_s=170, stop_timeout_s=8)
    with TritonServer(config) as running:
        yield running


@pytest.fixture
def client(server: TritonServer) -> Iterator[Client]:
    with Client(f"grpc://{server.grpc_url}") as client:
        yield client


@pytest.fixture
def triton(server: TritonServer) -> Iterator[http.InferenceServerClient]:
    """Return Triton's plain client, for requests that Conch's own client would not send."""
    client = http.InferenceServerClient(server.http_url, concurrency=8, network_timeout=300)
    yield client
    client.close()


@pytest.fixture
def caller(server: TritonServer) -> dict[str, str]:
    """Return the request parameter with which components take a call from outside."""
    return {entry_points.COMPONENT_KEY: server.component_key}


@pytest.fixture
def executions(triton: http.InferenceServerClient) -> Callable[[str], tuple[int, int]]:
    """Return the requests and executions that a model has counted so far."""

    def counted(model: str) -> tuple[int, int]:
        (stats,) = triton.get_inference_statistics(model)["model_stats"]
        return stats["inference_stats"]["success"]["count"], stats["execution_count"]

    return counted


@pytest.fixture(scope="session")
def verses_wav(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return seven seconds of verse, the recording of `conch demo`, as a wav."""
    path = tmp_path_factory.mktemp("verses") / "tiger.wav"
    soundfile.write(path, *soundfile.read(SPEECH, dtype="int16"))
    return path


@pytest.fixture(scope="session")
def verses(verses_wav: Path) -> np.ndarray:
    """Return `verses_wav` as FP32 [samples] at 16 kHz."""
    return read_float32(verses_wav)


@pytest.fixture(scope="session")
def speech_wav(verses_wav: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the first of them: enough for some hundred requests."""
    path = tmp_path_factory.mktemp("speech") / "tiger.wav"
    samples, rate = soundfile.read(verses_wav, dtype="int16")
    soundfile.write(path, samples[: round(VERSE_S * rate)], rate)
    return path


@pytest.fixture(scope="session")
def recordings() -> list[Recording]:
    """Return the utterances of tests/data with their references."""
    return recordings_of(DATA)


@pytest.fixture(scope="session")
def short() -> np.ndarray:
    """Return a sentence of three words, with half a second of silence on both sides."""
    (recording,) = recordings_of(DATA / "short")
    return np.pad(recording.waveform(), 8_000)


@pytest.fixture(scope="session")
def waveform(speech_wav: Path) -> np.ndarray:
    """Return `speech_wav` as FP32 [samples] at 16 kHz."""
    return read_float32(speech_wav)


def read_float32(path: Path) -> np.ndarray:
    samples, rate = soundfile.read(path, dtype="float32")
    assert rate == 16_000
    return samples

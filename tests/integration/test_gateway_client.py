"""Conch's own client and commands with a gateway: the same as with its Triton."""

import asyncio
import gc
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import trustme
from waiting import wait_until

from conch.client import AsyncClient, Client, joined_parts
from conch.client.endpoint import KEY_VARIABLE
from conch.gateway.config import GatewayConfig
from conch.gateway.keys import KEYS_VARIABLE
from conch.gateway.service import GatewayService
from conch.launcher import TritonServer
from conch.wire.errors import (
    AudioError,
    DeadlineError,
    InvalidRequestError,
    OptionError,
    ServerError,
)
from conch.wire.result import Transcript

pytestmark = pytest.mark.server

KEY = "sk-0123456789abcdef0123456789abcdef"
RATE = 16_000
CHUNK = RATE * 64 // 100


@pytest.fixture(scope="module")
def gateway_url(server: TritonServer) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(KEYS_VARIABLE, raising=False)
        service = GatewayService(GatewayConfig(servers=(f"grpc://{server.grpc_url}",), port=0))
    with service:
        yield service.url


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def locked_url(
    server: TritonServer, authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Yield the address of a gateway with a key and a certificate that nobody knows."""
    pem = tmp_path_factory.mktemp("tls") / "server.pem"
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(pem))
    config = GatewayConfig(servers=(f"grpc://{server.grpc_url}",), port=0, tls_cert=pem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEYS_VARIABLE, f"tests:{KEY}")
        service = GatewayService(config)
    with service:
        yield service.url


@pytest.fixture
def triton_url(server: TritonServer) -> str:
    return f"grpc://{server.grpc_url}"


@pytest.fixture(scope="module")
def talk(speech_wav: Path) -> np.ndarray:
    """Return the recording twice, with pauses, as int16 [samples]."""
    samples, _ = soundfile.read(speech_wav, dtype="int16")
    pause = np.zeros(2 * RATE, np.int16)
    return np.concatenate([samples, pause, samples, pause])


def timeless(transcript: Transcript) -> Transcript:
    return replace(transcript, stages={})


def test_recordings_give_equal_transcripts(
    gateway_url: str, triton_url: str, speech_wav: Path, waveform: np.ndarray
) -> None:
    options: dict[str, Any] = {"nbest": 3, "rescore": True, "word_timestamps": True}
    with Client(triton_url) as direct, Client(gateway_url) as client:
        assert client.is_ready()
        for audio in (speech_wav, speech_wav.read_bytes(), waveform, 0.7 * waveform):
            expected = direct.transcribe(audio, **options)
            found = client.transcribe(audio, **options)
            assert timeless(found) == timeless(expected)
            assert set(found.stages) == set(expected.stages)
        # A text with brackets is one option, and no list.
        assert client.transcribe(waveform, accuracy="best", prompt='["a", "b"]').text


def test_a_batch_keeps_its_order(gateway_url: str, triton_url: str, waveform: np.ndarray) -> None:
    audios = [waveform, waveform[: 2 * RATE], np.zeros(RATE, np.float32), waveform[RATE:]]
    with Client(triton_url) as direct, Client(gateway_url) as client:
        expected = direct.transcribe_batch(audios)
        found = client.transcribe_batch(audios)
        assert [item.text for item in found] == [item.text for item in expected]
        assert len({item.text for item in found}) == 4
        assert client.transcribe_batch([]) == []


def test_a_stream_is_the_transcript_in_parts(
    gateway_url: str, triton_url: str, talk: np.ndarray
) -> None:
    with Client(triton_url) as direct, Client(gateway_url) as client:
        expected = list(direct.stream(talk, nbest=2))
        found = list(client.stream(talk, nbest=2))
        assert len(found) >= 3
        assert [timeless(part) for part in found] == [timeless(part) for part in expected]
        whole = client.transcribe(talk, nbest=2)
        assert timeless(joined_parts(found, 2)) == timeless(whole)


async def test_the_async_client_does_the_same(
    gateway_url: str, speech_wav: Path, talk: np.ndarray
) -> None:
    async with AsyncClient(gateway_url) as client:
        answers = await asyncio.gather(*(client.transcribe(speech_wav) for _ in range(3)))
        async with aclosing(client.stream(talk)) as stream:
            parts = [part.text async for part in stream]
        async with client.live(mode="streaming") as live:
            for start in range(0, len(talk), CHUNK):
                await live.send(talk[start : start + CHUNK])
            last = await live.finish()
    (text,) = {answer.text for answer in answers}
    assert text in " ".join(parts)
    assert "burning bright" in last.text


def answers(url: str, talk: np.ndarray, **options: Any) -> list[Transcript]:
    with Client(url) as client, client.live(sample_rate=RATE, **options) as stream:
        starts = range(0, len(talk), CHUNK)
        found = [stream.send(talk[start : start + CHUNK]) for start in starts]
        found.append(stream.send(np.zeros(0, np.float32)))
        found.append(stream.finish(talk[:100]))
    return found


def test_live_audio_gives_equal_answers(
    gateway_url: str, triton_url: str, talk: np.ndarray
) -> None:
    options: dict[str, Any] = {"mode": "streaming", "word_timestamps": True}
    expected, found = (answers(url, talk, **options) for url in (triton_url, gateway_url))
    assert [item.is_final for item in found] == [item.is_final for item in expected]
    assert [timeless(item) for item in found[:-1]] == [timeless(item) for item in expected[:-1]]
    # The last samples and the end are two requests of the gateway.
    assert (found[-1].text, found[-1].segments) == (expected[-1].text, expected[-1].segments)


def test_the_second_pass_of_live_audio(gateway_url: str, triton_url: str, talk: np.ndarray) -> None:
    expected, found = (
        answers(url, talk, rolling_pass_ms=0)[-1] for url in (triton_url, gateway_url)
    )
    assert (found.text, found.segments) == (expected.text, expected.segments)
    assert {segment.passes for segment in found.segments} == {2}


def test_errors_are_of_the_same_class(gateway_url: str, triton_url: str, speech_wav: Path) -> None:
    cases: list[tuple[type[Exception], Any, dict[str, Any]]] = [
        (OptionError, speech_wav, {"nbest": 0}),
        (OptionError, speech_wav, {"language": "xx"}),
        (AudioError, "no-such-file.wav", {}),
        (InvalidRequestError, b"this is a text file", {}),
        (InvalidRequestError, np.array([0.0, math.nan], np.float32), {}),
        (InvalidRequestError, np.zeros(100, np.float32), {"sample_rate": 1}),
        (DeadlineError, speech_wav, {"deadline_ms": 1}),
        (DeadlineError, speech_wav, {"timeout_s": 0.001}),
        (ServerError, speech_wav, {"entry_point": "no_such_model"}),
    ]

    def error(client: Client, audio: Any, arguments: dict[str, Any]) -> type[BaseException]:
        with pytest.raises(Exception) as caught:
            client.transcribe(audio, **arguments)
        return caught.type

    with Client(triton_url) as direct, Client(gateway_url) as client:
        for expected, audio, arguments in cases:
            found = error(client, audio, arguments)
            assert found is error(direct, audio, arguments)
            assert issubclass(found, expected)
        for one in (direct, client):
            with pytest.raises(AudioError, match="4000 to 192000"):
                one.live(sample_rate=100).send(np.zeros(100, np.float32))
            stream = one.live(mode="streaming")
            stream.send(np.zeros(RATE, np.float32))
            with pytest.raises(AudioError, match="NaN"):
                stream.send(np.array([math.nan], np.float32))
            assert stream.finish().is_final


def test_leaving_a_stream_cancels_the_work(gateway_url: str, talk: np.ndarray) -> None:
    import urllib.request

    def cancelled() -> float:
        with urllib.request.urlopen(f"{gateway_url}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        counts = [line for line in lines if "cancelled" in line and "transcriptions" in line]
        return sum(float(line.rpartition(" ")[2]) for line in counts if "_created" not in line)

    before = cancelled()
    with Client(gateway_url) as client:
        for part in client.stream(np.tile(talk, 10)):
            assert part.segments
            break
    wait_until(lambda: cancelled() > before)


# With TLS aiohttp closes connections in turns of the event loop that a busy machine may not reach.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_key_and_a_private_certificate(
    locked_url: str,
    authority: trustme.CA,
    speech_wav: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with Client(locked_url) as client, pytest.raises(ServerError, match="certificate"):
        client.transcribe(speech_wav)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    samples = np.zeros(1600, np.float32)
    for key, words in ((None, "needs an API key"), ("sk-wrong", "is not one of")):
        with Client(locked_url, api_key=key) as client:
            for send in (
                lambda client=client: client.transcribe(speech_wav),
                lambda client=client: next(client.stream(speech_wav)),
                lambda client=client: client.live().send(samples),
            ):
                with pytest.raises(ServerError, match=words) as caught:
                    send()
                assert "sk-wrong" not in str(caught.value)
    with Client(locked_url, api_key=KEY) as client:
        text = client.transcribe(speech_wav).text
        assert "burning bright" in text
        assert not client.live().send(samples).is_final
    async with AsyncClient(locked_url, api_key=KEY) as other, other.live() as stream:
        await stream.send(samples)
        assert (await stream.finish()).is_final
    with Client(locked_url, headers={"X-API-Key": KEY}) as client:
        assert client.transcribe(speech_wav).text == text
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with Client(locked_url) as client:
        assert client.transcribe(speech_wav).text == text
    gc.collect()


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "conch.cli", *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)


def test_commands_take_a_gateway(
    locked_url: str, authority: trustme.CA, speech_wav: Path, tmp_path: Path
) -> None:
    trust = str(tmp_path / "ca.pem")
    authority.cert_pem.write_to_path(trust)
    where = ["--url", locked_url, "--header", "X-Team: newsroom"]
    done = run("transcribe", str(speech_wav), *where, "--api-key", KEY, SSL_CERT_FILE=trust)
    assert (done.returncode, done.stderr) == (0, "")
    assert "burning bright" in done.stdout
    live = ["stream", str(speech_wav), "--speed", "0", "--mode", "streaming"]
    done = run(*live, *where, SSL_CERT_FILE=trust, **{KEY_VARIABLE: KEY})
    assert (done.returncode, done.stderr) == (0, "")
    assert "burning bright" in done.stdout
    done = run("transcribe", str(speech_wav), *where, "--api-key", "sk-wrong", SSL_CERT_FILE=trust)
    assert done.returncode == 1
    assert "is not one of this server's" in done.stderr
    assert "sk-wrong" not in done.stderr + done.stdout


def test_a_benchmark_of_a_gateway_keeps_the_key(
    locked_url: str, authority: trustme.CA, speech_wav: Path, tmp_path: Path
) -> None:
    pytest.importorskip("jiwer")
    trust = str(tmp_path / "ca.pem")
    authority.cert_pem.write_to_path(trust)
    manifest, report = tmp_path / "manifest.tsv", tmp_path / "report.json"
    manifest.write_text(f"path\ttext\n{speech_wav}\ttiger tiger\n")
    done = run(
        *("bench", "offline", "--manifest", str(manifest), "--warmup", "0"),
        *("--url", locked_url, "--api-key", KEY, f"--header=X-Team: {KEY}"),
        *("--json", str(report)),
        SSL_CERT_FILE=trust,
    )
    assert done.returncode == 0, done.stderr
    text = report.read_text()
    assert "behind a gateway" in text
    assert "--api-key '***'" in text
    assert KEY not in text + done.stdout + done.stderr

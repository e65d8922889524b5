"""What strangers do to a gateway: leave, come all at once, send long files; and how it stops."""

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import numpy as np
import psutil
import pytest
import requests
import soundfile
from gateways import Gateway, gateway_alone, new_key
from http_answers import answer_to, asked
from killing import listener_at
from servers import ANY_TRITON_PORTS, SERVE
from waiting import wait_until

from conch.bench.memory import MemorySampler
from conch.processes import model_processes
from conch.wire.entry_points import SYNTHESIS

pytestmark = pytest.mark.server

RATE = 16_000
PART_HEADER = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'


@pytest.fixture(scope="module")
def long_talk(talk, tmp_path_factory) -> Path:
    """Return a recording of five minutes."""
    return lengthened(talk.path, 300, tmp_path_factory.mktemp("long") / "talk.wav")


def lengthened(source: Path, seconds: int, path: Path) -> Path:
    """Write a recording that repeats a shorter one, and return its path."""
    samples, rate = soundfile.read(source, dtype="int16")
    soundfile.write(path, np.tile(samples, 1 + seconds * rate // len(samples)), rate)
    return path


def form(file: Path | bytes, **fields: str) -> aiohttp.FormData:
    data = aiohttp.FormData(default_to_multipart=True)
    content = file if isinstance(file, bytes) else file.read_bytes()
    name = file.name if isinstance(file, Path) else "a.mp3"
    data.add_field("file", io.BytesIO(content), filename=name)
    for name, value in fields.items():
        data.add_field(name, value)
    return data


def files_url(gateway: Gateway) -> str:
    return f"{gateway.openai_url}/audio/transcriptions"


def metric(gateway: Gateway, pattern: str) -> float:
    """Return the sum of the gateway's metrics whose name and labels match a pattern."""
    text = requests.get(f"{gateway.url}/metrics", timeout=10).text
    return sum(float(value) for value in re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE))


@contextmanager
def watched_gateway(gateway: Gateway, *arguments: str) -> Iterator[tuple[Gateway, psutil.Process]]:
    """Yield another gateway in front of the same server, and its process."""
    me = psutil.Process()
    known = {child.pid for child in me.children()}
    with gateway_alone("--url", gateway.grpc_url, *arguments) as alone:
        (process,) = [child for child in me.children() if child.pid not in known]
        yield alone, process


@pytest.mark.parametrize("stream", ["false", "true"])
async def test_a_client_that_goes_away_ends_the_work_for_it(gateway, long_talk, stream):
    cancelled = r"conch_gateway_cancelled_total\{.*\}"
    before = metric(gateway, cancelled)
    async with aiohttp.ClientSession() as session:
        sending = asyncio.ensure_future(
            session.post(files_url(gateway), data=form(long_talk, stream=stream))
        )
        await asyncio.to_thread(wait_until, lambda: metric(gateway, "conch_gateway_files") > 0)
        if stream == "true":
            answer = await sending
            assert await answer.content.readline()
            answer.close()
        else:
            sending.cancel()
    await asyncio.to_thread(wait_until, lambda: metric(gateway, "conch_gateway_files") == 0)
    assert metric(gateway, cancelled) == before + 1


async def test_a_streamed_answer_comes_while_the_rest_is_recognised(gateway, talk, tmp_path):
    long = lengthened(talk.path, 180, tmp_path / "talk.wav")
    events = []
    async with aiohttp.ClientSession() as session:
        data = form(long, stream="true", response_format="conch")
        async with session.post(files_url(gateway), data=data) as answer:
            assert answer.content_type == "text/event-stream"
            async for line in answer.content:
                if line.startswith(b"data: "):
                    events.append((time.monotonic(), json.loads(line[6:])))
    (began, _), *_, (ended, last) = events
    assert ended - began > 1, "all came at once"
    assert last["type"] == "transcript.done"
    parts = [segment for _, event in events[:-1] for segment in event["transcript"]["segments"]]
    assert parts == last["transcript"]["segments"]
    # The last segment is final too.
    assert last["transcript"]["duration"] - parts[-1]["end"] < 3


async def test_many_at_once_and_one_that_is_bad(gateway, speech):
    files = [speech.path] * 16
    files[7] = Path(__file__)
    url = files_url(gateway)
    asking = [answer_to("POST", url, data=form(file)) for file in files]
    result = [(answer.status, answer.body) for answer in await asyncio.gather(*asking)]
    status, body = result.pop(7)
    assert (status, body["error"]["param"]) == (400, "file")
    assert [status for status, _ in result] == [200] * 15
    assert len({body["text"] for _, body in result}) == 1


def test_a_text_waits_while_the_process_that_answers_it_is_replaced(gateway):
    def speak(text: str) -> bytes:
        body = {"input": text, "response_format": "pcm"}
        answer = requests.post(f"{gateway.openai_url}/audio/speech", json=body, timeout=120)
        assert answer.status_code == 200, answer.text
        return answer.content

    expected = speak("How far is it?")
    for _ in range(2):
        for process, model in model_processes(listener_at(gateway.grpc_url)).items():
            if model == SYNTHESIS[1]:
                os.kill(process, signal.SIGKILL)
        assert speak("How far is it?") == expected
    assert speak("Another text.")


def test_what_is_not_audio_is_not_tried_again(gateway):
    for content in (b"%PDF-1.7 nothing", b"\0" * 10_000, b"OggS" + bytes(100)):
        status, _, body = asked("POST", files_url(gateway), data=form(content))
        # OpenAI's clients try again what has a status of 408, 409, 429 or from 500.
        assert status == 400, body
        assert body["error"]["code"] == "invalid_audio"


def test_a_key_has_its_share_of_audio_and_sees_when_it_comes_back(locked, speech):
    # Other tests, and the older package, add keys to the same file.
    name = f"short-{os.getpid()}-{time.monotonic_ns()}"
    key = new_key(name, locked.keys_file, "--audio-s-per-minute", "2")
    sent = {"headers": {"Authorization": f"Bearer {key}"}, "ssl": locked.trust}
    first, second = (
        asked("POST", files_url(locked), data=form(speech.path), **sent) for _ in range(2)
    )
    assert (first.status, second.status) == (200, 429)
    assert 1 < int(second.headers["Retry-After"]) < 180


@pytest.mark.nightly
def test_an_upload_is_held_on_the_disk_and_then_once(gateway, tmp_path):
    """A file of 64 MB of silence that is uploaded slowly, then recognised."""
    path = tmp_path / "silence.wav"
    soundfile.write(path, np.zeros(32_000_000, np.int16), RATE)
    size = path.stat().st_size

    with watched_gateway(gateway) as (alone, process):
        before = process.memory_info().rss

        async def slowly() -> AsyncIterator[bytes]:
            with path.open("rb") as file:
                yield PART_HEADER
                while piece := file.read(1 << 20):
                    yield piece
                held.append(process.memory_info().rss - before)
                yield b"\r\n--x--\r\n"

        held: list[int] = []
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        answer = asked("POST", files_url(alone), data=slowly(), headers=headers)
        assert answer.status == 200
    assert held[0] < size / 4


@pytest.mark.nightly
def test_files_that_wait_take_no_memory_of_the_gateway(gateway, tmp_path):
    """Six files of 48 MB at once: one of them is in memory, twice, while it is sent."""
    path = tmp_path / "silence.wav"
    soundfile.write(path, np.zeros((3_000_000, 4)), 48_000, subtype="FLOAT")
    size = path.stat().st_size

    async def ask(url: str) -> int:
        data = aiohttp.FormData()
        with path.open("rb") as file:
            data.add_field("file", file, filename=path.name)
            async with aiohttp.ClientSession() as session, session.post(url, data=data) as answer:
                return answer.status

    async def ask_all(url: str) -> list[int]:
        return await asyncio.gather(*(ask(url) for _ in range(6)))

    with watched_gateway(gateway) as (alone, process):
        assert asyncio.run(ask(files_url(alone))) == 200
        with MemorySampler(process.pid, interval_s=0.02) as sampler:
            before_mb = sampler.peak().total_mb
            sampler.forget()
            assert asyncio.run(ask_all(files_url(alone))) == [200] * 6
            grown_mb = sampler.peak().total_mb - before_mb
    assert grown_mb < 3 * size / 1e6


async def test_a_stop_lets_a_file_end_and_refuses_new_ones(gateway, talk, speech, tmp_path):
    """SIGTERM to `conch serve`: readiness fails at once, the file is finished, then Triton ends."""
    command = [*SERVE, *ANY_TRITON_PORTS, "--gateway", "0", "--models", "attention"]
    command += ["--drain-s", "120"]  # for a busy machine
    long = lengthened(talk.path, 40, tmp_path / "talk.wav")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            serving = Gateway(_address_of(process))
            ready = f"{serving.url}/health/ready"
            url = files_url(serving)
            sending = asyncio.create_task(answer_to("POST", url, data=form(long)))
            await asyncio.to_thread(wait_until, lambda: metric(serving, "conch_gateway_files") > 0)
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(
                wait_until, lambda: requests.get(ready, timeout=5).status_code == 503
            )
            refused = await answer_to("POST", url, data=form(speech.path))
            answer = await sending
            assert (answer.status, refused.status) == (200, 503)
            assert len(answer.body["text"]) > 400
            assert process.wait(60) == 0
        finally:
            process.kill()


async def test_a_stop_without_time_tells_everybody_what_it_breaks_off(gateway, talk, tmp_path):
    """A file gets 503, and a streamed one an error event."""
    # A busy machine may take seconds until the process ends.
    long = lengthened(talk.path, 1200, tmp_path / "talk.wav")
    with watched_gateway(gateway, "--drain-s", "0") as (alone, process):
        url = files_url(alone)
        forms = [form(long, stream=stream) for stream in ("false", "true")]
        asking = [asyncio.create_task(answer_to("POST", url, data=data)) for data in forms]
        await asyncio.to_thread(wait_until, lambda: metric(alone, "conch_gateway_files") == 2)
        process.terminate()
        whole, streamed = await asyncio.gather(*asking)
    assert (whole.status, whole.body["error"]["code"]) == (503, "overloaded")
    last = streamed.body
    if streamed.status != 503:  # it has had a part
        last = json.loads(last.strip().splitlines()[-1].removeprefix("data: "))
    assert "could not finish" in last["error"]["message"]


async def test_idle_connections_do_not_hold_up_a_stop(gateway):
    with watched_gateway(gateway) as (alone, process):
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{alone.url}/v1/models") as answer:
                assert answer.status == 200
            assert session.connector is not None
            process.terminate()
            # Well below the minute that the gateway keeps idle connections.
            await asyncio.to_thread(process.wait, 20)


def _address_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if match := re.search(r"gateway +(http://\S+)", line):
            return match[1]
    raise AssertionError("conch serve ended")

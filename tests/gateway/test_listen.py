"""`GET /v1/conch/listen` in front of a real ."""

import asyncio
import re
import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
from audio_files import audio_file, cut
from containers import muxed
from known_models import skip_without
from metrics import metrics_of
from own_gateway import own_gateway
from recordings import Recording, wer
from sockets import listening_to
from subprocesses import output_of
from waiting import wait_until

from conch.client import AsyncClient
from conch.families.turns import MODEL as END_OF_TURN
from conch.gateway.live_session import LiveSession
from conch.gateway.servers import Servers

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
RATE = 16_000
STEP = 10_240
"""Samples of a step of the server."""


async def messages_of(
    url: str, frames: list[bytes], query: str = "", pause_s: float = 0.0
) -> list[dict]:
    """Return the messages of a session that gets these frames, and is closed."""
    async with listening_to(url, query) as socket:
        reading = asyncio.create_task(socket.rest())
        for frame in frames:
            await socket.send(frame)
            await asyncio.sleep(pause_s)
        await socket.say("close")
        result = await reading
    assert socket.code == 1000, result[-1]
    return result


def of_type(messages: list[dict], kind: str) -> list[dict]:
    return [message for message in messages if message["type"] == kind]


def pcm16(waveform: np.ndarray) -> bytes:
    return np.round(waveform * 32767).astype("<i2").tobytes()


async def live_text(server_url: str, waveform: np.ndarray, **options) -> str:
    """Return the text of the same audio without a gateway."""
    async with (
        AsyncClient(server_url) as client,
        client.live(sample_rate=RATE, **options) as stream,
    ):
        for start in range(0, len(waveform), 3200):
            await stream.send(waveform[start : start + 3200])
        return (await stream.finish()).text


@pytest.fixture(scope="module")
def samples(talk: Recording) -> np.ndarray:
    """Return two utterances with a pause of two seconds after each, int16."""
    return soundfile.read(talk.path, dtype="int16")[0]


async def test_frames_of_any_length_give_the_text_of_a_live_stream(
    gateway_url, grpc_url, samples, talk
):
    expected = await live_text(grpc_url, samples, adaptive=False)
    assert wer(talk.text, expected) < 0.3
    for seed in range(3):
        frames = cut(samples.tobytes(), seed, 20_000)
        messages = await messages_of(gateway_url, frames, "adaptive=false&encoding=pcm16")
        end = messages[-1]
        assert end["type"] == "end" and end["text"] == expected
        assert end["duration"] == pytest.approx(len(samples) / RATE, abs=0.01)
        finals = [item for item in of_type(messages, "segment") if item["final"]]
        assert " ".join(item["text"] for item in finals if item["text"]) == expected
        assert [item["index"] for item in finals] == list(range(len(finals)))


async def test_speech_is_told_before_a_step_of_the_server_is_complete(gateway_url, recordings):
    waveform = recordings[4].waveform()
    onset = int(np.argmax(np.abs(waveform) > 0.05))
    begun = waveform[max(0, onset - 1_600) : onset + 6_400]
    assert len(begun) < STEP
    async with listening_to(gateway_url, "encoding=pcm16&turn_events=true") as socket:
        await socket.message("ready")
        await socket.send(pcm16(begun))
        told = await socket.message()
    assert (told["type"], told["index"]) == ("speech_started", 0)
    assert 0 <= told["at"] < len(begun) / RATE


async def test_an_end_that_is_probable_is_told_and_taken_back_by_who_goes_on(
    gateway_url, recordings
):
    skip_without(END_OF_TURN)
    first, second = recordings[4], recordings[0]
    quiet = np.zeros(round(0.4 * RATE), np.float32)
    spoken = np.concatenate([first.waveform(), quiet])
    ends_s = len(spoken) / RATE
    query = "encoding=pcm16&turn_events=true&endpoint_silence_ms=10000"
    async with listening_to(gateway_url, query) as socket:

        async def told(kind: str, after_s: float) -> dict:
            """Return the first message of a type that is not of a pause before."""
            while (message := await socket.message(kind))["at"] < after_s:
                pass
            return message

        await socket.send(pcm16(spoken))
        probable = await told("eager_end", ends_s - 1)
        await socket.send(pcm16(second.waveform()))
        back = await told("resumed", ends_s)
        await socket.say("close")
        *_, segment, _ = [it for it in await socket.rest() if it["type"] in ("segment", "end")]
    assert probable["at"] < ends_s and 0.5 <= probable["probability"] <= 1
    assert {item["index"] for item in (probable, back, segment)} == {0}
    assert segment["text"].lower().startswith(probable["text"].lower().split()[0])
    assert wer(f"{first.text} {second.text}", segment["text"]) < 0.3


async def test_float32_and_g711_are_heard(gateway_url, recordings):
    recording = recordings[4]
    waveform = recording.waveform()
    frames = cut(waveform.astype("<f4").tobytes(), 1, 9999)
    *_, end = await messages_of(gateway_url, frames, "encoding=float32")
    assert wer(recording.text, end["text"]) < 0.3
    for encoding, subtype in (("mulaw", "ULAW"), ("alaw", "ALAW")):
        narrow = soxr.resample(waveform, RATE, 8000)
        file = audio_file(narrow, 8000, format="RAW", subtype=subtype)
        *_, end = await messages_of(gateway_url, cut(file, 2, 999), f"encoding={encoding}")
        assert wer(recording.text, end["text"]) < 0.5
        assert end["duration"] == pytest.approx(len(waveform) / RATE, abs=0.05)


async def test_a_media_recorder_is_heard_live(gateway_url, talk):
    """A browser's MediaRecorder: webm with Opus at 48 kHz, a blob each quarter of a second."""
    spoken = talk.waveform()
    data = muxed(
        spoken, RATE, "webm", "libopus", file_rate=48_000, live="1", cluster_time_limit="250"
    )
    blobs = [data[start : start + 1500] for start in range(0, len(data), 1500)]
    messages = await messages_of(gateway_url, blobs, pause_s=0.05)
    assert messages[0]["encoding"] == "auto"
    assert wer(talk.text, messages[-1]["text"]) < 0.3
    texts = of_type(messages, "text")
    assert texts[0]["audio_s"] < 0.6 * len(spoken) / RATE


async def test_text_grows_while_it_is_spoken(gateway_url, samples):
    frames = [part.tobytes() for part in np.split(samples, range(3200, len(samples), 3200))]
    messages = await messages_of(
        # On a busy machine passes are left out, unless the stream waits for them.
        gateway_url,
        frames,
        "include=stats&word_timestamps=true&adaptive=false",
        pause_s=0.2,
    )
    firm: dict[int, str] = {}
    ended: set[int] = set()
    for message in messages:
        if message["type"] == "segment":
            ended.add(message["index"])
        if message["type"] == "text" and message["text"]:
            index = message["index"]
            assert index not in ended
            assert message["firm"].startswith(firm.get(index, ""))
            firm[index] = message["firm"]
    assert any(firm.values())
    finals = [item for item in of_type(messages, "segment") if item["final"]]
    assert len(finals) == 2
    for item in finals:
        assert [word["text"] for word in item["words"]] == item["text"].split()
        assert item["start"] <= item["words"][0]["start"] < item["words"][-1]["end"] <= item["end"]
    stats = of_type(messages, "stats")[-1]
    assert {"vad", "ctc_streaming_encoder"} <= set(stats["path"]) & set(stats["stages"])
    assert stats["rolling"]["made"] > 0


async def test_finalize_gives_the_text_at_once_and_the_clock_goes_on(gateway_url, recordings):
    data = pcm16(recordings[4].waveform())
    async with listening_to(gateway_url, "encoding=pcm16") as socket:
        begun = []
        for _ in range(2):
            await socket.send(data)
            await socket.say("finalize")
            while True:
                begun.append(await socket.message())
                if begun[-1]["type"] == "finalized":
                    break
        await socket.say("close")
        messages = begun + await socket.rest()
    finals = [item for item in of_type(messages, "segment") if item["final"]]
    length_s = len(data) / 2 / RATE
    assert [item["index"] for item in finals] == list(range(len(finals))) and len(finals) >= 2
    assert finals[0]["start"] < length_s <= finals[-1]["start"] + 0.1
    assert finals[-1]["end"] <= 2 * length_s + 0.1
    assert {item["endpoint"] for item in finals} <= {"finalize", "silence", "length"}
    first = [item["text"] for item in finals if item["start"] < length_s - 0.1]
    second = [item["text"] for item in finals if item["start"] >= length_s - 0.1]
    assert first == second
    assert messages[-1]["duration"] == pytest.approx(2 * length_s, abs=0.01)


async def test_an_utterance_ends_when_audio_stops_and_the_session_goes_on(gateway_url, recordings):
    # From a pause to the end of the last word.
    spoken = recordings[0].waveform()[round(1.65 * RATE) : round(3.95 * RATE)]
    finals: list[dict] = []
    async with listening_to(gateway_url, "encoding=pcm16&endpoint_silence_ms=500") as socket:
        for silence_s in (0, 0.6):
            silence = np.zeros(round(silence_s * RATE), np.float32)
            await socket.send(pcm16(np.concatenate([spoken, silence])))
            num_finals = len(finals)
            while len(finals) == num_finals:
                message = await socket.message()
                if message["type"] == "segment" and message["final"]:
                    finals.append(message)
        await socket.say("close")
        first, second = finals + of_type(await socket.rest(), "segment")
    length_s = len(spoken) / RATE
    for segment, start_s in ((first, 0.0), (second, length_s)):
        assert segment["endpoint"] == "silence"
        assert "safe enough" in segment["text"]
        assert start_s - 0.04 <= segment["start"] < start_s + 1
        assert start_s + 2 < segment["end"]
    assert first["end"] <= length_s


async def test_silence_of_ten_minutes_keeps_the_session(gateway_url, recordings):
    recording = recordings[4]
    silence = bytes(2 * RATE)
    async with listening_to(gateway_url, "encoding=pcm16&include=stats") as socket:
        result = [await socket.message()]
        for second in range(600):
            await socket.send(silence)
            while result[-1].get("audio_s", 0) < second - 20:
                result.append(await socket.message())
        await socket.send(pcm16(recording.waveform()))
        await socket.say("close")
        messages = result + await socket.rest()
    assert not of_type(messages, "error")
    (final,) = [item for item in of_type(messages, "segment") if item["final"]]
    assert final["start"] == pytest.approx(600, abs=1.0)
    assert wer(recording.text, final["text"]) < 0.3
    assert messages[-1]["text"] == final["text"]


async def test_no_text_comes_from_noise(gateway_url):
    random = np.random.default_rng(5)
    noise = pcm16(0.01 * random.standard_normal(20 * RATE).astype(np.float32).clip(-1, 1))
    messages = await messages_of(gateway_url, cut(noise, 3, 50_000), "encoding=pcm16")
    assert messages[-1]["text"] == ""
    assert [item["text"] for item in of_type(messages, "segment") if item["text"]] == []


@pytest.mark.parametrize("after_s", [0.0, 0.3, 1.0, 3.0])
async def test_a_client_that_is_gone_frees_the_servers_stream(
    inner_gateway, metrics_url, samples, after_s
):
    def open_streams() -> float:
        return metrics_of(metrics_url)["conch_open_streams"]

    # Streams of other tests may be about to end.
    wait_until(lambda: open_streams() == 0)
    async with listening_to(inner_gateway.url, "encoding=pcm16") as socket:
        await socket.frame()
        for start in range(0, len(samples), 3200):
            if start / 3200 * 0.1 > after_s:
                break
            await socket.send(samples[start : start + 3200])
            await asyncio.sleep(0.1)
        if after_s >= 1.0:
            await asyncio.to_thread(wait_until, lambda: open_streams() == 1)
        assert socket.socket._response.connection is not None
        socket.socket._response.connection.transport.abort()
    sessions = partial(inner_gateway.metric, "conch_gateway_sessions", route="/v1/conch/listen")
    await asyncio.to_thread(wait_until, lambda: sessions() == 0, 20)
    await asyncio.to_thread(wait_until, lambda: open_streams() == 0, 20)


async def test_a_recording_that_comes_at_once_is_heard_at_the_pace_of_the_server(
    grpc_url, recordings
):
    some = [recordings[4], recordings[0]] * 2
    speech = pcm16(np.concatenate([item.waveform() for item in some]))
    with own_gateway(grpc_url, max_backlog_s=4.0) as running:
        async with listening_to(running.url, "encoding=pcm16") as socket:
            for start in range(0, len(speech), 64_000):
                await socket.send(speech[start : start + 64_000])
            await socket.say("close")
            *_, last = await socket.rest()
    assert socket.code == 1000
    assert wer(" ".join(item.text for item in some), last["text"]) < 0.3


async def test_draining_gives_the_last_text(grpc_url, recordings):
    recording = recordings[4]
    with own_gateway(grpc_url) as running:
        async with listening_to(running.url, "encoding=pcm16") as socket:
            await socket.send(pcm16(recording.waveform()))
            await socket.message("text")
            running.drain()
            messages = await socket.rest()
    assert messages[-1]["type"] == "end" and wer(recording.text, messages[-1]["text"]) < 0.3
    assert socket.code == 1001


async def test_each_frame_has_the_answer_of_a_live_stream(gateway_url, grpc_url, samples):
    frames = np.split(samples, range(8000, len(samples), 8000))
    async with listening_to(gateway_url, "answers=all&encoding=pcm16&mode=streaming") as socket:
        await socket.frame()
        answers = []
        for frame in frames:
            await socket.send(frame)
            answers.append(await socket.message())
        await socket.say("close")
        last, _ = await socket.rest()
    async with (
        AsyncClient(grpc_url) as client,
        client.live(sample_rate=RATE, mode="streaming") as stream,
    ):
        texts = [(await stream.send(frame)).text for frame in frames]
        texts.append((await stream.finish()).text)
    assert [answer["transcript"]["text"] for answer in (*answers, last)] == texts


BROWSER = """
import { readFileSync } from "node:fs";
const page = { textContent: "", append: (text) => { console.log(text); process.exit(0); } };
globalThis.document = { querySelector: () => page };
const delayed = () => new Promise((taken) => setTimeout(taken, 500, null)); // as a person is asked
const navigator = { mediaDevices: { getUserMedia: delayed } };
class MediaRecorder {
  start(ms) {
    const webm = readFileSync("talk.webm");
    let at = 0;
    setInterval(() => {
      const data = new Blob([webm.subarray(at, (at += 2000))]);
      if (data.size) this.ondataavailable({ data });
    }, ms / 10);
  }
}
"""
"""What a browser has and node has not: a page, and a microphone that records a file."""


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_the_programs_of_the_guide_run(gateway_url, talk, recordings, tmp_path, language):
    page = (ROOT / "docs" / "guide" / "websocket.md").read_text()
    (program,) = re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)
    program = program.replace("127.0.0.1:9000", gateway_url.removeprefix("http://"))
    if language == "python":
        soundfile.write(tmp_path / "talk.mp3", talk.waveform(), RATE)
        command = [sys.executable, "-c", program]
    else:
        if shutil.which("node") is None:
            pytest.skip("needs node")
        webm = muxed(talk.waveform(), RATE, "webm", "libopus", file_rate=48_000, live="1")
        (tmp_path / "talk.webm").write_bytes(webm)
        options = ["--experimental-websocket", "--input-type=module", "-e"]
        command = ["node", *options, BROWSER + program]
    said = output_of(*command, cwd=tmp_path)
    # The page ends with its first segment.
    spoken = [recordings[4].text, recordings[0].text][: 2 if language == "python" else 1]
    assert wer(" ".join(spoken), said) < 0.4


async def test_a_live_session_clears_and_reconfigures(grpc_url, recordings):
    first, second = recordings[4], recordings[0]
    servers = Servers((grpc_url,))
    await servers.start()
    try:
        async with (
            servers.reserved() as client,
            LiveSession(client, {}, sample_rate=RATE, max_backlog_s=30) as live,
        ):
            await live.feed(second.waveform())
            live.clear()
            await live.feed(first.waveform())
            live.reconfigure({"mode": "streaming"})
            await live.feed(first.waveform())
            live.close()
            updates = [update async for update in live.updates()]
    finally:
        await servers.close()
    finals = [i.segment for u in updates for i in u.segments if i.is_final]
    length_s, cleared_s = len(first.waveform()) / RATE, len(second.waveform()) / RATE
    by_stream = [
        [item for item in finals if start <= item.start + 0.1 < start + length_s]
        for start in (cleared_s, cleared_s + length_s)
    ]
    assert [item for part in by_stream for item in part] == finals
    passed, streamed = (" ".join(item.text for item in part) for part in by_stream)
    assert wer(first.text, passed) < 0.3
    assert streamed == streamed.lower() and wer(first.text, streamed) < 0.5
    assert updates[-1].audio_s == pytest.approx(cleared_s + 2 * length_s, abs=0.05)

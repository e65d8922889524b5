"""`GET /v1/realtime` in front of a real server, by a client of plain WebSockets."""

import asyncio
import itertools
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
import soundfile
import soxr
from audio_files import audio_file
from own_gateway import OwnGateway, own_gateway
from realtime_client import BUFFER, TEXT, RealtimeClient, connected
from recordings import Recording, wer
from subprocesses import output_of

from conch.client import Client
from conch.gateway.keys import Key, digest, write_keys

pytestmark = pytest.mark.server

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "realtime.md"
RATE = 24_000
PIECE_S = 0.1
VAD = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300}
OPTIONS: dict[str, Any] = {"vad_threshold": 0.5, "vad_pad_ms": 300, "endpoint_silence_ms": 700}
TURNS = {**VAD, "silence_duration_ms": 700}


@pytest.fixture(scope="module")
def talk(recordings: list[Recording]) -> np.ndarray:
    """Return two utterances with a pause of two seconds after each, int16 at 24 kHz."""
    pause = np.zeros(2 * 16_000, np.float32)
    spoken = recordings[4].waveform(), recordings[0].waveform()
    waveform = np.concatenate([part for one in spoken for part in (one, pause)])
    samples = soxr.resample(waveform, 16_000, RATE)
    return (np.clip(samples, -1, 1) * 32767).astype(np.int16)


@pytest.fixture(scope="module")
def reference(recordings: list[Recording]) -> str:
    return f"{recordings[4].text} {recordings[0].text}"


async def speak(client: RealtimeClient, samples: np.ndarray, rate: int = RATE) -> None:
    """Send samples in pieces of 100 ms, faster than they are spoken."""
    audio = samples.astype("<i2").tobytes()
    await client.append_in_pieces(audio, round(2 * rate * PIECE_S))


def check_items(client: RealtimeClient) -> None:
    """Check that every item is told under one id, its events in order.

    Items may be completed in another order than they were committed.
    """
    items = [event["item_id"] for event in client.of(f"{BUFFER}.committed")]
    completed = [event["item_id"] for event in client.of(f"{TEXT}.completed")]
    assert sorted(completed) == sorted(items)
    for item_id in items:
        own = [
            event["type"].rpartition(".")[2]
            for event in client.events
            if event.get("item_id", event.get("item", {}).get("id")) == item_id
        ]
        once = [kind for kind in own if kind != "delta"]
        assert once == [
            *("speech_started", "speech_stopped", "committed", "added", "done", "completed")
        ]
        assert own.index("delta") > own.index("speech_started")
    ids = [event["event_id"] for event in client.events]
    assert len(set(ids)) == len(ids)


async def test_turns_have_the_texts_of_a_live_stream(
    gateway_url: str, grpc_url: str, talk: np.ndarray, reference: str
) -> None:
    with Client(grpc_url) as direct, direct.live(sample_rate=RATE, **OPTIONS) as stream:
        for start in range(0, len(talk), RATE // 2):
            stream.send(talk[start : start + RATE // 2])
        expected = [segment.text for segment in stream.finish().segments]
    assert len(expected) == 2
    async with connected(gateway_url) as client:
        await client.update(turn_detection=TURNS)
        await speak(client, talk)
        await client.until(f"{TEXT}.completed", 2)
    assert client.texts == expected
    assert wer(reference, " ".join(client.texts)) < 0.2
    check_items(client)
    for event in client.of(f"{TEXT}.completed"):
        deltas = client.deltas(event["item_id"])
        # What was firm may be corrected once, by the second pass.
        assert deltas == event["transcript"] or wer(event["transcript"], deltas) < 0.2
        assert 3 < event["usage"]["seconds"] < 7
    started, stopped = (client.of(f"{BUFFER}.speech_{what}") for what in ("started", "stopped"))
    times = [
        time_ms
        for begin, end in zip(started, stopped, strict=True)
        for time_ms in (begin["audio_start_ms"], end["audio_end_ms"])
    ]
    assert times == sorted(times)
    assert times[-1] < 1000 * len(talk) / RATE


async def test_words_come_while_somebody_speaks(gateway_url: str, talk: np.ndarray) -> None:
    """Sends as fast as it is spoken."""
    async with connected(gateway_url) as client:
        await client.update(turn_detection=TURNS, include=["conch.partial"])
        begin = time.monotonic()

        async def speak_slowly() -> None:
            step = round(RATE * PIECE_S)
            for number, start in enumerate(range(0, len(talk), step)):
                await asyncio.sleep(begin + number * PIECE_S - time.monotonic())
                await client.append_samples(talk[start : start + step])

        speaking = asyncio.create_task(speak_slowly())
        first = await client.until(f"{TEXT}.delta")
        assert not speaking.done()
        await client.until(f"{TEXT}.completed", 2)
        await speaking
    own = [e for e in client.of("conch.partial") if e["item_id"] == first["item_id"]]
    assert len(own) > 3
    for event in own:
        text = event["firm"] + event["tentative"] + event["newest"]
        assert text == " ".join(text.split())
    firm = [event["firm"] for event in own]
    assert all(later.startswith(sooner) for sooner, later in itertools.pairwise(firm))


@pytest.mark.parametrize(("kind", "subtype"), [("audio/pcmu", "ULAW"), ("audio/pcma", "ALAW")])
async def test_a_telephone(
    gateway_url: str, talk: np.ndarray, reference: str, kind: str, subtype: str
) -> None:
    samples = soxr.resample(talk.astype(np.float32) / 32768, RATE, 8_000)
    coded = audio_file(samples, 8_000, format="RAW", subtype=subtype)
    async with connected(gateway_url) as client:
        session = await client.update(format={"type": kind}, turn_detection=TURNS)
        assert session["audio"]["input"]["format"] == {"type": kind}
        await client.append_in_pieces(coded, 800)
        await client.until(f"{TEXT}.completed", 2)
    assert wer(reference, " ".join(client.texts)) < 0.35
    check_items(client)


async def test_turns_of_the_client(gateway_url: str, talk: np.ndarray, reference: str) -> None:
    async with connected(gateway_url) as client:
        await client.update(
            turn_detection=None, include=["item.input_audio_transcription.logprobs"]
        )
        await speak(client, talk)
        await client.send(f"{BUFFER}.commit")
        committed = await client.until(f"{BUFFER}.committed")
        whole = await client.until(f"{TEXT}.completed")
        assert whole["item_id"] == committed["item_id"]
        assert wer(reference, whole["transcript"]) < 0.2
        assert whole["usage"]["seconds"] == pytest.approx(len(talk) / RATE, abs=0.001)
        words = [token["token"].strip() for token in whole["logprobs"]]
        assert words == whole["transcript"].split()
        assert all(token["logprob"] <= 0 for token in whole["logprobs"])
        # Silence alone is an item without a text; less than 100 ms are none.
        await speak(client, np.zeros(RATE, np.int16))
        await client.send(f"{BUFFER}.commit")
        assert (await client.until(f"{TEXT}.completed"))["transcript"] == ""
        await client.append_samples(np.zeros(RATE // 20, np.int16))
        await client.send(f"{BUFFER}.commit", event_id="mine")
        error = (await client.until("error"))["error"]
        assert error["code"] == "input_audio_buffer_commit_empty"
        assert error["event_id"] == "mine"
        assert "50 ms" in error["message"]
        # What is cleared is not told.
        await speak(client, talk[: 3 * RATE])
        await client.send(f"{BUFFER}.clear")
        await client.until(f"{BUFFER}.cleared")
        await speak(client, talk)
        await client.send(f"{BUFFER}.commit")
        again = await client.until(f"{TEXT}.completed")
        assert wer(reference, again["transcript"]) < 0.2
    assert not client.of(f"{BUFFER}.speech_started")
    assert len(client.texts) == 3


async def test_settings_may_change_in_mid_session(
    gateway_url: str, talk: np.ndarray, reference: str
) -> None:
    half = len(talk) // 2
    async with connected(gateway_url) as client:
        await client.update(turn_detection=TURNS)
        await speak(client, talk[:half])
        session = await client.update(
            turn_detection=None, transcription={"model": "conch-ctc"}, conch={"nbest": 2}
        )
        assert session["audio"]["input"]["transcription"]["model"] == "conch-ctc"
        await speak(client, talk[half:])
        await client.send(f"{BUFFER}.commit")
        # The second utterance begins before the settings change: the VAD has heard that much of it.
        while len(said := [text for text in client.texts if text]) < 2:
            await client.until(f"{TEXT}.completed")
    first, second = said
    assert first != first.lower(), "Whisper writes capitals"
    assert second == second.lower(), "the CTC model writes none"
    assert wer(reference, f"{first} {second}") < 0.3


async def test_errors_keep_the_session(gateway_url: str, talk: np.ndarray, reference: str) -> None:
    async with connected(gateway_url) as client:
        before = await client.update(turn_detection=TURNS)
        for kind, fields, param in (
            ("response.create", {}, "type"),
            (f"{BUFFER}.append", {"audio": "!"}, "audio"),
            ("session.update", {"session": {"conch": {"colour": 1}}}, "session.conch.colour"),
        ):
            await client.send(kind, event_id="mine", **fields)
            error = (await client.until("error"))["error"]
            assert (error["param"], error["event_id"]) == (param, "mine")
        await client.socket.send_str("no JSON")
        assert (await client.until("error"))["error"]["code"] == "invalid_json"
        assert await client.update() == before
        await speak(client, talk)
        await client.until(f"{TEXT}.completed", 2)
    assert wer(reference, " ".join(client.texts)) < 0.2


async def test_a_language_that_no_model_knows_fails_each_item(
    gateway_url: str, talk: np.ndarray
) -> None:
    async with connected(gateway_url) as client:
        await client.update(transcription={"language": "xx"}, turn_detection=TURNS)
        await speak(client, talk)
        failed = await client.until(f"{TEXT}.failed", 2)
        assert failed["error"]["param"] == "language"
        assert "takes auto or en" in failed["error"]["message"]
        await client.update(transcription={"language": "en"})
        await speak(client, talk)
        await client.until(f"{TEXT}.completed", 2)


async def test_silence_and_noise_give_no_event(gateway_url: str, talk: np.ndarray) -> None:
    noise = np.random.default_rng(1).normal(0, 200, 6 * RATE).astype(np.int16)
    async with connected(gateway_url) as client:
        await client.update(turn_detection=TURNS)
        await speak(client, np.zeros(8 * RATE, np.int16))
        await speak(client, noise)
        await speak(client, talk)
        await client.until(f"{TEXT}.completed", 2)
    started = client.of(f"{BUFFER}.speech_started")
    assert len(started) == 2
    assert started[0]["audio_start_ms"] > 13_000
    check_items(client)


@pytest.fixture(scope="module")
def guarded(grpc_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnGateway]:
    """Yield a gateway that takes one key."""
    keys_file: Path = tmp_path_factory.mktemp("keys") / "keys.json"
    write_keys(keys_file, [Key("me", digest("right"))])
    with own_gateway(grpc_url, keys_file=keys_file) as running:
        yield running


async def test_a_wrong_key_is_refused_before_the_upgrade(guarded: OwnGateway) -> None:
    wrong: dict[str, Any] = {"headers": {"Authorization": "Bearer wrong"}}
    for settings in ({}, wrong):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with connected(guarded.url, **settings):
                pass
        assert refused.value.status == 401


async def test_a_browser_speaks_with_a_client_secret(guarded: OwnGateway, talk: np.ndarray) -> None:
    body = {"session": {"type": "transcription", "audio": {"input": {"turn_detection": None}}}}
    url = f"{guarded.url}/v1/realtime/client_secrets"
    headers = {"Authorization": "Bearer right"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=body, headers=headers) as answer,
    ):
        secret = (await answer.json())["value"]
    protocols = ("realtime", f"openai-insecure-api-key.{secret}")
    async with connected(guarded.url, protocols=protocols) as client:
        assert client.socket.protocol == "realtime"
        await speak(client, talk)
        await client.send(f"{BUFFER}.commit")
        assert (await client.until(f"{TEXT}.completed"))["transcript"]


async def test_a_gateway_that_stops_completes_the_last_text(
    grpc_url: str, talk: np.ndarray, reference: str
) -> None:
    with own_gateway(grpc_url) as running:
        async with connected(running.url) as client:
            await client.update(turn_detection=TURNS)
            await speak(client, talk)
            await client.until(f"{TEXT}.delta")
            running.drain()
            await client.rest()
            assert client.socket.close_code == 1001
        assert wer(reference, " ".join(client.texts)) < 0.2


@pytest.mark.nightly
def test_the_program_of_the_guide(
    gateway_url: str, talk: np.ndarray, reference: str, tmp_path: Path
) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)
    soundfile.write(tmp_path / "talk.wav", talk, RATE)
    here = program.replace("http://127.0.0.1:9000", gateway_url)
    deltas, _, final = output_of(sys.executable, "-c", here, cwd=tmp_path).partition("final:")
    assert wer(reference, final) < 0.2
    assert wer(final, deltas) < 0.2

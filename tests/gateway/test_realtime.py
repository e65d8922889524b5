"""`GET /v1/realtime` in front of a real server, by a client of plain WebSockets."""

from typing import Any

import numpy as np
import pytest
import soxr
from audio_files import audio_file
from own_gateway import own_gateway
from realtime_client import BUFFER, TEXT, RealtimeClient, connected
from recordings import Recording, wer

from conch.client import Client

pytestmark = pytest.mark.server

RATE = 24_000
PIECE_S = 0.1
VAD = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300}
OPTIONS: dict[str, Any] = {"vad_threshold": 0.5, "vad_pad_ms": 300, "endpoint_silence_ms": 700}
TURNS = {**VAD, "silence_duration_ms": 700}


@pytest.fixture(scope="module")
def samples(talk: Recording) -> np.ndarray:
    """Return two utterances with a pause of two seconds after each, int16 at 24 kHz."""
    resampled = soxr.resample(talk.waveform(), 16_000, RATE)
    return (np.clip(resampled, -1, 1) * 32767).astype(np.int16)


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
    gateway_url: str, grpc_url: str, samples: np.ndarray, talk: Recording
) -> None:
    with Client(grpc_url) as direct, direct.live(sample_rate=RATE, **OPTIONS) as stream:
        for start in range(0, len(samples), RATE // 2):
            stream.send(samples[start : start + RATE // 2])
        expected = [segment.text for segment in stream.finish().segments]
    assert len(expected) == 2
    async with connected(gateway_url) as client:
        await client.update(turn_detection=TURNS)
        await speak(client, samples)
        await client.until(f"{TEXT}.completed", 2)
    assert client.texts == expected
    assert wer(talk.text, " ".join(client.texts)) < 0.2
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
    assert times[-1] < 1000 * len(samples) / RATE


@pytest.mark.parametrize(("kind", "subtype"), [("audio/pcmu", "ULAW"), ("audio/pcma", "ALAW")])
async def test_a_telephone(
    gateway_url: str, samples: np.ndarray, talk: Recording, kind: str, subtype: str
) -> None:
    resampled = soxr.resample(samples.astype(np.float32) / 32768, RATE, 8_000)
    coded = audio_file(resampled, 8_000, format="RAW", subtype=subtype)
    async with connected(gateway_url) as client:
        session = await client.update(format={"type": kind}, turn_detection=TURNS)
        assert session["audio"]["input"]["format"] == {"type": kind}
        await client.append_in_pieces(coded, 800)
        await client.until(f"{TEXT}.completed", 2)
    assert wer(talk.text, " ".join(client.texts)) < 0.35
    check_items(client)


async def test_settings_may_change_in_mid_session(
    gateway_url: str, samples: np.ndarray, talk: Recording
) -> None:
    half = len(samples) // 2
    async with connected(gateway_url) as client:
        await client.update(turn_detection=TURNS)
        await speak(client, samples[:half])
        session = await client.update(
            turn_detection=None, transcription={"model": "conch-ctc"}, conch={"nbest": 2}
        )
        assert session["audio"]["input"]["transcription"]["model"] == "conch-ctc"
        await speak(client, samples[half:])
        await client.send(f"{BUFFER}.commit")
        # The second utterance begins before the settings change: the VAD has heard that much of it.
        while len(said := [text for text in client.texts if text]) < 2:
            await client.until(f"{TEXT}.completed")
    first, second = said
    assert first != first.lower(), "Whisper writes capitals"
    assert second == second.lower(), "the CTC model writes none"
    assert wer(talk.text, f"{first} {second}") < 0.3


async def test_a_language_that_no_model_knows_fails_each_item(
    gateway_url: str, samples: np.ndarray
) -> None:
    async with connected(gateway_url) as client:
        await client.update(transcription={"language": "xx"}, turn_detection=TURNS)
        await speak(client, samples)
        failed = await client.until(f"{TEXT}.failed", 2)
        assert failed["error"]["param"] == "language"
        assert "takes auto or en" in failed["error"]["message"]
        await client.update(transcription={"language": "en"})
        await speak(client, samples)
        await client.until(f"{TEXT}.completed", 2)


async def test_silence_and_noise_give_no_event(gateway_url: str, samples: np.ndarray) -> None:
    noise = np.random.default_rng(1).normal(0, 200, 6 * RATE).astype(np.int16)
    async with connected(gateway_url) as client:
        await client.update(turn_detection=TURNS)
        await speak(client, np.zeros(8 * RATE, np.int16))
        await speak(client, noise)
        await speak(client, samples)
        await client.until(f"{TEXT}.completed", 2)
    started = client.of(f"{BUFFER}.speech_started")
    assert len(started) == 2
    assert started[0]["audio_start_ms"] > 13_000
    check_items(client)


async def test_a_gateway_that_stops_completes_the_last_text(
    grpc_url: str, samples: np.ndarray, talk: Recording
) -> None:
    with own_gateway(grpc_url) as running:
        async with connected(running.url) as client:
            await client.update(turn_detection=TURNS)
            await speak(client, samples)
            await client.until(f"{TEXT}.delta")
            running.drain()
            await client.rest()
            assert client.socket.close_code == 1001
        assert wer(talk.text, " ".join(client.texts)) < 0.2

"""`GET /v1/realtime` over a client that never reaches a server."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from http_answers import answer_to
from loop_gateway import LoopGateway, loop_gateway, until
from plain_live import RATE, PlainLiveClient, spoken
from realtime_client import BUFFER, TEXT, RealtimeClient, connected

from conch.gateway import live_session
from conch.gateway.config import Times
from conch.gateway.errors import ApiError
from conch.gateway.keys import Key, digest, write_keys
from conch.gateway.limits import Limits
from conch.gateway.realtime.events import MAX_AUDIO_BYTES, ClientEvent
from conch.wire.errors import (
    ComponentError,
    ConchError,
    OptionError,
    ServerError,
    ServerLostError,
)

FORMAT = {"type": "audio/pcm", "rate": RATE}
ROUTE = "/v1/realtime"


@pytest.fixture
async def client(running: LoopGateway) -> AsyncIterator[RealtimeClient]:
    async with connected(running.url) as client:
        yield client


async def begin(client: RealtimeClient, **parts: Any) -> dict[str, Any]:
    """Return the settings of a session at the rate of the plain server."""
    return await client.update(**{"format": FORMAT, **parts})


async def test_a_session_from_its_first_event_to_its_last(running: LoopGateway) -> None:
    async with connected(running.url) as client:
        created = await client.next()
        assert created["type"] == "session.created"
        session = created["session"]
        assert session["id"].startswith("sess_")
        assert session["object"] == "realtime.transcription_session"
        assert session["type"] == "transcription"
        assert session["expires_at"] > time.time()
        assert session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24_000}
        assert (await begin(client))["id"] == session["id"]
        await client.append_samples(spoken(1, 1.0))
        assert (await client.next())["audio_start_ms"] == 0
        assert (await client.next())["delta"] == "one"
        await client.append_samples(spoken(0, 0.5))
        await client.until(f"{TEXT}.completed")
    item_id = client.of(f"{BUFFER}.committed")[0]["item_id"]
    assert client.kinds[2:] == [
        f"{BUFFER}.speech_started",
        f"{TEXT}.delta",
        f"{BUFFER}.speech_stopped",
        f"{BUFFER}.committed",
        "conversation.item.added",
        "conversation.item.done",
        f"{TEXT}.completed",
    ]
    last = client.events[-1]
    assert (last["item_id"], last["transcript"]) == (item_id, "ONE")
    assert last["usage"] == {"type": "duration", "seconds": 1.0}
    assert len({event["event_id"] for event in client.events}) == len(client.events)
    await until(lambda: running.ended(ROUTE, 1000) == 1)
    assert running.metric("conch_gateway_sessions", route=ROUTE) == 0
    seconds = running.metric("conch_gateway_audio_seconds_total", route=ROUTE, key="anybody")
    assert seconds == pytest.approx(1.5)
    assert running.metric("conch_gateway_first_text_seconds_count", route=ROUTE) == 1
    assert running.client.open == set()


async def test_turns_of_the_client(client: RealtimeClient) -> None:
    await begin(client, turn_detection=None)
    for number in (1, 2):
        await client.append_samples(spoken(number, 1.0))
        await client.commit()
    assert client.texts == ["ONE", "TWO"]
    first, second = client.of(f"{BUFFER}.committed")
    assert second["previous_item_id"] == first["item_id"]
    assert not client.of(f"{BUFFER}.speech_started")
    # What is cleared has no text, and what follows has one.
    await client.append_samples(spoken(3, 1.0))
    await client.send(f"{BUFFER}.clear")
    await client.until(f"{BUFFER}.cleared")
    await client.append_samples(spoken(4, 1.0))
    await client.commit()
    assert client.texts == ["ONE", "TWO", "FOUR"]


async def test_a_commit_that_a_clear_follows_keeps_its_text(client: RealtimeClient) -> None:
    await begin(client, turn_detection=None)
    await client.append_samples(spoken(1, 1.0))
    await client.send(f"{BUFFER}.commit")
    await client.send(f"{BUFFER}.clear")
    await client.append_samples(spoken(2, 1.0))
    await client.send(f"{BUFFER}.commit")
    await client.until(f"{TEXT}.completed", 2)
    assert client.texts == ["ONE", "TWO"]


async def test_settings_may_change_in_mid_session(
    running: LoopGateway, client: RealtimeClient
) -> None:
    await begin(client, include=["conch.partial"])
    await client.append_samples(spoken(1, 1.0))
    await client.until("conch.partial")
    session = await client.update(
        turn_detection=None, transcription={"language": "de"}, conch={"nbest": 3}
    )
    assert session["audio"]["input"]["turn_detection"] is None
    assert session["conch"] == {"nbest": 3}
    await client.until(f"{TEXT}.completed")
    await client.append_samples(spoken(2, 1.0))
    await client.commit()
    assert client.texts == ["ONE", "TWO"]
    first, second = running.client.options
    assert "language" not in first
    assert (second["language"], second["nbest"]) == ("de", 3)


async def test_an_update_of_what_the_server_need_not_know_ends_no_turn(
    running: LoopGateway, client: RealtimeClient
) -> None:
    await begin(client)
    await client.append_samples(spoken(1, 1.0))
    await client.until(f"{TEXT}.delta")
    await client.update(noise_reduction={"type": "near_field"}, include=["conch.partial"])
    await client.append_samples(spoken(2, 1.0))
    partial = await client.until("conch.partial")
    assert partial["firm"] == "one two"
    assert len(running.client.options) == 1


def own(**options: object) -> dict[str, object]:
    return {"type": "session.update", "session": {"conch": options}}


@pytest.mark.parametrize(
    ("sent", "code", "param", "message"),
    [
        ("{", "invalid_json", None, "an event is JSON"),
        ("[" * 100_000, "invalid_json", None, "an event is JSON"),
        ("[]", "invalid_value", "type", "an object with a type"),
        ('{"type": "session.update", "event_id": "\\ud800"}', "invalid_json", None, "surrogates"),
        ({"type": 3}, "invalid_value", "type", "an object with a type"),
        ({"type": "response.create"}, "unknown_event", "type", "takes session.update"),
        ({"type": f"{BUFFER}.append"}, "invalid_value", "audio", "it takes base64"),
        ({"type": f"{BUFFER}.append", "audio": "?"}, "invalid_value", "audio", "damaged"),
        ({"type": f"{BUFFER}.append", "audio": "é"}, "invalid_value", "audio", "damaged"),
        ({"type": f"{BUFFER}.commit"}, "input_audio_buffer_commit_empty", None, "the buffer has 0"),
        ({"type": "session.update"}, "invalid_value", "session", "takes an object"),
        (own(nbest=0), "invalid_value", "session.conch.nbest", "an integer from 1 to 128"),
        (own(lm_weight=10**399), "invalid_value", "session.conch.lm_weight", "number from 0 to 10"),
        (b"audio", "invalid_frame", None, "an event is a text frame"),
    ],
)
async def test_an_error_keeps_the_session_and_its_settings(
    client: RealtimeClient, sent: Any, code: str, param: str | None, message: str
) -> None:
    before = await begin(client)
    event_id = "mine" if isinstance(sent, dict) else None
    if isinstance(sent, dict):
        await client.socket.send_json({**sent, "event_id": event_id})
    elif isinstance(sent, bytes):
        await client.socket.send_bytes(sent)
    else:
        await client.socket.send_str(sent)
    event = await client.next()
    error = event["error"]
    assert (event["type"], error["type"]) == ("error", "invalid_request_error")
    assert (error["code"], error["param"], error["event_id"]) == (code, param, event_id)
    assert message in error["message"]
    assert await client.update() == before
    await client.append_samples(spoken(1, 1.0))
    await client.append_samples(spoken(0, 0.5))
    await client.until(f"{TEXT}.completed")


async def test_the_rate_stays_once_there_was_audio(client: RealtimeClient) -> None:
    await begin(client)
    await client.append_samples(spoken(1, 1.0))
    await client.until(f"{TEXT}.delta")
    wanted = {"type": "transcription", "audio": {"input": {"format": {"rate": 8_000}}}}
    await client.send("session.update", session=wanted, event_id="mine")
    error = (await client.until("error"))["error"]
    assert error["param"] == "session.audio.input.format"
    assert "16000 Hz" in error["message"]
    session = await client.update()
    assert session["audio"]["input"]["format"]["rate"] == RATE


async def test_a_sample_may_be_cut_between_two_appends(client: RealtimeClient) -> None:
    await begin(client, turn_detection=None)
    audio = spoken(1, 1.0).tobytes()
    for piece in (audio[:333], audio[333:334], audio[334:]):
        await client.append(piece)
    completed = await client.commit()
    assert (completed["transcript"], completed["usage"]["seconds"]) == ("ONE", 1.0)


@pytest.mark.parametrize("kind", ["audio/pcmu", "audio/pcma"])
async def test_bytes_of_a_telephone_are_samples_of_8_khz(kind: str) -> None:
    class Deaf(PlainLiveClient):
        """Hears samples of any value as silence."""

        def samples_of(self, request: Any) -> np.ndarray:
            return np.zeros_like(super().samples_of(request))

    async with loop_gateway(Deaf()) as running, connected(running.url) as client:
        await client.update(format={"type": kind}, turn_detection=None)
        await client.append(bytes(8_000))
        completed = await client.commit()
        assert completed["usage"]["seconds"] == 1.0
        assert running.client.options[0]["sample_rate"] == 8_000


async def test_a_long_event_takes_room_of_uploads_and_a_short_one_none() -> None:
    async with loop_gateway(max_upload_mb=0.1) as running, connected(running.url) as client:
        await begin(client, turn_detection=None)
        await client.append_samples(spoken(1, 40.0))
        error = (await client.until("error"))["error"]
        assert error["code"] == "overloaded" and "uploads" in error["message"]
        await client.append_samples(spoken(1, 1.0))
        assert (await client.commit())["usage"]["seconds"] == 1.0


async def test_a_server_without_progress_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_session, "STALL_S", 0.2)
    client = PlainLiveClient()
    async with loop_gateway(client, max_backlog_s=3.0) as running:
        client.is_answering = asyncio.Event()
        async with connected(running.url) as connection:
            await begin(connection)
            await connection.append_samples(spoken(1, 1.0))
            await until(lambda: bool(client.sent))
            for _ in range(4):
                await connection.append_samples(spoken(1, 1.0))
            event = await connection.until("error")
            assert event["error"]["code"] == "overloaded"
            client.is_answering.set()  # the answer that is awaited, so that the stream can be freed
            await connection.rest()
            assert connection.socket.close_code == 1013
        await until(lambda: not client.open)


@pytest.mark.parametrize("written", ["padded", "unpadded", "url-safe", "data URL"])
async def test_base64_is_taken_as_programs_write_it(written: str) -> None:
    audio = np.full(1_002, 1, np.int16).tobytes() + b"\xff\xff"  # with + and /, and of any length
    text = base64.b64encode(audio).decode()
    text = {
        "padded": text,
        "unpadded": text.rstrip("="),
        "url-safe": text.replace("+", "-").replace("/", "_"),
        "data URL": f"data:audio/pcm;base64,{text}",
    }[written]
    async with loop_gateway(PlainLiveClient()) as running, connected(running.url) as client:
        await begin(client, turn_detection=None)
        for _ in range(2):
            await client.send(f"{BUFFER}.append", audio=text)
        seconds = (await client.commit())["usage"]["seconds"]
        assert seconds == pytest.approx(len(audio) / RATE, abs=0.001)
        assert "error" not in client.kinds


async def test_wrong_audio_and_its_commit_have_one_error(client: RealtimeClient) -> None:
    await begin(client, turn_detection=None)
    await client.send(f"{BUFFER}.append", audio="?", event_id="mine")
    await client.send(f"{BUFFER}.commit")
    await client.update()
    assert [event["error"]["event_id"] for event in client.of("error")] == ["mine"]
    await client.send(f"{BUFFER}.commit")
    error = (await client.until("error"))["error"]
    assert error["code"] == "input_audio_buffer_commit_empty"


async def test_a_hundred_appends_that_are_wrong_alike_have_one_error(
    client: RealtimeClient,
) -> None:
    await begin(client, turn_detection=None)
    for number in range(100):
        await client.send(f"{BUFFER}.append", audio="?", event_id=f"bad {number}")
    await client.append_samples(spoken(1, 1.0))
    for number in range(100):
        await client.send(f"{BUFFER}.append", audio="!", event_id=f"again {number}")
    await client.commit()
    assert [event["error"]["event_id"] for event in client.of("error")] == ["bad 0", "again 0"]
    assert client.texts == ["ONE"]


@pytest.mark.parametrize("piece_s", [0.1, 80.0])
async def test_audio_that_comes_faster_than_it_is_heard_waits_and_is_finished(
    piece_s: float,
) -> None:
    server = PlainLiveClient(latency_s=0.02)
    async with loop_gateway(server) as running, connected(running.url) as client:
        await begin(client, turn_detection=None)
        samples = np.concatenate([spoken(1, 80.0), spoken(2, 50.0)])
        size = round(piece_s * RATE)
        for start in range(0, len(samples), size):
            await client.append_samples(samples[start : start + size])
        completed = await client.commit()
    assert completed["transcript"] == "ONE TWO"
    assert completed["usage"]["seconds"] == pytest.approx(130.0)
    assert sum(item.seconds for item in server.sent) == pytest.approx(130.0)
    assert "error" not in client.kinds


async def test_a_client_that_waits_for_room_is_answered_its_pings() -> None:
    server = PlainLiveClient(is_answering=asyncio.Event())
    async with (
        loop_gateway(server) as running,
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{running.url}{ROUTE}", autoping=False) as socket,
    ):
        audio = base64.b64encode(spoken(1, 80.0).tobytes()).decode()
        await socket.send_json({"type": f"{BUFFER}.append", "audio": audio})
        await until(lambda: bool(server.sent))
        await socket.ping(b"still there?")
        while (frame := await socket.receive()).type is not aiohttp.WSMsgType.PONG:
            assert frame.type is aiohttp.WSMsgType.TEXT
        assert frame.data == b"still there?"
        assert server.is_answering is not None
        server.is_answering.set()


def test_audio_of_more_bytes_than_an_event_takes_is_not_decoded() -> None:
    event = ClientEvent({"audio": "?" * (MAX_AUDIO_BYTES * 4 // 3 + 4)})
    with pytest.raises(ApiError, match=r"at most 15728640 bytes; sent: 15728643"):
        _ = event.audio


async def test_a_limit_that_is_used_up_ends_the_session() -> None:
    async with (
        loop_gateway(limits=Limits(audio_s_per_minute=2.0)) as running,
        connected(running.url) as client,
    ):
        await begin(client)
        await client.append_samples(spoken(1, 3.0))
        rest = await client.rest()
        assert rest[-1]["error"]["code"] == "rate_limit_exceeded"
        # What was heard has its text.
        assert client.texts == ["ONE"]
        assert client.socket.close_code == 1008


@pytest.mark.parametrize(
    ("error", "code", "close_code"),
    [
        (ServerError("no answer"), "no_server", 1013),
        (ComponentError("the encoder failed"), "component_failed", 1011),
        (OptionError("option 'language' takes en; sent: 'xx'"), "invalid_value", 1008),
    ],
)
async def test_a_failure_of_the_server_fails_the_items_and_ends_the_session(
    error: ConchError, code: str, close_code: int
) -> None:
    server = PlainLiveClient(fail=lambda sent: error if len(server.sent) > 1 else None)
    async with loop_gateway(server) as running, connected(running.url) as connection:
        await begin(connection)
        await connection.append_samples(spoken(1, 1.0))
        await connection.until(f"{TEXT}.delta")
        await connection.append_samples(spoken(2, 1.0))
        failed, last = (await connection.rest())[-2:]
        assert (failed["type"], failed["error"]["code"]) == (f"{TEXT}.failed", code)
        assert (last["type"], last["error"]["code"]) == ("error", code)
        assert connection.socket.close_code == close_code


@pytest.mark.parametrize("detects", [{}, {"turn_detection": None}], ids=["turns", "manual"])
@pytest.mark.parametrize("lost_at", [3, 5])
async def test_a_lost_server_takes_nothing_back(lost_at: int, detects: dict[str, Any]) -> None:
    error = ServerLostError("lost the connection", had_request=False)
    server = PlainLiveClient(fail=lambda sent: error if len(server.sent) == lost_at else None)

    def sent_more_than(number: int) -> bool:
        return len(server.sent) > number

    async with loop_gateway(server) as running:
        async with connected(running.url) as connection:
            await begin(connection, **detects)
            for number, seconds in ((1, 0.6), (0, 0.1), (2, 0.6), (0, 0.5), (3, 0.6)):
                num_sent = len(server.sent)
                await connection.append_samples(spoken(number, seconds))
                await until(partial(sent_more_than, num_sent))
            if detects:
                await connection.commit()
            running.gateway.draining.set()
            await connection.rest()
        assert connection.socket.close_code == 1001
        assert " ".join(connection.texts).lower().split() == ["one", "two", "three"]
        said = " ".join(event["delta"] for event in connection.of(f"{TEXT}.delta"))
        assert said.lower().split() == ["one", "two", "three"]
        assert not connection.of("error") and not connection.of(f"{TEXT}.failed")
        assert len(server.streams) > len(server.options)


async def test_a_gateway_that_stops_completes_the_last_texts(running: LoopGateway) -> None:
    async with connected(running.url) as client, connected(running.url) as silent:
        await begin(client, turn_detection=None)
        await silent.next()
        await client.append_samples(spoken(1, 1.0))
        await client.until(f"{TEXT}.delta")
        running.gateway.draining.set()
        rest = await client.rest()
        assert [event["type"] for event in rest] == [
            f"{BUFFER}.committed",
            "conversation.item.added",
            "conversation.item.done",
            f"{TEXT}.completed",
        ]
        assert client.texts == ["ONE"]
        assert client.socket.close_code == 1001
        assert await silent.rest() == []
        assert silent.socket.close_code == 1001


async def test_a_session_that_lasts_too_long_ends_with_its_last_text() -> None:
    async with loop_gateway(max_session_s=1.0) as running, connected(running.url) as client:
        await begin(client)
        await client.append_samples(spoken(1, 1.0))
        await client.until("error")
        assert client.events[-1]["error"]["code"] == "session_expired"
        await client.rest()
        assert client.texts == ["ONE"]
        assert client.socket.close_code == 1008


async def test_a_client_that_goes_away_frees_the_stream(running: LoopGateway) -> None:
    async with connected(running.url) as client:
        await begin(client)
        await client.append_samples(spoken(1, 1.0))
        await client.until(f"{TEXT}.delta")
        assert running.client.open
        connection = client.socket._response.connection
        assert connection is not None and connection.transport is not None
        connection.transport.abort()
    await until(lambda: not running.client.open)
    await until(lambda: not running.metric("conch_gateway_sessions", route=ROUTE))


@pytest.mark.parametrize("flood", ["audio", "unknown events", "no JSON"])
async def test_a_client_that_does_not_read_is_left(flood: str) -> None:
    async with (
        loop_gateway(unsent_bytes=4096, times=Times(ping_s=1.0, send_s=0.5)) as running,
        connected(running.url, unread_bytes=4096) as client,
    ):
        await begin(client, include=["conch.partial"])
        connection = client.socket._response.connection
        assert connection is not None and connection.transport is not None
        connection.transport.pause_reading()

        async def send() -> None:
            await client.append_samples(spoken(1, 0.2))
            while True:
                if flood == "audio":
                    # Twenty words, so that there is soon much to read.
                    words = [spoken(1, 0.01), spoken(2, 0.01)] * 10
                    await client.append_samples(np.concatenate(words))
                elif flood == "no JSON":
                    await client.socket.send_str("?")
                else:
                    # Its error, and what there is to read, has the name.
                    await client.send("?", event_id="x" * 10_000)

        sending = asyncio.create_task(send())
        await until(lambda: not running.metric("conch_gateway_sessions", route=ROUTE))
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert not running.client.open


async def test_the_protocols_of_browsers(running: LoopGateway) -> None:
    key = "openai-insecure-api-key.hush"
    async with connected(running.url, protocols=("realtime", key)) as client:
        assert client.socket.protocol == "realtime"
        assert (await client.next())["type"] == "session.created"
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with connected(running.url, protocols=(key,)):
            pass
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "settings",
    [
        {"headers": {"OpenAI-Beta": "realtime=v1"}},
        {"protocols": ("realtime", "openai-beta.realtime-v1")},
    ],
)
async def test_clients_of_the_beta_hear_its_events(
    running: LoopGateway, settings: dict[str, Any]
) -> None:
    async with connected(running.url, **settings) as client:
        created = await client.next()
        assert created["type"] == "transcription_session.created"
        assert created["session"]["input_audio_format"] == "pcm16"
        # The beta had one rate only.
        wanted = {"input_audio_format": "g711_ulaw", "turn_detection": None}
        await client.send("transcription_session.update", session=wanted)
        updated = await client.until("transcription_session.updated")
        assert updated["session"]["input_audio_format"] == "g711_ulaw"
        await client.append(bytes([0xFF] * 8_000))
        await client.commit()
    assert "conversation.item.created" in client.kinds
    assert "conversation.item.added" not in client.kinds


async def test_a_model_in_the_address_is_taken_if_it_is_one_of_ours(running: LoopGateway) -> None:
    for query, model in (("model=conch-ctc", "conch-ctc"), ("model=gpt-realtime", "conch")):
        async with connected(running.url, query) as client:
            session = (await client.next())["session"]
            assert session["audio"]["input"]["transcription"]["model"] == model


async def test_without_an_upgrade_the_answer_tells_what_to_do(running: LoopGateway) -> None:
    answer = await answer_to("GET", f"{running.url}{ROUTE}")
    assert answer.status == 426
    assert "ws://" in answer.body["error"]["message"]


async def test_a_wrong_key_is_refused_before_the_upgrade(tmp_path: Path, caplog: Any) -> None:
    keys_file = tmp_path / "keys.json"
    write_keys(keys_file, [Key("me", digest("right"))])
    with caplog.at_level("DEBUG"):
        async with loop_gateway(keys_file=keys_file) as running:
            for settings in (
                {},
                {"headers": {"Authorization": "Bearer wrong"}},
                {"protocols": ("realtime", "openai-insecure-api-key.wrong")},
            ):
                with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                    async with connected(running.url, **settings):
                        pass
                assert refused.value.status == 401
            for settings in (
                {"headers": {"Authorization": "Bearer right"}},
                {"protocols": ("realtime", "openai-insecure-api-key.right")},
            ):
                async with connected(running.url, **settings) as client:
                    assert (await client.next())["type"] == "session.created"
    assert "right" not in caplog.text
    assert "wrong" not in caplog.text


async def posted(
    running: LoopGateway, path: str, body: Any, key: str = "", status: int = 200
) -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    data = body if isinstance(body, str | bytes) else json.dumps(body)
    answer = await answer_to("POST", f"{running.url}{ROUTE}/{path}", data=data, headers=headers)
    assert answer.status == status
    return answer.body


async def test_a_client_secret_opens_sessions_with_its_settings(tmp_path: Path) -> None:
    keys_file = tmp_path / "keys.json"
    write_keys(keys_file, [Key("me", digest("right"))])
    async with loop_gateway(keys_file=keys_file) as running:
        session = {
            "type": "transcription",
            "audio": {"input": {"format": FORMAT, "transcription": {"language": "de"}}},
        }
        body = {"expires_after": {"anchor": "created_at", "seconds": 60}, "session": session}
        made = await posted(running, "client_secrets", body, "right")
        assert made["value"].startswith("ek_")
        assert 58 <= made["expires_at"] - time.time() <= 61
        assert made["session"]["type"] == "transcription"
        assert made["session"]["audio"]["input"]["transcription"]["language"] == "de"
        protocols = ("realtime", f"openai-insecure-api-key.{made['value']}")
        for _ in range(2):
            async with connected(running.url, protocols=protocols) as client:
                assert client.socket.protocol == "realtime"
                audio_input = (await client.next())["session"]["audio"]["input"]
                assert audio_input["format"] == FORMAT
                assert audio_input["transcription"]["language"] == "de"
        refused = await posted(running, "client_secrets", {}, made["value"], 401)
        assert refused["error"]["code"] == "invalid_api_key"
        await until(lambda: running.ended(ROUTE, 1000, "me") == 2)


async def test_a_session_of_the_beta_has_its_secret(running: LoopGateway) -> None:
    body = {
        "input_audio_format": "g711_alaw",
        "client_secret": {"expires_at": {"anchor": "created_at", "seconds": 20}},
    }
    made = await posted(running, "transcription_sessions", body)
    assert made["object"] == "realtime.transcription_session"
    assert made["input_audio_format"] == "g711_alaw"
    assert 18 <= made["client_secret"]["expires_at"] - time.time() <= 21
    headers = {"Authorization": f"Bearer {made['client_secret']['value']}"}
    async with connected(running.url, headers=headers) as client:
        audio_input = (await client.next())["session"]["audio"]["input"]
        assert audio_input["format"] == {"type": "audio/pcma"}
    assert (await posted(running, "transcription_sessions", ""))["id"].startswith("sess_")


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        *(
            ("client_secrets", wrong, "body")
            for wrong in ("{", "[]", b"\xff", '"' + "x" * 9_000 + '"')
        ),
        ("client_secrets", b'{"session": {"include": "\\ud800"}}', "body"),
        ("client_secrets", {"expires_after": 60}, "expires_after"),
        ("client_secrets", {"expires_after": {"anchor": "now"}}, "expires_after"),
        ("client_secrets", {"expires_after": {"seconds": 5}}, "expires_after.seconds"),
        ("client_secrets", {"session": {"type": "realtime"}}, "session.type"),
        ("client_secrets", {"session": [1]}, "session"),
        (
            "client_secrets",
            {"session": {"audio": {"input": {"transcription": {"model": "gpt-9"}}}}},
            "session.audio.input.transcription.model",
        ),
        (
            "transcription_sessions",
            {"client_secret": {"expires_at": {"seconds": 9}}},
            "client_secret.expires_at.seconds",
        ),
        ("transcription_sessions", {"input_audio_format": "mp3"}, "session.input_audio_format"),
    ],
)
async def test_a_wrong_wish_for_a_secret(
    running: LoopGateway, path: str, body: Any, param: str
) -> None:
    status = 404 if param.endswith(".model") else 400
    error = (await posted(running, path, body, status=status))["error"]
    assert error["param"] == param


async def test_a_secret_counts_as_a_request() -> None:
    async with loop_gateway(limits=Limits(requests_per_minute=1)) as running:
        await posted(running, "client_secrets", {})
        refused = await posted(running, "transcription_sessions", {}, status=429)
        assert refused["error"]["code"] == "rate_limit_exceeded"


async def test_the_largest_append_fits_into_a_message(client: RealtimeClient) -> None:
    await begin(client)
    await client.append(bytes(MAX_AUDIO_BYTES))
    await client.update()
    assert "error" not in client.kinds
    await client.append(bytes(MAX_AUDIO_BYTES + 3))
    message = (await client.until("error"))["error"]["message"]
    assert "takes at most 15728640 bytes; sent: 15728643" in message

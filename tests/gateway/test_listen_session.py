"""`GET /v1/conch/listen` over a client that never reaches a server."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import cast

import aiohttp
import numpy as np
import pytest
from audio_files import audio_file
from http_answers import answer_to
from loop_gateway import LoopGateway, loop_gateway, until
from plain_live import PlainLiveClient, spoken
from sockets import Socket, listening_to

from conch.audio.decoder import MAX_TAG_BYTES
from conch.gateway.config import Times
from conch.gateway.limits import Limits
from conch.gateway.listen import query_of
from conch.wire.errors import AudioError, ComponentError, ConchError, OverloadedError, ServerError

ROUTE = "/v1/conch/listen"


@pytest.fixture(name="socket")
async def default_socket(running: LoopGateway) -> AsyncIterator[Socket]:
    async with listening_to(running.url) as socket:
        yield socket


@pytest.mark.parametrize(
    ("query", "param", "message"),
    [
        ("beam_sise=3", None, "unknown option 'beam_sise'; did you mean 'beam_size'"),
        ("sample_rat=3", None, "did you mean 'sample_rate'"),
        ("beam_size=x", "beam_size", "takes an integer from 1 to 128; sent: 'x'"),
        ("beam_size=0", "beam_size", "takes an integer from 1 to 128; sent: 0"),
        ("mode=offline", "mode", "cannot be offline"),
        ("encoding=opus", "encoding", "takes auto, pcm16, float32, mulaw, alaw, container"),
        ("sample_rate=300", "sample_rate", "takes 4000 to 192000 Hz; sent: '300'"),
        ("sample_rate=fast", "sample_rate", "takes 4000 to 192000 Hz; sent: 'fast'"),
        ("include=all", "include", "takes stats, resume"),
        ("told_s=61", "told_s", "0 to 60 seconds"),
        ("told_s=soon", "told_s", "0 to 60 seconds"),
        ("answers=all", "encoding", "send encoding as pcm16"),
        ("language=en&language=de", "language", "'language' comes once"),
        ("model=whisper-9", "model", "no model 'whisper-9'; this server has conch"),
    ],
)
async def test_a_wrong_query_is_answered_before_the_upgrade(
    running: LoopGateway, query: str, param: str | None, message: str
) -> None:
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    url = f"{running.url}{ROUTE}?{query}"
    answer = await answer_to("GET", url, headers=headers)
    error = answer.body["error"]
    assert answer.status == (404 if param == "model" else 400)
    assert message in error["message"]
    assert param is None or error["param"] == param
    # A plain GET tells it too: a browser does not show why a socket is refused.
    plain = await answer_to("GET", url)
    assert (plain.status, plain.body) == (answer.status, answer.body)


def test_what_is_empty_is_not_sent() -> None:
    names = ("encoding", "sample_rate", "model", "include", "answers", "told_s", "nbest", "itn")
    assert query_of([(name, "") for name in names], {}) == query_of([], {})
    assert query_of([("nbest", ""), ("itn", "1")], {}).options.sent == {"itn": True}


async def test_without_an_upgrade_the_answer_tells_what_to_do(running: LoopGateway) -> None:
    answer = await answer_to("GET", f"{running.url}{ROUTE}")
    assert answer.status == 426
    assert "ws://" in answer.body["error"]["message"]


async def test_a_browsers_subprotocol_is_answered_and_a_lone_key_is_never_logged(
    running: LoopGateway, caplog
) -> None:
    with caplog.at_level("DEBUG"):
        key = "openai-insecure-api-key.secret"
        async with listening_to(running.url, protocols=("conch", key)) as socket:
            assert socket.socket.protocol == "conch"
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with listening_to(running.url, protocols=(key,)):
                pass
        assert refused.value.status == 400
    assert "secret" not in caplog.text


async def test_a_session_from_its_first_message_to_its_end(running: LoopGateway) -> None:
    async with listening_to(running.url, "word_timestamps=true") as socket:
        ready = await socket.message()
        assert ready.pop("session").startswith("sess_")
        assert ready.pop("expires_at") > 1_700_000_000
        assert ready == {"type": "ready", "encoding": "auto", "sample_rate": 16000}
        await socket.send(spoken(1, 1.0))
        text = await socket.message()
        assert text == {
            "type": "text",
            "index": 0,
            "start": 0.0,
            "firm": "one",
            "tentative": "",
            "newest": "",
            "text": "one",
            "audio_s": 1.0,
        }
        await socket.send(spoken(0, 0.5))
        segment = await socket.message()
        word = {"text": "one", "start": 0.0, "end": 1.0, "confidence": 1.0}
        assert segment == {
            "type": "segment",
            "index": 0,
            "start": 0.0,
            "end": 1.0,
            "text": "one",
            "final": False,
            "endpoint": "silence",
            "words": [word],
        }
        assert await socket.message() == {**segment, "text": "ONE", "final": True}
        await socket.send(spoken(2, 0.1))
        await socket.say("keepalive")
        await socket.say("close")
        rest = await socket.rest()
    assert [message["type"] for message in rest] == ["text", "segment", "end"]
    assert (rest[1]["text"], rest[1]["endpoint"], rest[1]["final"]) == ("TWO", "end", True)
    assert rest[-1] == {"type": "end", "text": "ONE TWO", "duration": 1.6}
    assert socket.code == 1000
    assert running.client.open == set()
    await until(lambda: running.ended(ROUTE, 1000) == 1)
    assert running.metric("conch_gateway_sessions", route=ROUTE) == 0
    labels = {"route": ROUTE, "key": "anybody"}
    assert running.metric("conch_gateway_audio_seconds_total", **labels) == pytest.approx(1.6)
    assert running.metric("conch_gateway_first_text_seconds_count", route=ROUTE) == 1
    assert running.client.options[0]["word_timestamps"] is True


async def test_finalize_is_answered_after_its_segment(socket: Socket) -> None:
    await socket.send(spoken(1, 1.0))
    await socket.say("finalize")
    await socket.say("finalize")
    result = [await socket.message() for _ in range(5)]
    assert [m["type"] for m in result] == [*("ready", "text", "segment", "finalized", "finalized")]
    assert (result[2]["text"], result[2]["endpoint"]) == ("ONE", "finalize")
    await socket.send(spoken(2, 1.0))
    await socket.say("close")
    rest = await socket.rest()
    assert [m["index"] for m in rest if m["type"] == "segment"] == [1]
    assert rest[-1]["text"] == "ONE TWO"


async def test_stats_are_sums_over_the_session(running: LoopGateway) -> None:
    async with listening_to(running.url, "include=stats") as socket:
        for _ in range(2):
            await socket.send(spoken(1, 1.0))
            await socket.say("finalize")
        await socket.say("close")
        stats = [message for message in await socket.rest() if message["type"] == "stats"]
    calls = [message["stages"]["vad"]["calls"] for message in stats]
    assert calls == list(range(1, len(stats) + 1)) and len(stats) >= 4
    assert stats[-1]["stages"]["total"] == {"calls": len(stats), "ms": 3.0 * len(stats)}
    assert stats[-1]["path"] == ["vad"]
    assert stats[-1]["rolling"]["interval_ms"] == 1280


async def test_with_answers_all_each_frame_has_one_transcript() -> None:
    client = PlainLiveClient(latency_s=0.05)
    async with loop_gateway(client) as running:
        async with listening_to(running.url, "answers=all&encoding=pcm16") as socket:
            assert (await socket.message())["type"] == "ready"
            for seconds in (0.02, 0.0, 1.0):
                await socket.send(spoken(1, seconds))
            answers = [await socket.message() for _ in range(3)]
            assert [a["transcript"]["duration"] for a in answers] == [0.02, 0.02, 1.02]
            await socket.send(spoken(0, 0.5))
            ended = (await socket.message())["transcript"]["segments"]
            assert [(item["text"], item["passes"]) for item in ended] == [("one", 1)]
            # The second pass comes with a question of the gateway, and waits for the next frame.
            await until(lambda: len(client.sent) > 4)
            await socket.send(spoken(0, 0.1))
            passed = (await socket.message())["transcript"]["segments"]
            assert [(item["text"], item["passes"]) for item in passed] == [("ONE", 2)]
            await socket.say("finalize")
            assert (await socket.message())["error"]["code"] == "unknown_message"
            await socket.say("close")
            last, end = await socket.rest()
            assert last["transcript"]["is_final"] and end["text"] == "ONE"
        assert client.options[0]["history_s"] == 600


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"type": 3}', '{"type": "shout"}'])
async def test_an_unknown_message_keeps_the_session(socket: Socket, text: str) -> None:
    await socket.socket.send_str(text)
    error = (await socket.message("error"))["error"]
    assert error["code"] == "unknown_message" and "finalize" in error["message"]
    await socket.send(spoken(1, 1.0))
    await socket.say("close")
    assert (await socket.rest())[-1]["text"] == "ONE"


async def test_a_sample_that_is_no_number_keeps_the_session(running: LoopGateway) -> None:
    async with listening_to(running.url, "encoding=float32") as socket:
        await socket.send(np.array([0.1, np.nan], np.float32))
        error = (await socket.message("error"))["error"]
        assert error["code"] == "invalid_audio" and "NaN or infinite" in error["message"]
        await socket.send(np.array([30_000.0], np.float32))
        assert "reaches 30000" in (await socket.message("error"))["error"]["message"]
        await socket.send(spoken(1, 1.0).astype(np.float32))
        await socket.say("close")
        assert (await socket.rest())[-1]["text"] == "ONE"


@pytest.mark.parametrize(
    ("query", "data", "message"),
    [
        ("", b"%PDF-1.7" + bytes(100), "a PDF, not audio"),
        ("", b"<html>" * 20, "text, not audio"),
        ("encoding=container", bytes(100), "no container that is known"),
        ("", b"\x1aE\xdf\xa3" + bytes(range(1, 200)) * 50, "the audio"),
    ],
)
async def test_what_is_no_audio_ends_the_session(
    running: LoopGateway, query: str, data: bytes, message: str
) -> None:
    async with listening_to(running.url, query) as socket:
        await socket.send(data)
        await socket.say("close")
        error = (await socket.rest())[-2]
        assert error["type"] == "error" and message in error["error"]["message"]
        assert (error["error"]["code"], error["error"]["param"]) == ("invalid_audio", None)
        assert socket.code == 1008


@pytest.mark.parametrize(("size", "is_taken"), [(4 * 2**20 - 2, True), (4 * 2**20, False)])
async def test_a_frame_that_is_too_large_ends_the_session(
    running: LoopGateway, size: int, is_taken: bool
) -> None:
    # Of the highest rate, so that the audio of a frame may wait.
    async with listening_to(running.url, "encoding=pcm16&sample_rate=192000") as socket:
        with contextlib.suppress(ConnectionError):  # while the rest of a frame is sent
            await socket.send(bytes(size))
            await socket.say("close")
            await socket.rest()
        assert (socket.code == 1000) is is_taken
    num_samples = sum(round(chunk.seconds * 16_000) for chunk in running.client.sent)
    assert num_samples == (size // 2 if is_taken else 0)


async def test_audio_that_is_sent_at_once_is_heard_at_the_pace_of_the_server() -> None:
    client = PlainLiveClient(latency_s=0.05)
    async with (
        loop_gateway(client) as running,
        listening_to(running.url, "encoding=pcm16") as socket,
    ):
        for _ in range(80):
            await socket.send(spoken(1, 1.0))
        await socket.say("close")
        assert (await socket.rest())[-1] == {"type": "end", "text": "ONE", "duration": 80.0}
        assert socket.code == 1000


async def test_what_was_heard_before_wrong_audio_is_told_before_the_error(socket: Socket) -> None:
    wav = audio_file(np.ones(16_000, np.float32), 16_000, "FLOAT")
    await socket.send(wav)
    await socket.message("text")
    await socket.send(bytes(MAX_TAG_BYTES + 1))
    *_, segment, error, end = await socket.rest()
    assert (segment["text"], segment["final"]) == ("ONE", True)
    assert error["error"]["code"] == "invalid_audio"
    assert "has ended after 1.0 s" in error["error"]["message"]
    assert end == {"type": "end", "text": "ONE", "duration": 1.0}
    assert socket.code == 1008


async def test_codes_that_clients_choose_are_one_label(running: LoopGateway) -> None:
    for code in (3000, 4999):
        async with listening_to(running.url) as socket:
            await socket.message("ready")
            await socket.socket.close(code=code)
    await until(lambda: running.ended(ROUTE, "other") == 2)


async def test_a_limit_of_the_key_ends_the_session() -> None:
    async with loop_gateway(limits=Limits(audio_s_per_minute=5.0)) as running:
        async with listening_to(running.url, "encoding=pcm16") as socket:
            for _ in range(3):
                await socket.send(spoken(1, 2.0))
                await asyncio.sleep(0.1)
            rest = await socket.rest()
            segment, failure, end = rest[-3:]
            assert segment["final"] and segment["text"] == end["text"] == "ONE"
            error = failure["error"]
            assert error["code"] == "rate_limit_exceeded"
            assert error["type"] == "rate_limit_error"
            assert "5 seconds of audio a minute" in error["message"]
            assert socket.code == 1008
        await until(lambda: running.client.open == set())


async def test_streams_at_once_are_refused_before_the_upgrade() -> None:
    async with loop_gateway(max_sessions=1) as running, listening_to(running.url):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with listening_to(running.url):
                pass
        assert refused.value.status == 503
        assert int(refused.value.headers["Retry-After"]) > 0


async def test_draining_ends_a_session_with_its_last_text(
    running: LoopGateway, socket: Socket
) -> None:
    await socket.send(spoken(1, 1.0))
    await socket.message("text")
    running.gateway.draining.set()
    rest = await socket.rest()
    assert [message["type"] for message in rest] == ["segment", "end"]
    assert rest[-1]["text"] == "ONE"
    assert socket.code == 1001
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with listening_to(running.url):
            pass
    assert refused.value.status == 503


async def test_the_longest_session_ends_with_its_last_text() -> None:
    async with loop_gateway(max_session_s=1.0) as running, listening_to(running.url) as socket:
        await socket.send(spoken(1, 0.5))
        rest = await socket.rest()
        assert "session_expired" in [m["error"]["code"] for m in rest if m["type"] == "error"]
        assert rest[-1] == {"type": "end", "text": "ONE", "duration": 0.5}
        assert socket.code == 1008


@pytest.mark.parametrize(
    ("failure", "code", "name"),
    [
        (ComponentError("broken"), 1011, "component_failed"),
        (OverloadedError("full"), 1013, "overloaded"),
        (ServerError("gone"), 1013, "no_server"),
        (AudioError("too loud"), 1008, "invalid_audio"),
    ],
)
async def test_a_failure_of_the_server_is_told(failure: ConchError, code: int, name: str) -> None:
    client = PlainLiveClient(fail=lambda sent: failure)
    async with loop_gateway(client) as running:
        async with listening_to(running.url) as socket:
            await socket.send(spoken(1, 1.0))
            rest = await socket.rest()
            assert [message["type"] for message in rest] == ["ready", "error"]
            assert rest[-1]["error"]["code"] == name
            assert socket.code == code
        # A server that cannot be reached is looked at.
        assert running.servers.errors == ([failure] if isinstance(failure, ServerError) else [])


async def test_pings_and_close_frames_without_a_code_are_answered(running: LoopGateway) -> None:
    async with listening_to(running.url, autoping=False, autoclose=False) as client:
        await client.message("ready")
        await client.socket.ping(b"there?")
        pong = await client.socket.receive()
        assert (pong.type, pong.data) == (aiohttp.WSMsgType.PONG, b"there?")
        await client.socket._writer.send_frame(b"", aiohttp.WSMsgType.CLOSE)
        assert (await client.socket.receive()).type == aiohttp.WSMsgType.CLOSE
    await until(lambda: running.ended(ROUTE, 1005) == 1)
    assert not running.metric("conch_gateway_cancelled_total", route=ROUTE)


@pytest.mark.parametrize("how", ["close frame", "abort"])
@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.2, 1.0])
async def test_a_client_that_is_gone_frees_the_stream(how: str, after_s: float, caplog) -> None:
    caplog.set_level("INFO")
    client = PlainLiveClient(latency_s=0.1)
    async with loop_gateway(client) as running:
        async with listening_to(running.url) as socket:
            await socket.message("ready")
            await socket.send(spoken(1, 1.0))
            await asyncio.sleep(after_s)
            if how == "abort":
                socket.socket._response.connection.transport.abort()
        sessions = {"route": ROUTE}
        await until(lambda: running.metric("conch_gateway_sessions", **sessions) == 0)
        await asyncio.gather(*running.gateway.freeing)
        assert client.open == set()
        # Only one that has sent no close frame has broken off.
        is_broken = how == "abort"
        assert running.ended(ROUTE, 1006 if is_broken else 1000) == 1
        await until(lambda: f"GET {ROUTE}" in caplog.text)
        assert (f"GET {ROUTE} 499" in caplog.text) == is_broken
        cancelled = running.metric("conch_gateway_cancelled_total", **sessions)
        assert cancelled == is_broken
        assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_client_that_sends_no_close_frame_is_no_defect(
    running: LoopGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("conch.gateway.socket_session.CLOSE_TIMEOUT_S", 0.1)
    caplog.set_level("INFO")
    async with listening_to(running.url) as socket:
        await socket.message("ready")
        running.gateway.draining.set()
        await until(lambda: f"GET {ROUTE} 499" in caplog.text)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


WORDS = np.concatenate([spoken(1, 0.01), spoken(2, 0.01)] * 10)
"""Many words, so that there is soon much to read."""


def masked(opcode: int, data: bytes) -> bytes:
    """Return a frame of a client, masked with zeros (RFC 6455, section 5.2)."""
    size, more = (len(data), b"") if len(data) < 126 else (126, len(data).to_bytes(2, "big"))
    return bytes([0x80 | opcode, 0x80 | size]) + more + bytes(4) + data


@pytest.mark.parametrize(
    "frame",
    [masked(2, WORDS.tobytes()), masked(1, b"?" * 80), masked(9, b"?" * 100)],
    ids=["audio", "what is no message", "ping"],
)
async def test_a_client_that_does_not_read_is_left(frame: bytes) -> None:
    client = PlainLiveClient()
    times = Times(ping_s=1.0, send_s=0.5)
    async with loop_gateway(client, unsent_bytes=4096, times=times) as running:
        own = socket.socket()
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # soon full
        host, port = running.url.removeprefix("http://").split(":")
        own.connect((host, int(port)))
        reader, writer = await asyncio.open_connection(sock=own, limit=1024)
        writer.write(
            b"GET /v1/conch/listen?encoding=pcm16&include=stats HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        await reader.readuntil(b"\r\n\r\n")
        cast(asyncio.Transport, writer.transport).pause_reading()
        sessions = {"route": ROUTE}
        assert running.metric("conch_gateway_sessions", **sessions) == 1

        async def send() -> None:
            while True:
                writer.write(50 * frame)
                await writer.drain()

        sending = asyncio.create_task(send())
        await until(lambda: running.metric("conch_gateway_sessions", **sessions) == 0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.transport.abort()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
        await asyncio.gather(*running.gateway.freeing)
        assert client.open == set()
        assert running.ended(ROUTE, 1006) == 1

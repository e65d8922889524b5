"""The transport to a gateway, against a server that recognises nothing."""

import asyncio
import io
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import trustme
from aiohttp import web
from live_answers import segment
from plain_gateway import SAID, Answer, PlainGateway, error_body
from waiting import wait_until

from conch.client import AsyncClient, Client
from conch.client.endpoint import Endpoint
from conch.client.gateway import as_pcm16, file_of, is_gateway
from conch.client.gateway_live import FRAME_SAMPLES
from conch.client.tensors import Request
from conch.session.answers import joined_answers
from conch.wire.errors import (
    AudioError,
    ComponentError,
    ConchError,
    DeadlineError,
    InternalError,
    InvalidRequestError,
    MissingModelError,
    OptionError,
    OverloadedError,
    RequestCancelledError,
    ServerError,
    SessionError,
    UnreachableError,
    code_of,
    from_answer,
)
from conch.wire.result import Transcript

FILES, LISTEN = "/v1/audio/transcriptions", "/v1/conch/listen"
SPEECH = np.zeros(160, np.float32)


@pytest.fixture
def gateway() -> Iterator[PlainGateway]:
    with PlainGateway() as gateway:
        yield gateway


@pytest.fixture
def client(gateway: PlainGateway) -> Iterator[Client]:
    with Client(gateway.url) as client:
        yield client


def answering(status: int, body: object = None, **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        if body is None:
            return web.Response(status=status, text="<html>no</html>", headers=headers)
        return web.json_response(body, status=status, headers=headers)

    return answer


def streaming(*sent: bytes) -> Answer:
    """Stream an answer in these pieces."""

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in sent:
            await response.write(piece)
            await asyncio.sleep(0)
        return response

    return answer


def event(kind: str, said: Transcript = SAID) -> bytes:
    text = f'data: {{"type": "transcript.{kind}", "transcript": {said.to_json()}}}\n\n'
    return text.encode()


def live(code: int, *messages: str) -> Answer:
    """Answer the first frame of a live session with these messages, and close it."""

    async def answer(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        for message in messages:
            await socket.send_str(message)
        await socket.close(code=code)
        return socket

    return answer


def told(said: Transcript) -> str:
    return f'{{"type":"transcript","transcript":{said.to_json()}}}'


def cut_off(context: ssl.SSLContext | None) -> str:
    """Ask a server that cuts off plain HTTP, with TLS or without; return the error."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)

        def serve() -> None:
            for _ in range(2):
                connection, _ = listening.accept()
                with connection, suppress(OSError):
                    if context:
                        context.wrap_socket(connection, server_side=True).close()
                    connection.recv(1 << 16)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(ServerError) as error:
            is_gateway(Endpoint.parse(f"http://127.0.0.1:{listening.getsockname()[1]}"))
        thread.join()
        assert isinstance(error.value, UnreachableError) == bool(context)
    return str(error.value)


def test_plain_http_that_is_cut_off_was_for_a_server_with_tls_or_is_lost():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    assert "speaks TLS: its URL begins with https://" in cut_off(context)
    assert "lost the connection" in cut_off(None)


@pytest.mark.parametrize(
    "error",
    [
        *(OptionError("x"), AudioError("x"), SessionError("x"), InvalidRequestError("x")),
        *(DeadlineError("x"), RequestCancelledError("x"), OverloadedError("x")),
        *(MissingModelError("x"), ComponentError("x"), InternalError("x"), UnreachableError("x")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_error_comes_back_as_itself(
    gateway: PlainGateway, client: Client, error: ConchError
) -> None:
    gateway.answers[FILES] = answering(418, error_body(code_of(error), "the reason"))
    with pytest.raises(type(error), match="the reason") as caught:
        client.transcribe(SPEECH)
    assert type(caught.value) is type(error)
    with pytest.raises(type(error)):
        next(client.stream(SPEECH))


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (400, InvalidRequestError, "because"),
        (413, InvalidRequestError, "because"),
        (429, OverloadedError, "because"),
        (503, OverloadedError, "because"),
        (401, ServerError, "because .*CONCH_API_KEY"),
        (403, ServerError, "because"),
        (404, ServerError, "status 404"),
    ],
)
def test_errors_of_the_gateway_itself(
    gateway: PlainGateway, client: Client, status: int, kind: type[ConchError], words: str
) -> None:
    gateway.answers[FILES] = answering(status, error_body("some_code"))
    gateway.answers[LISTEN] = answering(status, error_body("some_code"))
    with pytest.raises(kind, match=words):
        client.transcribe(SPEECH)
    with pytest.raises(kind, match=words):
        client.live().send(SPEECH)


def test_an_error_of_a_proxy_is_no_json() -> None:
    assert isinstance(from_answer(502, b"<html>", "http://host"), ServerError)
    assert isinstance(from_answer(503, b"[]", "http://host"), OverloadedError)
    assert "http://host: no reason given (status 503)" in str(from_answer(503, b"", "http://host"))


def test_a_redirect_gets_neither_audio_nor_key() -> None:
    with PlainGateway() as elsewhere, PlainGateway() as gateway:
        gateway.answers[FILES] = answering(307, {}, Location=f"{elsewhere.url}{FILES}")
        gateway.answers[LISTEN] = answering(307, {}, Location=f"{elsewhere.url}{LISTEN}")
        with Client(gateway.url, api_key="key") as client:
            for send in (client.transcribe, lambda audio: client.live().send(audio)):
                with pytest.raises(ServerError, match="307"):
                    send(SPEECH)
        assert elsewhere.asked == []


def test_a_gateway_is_known_by_its_name_or_by_its_errors() -> None:
    with PlainGateway() as gateway:
        endpoint = Endpoint.parse(gateway.url)
        assert is_gateway(endpoint)
        gateway.answers["/health/live"] = answering(403, error_body("host_not_allowed"))
        assert is_gateway(endpoint)
        for status, body in ((200, None), (200, ["live"]), (400, {"error": "unknown"}), (404, {})):
            gateway.answers["/health/live"] = answering(status, body)
            assert not is_gateway(endpoint)


def test_a_port_that_speaks_grpc_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"127.0.0.1:{listening.getsockname()[1]}"

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                # The settings with which HTTP/2 begins.
                connection.sendall(bytes([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 5, 0, 0, 64, 0, 10]))

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ServerError, match=f"does not speak HTTP.* is grpc://{url}; ports of"):
            is_gateway(Endpoint.parse(url))
        thread.join()


def test_a_proxy_without_its_server_is_asked_again(gateway: PlainGateway, client: Client) -> None:
    gateway.answers["/health/live"] = answering(502)
    with pytest.raises(ServerError, match="502"):
        client.transcribe(SPEECH)
    del gateway.answers["/health/live"]
    assert client.transcribe(SPEECH) == SAID


def test_a_triton_over_http_has_no_streams() -> None:
    with (
        PlainGateway(has_name=False) as triton,
        Client(triton.url) as client,
        pytest.raises(ServerError, match="give the client a grpc"),
    ):
        next(client.stream(SPEECH))


def test_options_go_as_fields_and_samples_as_a_file(gateway: PlainGateway, client: Client) -> None:
    samples = np.arange(-160, 160, dtype=np.int16)
    answer = client.transcribe(
        samples,
        sample_rate=8000,
        timeout_s=5,
        rescore=True,
        nbest=2,
        lm_weight=0.5,
        request_id="r1",
    )
    assert answer == SAID
    file = gateway.fields.pop("file")
    assert gateway.fields == {
        "rescore": "true",
        "nbest": "2",
        "lm_weight": "0.5",
        "deadline_ms": "5000",
        "response_format": "conch",
    }
    assert gateway.asked[-1][1]["x-request-id"] == "r1"
    result, rate = soundfile.read(io.BytesIO(file), dtype="int16")
    assert rate == 8000
    assert np.array_equal(result, samples)
    client.transcribe(b"RIFF of a file")
    assert gateway.fields["file"] == b"RIFF of a file"
    floats = np.array([0.1, -1.5], np.float32)
    client.transcribe(floats)
    result, _ = soundfile.read(io.BytesIO(gateway.fields["file"]), dtype="float32")
    assert np.array_equal(result, floats)


@pytest.mark.parametrize(
    ("samples", "is_exact"),
    [
        ([-1.0, 0.0, 32767 / 32768], True),
        ([1.0], False),
        ([-1.5], False),
        ([0.1], False),
        ([np.nan], False),
        ([np.inf], False),
    ],
)
def test_samples_go_in_16_bits_where_that_keeps_them(samples: list[float], is_exact: bool) -> None:
    waveform = np.array(samples, np.float32)
    result = as_pcm16(waveform)
    assert (result is not None) == is_exact
    if result is not None:
        assert np.array_equal(result / np.float32(32768), waveform)


def test_an_error_in_a_batch_is_that_of_the_batch(gateway: PlainGateway, client: Client) -> None:
    calls = []

    async def second_fails(request: web.Request) -> web.StreamResponse:
        await request.read()
        calls.append(request)
        if len(calls) == 2:
            return web.json_response(error_body("invalid_audio", "no audio"), status=400)
        return web.Response(text=SAID.to_json())

    assert client.transcribe_batch([SPEECH] * 20) == [SAID] * 20
    gateway.answers[FILES] = second_fails
    with pytest.raises(AudioError, match="no audio"):
        client.transcribe_batch([SPEECH] * 4)


def test_a_gateway_has_one_entry(client: Client) -> None:
    for send in (
        lambda: client.transcribe(SPEECH, entry_point="vad"),
        lambda: next(client.stream(SPEECH, entry_point="vad")),
        lambda: client.live(entry_point="vad").send(SPEECH),
        lambda: client.is_ready("vad"),
    ):
        with pytest.raises(ServerError, match="one entry and not the model 'vad'"):
            send()


def test_no_answer_in_time(gateway: PlainGateway, client: Client) -> None:
    came, end = threading.Event(), threading.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        came.set()
        try:
            await asyncio.sleep(60)
        finally:
            end.set()
        raise AssertionError

    assert client.is_ready()
    for path in (FILES, LISTEN, "/health/ready"):
        gateway.answers[path] = hang
    with pytest.raises(DeadlineError, match=r"within 0\.2 s"):
        client.transcribe(SPEECH, timeout_s=0.2)
    with pytest.raises(DeadlineError, match=r"within 0\.2 s"):
        next(client.stream(SPEECH, timeout_s=0.2))
    with pytest.raises(DeadlineError, match=r"within 0\.2 s"):
        client.live(timeout_s=0.2).send(SPEECH)
    with pytest.raises(ServerError, match="cannot reach"):
        client.is_ready(timeout_s=0.2)
    assert came.is_set()


def test_an_error_in_a_stream_comes_after_its_parts(gateway: PlainGateway, client: Client) -> None:
    error = json.dumps(error_body("component_failed", "vad failed"))
    gateway.answers[FILES] = streaming(event("part"), f"data: {error}\n\n".encode())
    parts = client.stream(SPEECH)
    assert next(parts) == SAID
    with pytest.raises(ComponentError, match="vad failed"):
        next(parts)


def parts_of(gateway: PlainGateway, *sent: bytes) -> list[Transcript]:
    """Return what a client reads of a streamed answer that comes in these pieces."""
    gateway.answers[FILES] = streaming(*sent)
    with Client(gateway.url) as client:
        return list(client.stream(SPEECH))


def test_events_may_be_cut_anywhere_and_be_long(gateway: PlainGateway) -> None:
    said = replace(SAID, nbest=(replace(SAID.nbest[0], text="é" * 100_000),))
    text = b": still here\n\n".join([event("part", said), event("done", said), b""])
    for size in (70_001, len(text)):
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        one, last = parts_of(gateway, *pieces)
        assert (one, last.text, last.path) == (said, "", said.path)


def test_an_event_may_have_any_length(gateway: PlainGateway) -> None:
    """More than aiohttp takes for a line: twice the size of its buffer, 64 KiB."""
    said = replace(SAID, nbest=(replace(SAID.nbest[0], text="a" * 9_000_000),))
    events = event("part", said) + event("done", said)
    for sent in (events, events.replace(b"\n\n", b"\n")):
        one, last = parts_of(gateway, sent)
        assert one == said
        assert last.path == said.path


@pytest.mark.parametrize("sent", [b"", b": hello\n\n", b'data: {"type": "transcript.pa'])
def test_an_answer_that_breaks_off(gateway: PlainGateway, sent: bytes) -> None:
    with pytest.raises(ServerError, match="broken off"):
        parts_of(gateway, sent)


def test_a_live_stream_gets_an_answer_for_each_chunk(gateway: PlainGateway, client: Client) -> None:
    with client.live(sample_rate=8000, mode="streaming", request_id="r2") as stream:
        assert not stream.send(SPEECH).is_final
        assert not stream.send(np.zeros(0, np.float32)).is_final
        assert not stream.send(np.ones(FRAME_SAMPLES + 1, np.float32)).is_final
        assert stream.finish(SPEECH).is_final
    sizes = [len(frame) // 4 for frame in gateway.frames]
    assert sizes == [160, 0, FRAME_SAMPLES, 1, 160]
    assert gateway.query == {
        "answers": "all",
        "encoding": "float32",
        "sample_rate": "8000",
        "mode": "streaming",
    }
    assert gateway.asked[-1][1]["x-request-id"] == "r2"
    assert client.live().finish().is_final


async def test_chunks_that_are_sent_at_once_keep_their_order(gateway: PlainGateway) -> None:
    async with AsyncClient(gateway.url) as client, client.live() as stream:
        chunks = [np.full(10, value, np.float32) for value in range(20)]
        await asyncio.gather(*(stream.send(chunk) for chunk in chunks))
    values = [np.frombuffer(frame, "<f4")[0] for frame in gateway.frames]
    assert values == list(range(20))


def test_a_stream_that_the_gateway_has_closed(gateway: PlainGateway, client: Client) -> None:
    error = json.dumps({"type": "error", **error_body("component_failed", "vad failed")})
    gateway.answers[LISTEN] = live(1011, told(replace(SAID, is_final=False)), error)
    stream = client.live(resume_s=0)
    stream.send(SPEECH)
    with pytest.raises(ComponentError, match="vad failed"):
        stream.send(SPEECH)
    with pytest.raises(SessionError):
        stream.send(SPEECH)


def test_the_last_text_of_a_gateway_that_stops(gateway: PlainGateway, client: Client) -> None:
    messages = told(replace(SAID, is_final=False)), told(SAID), '{"type":"end"}'
    gateway.answers[LISTEN] = live(1001, *messages)
    stream = client.live(resume_s=0)
    assert not stream.send(SPEECH).is_final
    assert stream.finish() == SAID
    stream = client.live(resume_s=0)
    assert not stream.send(SPEECH).is_final
    assert stream.send(SPEECH) == SAID
    with pytest.raises(ServerError, match="about to stop"):
        stream.send(SPEECH)
    stream = client.live(resume_s=0)
    stream.send(SPEECH)
    assert stream.send(SPEECH) == SAID
    with pytest.raises(ServerError, match="about to stop"):
        stream.finish()


def test_the_answers_of_one_chunk_are_one() -> None:
    one = replace(SAID, segments=(segment("a", 0), segment("b", 1)))
    two = replace(SAID, segments=(segment("B", 1),), path=("ctc_encoder",), duration=2.0)
    joined = joined_answers([one, two])
    assert [item.text for item in joined.segments] == ["a", "B"]
    assert (joined.path, joined.duration) == (("vad", "ctc_encoder"), 2.0)
    assert joined.stages["vad"].calls == 2
    assert joined_answers([one]) is one


def test_a_blocking_client_ends_its_thread() -> None:
    threads = set(threading.enumerate())
    with PlainGateway() as gateway:
        own = set(threading.enumerate())
        with Client(gateway.url) as client:
            client.transcribe(SPEECH)
            assert set(threading.enumerate()) > own
        wait_until(lambda: set(threading.enumerate()) <= own)
        forgotten = Client(gateway.url)
        forgotten.transcribe(SPEECH)
        del forgotten
        wait_until(lambda: set(threading.enumerate()) <= own)
    wait_until(lambda: set(threading.enumerate()) <= threads)


def test_threads_share_a_client_of_a_gateway() -> None:
    transcripts = []
    with PlainGateway() as gateway, Client(gateway.url) as client:
        client.is_ready()
        threads = [
            threading.Thread(target=lambda: transcripts.append(client.transcribe(SPEECH)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert transcripts == [SAID] * 4


def test_leaving_a_stream_closes_its_connection(gateway: PlainGateway, client: Client) -> None:
    gone = threading.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        await request.read()
        answer = web.StreamResponse()
        await answer.prepare(request)
        try:
            while True:
                await answer.write(event("part"))
                await asyncio.sleep(0.01)
        except (ConnectionError, asyncio.CancelledError):
            gone.set()
            raise

    gateway.answers[FILES] = endless
    for part in client.stream(SPEECH):
        assert part == SAID
        break
    assert gone.wait(10)
    gone.clear()
    left = client.stream(SPEECH)
    assert next(left) == SAID
    client.close()
    assert gone.wait(10)
    left.close()


def test_samples_of_16_bits_stay_so() -> None:
    lens = np.array([[3]], np.int32)
    inputs: dict[str, np.ndarray] = {
        "PCM16": np.array([[-32768, 0, 32767, 5]], np.int16),
        "WAV_LENS": lens,
        "SAMPLE_RATE": np.full_like(lens, 8000),
    }
    request = Request("speech", inputs, {}, 1.0)
    result, rate = soundfile.read(io.BytesIO(file_of(request, 0)), dtype="int16")
    assert (result.tolist(), rate) == ([-32768, 0, 32767], 8000)

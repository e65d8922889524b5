"""`StreamingRecognize` by NVIDIA's client, in front of a client that never reaches a server."""

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import grpc  # type: ignore[import-untyped]
import numpy as np
import pytest
import riva.client
from anyio.from_thread import start_blocking_portal
from audio_files import audio_file
from loop_gateway import LoopGateway, loop_gateway, until
from plain_live import PlainLiveClient, spoken
from riva.client.proto import health_pb2, health_pb2_grpc
from riva.client.proto import riva_asr_pb2 as messages

from conch.audio.decoder import MAX_TAG_BYTES
from conch.gateway.config import Times
from conch.gateway.doors import RIVA_STREAM
from conch.gateway.limits import Limits
from conch.gateway.riva.server import listening
from conch.wire.errors import ServerError, ServerLostError

RAW = {"encoding": riva.client.AudioEncoding.LINEAR_PCM, "sample_rate_hertz": 16_000}
TALK = [spoken(1, 1.0), spoken(0, 1.0), spoken(2, 1.0), spoken(0, 0.2)]
"""`ONE`, a pause that ends it, and `TWO`."""


class Running:
    """A gateway in the loop of the test, and NVIDIA's client."""

    def __init__(self, inner: LoopGateway, port: int) -> None:
        self.metric = inner.metric
        loop = asyncio.get_running_loop()
        self.stop = partial(loop.call_soon_threadsafe, inner.gateway.draining.set)
        self.auth = riva.client.Auth(uri=f"127.0.0.1:{port}")
        self.asr = riva.client.ASRService(self.auth)

    def answers(self, chunks: Any, interim: bool = False, **fields: Any) -> Any:
        config = riva.client.RecognitionConfig(**{**RAW, **fields})
        request = riva.client.StreamingRecognitionConfig(config=config, interim_results=interim)
        return self.asr.streaming_response_generator(chunks, request)

    def error(self, work: Callable[[], Any]) -> tuple[str, str]:
        """Return the code and the message of the error that work meets."""
        with pytest.raises(grpc.RpcError) as raised:
            work()
        return raised.value.code().name, raised.value.details()

    def cut_off(self, answers: Any) -> tuple[list[str], str, str]:
        """Return the final texts of a stream that fails, and the code and text of its error."""
        texts: list[str] = []

        def read() -> None:
            for answer in answers:
                texts.extend(finals([answer]))

        return (texts, *self.error(read))


def chunks_of(audio: list[np.ndarray], size: int = 3200) -> list[bytes]:
    data = np.concatenate(audio).tobytes()
    return [data[start : start + size] for start in range(0, len(data), size)]


@asynccontextmanager
async def _serving(*gateway: Any, **settings: Any) -> AsyncIterator[Running]:
    async with (
        loop_gateway(*gateway, **settings) as inner,
        listening(inner.gateway, "127.0.0.1", 0) as port,
    ):
        inner.servers.is_ready, inner.servers.away = True, []  # type: ignore[attr-defined]
        running = Running(inner, port)
        try:
            yield running
            await until(lambda: not inner.client.open)
        finally:
            running.auth.channel.close()


@contextmanager
def serving(*gateway: Any, **settings: Any) -> Iterator[Running]:
    """Yield a gateway with its own settings, which runs in a thread."""
    serving = _serving(*gateway, **settings)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving) as running:
        yield running


@pytest.fixture
def running() -> Iterator[Running]:
    with serving() as running:
        yield running


def finals(answers: Any) -> list[str]:
    results = [result for answer in answers for result in answer.results]
    return [result.alternatives[0].transcript for result in results if result.is_final]


def test_the_clients_own_functions_print_partial_and_final_texts(running: Running):
    printed = io.StringIO()
    answers = running.answers(chunks_of(TALK), interim=True)
    riva.client.print_streaming(answers, printed, show_intermediate=True)
    shown = [line.strip() for line in printed.getvalue().replace("\r", "\n").split("\n")]
    assert [line for line in shown if line.startswith("##")] == ["## ONE", "## TWO"]
    assert shown.index(">> one") < shown.index("## ONE") < shown.index(">> two")


def test_words_have_times_in_milliseconds(running: Running):
    printed = io.StringIO()
    answers = running.answers(chunks_of(TALK), enable_word_time_offsets=True)
    riva.client.print_streaming(answers, printed, "time", word_time_offsets=True)
    rows = [line.split() for line in printed.getvalue().splitlines()]
    assert ["one", "0", "1000", "1.0000"] in rows
    assert ["two", "2000", "3000", "1.0000"] in rows


def test_without_interim_results_all_are_final(running: Running):
    answers = list(running.answers(chunks_of(TALK)))
    assert all(result.is_final for answer in answers for result in answer.results)
    assert finals(answers) == ["ONE ", "TWO "]
    assert [answer.results[0].audio_processed for answer in answers][-1] == pytest.approx(3.2)


def test_an_ended_utterance_is_stable_before_its_second_pass(running: Running):
    answers = running.answers(chunks_of(TALK), interim=True)
    results = [result for answer in answers for result in answer.results]
    stable = [result for result in results if result.stability == 1]
    assert [result.alternatives[0].transcript for result in stable] == ["one "]


def test_the_id_comes_back(running: Running):
    config = riva.client.StreamingRecognitionConfig(config=riva.client.RecognitionConfig(**RAW))
    requests = [
        messages.StreamingRecognizeRequest(streaming_config=config, id={"value": "mine"}),
        *(messages.StreamingRecognizeRequest(audio_content=data) for data in chunks_of(TALK)),
    ]
    answers = list(running.asr.stub.StreamingRecognize(iter(requests)))
    assert {answer.id.value for answer in answers} == {"mine"}


def test_a_file_that_comes_at_once_waits_for_the_server():
    audio = [part for _ in range(30) for part in TALK]
    client = PlainLiveClient()
    with serving(client, max_backlog_s=4.0) as running:
        result = finals(running.answers(chunks_of(audio, 1 << 20)))
        assert "".join(result).split() == ["ONE", "TWO"] * 30


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([], "the first message of a stream takes streaming_config; sent: nothing"),
        (
            [messages.StreamingRecognizeRequest(audio_content=b"12")],
            "the first message of a stream takes streaming_config; sent: audio_content",
        ),
        (
            2 * [messages.StreamingRecognizeRequest(streaming_config={"config": RAW})],
            "streaming_config comes once, in the first message of a stream",
        ),
        (
            [
                messages.StreamingRecognizeRequest(
                    streaming_config={"config": RAW}, runtime_config={"a": "b"}
                )
            ],
            "runtime_config takes nothing: options hold for the whole stream; sent: a",
        ),
        (
            [
                messages.StreamingRecognizeRequest(streaming_config={}),
                messages.StreamingRecognizeRequest(audio_content=bytes(100)),
            ],
            "sample_rate_hertz is needed for raw samples, which begin with no header; sent: 0",
        ),
        (
            [
                messages.StreamingRecognizeRequest(streaming_config={"config": {"encoding": 2}}),
                messages.StreamingRecognizeRequest(audio_content=b"OggS\0\2" + bytes(100)),
            ],
            "encoding: the audio is no FLAC, it begins with 4f 67 67 53 00 02 00 00; without "
            "encoding, its first bytes show what it is",
        ),
    ],
)
def test_a_wrong_message_is_named(running: Running, requests: list[Any], message: str):
    call = running.asr.stub.StreamingRecognize(iter(requests))
    assert running.error(lambda: list(call)) == ("INVALID_ARGUMENT", message)


def test_what_was_heard_before_wrong_audio_is_told_before_the_error(running: Running):
    wav = audio_file(np.ones(16_000, np.float32), 16_000, "FLOAT")
    audio = [wav, bytes(MAX_TAG_BYTES + 1)]
    texts, code, message = running.cut_off(running.answers(audio))
    assert (code, texts) == ("INVALID_ARGUMENT", ["ONE "])
    assert "has ended after 1.0 s" in message


def test_the_longest_stream_ends_with_its_last_text():
    with serving(max_session_s=1.0) as running:
        is_over = threading.Event()

        def audio() -> Iterator[bytes]:
            yield from chunks_of([spoken(1, 0.5)])
            is_over.wait(20)

        texts, code, message = running.cut_off(running.answers(audio()))
        is_over.set()
        assert (code, texts) == ("ABORTED", ["ONE "])
        assert "has lasted 1 s, as long as one may" in message


def test_so_many_watches_are_open_at_once():
    with serving(max_sessions=1) as running:
        health = health_pb2_grpc.HealthStub(running.auth.channel)
        first = health.Watch(health_pb2.HealthCheckRequest())
        assert next(first).status == health_pb2.HealthCheckResponse.SERVING
        code, message = running.error(lambda: list(health.Watch(health_pb2.HealthCheckRequest())))
        assert code == "UNAVAILABLE" and message.startswith("no further watch may be open")
        first.cancel()
        while True:  # the gateway learns of it a moment later
            try:
                assert next(health.Watch(health_pb2.HealthCheckRequest(), timeout=20))
                break
            except grpc.RpcError as failure:
                assert failure.code().name == "UNAVAILABLE"


def test_a_limit_of_the_key_is_resource_exhausted():
    with serving(limits=Limits(requests_per_minute=1)) as running:
        assert finals(running.answers(chunks_of(TALK)))
        code, message = running.error(lambda: list(running.answers(chunks_of(TALK))))
        assert code == "RESOURCE_EXHAUSTED"
        assert message.startswith("this key has used up its limit of 1 requests a minute")


def test_one_more_stream_than_may_be_open_is_unavailable():
    with serving(max_sessions=0) as running:
        code, message = running.error(lambda: list(running.answers([])))
        assert (code, message) == ("UNAVAILABLE", "0 live sessions are open; try again later")


def test_a_lost_server_is_unavailable():
    client = PlainLiveClient(fail=lambda sent: ServerError("it has gone"))
    with serving(client) as running:
        code, message = running.error(lambda: list(running.answers(chunks_of(TALK))))
        assert (code, message) == ("UNAVAILABLE", "no speech server answers; try again later")
        name = "conch_gateway_sessions_ended_total"
        assert (
            running.metric(name, route=RIVA_STREAM.address, key="anybody", code="UNAVAILABLE") == 1
        )


def test_a_server_that_stays_lost_leaves_the_firm_text():
    lost = ServerLostError("lost the connection", had_request=False)
    is_lost = threading.Event()
    client = PlainLiveClient(fail=lambda sent: lost if is_lost.is_set() else None, resume_s=0.2)

    def chunks() -> Iterator[bytes]:
        yield spoken(1, 1.0).tobytes()
        is_heard.wait(60)
        is_lost.set()
        yield spoken(2, 1.0).tobytes()

    is_heard = threading.Event()
    with serving(client) as running:
        answers = []

        def read() -> None:
            for answer in running.answers(chunks(), interim=True):
                answers.append(answer)
                is_heard.set()

        code, message = running.error(read)
        assert finals(answers) == ["one "]
        assert code == "UNAVAILABLE" and message.startswith("the server was lost, and the stream")


def test_a_client_that_sends_nothing_is_sent_away():
    with serving(times=Times(idle_s=0.1)) as running:
        is_over = threading.Event()

        def nothing() -> Iterator[Any]:
            is_over.wait(20)
            yield from ()

        speech = riva.client.SpeechSynthesisService(running.auth)
        for stub in (running.asr.stub.StreamingRecognize, speech.stub.SynthesizeOnline):
            waiting: partial[Any] = partial(list, stub(nothing()))
            assert running.error(waiting)[0] == "DEADLINE_EXCEEDED"
        is_over.set()


def test_a_stop_ends_a_stream_with_its_last_text(running: Running):
    texts: list[str] = []

    def audio() -> Iterator[bytes]:
        yield from chunks_of([spoken(1, 1.0)])
        while not texts:  # the client sends no further audio before it has read something
            yield b""
        running.stop()
        while True:
            yield b""

    answers = running.answers(audio(), interim=True)

    def read() -> None:
        for answer in answers:
            texts.extend(result.alternatives[0].transcript for result in answer.results)

    code, message = running.error(read)
    assert (code, message) == (
        "UNAVAILABLE",
        "this gateway is about to stop; open another stream",
    )
    assert texts[-1] == "ONE "


def test_a_client_that_goes_away_leaves_nothing_open():
    client = PlainLiveClient()
    with serving(client) as running:
        answers = running.answers(iter(chunks_of([spoken(1, 1.0)]) + [b""] * 10), interim=True)
        next(answers)
        answers.close()
    assert not client.open

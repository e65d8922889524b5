"""`speech_stream`: one part per segment as it becomes final, over gRPC and server-sent events."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import aclosing, closing
from typing import Any

import numpy as np
import pytest
from recordings import Recording, in_turn

from conch.client import AsyncClient, Client, joined_parts
from conch.launcher import TritonServer
from conch.wire.errors import DeadlineError, InvalidRequestError, ServerError
from conch.wire.result import Transcript

pytestmark = pytest.mark.server

PAUSE_S = 4.0
"""Silence too long for the speech on its two sides to share a segment."""
PAUSE = np.zeros(round(PAUSE_S * 16_000), np.float32)

MANY = 60
"""Segments; more than are in flight at once, so that the first is out before the last begins."""


@pytest.fixture
def url(server: TritonServer) -> str:
    return f"grpc://{server.grpc_url}"


@pytest.fixture(scope="module")
def talk(recordings: list[Recording]) -> np.ndarray:
    """Return all recordings, with a pause after each."""
    return in_turn(recordings, PAUSE_S)


@pytest.fixture(scope="module")
def long_talk(short: np.ndarray) -> np.ndarray:
    return np.concatenate([short, PAUSE] * MANY)


def test_parts_come_in_order_and_joined_are_the_one_answer(
    client: Client, talk: np.ndarray, recordings: list[Recording]
) -> None:
    # The int8 scores of the neural language model depend on the texts that share a batch.
    rescorer = {"rescore": True, "rescorer": "ngram"}
    options: dict[str, Any] = {"nbest": 3, "word_timestamps": True, **rescorer}
    parts = list(client.stream(talk, **options))
    assert [len(part.segments) for part in parts] == [1] * len(recordings) + [0]
    assert all(part.is_final for part in parts)
    bounds = [edge for part in parts for item in part.segments for edge in (item.start, item.end)]
    assert bounds == sorted(bounds)
    totals = [part.stages["total"].ms for part in parts]
    assert totals == sorted(totals)

    joined, whole = joined_parts(parts, nbest=3), client.transcribe(talk, **options)
    assert same(joined, whole)
    assert len(whole.nbest) == 3


def same(one: Transcript, other: Transcript) -> bool:
    """Whether two transcripts differ in times and in the rounding of scores at most."""
    assert [item.text for item in one.nbest] == [item.text for item in other.nbest]
    assert [item.score for item in one.nbest] == pytest.approx(
        [item.score for item in other.nbest], abs=1e-2
    )
    for mine, theirs in zip(one.segments, other.segments, strict=True):
        assert (mine.start, mine.end) == (theirs.start, theirs.end)
        assert [item.text for item in mine.nbest] == [item.text for item in theirs.nbest]
        assert [item.score for item in mine.nbest] == pytest.approx(
            [item.score for item in theirs.nbest], abs=1e-2
        )
        assert [word.text for word in mine.words] == [word.text for word in theirs.words]
    assert (one.duration, one.path) == (other.duration, other.path)
    calls = [{name: stage.calls for name, stage in item.stages.items()} for item in (one, other)]
    return calls[0] == calls[1]


async def test_the_async_client_streams_the_same(
    client: Client, url: str, talk: np.ndarray
) -> None:
    async with AsyncClient(url) as other:
        found = [part async for part in other.stream(talk, nbest=2)]
    assert same(joined_parts(found, nbest=2), client.transcribe(talk, nbest=2))


async def test_many_streams_at_once(url: str, waveform: np.ndarray) -> None:
    async def text(client: AsyncClient) -> str:
        return joined_parts([part async for part in client.stream(waveform)]).text

    async with AsyncClient(url) as client:
        found = await asyncio.gather(*(text(client) for _ in range(8)))
    assert len(set(found)) == 1
    assert found[0]


def test_silence_is_one_part_without_text(client: Client) -> None:
    (part,) = client.stream(PAUSE)
    assert (part.text, part.segments, part.duration, part.path) == ("", (), 4.0, ("vad",))
    assert joined_parts([part]) == part


def test_the_first_part_is_early_and_leaving_the_stream_cancels_the_rest(
    client: Client,
    long_talk: np.ndarray,
    waveform: np.ndarray,
    executions: Callable[[str], tuple[int, int]],
) -> None:
    before = executions("moonshine_decoder")[0]
    with closing(client.stream(long_talk)) as parts:
        assert next(parts).segments[0].start < 1
        assert executions("moonshine_decoder")[0] - before < MANY
    # The decoder's queue is served in order: behind this request nothing of the stream waits.
    client.transcribe(waveform)
    assert executions("moonshine_decoder")[0] - before < MANY


def test_leaving_a_loop_is_enough(
    client: Client,
    long_talk: np.ndarray,
    waveform: np.ndarray,
    executions: Callable[[str], tuple[int, int]],
) -> None:
    before = executions("moonshine_decoder")[0]
    for part in client.stream(long_talk):
        assert part.text
        break
    client.transcribe(waveform)
    assert executions("moonshine_decoder")[0] - before < MANY


def test_leaving_at_the_last_segment_leaves_the_server_whole(
    client: Client, short: np.ndarray
) -> None:
    for _ in range(10):
        with closing(client.stream(short, beam_size=1)) as parts:
            assert next(parts).text
    assert client.transcribe(short).text


async def test_a_cancelled_task_cancels_its_stream(
    url: str,
    long_talk: np.ndarray,
    waveform: np.ndarray,
    executions: Callable[[str], tuple[int, int]],
) -> None:
    before = executions("moonshine_decoder")[0]
    first_is_here = asyncio.Event()

    async def read(client: AsyncClient) -> None:
        async with aclosing(client.stream(long_talk)) as parts:
            async for _ in parts:
                first_is_here.set()

    async with AsyncClient(url) as client:
        task = asyncio.create_task(read(client))
        await first_is_here.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.transcribe(waveform)).text
    assert executions("moonshine_decoder")[0] - before < MANY


ERRORS: list[tuple[type[Exception], str, Any, dict[str, Any]]] = [
    (InvalidRequestError, "AUDIO cannot be decoded", b"this is a text file", {}),
    (InvalidRequestError, "samples are in", np.full(16_000, 99, np.float32), {}),
    (DeadlineError, "deadline_ms of 1 ran out", None, {"deadline_ms": 1}),
    (DeadlineError, "deadline", None, {"timeout_s": 0.001}),
    (ServerError, "does not serve this model", None, {"entry_point": "no_such_model"}),
    (ServerError, "vad", None, {"entry_point": "vad"}),
]


def test_errors_have_their_type_and_the_next_request_works(
    client: Client, url: str, waveform: np.ndarray
) -> None:
    async def first(audio: Any, arguments: dict[str, Any]) -> Transcript:
        async with AsyncClient(url) as client:
            return await anext(client.stream(audio, **arguments))

    for kind, message, bad, arguments in ERRORS:
        audio = waveform if bad is None else bad
        with pytest.raises(kind, match=message):
            next(client.stream(audio, **arguments))
        with pytest.raises(kind, match=message):
            asyncio.run(first(audio, arguments))
    assert next(client.stream(waveform)).text


@pytest.fixture(scope="module")
def short_talk(recordings: list[Recording]) -> np.ndarray:
    """Two recordings in three decimals: Triton 2.51 does not survive JSON of more than 4 MB."""
    return in_turn(recordings[:2], PAUSE_S).astype(np.float64).round(3)


def events(server: TritonServer, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Send a request as JSON and return what the server-sent events hold."""
    request = urllib.request.Request(
        f"http://{server.http_url}/v2/models/speech_stream/generate_stream",
        data=json.dumps(body, separators=(",", ":")).encode(),
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        assert response.headers.get_content_type() == "text/event-stream"
        lines = response.read().decode().split("\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line]


def test_generate_has_no_room_for_segments(server: TritonServer, short_talk: np.ndarray) -> None:
    """As the guide says of Triton: a status that tells nothing."""
    request = urllib.request.Request(
        f"http://{server.http_url}/v2/models/speech_stream/generate",
        data=json.dumps({"WAV": short_talk.tolist(), "SAMPLE_RATE": 16_000}).encode(),
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        assert response.status == 200
        assert "exactly 1 response" in json.load(response)["error"]


def test_server_sent_events(server: TritonServer, client: Client, short_talk: np.ndarray) -> None:
    found = events(server, {"WAV": short_talk.tolist(), "SAMPLE_RATE": 16_000, "beam_size": 3})
    assert len(found) == 3
    assert found[-1]["TRANSCRIPTS"] == ""
    parts = [Transcript.from_json(event["RESULT"]) for event in found]
    assert [part.text for part in parts] == [event["TRANSCRIPTS"] for event in found]
    assert same(joined_parts(parts), client.transcribe(short_talk, beam_size=3))


def test_a_bad_option_is_an_error_event_and_the_next_request_works(
    server: TritonServer, waveform: np.ndarray
) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        events(server, {"WAV": waveform.tolist(), "nbest": 199})
    with refused.value as answer:
        assert answer.code == 400
        (event, _) = answer.read().decode().split("\n\n")
    error = json.loads(event.removeprefix("data: "))["error"]
    assert error == "INVALID_OPTION: option 'nbest' takes an integer from 1 to 128; sent: 199"
    first, *_ = events(server, {"WAV": waveform.tolist(), "nbest": 2})
    assert len(first["TRANSCRIPTS"]) == 2

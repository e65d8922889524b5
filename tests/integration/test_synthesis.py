"""Speech out on a real server: chunks, one answer, formats, bad input, and clients that leave."""

import io
import time
from collections.abc import Iterator
from contextlib import closing

import av
import numpy as np
import pytest
import tritonclient.http as http
from infer_inputs import inputs_of
from recordings import wer
from waiting import wait_until

from conch.client import AsyncClient, Client
from conch.launcher import TritonServer
from conch.wire.errors import InvalidRequestError, OptionError, ServerError, TextError
from conch.wire.synthesis import Spoken

pytestmark = pytest.mark.server

TEXT = (
    "Hello there, this is a test of the voice. It costs five dollars. Nobody knows where it went."
)
PATH = ("text_frontend", "acoustic", "vocoder")


@pytest.fixture(scope="module")
def url(server: TritonServer) -> str:
    return f"grpc://{server.grpc_url}"


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Client]:
    with Client(url, timeout_s=120) as client:
        yield client


def test_chunks_are_the_one_answer_and_say_what_was_said(client: Client) -> None:
    *chunks, end = client.synthesize_stream(TEXT, timestamps=True, seed=3)
    assert len(chunks) > 4 and not end.has_sound
    assert len(chunks[0].waveform) == 16 * 300
    samples = np.concatenate([item.waveform for item in chunks])
    whole = client.synthesize(TEXT, timestamps=True, seed=3)
    np.testing.assert_allclose(samples, whole.waveform, atol=1e-5)
    assert whole.spoken.path == end.spoken.path == PATH
    assert whole.spoken.duration == len(samples) / 24_000 == end.spoken.duration
    sentences = [item for chunk in chunks for item in chunk.spoken.sentences]
    assert tuple(sentences) == whole.spoken.sentences and len(sentences) == 3
    words = [word for item in sentences for word in item.words]
    assert " ".join(word.text for word in words) == TEXT
    assert all(word.start < word.end for word in words)
    heard = client.transcribe(samples, sample_rate=24_000, word_timestamps=True)
    assert wer(TEXT, heard.text) < 0.15
    recognised = [word for segment in heard.segments for word in segment.words]
    if len(recognised) == len(words):
        differences = [abs(a.start - b.start) for a, b in zip(words, recognised, strict=True)]
        assert np.median(differences) < 0.2


def test_speed_rate_and_noise_are_options(client: Client) -> None:
    text = "Nobody knows where it went."
    slow, fast = (client.synthesize(text, speed=speed) for speed in (0.5, 2.0))
    assert slow.spoken.duration > 2.5 * fast.spoken.duration
    telephone = client.synthesize(text, sample_rate=8000, speed=2.0)
    assert (telephone.spoken.sample_rate, len(telephone.waveform)) == (
        8000,
        len(fast.waveform) // 3,
    )
    other = client.synthesize(text, speed=2.0, seed=9)
    assert 0 < np.abs(other.waveform - fast.waveform).max() < 0.5


def test_a_file_comes_in_pieces(client: Client) -> None:
    pieces = [item.audio for item in client.synthesize_stream(TEXT, format="opus")]
    assert len(pieces) > 4 and pieces[0]
    with av.open(io.BytesIO(b"".join(pieces))) as file:
        frames = [frame.to_ndarray().ravel() for frame in file.decode(audio=0)]
    assert len(np.concatenate(frames)) / 48_000 > 3


def test_a_triton_over_http_gives_one_answer_and_no_pieces(server: TritonServer) -> None:
    with Client(server.http_url) as client:
        found = client.synthesize("Hello.", format="wav")
        assert found.audio.startswith(b"RIFF")
        with pytest.raises(ServerError, match="streams go over gRPC"):
            list(client.synthesize_stream("Hello."))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "TEXT takes a text with words"),
        (" \n\t", "TEXT takes a text with words"),
        ("日本語。", "no word that the voice hibari can speak"),
        ("😀", "no word that the voice hibari can speak"),
        ("\x00\x07\x1b", "no word that the voice hibari can speak"),
    ],
)
def test_what_cannot_be_spoken_is_a_clear_error(client: Client, text: str, said: str) -> None:
    with pytest.raises(TextError, match=said):
        client.synthesize(text)


def test_what_is_odd_is_spoken_as_far_as_it_can_be(client: Client) -> None:
    for text in ("Hi\x00 there 😀!", "ﬁne 日本 day", "ok", "9" * 300, "x" * 300):
        assert client.synthesize(text).spoken.duration > 0.2
    found = client.synthesize("Hello. 日本語。 There.")
    assert found.spoken.warnings == ("nothing is spoken of 日本語。",)


def test_wrong_requests_name_what_is_wrong(client: Client, server: TritonServer) -> None:
    with pytest.raises(OptionError, match="option 'voice' takes one of hibari"):
        client.synthesize("Hi.", voice="nobody")
    triton = http.InferenceServerClient(server.http_url)
    with closing(triton):
        for body, said in ((b"\xff\xfe", "TEXT takes UTF-8"), (b"x" * 10_001, "at most 10000")):
            inputs = inputs_of(http, TEXT=np.array([[body]], np.object_))
            with pytest.raises(Exception, match=said):
                triton.infer("synthesis", inputs)
        inputs = inputs_of(http, TEXT=np.array([[b"Hi."]], np.object_))
        with pytest.raises(Exception, match="option 'speed' takes a number"):
            triton.infer("synthesis", inputs, parameters={"speed": "9"})
        answer = triton.infer("synthesis", inputs)
        assert (
            answer.as_numpy("WAVEFORM").shape[1] / 24_000
            == Spoken.from_json(answer.as_numpy("RESULT").item()).duration
        )


def test_a_megabyte_is_refused_and_others_are_unharmed(client: Client) -> None:
    with pytest.raises(InvalidRequestError, match="at most 100000 characters"):
        list(client.synthesize_stream("word " * 200_000, format="mp3"))
    assert client.synthesize("Hi.").spoken.duration > 0.2


async def test_a_client_that_leaves_ends_the_making(url: str, executions) -> None:
    async with AsyncClient(url) as client:
        async for _ in client.synthesize_stream("This is one of many. " * 60, speed=0.5):
            break
    counted = [0]

    def is_still() -> bool:
        before, counted[0] = counted[0], executions("vocoder")[0]
        time.sleep(0.2)
        return before == counted[0]

    wait_until(is_still)

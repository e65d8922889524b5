"""Speech by the unmodified `openai` package, and the fields of the request."""

import base64
import io
import json
import urllib.request
from typing import Any

import av
import numpy as np
import openai
import pytest
from gateways import Gateway
from openai import AsyncOpenAI, OpenAI

from conch.client import Client
from conch.families import voices
from conch.gateway.errors import ApiError
from conch.gateway.file_answer import ignored_header
from conch.gateway.speech import MAX_INPUT, read
from conch.wire.errors import InvalidRequestError

TEXT = "Hello there. It works, and the rest is still being made."


@pytest.fixture(scope="module")
def client(gateway: Gateway):
    with OpenAI(base_url=gateway.openai_url, api_key="any", max_retries=0) as made:
        yield made


def seconds_of(data: bytes) -> float:
    with av.open(io.BytesIO(data)) as file:
        stream = file.streams.audio[0]
        frames = [frame.to_ndarray().ravel() for frame in file.decode(stream)]
        return len(np.concatenate(frames)) / stream.rate


@pytest.mark.server
@pytest.mark.parametrize("format", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
def test_every_format_is_the_text_as_audio(client: OpenAI, format: Any) -> None:
    answer = client.audio.speech.create(
        model="tts-1", voice="alloy", input="Hello there.", response_format=format
    )
    data = answer.read()
    seconds = len(data) / 48_000 if format == "pcm" else seconds_of(data)
    assert 0.7 < seconds < 2.5
    types = {"mp3": "mpeg", "opus": "ogg"}
    assert answer.response.headers["content-type"] == f"audio/{types.get(format, format)}"


@pytest.mark.server
def test_audio_comes_in_pieces_and_is_what_the_client_gets(client: OpenAI, gateway) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="nova", input=TEXT, response_format="pcm", speed=1.25
    ) as answer:
        pieces = list(answer.iter_bytes(1024))
    samples = np.frombuffer(b"".join(pieces), "<i2") / 32_767
    with Client(gateway.url) as own:
        options: dict[str, Any] = {"voice": "nova", "speed": 1.25, "timestamps": True}
        parts = list(own.synthesize_stream(TEXT, **options))
        whole = own.synthesize(TEXT, **options)
    result = np.concatenate([part.waveform for part in parts])
    np.testing.assert_allclose(result, samples, atol=1e-4)
    np.testing.assert_allclose(whole.waveform, result, atol=1e-5)
    words = [word.text for item in whole.spoken.sentences for word in item.words]
    assert " ".join(words) == TEXT
    (vocoder,) = (item for item in parts[-1].spoken.stages if item.endswith("vocoder"))
    assert parts[-1].spoken.stages[vocoder].calls >= len(parts) - 2


@pytest.mark.server
async def test_the_async_client_and_events(gateway: Gateway) -> None:
    async with AsyncOpenAI(base_url=gateway.openai_url, api_key="any") as client:
        making = client.audio.speech.with_streaming_response.create(
            model="tts-1",
            voice="echo",
            input=TEXT,
            stream_format="sse",
            extra_body={"sample_rate": 8000},  # its first piece has no bytes yet
        )
        async with making as answer:
            said = (await answer.read()).decode()
    events = [json.loads(line[6:]) for line in said.split("\n\n") if line]
    assert [event["type"] for event in events[:-1]] == ["speech.audio.delta"] * (len(events) - 1)
    audio = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    done = events[-1]
    begun = [item["text"] for event in events for item in event["spoken"]["sentences"]]
    assert begun == ["Hello there.", "It works, and the rest is still being made."]
    assert done["type"] == "speech.audio.done"
    assert abs(seconds_of(audio) - done["spoken"]["duration"]) < 0.2
    usage = done["usage"]
    assert usage["input_tokens"] == len(TEXT.split())
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


@pytest.mark.server
def test_errors_have_openais_form(client: OpenAI) -> None:
    for fields, param, said in (
        ({"voice": "nobody"}, "voice", "takes one of hibari"),
        ({"input": ""}, "input", "a text with words"),
        ({"input": "日本"}, "input", "no word that the voice hibari can speak"),
        ({"speed": 5.0}, "speed", "from 0.25 to 4"),
    ):
        body: dict[str, Any] = {"model": "tts-1", "voice": "hibari", "input": "Hi.", **fields}
        with pytest.raises(openai.BadRequestError, match=said) as caught:
            client.audio.speech.create(**body)
        assert caught.value.param == param


@pytest.mark.server
def test_voices_and_models_are_listed(gateway: Gateway, client: OpenAI) -> None:
    with urllib.request.urlopen(f"{gateway.url}/v1/audio/voices", timeout=30) as answer:
        result = [voice["id"] for voice in json.load(answer)["voices"]]
    # Those whose weights are on this machine.
    assert result in (["hibari"], [*voices()])
    assert {"tts-1", "gpt-4o-mini-tts"} <= {model.id for model in client.models.list()}


def read_fields(**fields):
    return read(json.dumps({"model": "tts-1", "input": "Hi.", **fields}).encode(), {})


def test_the_fields_of_openai_are_options() -> None:
    result = read_fields(
        voice={"id": "hibari"}, response_format="pcm", speed=2, stream_format="sse"
    )
    voicing = result.voicing
    assert (voicing.format, voicing.rate, result.is_events) == ("pcm_s16", 24_000, True)
    assert voicing.options == {"speed": 2, "voice": "hibari", "format": "pcm_f32"}
    result = read_fields(voice="alloy", instructions="calm", foo=1, sample_rate=48_000)
    voicing = result.voicing
    assert (voicing.format, voicing.rate) == ("mp3", 48_000)
    assert result.ignored == ("instructions", "foo")
    assert voicing.options["voice"] == "alloy"
    assert ignored_header(read_fields(**{"a\nb": 1, "foo": 1}).ignored) == {
        "x-conch-ignored": "foo"
    }
    assert read(b'{"input": "Hi.", "model": "mine"}', {"mine": "conch"}).text == "Hi."


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"input": 5}, "input takes a text; sent: 5"),
        ({"input": "x" * (MAX_INPUT + 1)}, "at most 100000 characters; sent: 100001"),
        ({"model": "gpt-9"}, "no model 'gpt-9'; this server has conch, tts-1"),
        ({"response_format": "ogg"}, "response_format takes mp3, opus"),
        ({"stream_format": "x"}, "stream_format takes audio, sse"),
        ({"voice": 3}, "voice takes the name of a voice; sent: 3"),
        ({"response_format": "opus", "sample_rate": 44_100}, "with format opus"),
        ({"speed": "fast"}, "option 'speed' takes a number"),
    ],
)
def test_a_wrong_field_is_named(fields, said) -> None:
    with pytest.raises((ApiError, InvalidRequestError), match=said):
        read_fields(**fields)


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b'{"input": ', b"\xff"])
def test_a_body_is_a_json_object(body: bytes) -> None:
    with pytest.raises(ApiError, match="the body takes a JSON object"):
        read(body, {})

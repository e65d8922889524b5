"""Recordings by the unmodified `openai` package, as applications that know OpenAI's service do."""

import asyncio
import json
import math
import os
import re
from collections.abc import Iterator

import openai
import pytest
import requests
from gateways import Gateway
from http_server import Asked, http_server
from openai import AsyncOpenAI, OpenAI
from recordings import wer

pytestmark = [
    pytest.mark.server,
    # A format that the package of a year ago does not know: it warns of it by what is deprecated.
    pytest.mark.filterwarnings("ignore:The 'warn' method:DeprecationWarning"),
]

CONCHS = ("conch", "conch-attention", "conch-moonshine", "conch-ctc", "conch-wfst")
LISTED = {
    *(*CONCHS, "whisper-1", "gpt-transcribe", "gpt-4o-transcribe", "gpt-4o-mini-transcribe"),
    *("gpt-4o-transcribe-diarize", "gpt-live-transcribe", "gpt-realtime-whisper"),
    *("tts-1", "tts-1-hd", "gpt-4o-mini-tts"),
}
CUE = re.compile(r"(\d\d:\d\d:\d\d[,.]\d{3}) --> (\d\d:\d\d:\d\d[,.]\d{3})\n((?:.+\n)+)")


@pytest.fixture(scope="module")
def client(gateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=gateway.openai_url, api_key="any", max_retries=0) as made:
        yield made


def secure_client(locked: Gateway, key: str) -> OpenAI:
    transport = openai.DefaultHttpxClient(verify=locked.trust)
    return OpenAI(base_url=locked.openai_url, api_key=key, max_retries=0, http_client=transport)


def conforming(answer):
    """Return an answer of the SDK, which takes what it gets; fail if its types say otherwise."""
    type(answer).model_validate(answer.to_dict(mode="json"), strict=True)
    return answer


def test_the_version_is_the_one_that_is_meant():
    assert openai.__version__ == os.environ.get("OPENAI_MEANT", openai.__version__)


def test_json_is_the_default(client, speech):
    answer = conforming(client.audio.transcriptions.create(file=speech.path, model="whisper-1"))
    assert wer(speech.text, answer.text) < 0.2
    assert answer.usage.type == "duration"
    assert answer.usage.seconds == math.ceil(len(speech.waveform()) / 16_000)
    assert answer.logprobs is None


def test_formats_of_plain_text(client, talk):
    def text_as(form: str) -> str:
        answer = client.audio.transcriptions.create(
            file=talk.path, model="conch", response_format=form
        )
        assert isinstance(answer, str)
        return answer

    text = text_as("text").strip()
    assert wer(talk.text, text) < 0.2
    for form, mark in (("srt", ","), ("vtt", ".")):
        captions = text_as(form)
        cues = CUE.findall(captions)
        assert " ".join(word for cue in cues for word in cue[2].split()) == text
        assert all(mark in time for cue in cues for time in cue[:2])
        assert [cue[0] for cue in cues] == sorted(cue[0] for cue in cues)
        assert captions.startswith("1\n00:00:" if form == "srt" else "WEBVTT\n\n")


def test_verbose_json_has_segments_and_words(client, talk):
    answer = conforming(
        client.audio.transcriptions.create(
            file=talk.path,
            model="whisper-1",
            response_format="verbose_json",
            timestamp_granularities=["word", "segment"],
            language="en",
            temperature=0.0,
        )
    )
    assert wer(talk.text, answer.text) < 0.2
    assert answer.language == "english"
    assert answer.duration == pytest.approx(len(talk.waveform()) / 16_000, abs=0.01)
    assert [segment.id for segment in answer.segments] == list(range(len(answer.segments)))
    assert len(answer.segments) > 1
    assert " ".join(segment.text.strip() for segment in answer.segments) == answer.text
    assert " ".join(word.word for word in answer.words) == answer.text
    times = [time for word in answer.words for time in (word.start, word.end)]
    assert times == sorted(times)
    for segment in answer.segments:
        assert any(segment.start <= word.start < segment.end for word in answer.words)
        assert segment.avg_logprob < 0
        assert segment.tokens == [] or all(token >= 0 for token in segment.tokens)


def test_events_of_a_stream_add_up_to_its_last(client, talk):
    def events_of(**more):
        stream = client.audio.transcriptions.create(
            file=talk.path, model="conch", stream=True, **more
        )
        *deltas, done = map(conforming, stream)
        assert {event.type for event in deltas} == {"transcript.text.delta"}
        assert done.type == "transcript.text.done"
        return deltas, done

    deltas, done = events_of()
    assert wer(talk.text, done.text) < 0.2
    assert "".join(event.delta for event in deltas) == done.text
    assert len(deltas) > 1, "one for each segment"
    assert done.logprobs is None
    deltas, done = events_of(include=["logprobs"])
    assert "".join(item.token for item in done.logprobs) == done.text
    for event in deltas:
        assert "".join(item.token for item in event.logprobs) == event.delta


def test_logprobs_spell_the_text(client, speech):
    answer = conforming(
        client.audio.transcriptions.create(
            file=speech.path,
            model="conch",
            response_format="json",
            include=["logprobs"],
            chunking_strategy={"type": "server_vad", "silence_duration_ms": 500},
        )
    )
    assert "".join(item.token for item in answer.logprobs) == answer.text
    for item in answer.logprobs:
        assert bytes(map(int, item.bytes)).decode() == item.token
        assert item.logprob <= 0


def test_options_of_conch_are_extra_fields_and_unknown_fields_are_ignored(client, speech):
    answer = client.audio.transcriptions.create(
        file=speech.path,
        model="conch",
        response_format="conch",
        language="en",
        prompt="A speech of the President.",
        extra_body={"nbest": 3, "rescore": True, "word_timestamps": True, "metadata": {"a": "b"}},
    ).to_dict()
    assert wer(speech.text, answer["text"]) < 0.2
    assert len(answer["nbest"]) == 3
    assert any("rescorer" in component for component in answer["path"])
    assert all("lm_score" in hypothesis for hypothesis in answer["nbest"])
    assert answer["segments"][0]["words"][0]["confidence"] > 0
    assert answer["stages"]["total"]["ms"] > 0


def test_a_file_that_is_cut_off_is_told_in_every_format(client, speech):
    whole = speech.path.read_bytes()
    file = (speech.path.name, whole[: len(whole) * 2 // 3])
    create = client.audio.transcriptions.with_raw_response.create
    for form in ("json", "verbose_json", "text", "srt"):
        raw = create(file=file, model="conch", response_format=form)
        (warning,) = json.loads(raw.headers["x-conch-warnings"])
        assert "cut off" in warning
        if "json" in form:
            assert conforming(raw.parse()).to_dict()["warnings"] == [warning]
    *_, last = client.audio.transcriptions.create(file=file, model="conch", stream=True)
    assert conforming(last).to_dict()["warnings"] == [warning]
    raw = create(file=speech.path, model="conch")
    assert "x-conch-warnings" not in raw.headers
    assert "warnings" not in raw.parse().to_dict()
    assert raw.parse()._request_id == raw.headers["x-request-id"]


@pytest.mark.parametrize("model", ["whisper-1", *CONCHS])
def test_a_model_chooses_the_path(client, speech, model):
    answer = client.audio.transcriptions.create(
        file=speech.path, model=model, response_format="conch"
    ).to_dict()
    assert wer(speech.text, answer["text"]) < 0.4
    used = {"attention_decoder", "ctc_decoder", "moonshine_decoder"} & set(answer["path"])
    others = {"conch-ctc": "ctc", "conch-wfst": "ctc", "conch-attention": "attention"}
    assert used == {f"{others.get(model, 'moonshine')}_decoder"}


def test_models_are_listed_and_told_one_by_one(client):
    listed = [conforming(model) for model in client.models.list()]
    assert {model.id for model in listed} == LISTED
    assert all(model.object == "model" for model in listed)
    assert conforming(client.models.retrieve("whisper-1")) in listed
    dated = "gpt-4o-mini-transcribe-2025-12-15"
    assert conforming(client.models.retrieve(dated)).id == dated
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("gpt-4o")
    assert "conch-ctc" in caught.value.message and "conch-kaldi" not in caught.value.message


@pytest.mark.parametrize(
    ("sent", "param", "words"),
    [
        ({"extra_body": {"nbest": 1000}}, "nbest", "from 1 to 128"),
        ({"extra_body": {"rescore": "maybe"}}, "rescore", "maybe"),
        ({"extra_body": {"decoder": "ctc", "ctc_rescore": True}}, "ctc_rescore", "attention"),
        ({"response_format": "docx"}, "response_format", "verbose_json"),
        ({"file": ("talk.txt", b"no sound, but words" * 9)}, "file", "found text"),
        ({"file": ("talk.wav", b"")}, "file", "empty"),
        ({"timestamp_granularities": ["syllable"]}, "timestamp_granularities", "word"),
    ],
)
def test_what_is_wrong_with_a_request_is_told(client, speech, sent, param, words):
    with pytest.raises(openai.BadRequestError) as caught:
        client.audio.transcriptions.create(**{"file": speech.path, "model": "conch", **sent})
    error = caught.value
    assert set(error.body) == {"message", "type", "param", "code"}
    assert error.type == "invalid_request_error"
    assert error.param == param
    assert words in error.message
    assert error.request_id


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
def test_only_english_goes_out(client, speech):
    with pytest.raises(openai.BadRequestError) as caught:
        client.audio.translations.create(file=speech.path, model="whisper-1")
    assert caught.value.param == "model"
    assert "translat" in caught.value.message


def test_a_body_of_another_kind_is_refused(client):
    with pytest.raises(openai.APIStatusError) as caught:
        client.post("/audio/transcriptions", body={"model": "conch"}, cast_to=object)
    assert caught.value.status_code == 415
    assert "multipart/form-data" in caught.value.message
    with pytest.raises(openai.NotFoundError):
        client.post("/chat/completions", body={"model": "conch"}, cast_to=object)


async def test_formats_at_once_without_waiting(gateway, speech):
    forms = ("json", "text", "srt", "verbose_json", "vtt")

    async with AsyncOpenAI(base_url=gateway.openai_url, api_key="any") as client:
        create = client.audio.transcriptions.create
        events = await create(file=speech.path, model="conch", stream=True)
        last = [event async for event in events][-1]
        assert {model.id async for model in client.models.list()} == LISTED
        with pytest.raises(openai.BadRequestError):
            await create(file=speech.path, model="conch", extra_body={"beam_size": 0})
        requests = [create(file=speech.path, model="conch", response_format=form) for form in forms]
        answers = [last, *await asyncio.gather(*requests)]
    texts = [getattr(answer, "text", answer) for answer in answers]
    assert len(texts) == 1 + len(forms)
    for text in texts:
        assert texts[0] in " ".join(text.split())


def test_a_busy_answer_is_tried_again(gateway, speech):
    statuses: list[int] = []

    def busy_at_first(asked: Asked) -> tuple[int, bytes]:
        status, body = 503, b""
        if statuses:
            url, headers = f"{gateway.url}{asked.path}", dict(asked.headers)
            answer = requests.post(url, asked.body, headers=headers, timeout=60)
            status, body = answer.status_code, answer.content
        statuses.append(status)
        return status, body

    headers = {"Content-Type": "application/json", "Retry-After": "1"}
    with (
        http_server(busy_at_first, headers=headers) as port,
        OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="any") as client,
    ):
        answer = client.audio.transcriptions.create(file=speech.path, model="conch")
    assert wer(speech.text, answer.text) < 0.2
    assert statuses == [503, 200]


def test_a_key_opens_what_is_locked(locked, speech):
    with secure_client(locked, locked.key) as client:
        assert {model.id for model in client.models.list()} == LISTED
        answer = client.audio.transcriptions.create(file=speech.path, model="conch")
        assert wer(speech.text, answer.text) < 0.2
    for key in ("conch_wrong", "any"):
        with secure_client(locked, key) as client:
            with pytest.raises(openai.AuthenticationError) as caught:
                client.audio.transcriptions.create(file=speech.path, model="conch")
            assert set(caught.value.body) == {"message", "type", "param", "code"}
            assert key not in caught.value.message
            with pytest.raises(openai.AuthenticationError):
                client.models.list()

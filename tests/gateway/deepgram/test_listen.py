"""`/v1/listen` for Deepgram's clients, over clients that never reach a server."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from audio_files import audio_file
from http_answers import answer_to
from live_updates import said, update
from loop_gateway import LoopGateway, loop_gateway, until
from plain_live import PlainLiveClient, spoken
from sockets import Socket, listening_to

from conch.client.tensors import Request
from conch.gateway.deepgram.parameters import FileParameters, LiveParameters, read
from conch.gateway.deepgram.results import LiveResults, file_answer
from conch.wire.errors import ComponentError
from conch.wire.result import (
    Channel,
    Hypothesis,
    OpenUtterance,
    Segment,
    Transcript,
    TurnEvent,
    Word,
)

RAW = "encoding=linear16&sample_rate=16000"
BEST = Hypothesis("", 0.0, 0.0)


def deepgrams(running: LoopGateway, query: str = RAW, **settings: Any) -> Any:
    return listening_to(running.url, query, "/v1/listen", **settings)


async def result(socket: Socket) -> tuple[str, bool, bool, bool]:
    """Return text, `is_final`, `speech_final` and `from_finalize` of the next result."""
    message = await socket.message("Results")
    flags = (message[name] for name in ("is_final", "speech_final", "from_finalize"))
    return (message["channel"]["alternatives"][0]["transcript"], *flags)


async def test_a_session_from_its_first_message_to_its_end(running: LoopGateway) -> None:
    query = f"{RAW}&model=nova-3&interim_results=true&vad_events=true&punctuate=true"
    audio = [spoken(1, 1.0), spoken(0, 0.5), spoken(2, 0.1)]
    async with deepgrams(running, query) as socket:
        await socket.send(audio[0])
        started = await socket.message()
        assert started == {"type": "SpeechStarted", "channel": [0, 1], "timestamp": 0.0}
        interim = await socket.message()
        assert interim["metadata"].pop("request_id").startswith("req_")
        assert len(interim["metadata"].pop("model_uuid")) == 36
        assert interim["metadata"]["model_info"].pop("version")
        word = {"word": "one", "punctuated_word": "one", "start": 0.0, "end": 1.0}
        alternative = {
            "transcript": "one",
            "confidence": 1.0,
            "words": [{**word, "confidence": 1.0}],
        }
        assert interim == {
            "type": "Results",
            "channel_index": [0, 1],
            "start": 0.0,
            "duration": 1.0,
            "is_final": False,
            "speech_final": False,
            "from_finalize": False,
            "channel": {"alternatives": [alternative]},
            "metadata": {"model_info": {"name": "nova-3", "arch": "conch"}},
        }
        await socket.say("KeepAlive")
        await socket.send(audio[1])
        assert await result(socket) == ("ONE", True, True, False)
        await socket.send(audio[2])
        await socket.message("SpeechStarted")
        await socket.say("CloseStream")
        *_, final, metadata = await socket.rest()
    assert (final["is_final"], final["speech_final"]) == (True, True)
    heard = hashlib.sha256(b"".join(part.tobytes() for part in audio)).hexdigest()
    assert metadata["type"] == "Metadata"
    assert (metadata["sha256"], metadata["duration"], metadata["channels"]) == (heard, 1.6, 1)
    assert [metadata["model_info"][uuid]["name"] for uuid in metadata["models"]] == ["nova-3"]
    assert socket.code == 1000
    labels = {"route": "/v1/listen", "key": "anybody"}
    await until(lambda: running.metric("conch_gateway_audio_seconds_total", **labels) > 1.5)


async def test_without_parameters_only_final_bare_words_come(running: LoopGateway) -> None:
    async with deepgrams(running) as socket:
        await socket.send(spoken(1, 1.0))
        await socket.send(spoken(0, 0.5))
        await socket.send(spoken(0, 0.5))
        first, *_ = [await socket.message()]
        await socket.say("CloseStream")
        assert [message["type"] for message in await socket.rest()] == ["Metadata"]
    (alternative,) = first["channel"]["alternatives"]
    assert (alternative["transcript"], first["is_final"]) == ("one", True)
    assert "punctuated_word" not in alternative["words"][0]
    assert running.client.options[0]["partials"] is False


async def test_finalize_is_answered_with_the_text_or_without_any(running: LoopGateway) -> None:
    async with deepgrams(running) as socket:
        await socket.send(spoken(3, 0.5))
        for text in ("three", ""):
            await socket.say("Finalize")
            assert await result(socket) == (text, True, True, True)


async def test_a_message_that_is_none_is_reported_and_the_session_goes_on(
    running: LoopGateway,
) -> None:
    async with deepgrams(running) as socket:
        for sent in ('{"type":"close"}', "[", '{"kind":1}'):
            await socket.socket.send_str(sent)
            error = await socket.message()
            assert (error["type"], error["variant"]) == ("Error", "SchemaError")
            assert "CloseStream, KeepAlive, Finalize" in error["description"]
        await socket.say("CloseStream")
        assert (await socket.message())["type"] == "Metadata"


async def test_an_error_of_the_server_is_told_before_the_close_frame() -> None:
    client = PlainLiveClient(fail=lambda sent: ComponentError("the decoder has failed"))
    async with loop_gateway(client) as running, deepgrams(running) as socket:
        await socket.send(spoken(1, 1.0))
        (error,) = await socket.rest()
        assert (error["type"], error["variant"]) == ("Error", "COMPONENT_FAILED")
        assert socket.code == 1011


@pytest.mark.parametrize(
    "settings",
    [
        {"query": "encoding=pcm16"},
        {"query": "mode=streaming"},
        {"query": "include=stats&encoding=mulaw"},
        {"query": "", "protocols": ("conch", "openai-insecure-api-key.any")},
    ],
)
async def test_conchs_own_protocol_is_known_at_its_address_of_before(
    running: LoopGateway, settings: dict[str, Any]
) -> None:
    async with deepgrams(running, **settings) as socket:
        assert (await socket.message())["type"] == "ready"
        await socket.say("close")
        assert (await socket.message("end"))["text"] == ""


async def test_a_browser_offers_its_key_behind_the_scheme(running: LoopGateway) -> None:
    for scheme in ("token", "bearer"):
        async with deepgrams(running, protocols=(scheme, "KEY")) as socket:
            assert socket.socket.protocol == scheme


async def test_wishes_that_the_server_lacks_are_left_out(running: LoopGateway) -> None:
    running.servers.lacking = {"punctuator"}
    async with deepgrams(running, f"{RAW}&smart_format=true") as socket:
        await socket.send(spoken(1, 0.5))
        await until(lambda: bool(running.client.options))
    sent = running.client.options[0]
    assert (sent["itn"], sent.get("punctuate")) == (True, None)


async def test_a_wrong_query_is_answered_in_deepgrams_shape(running: LoopGateway) -> None:
    status, headers, error = await answer_to("GET", f"{running.url}/v1/listen?redact=pci")
    assert (status, error["err_code"]) == (400, "INVALID_VALUE")
    assert error["err_msg"] == "redact has no counterpart here: leave it out"
    assert error["request_id"] == headers["x-request-id"]


def live(query: str = "") -> LiveResults:
    pairs = [(name, value) for name, _, value in (part.partition("=") for part in query.split("&"))]
    asked = read(LiveParameters, [pair for pair in pairs if pair[0]])
    return LiveResults(asked, 1.0, "req_1", hashlib.sha256())


def texts(messages: Any) -> list[tuple[str, bool]]:
    return [
        (item["channel"]["alternatives"][0]["transcript"], item["speech_final"])
        if item["type"] == "Results"
        else (item["type"], True)
        for item in messages
    ]


def test_final_results_keep_their_order() -> None:
    results = live("interim_results=true")
    spoken = OpenUtterance(2.0, (Word("two", 2.0, 2.5, 1.0),))
    assert texts(results.after(update(2.0, said(0, 1.0, is_final=False), index=1))) == []
    later = update(4.0, said(1, 3.0), index=2, spoken=spoken)
    assert texts(results.after(later)) == []
    after = update(4.5, said(0, 1.0), index=2, spoken=spoken)
    assert texts(results.after(after)) == [("word0", True), ("word1", True), ("two", False)]
    assert texts(results.after(update(5.0, index=2, spoken=spoken))) == [], "it is shown once"


def test_the_end_of_an_utterance_is_told_once_after_its_silence() -> None:
    results = live("utterance_end_ms=1500")
    assert texts(results.after(update(2.0, said(0, 1.0), index=1))) == [("word0", True)]
    spoken = OpenUtterance(2.2, (Word("two", 2.2, 2.6, 1.0),))
    assert texts(results.after(update(2.6, index=1, spoken=spoken))) == []
    assert texts(results.after(update(2.6, index=1))) == [("UtteranceEnd", True)]
    assert texts(results.after(update(9.0, index=1))) == []


def test_silence_after_an_utterance_that_was_cut_ends_the_speech() -> None:
    results = live()
    assert texts(results.after(update(2.0, said(0, 1.8, "length"), index=1))) == [("word0", False)]
    assert texts(results.after(update(2.7, index=1))) == []
    assert texts(results.after(update(2.9, index=1))) == [("", True)]
    assert texts(results.after(update(9.0, index=1))) == []


def test_without_endpointing_no_result_ends_the_speech() -> None:
    results = live("endpointing=false")
    found = texts(results.after(update(2.0, said(0, 1.0), said(1, 1.9, "length"), index=2)))
    assert found == [("word0", False), ("word1", False)]
    assert texts(results.after(update(9.0, index=2))) == []
    assert texts(results.after(update(9.5, said(2, 9.4, "end"), index=3))) == [("word2", True)]


def test_noise_has_an_end_too() -> None:
    results = live("vad_events=true")
    begun, noise = TurnEvent("speech_started", 0.5, 0), update(1.0, spoken=OpenUtterance(0.5))
    for _ in range(2):
        assert texts(results.after(update(0.6, events=(begun,)))) == [("SpeechStarted", True)]
        assert texts(results.after(noise)) == []
        assert texts(results.after(update(2.0))) == [("", True)]
        assert texts(results.after(update(2.5))) == []


def test_a_begin_is_told_again_after_the_late_end_of_the_speech_before() -> None:
    results = live("vad_events=true&utterance_end_ms=1000")
    first, second = (TurnEvent("speech_started", at, index) for index, at in enumerate((0.4, 2.6)))
    assert texts(results.after(update(0.6, events=(first,)))) == [("SpeechStarted", True)]
    assert texts(results.after(update(2.0, said(0, 1.0, is_final=False), index=1))) == []
    assert texts(results.after(update(2.7, events=(second,), index=1))) == [("SpeechStarted", True)]
    late = update(2.9, said(0, 1.0), index=1, spoken=OpenUtterance(2.6))
    assert texts(results.after(late)) == [("word0", True), ("SpeechStarted", True)]


def test_the_end_of_an_utterance_comes_before_the_words_after_its_silence() -> None:
    results = live("utterance_end_ms=1000")
    news = update(5.0, said(0, 1.0), said(1, 4.9), index=2)
    assert texts(results.after(news)) == [
        ("word0", True),
        ("UtteranceEnd", True),
        ("word1", True),
    ]


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("\u0939\u0948\u0902\u0964", "\u0939\u0948\u0902"),
        ("\u0e17\u0e35\u0e48", "\u0e17\u0e35\u0e48"),
        ("Cafe\u0301!", "cafe\u0301"),
        ("-5,", "-5"),
        ("C++.", "c++"),
        ("\u201cC#\u201d", "c#"),
        ("($21.50)", "$21.50"),
        ("50%.", "50%"),
        ("-no-", "no"),
        ("\u2026", "\u2026"),
    ],
)
def test_a_word_keeps_what_is_no_punctuation(text: str, bare: str) -> None:
    results = live()
    alternative = results.alternative(text, [Word(text, 0.0, 1.0, 1.0)])
    assert (alternative["words"][0]["word"], alternative["transcript"]) == (bare, bare)


def transcript() -> Transcript:
    """Return the text of two channels, the first with two speakers."""
    words = [
        Word("Good", 0.0, 0.4, 0.5, "B"),
        Word("day.", 0.5, 0.9, 0.7, "B"),
        Word("$21!", 1.0, 1.4, 0.6, "A"),
        Word("Bye", 3.0, 3.4, 0.6, "A"),
    ]
    first = Segment(0.0, 3.4, (Hypothesis("Good day. $21! Bye", 0, 0),), tuple(words), channel=1)
    second = Segment(
        0.2, 1.0, (Hypothesis("Yes", 0, 0),), (Word("Yes", 0.2, 1.0, 1.0, "A"),), channel=2
    )
    channels = (Channel(1, "", 0.0), Channel(2, "", 0.0))
    return Transcript((BEST,), (first, second), 4.0, (), {}, channels=channels, language="en")


def test_a_recording_has_channels_and_utterances() -> None:
    query = [("utterances", "true"), ("punctuate", "true"), ("detect_language", "true")]
    answer = file_answer(transcript(), read(FileParameters, query), "req_1", "abc")
    assert answer["metadata"]["sha256"] == "abc"
    assert (answer["metadata"]["channels"], answer["metadata"]["duration"]) == (2, 4.0)
    first, second = answer["results"]["channels"]
    assert first["detected_language"] == "en"
    (best,) = first["alternatives"]
    assert best["transcript"] == "Good day. $21! Bye"
    assert best["confidence"] == pytest.approx(0.6)
    assert [(word["word"], word["speaker"]) for word in best["words"]] == [
        *(("good", 0), ("day", 0), ("$21", 1), ("bye", 1))
    ]
    assert second["alternatives"][0]["transcript"] == "Yes"
    utterances = [
        (item["transcript"], item["channel"], item["speaker"], item["start"], item["end"])
        for item in answer["results"]["utterances"]
    ]
    assert utterances == [
        ("Good day.", 0, 0, 0.0, 0.9),
        ("Yes", 1, 1, 0.2, 1.0),
        ("$21!", 0, 1, 1.0, 1.4),
        ("Bye", 0, 1, 3.0, 3.4),
    ]
    assert len({item["id"] for item in answer["results"]["utterances"]}) == 4


def test_a_bare_text_has_no_punctuation_and_no_case() -> None:
    answer = file_answer(transcript(), read(FileParameters, []), "req_1", "abc")
    first, _ = answer["results"]["channels"]
    assert first["alternatives"][0]["transcript"] == "good day $21 bye"
    assert "utterances" not in answer["results"] and "detected_language" not in first


class FileServer:
    """Keeps what it is asked, and answers with a transcript."""

    models: tuple[str, ...] = ()
    asked: Request

    async def ready_models(self, models: Any) -> set[str]:
        return {*models}

    async def answer(self, ask: Callable[[Any], Awaitable[Any]], name: str) -> Any:
        return await ask(self)

    async def infer(self, request: Request) -> Transcript:
        self.asked, self.bytes = request, b"".join(request.inputs["AUDIO"].item().pieces())
        return transcript()


@pytest.mark.parametrize(
    ("query", "head"),
    [("", b""), ("encoding=mulaw&channels=2", b"RIFF"), (f"{RAW}&multichannel=true", b"RIFF")],
)
async def test_a_body_is_a_recording_and_raw_samples_get_a_header(
    running: LoopGateway, query: str, head: bytes
) -> None:
    running.gateway.servers = server = FileServer()  # type: ignore[assignment]
    audio = np.arange(100, dtype="<i2").tobytes()
    status, _, body = await answer_to("POST", f"{running.url}/v1/listen?{query}", data=audio)
    assert status == 200, body
    assert body["metadata"]["sha256"] == hashlib.sha256(audio).hexdigest()
    assert (server.bytes[:4] == b"RIFF") == bool(head) and server.bytes.endswith(audio)
    assert server.asked.parameters.get("channels") == ("split" if "multi" in query else None)
    labels = {"route": "/v1/listen", "key": "anybody"}
    assert running.metric("conch_gateway_audio_seconds_total", **labels) == 4.0


@pytest.mark.parametrize(
    ("settings", "status", "said"),
    [
        ({"json": {"url": "http://a/b.wav"}}, 415, "fetches no url"),
        ({"data": b""}, 400, "the file is empty"),
        (
            {"data": audio_file(np.zeros(800), 8000), "params": {"encoding": "mulaw"}},
            400,
            "the audio begins like a container (wav)",
        ),
    ],
)
async def test_what_is_no_recording_is_refused(
    running: LoopGateway, settings: Any, status: int, said: str
) -> None:
    answer = await answer_to("POST", f"{running.url}/v1/listen", **settings)
    assert answer.status == status
    assert said in answer.body["err_msg"]

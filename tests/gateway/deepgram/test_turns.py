"""`/v2/listen`: turns of a conversation, over clients that never reach a server."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from http_answers import answer_to
from live_updates import said, update
from loop_gateway import LoopGateway
from plain_live import spoken
from sockets import listening_to

from conch.gateway.deepgram.turns import TurnMessages
from conch.gateway.live_session import LiveUpdate
from conch.session.resume_state import LOST
from conch.wire.result import OpenUtterance, TurnEvent, Word

RAW = "model=flux-general-en&encoding=linear16&sample_rate=16000"


def flux(running: LoopGateway, query: str = "", *, has_model: bool = True) -> Any:
    running.servers.lacking = set() if has_model else {"end_of_turn"}
    return listening_to(running.url, RAW + query, "/v2/listen")


def told(message: Mapping[str, Any]) -> tuple[str, int, str]:
    return message["event"], message["turn_index"], message["transcript"]


async def test_turns_from_the_first_message_to_the_end(running: LoopGateway) -> None:
    thresholds = "&eot_threshold=0.8&eager_eot_threshold=0.5&eot_timeout_ms=700"
    async with flux(running, thresholds + "&keyterm=Conch&numerals=false&tag=x") as socket:
        connected = await socket.message()
        assert connected.pop("request_id").startswith("req_")
        assert connected == {"type": "Connected", "sequence_id": 0}
        await socket.send(spoken(1, 1.0))
        started = await socket.message()
        assert started.pop("request_id").startswith("req_")
        assert started == {
            "type": "TurnInfo",
            "sequence_id": 1,
            "event": "StartOfTurn",
            "turn_index": 0,
            "audio_window_start": 0.0,
            "audio_window_end": 1.0,
            "transcript": "",
            "words": [],
            "end_of_turn_confidence": 0.0,
        }
        update = await socket.message()
        assert told(update) == ("Update", 0, "one")
        assert update["words"] == [{"word": "one", "confidence": 1.0, "start": 0.0, "end": 1.0}]
        await socket.send(spoken(0, 0.25))
        eager = await socket.message()
        assert told(eager) == ("EagerEndOfTurn", 0, "one")
        assert eager["end_of_turn_confidence"] == 0.6
        await socket.send(spoken(2, 0.5))
        assert told(await socket.message()) == ("TurnResumed", 0, "one two")
        assert told(await socket.message()) == ("Update", 0, "one two")
        await socket.send(spoken(0, 0.5))
        ended = await socket.message("TurnInfo")
        assert told(ended) == ("EndOfTurn", 0, "one two")
        assert ended["trigger"] == "model", "0.2 s before the time limit"
        await socket.send(spoken(3, 0.5))
        assert told(await socket.message()) == ("StartOfTurn", 1, "")
        assert told(await socket.message()) == ("Update", 1, "three")
        await socket.say("ForceEndTurn")
        forced = await socket.message()
        assert (*told(forced), forced["trigger"]) == ("EndOfTurn", 1, "THREE", "manual")
        await socket.say("CloseStream")
        assert await socket.rest() == []
    assert socket.code == 1000
    assert forced["sequence_id"] == 9
    sent = running.client.options[0]
    assert (sent["end_threshold"], sent["eager_end_threshold"]) == (0.8, 0.5)
    assert (sent["endpoint_silence_ms"], sent["names"]) == (700, "Conch")


async def test_without_its_threshold_no_end_is_eager(running: LoopGateway) -> None:
    async with flux(running) as socket:
        await socket.message("Connected")
        for number, seconds in ((1, 0.5), (0, 0.25), (0, 0.3)):
            await socket.send(spoken(number, seconds))
        events = [(await socket.message())["event"] for _ in range(3)]
    assert events == ["StartOfTurn", "Update", "EndOfTurn"]
    sent = running.client.options[0]
    assert sent["eager_end_threshold"] == 1 and "end_threshold" not in sent


async def test_a_server_without_the_model_warns_that_no_end_is_eager(
    running: LoopGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    async with flux(running, "&eager_eot_threshold=0.5", has_model=False) as socket:
        assert (await socket.message())["type"] == "Connected"
        warning = await socket.message()
        assert (warning["type"], warning["sequence_id"]) == ("Warning", 1)
        assert "conch models get" in warning["description"]


async def test_other_settings_need_another_session(running: LoopGateway) -> None:
    async with flux(running) as socket:
        await socket.message("Connected")
        await socket.say("Configure", thresholds={"eot_threshold": 0.6})
        failure = await socket.message()
        assert (failure["type"], failure["sequence_id"]) == ("ConfigureFailure", 1)
        await socket.say("Finalize")
        error = await socket.message()
        assert (error["type"], error["code"], error["sequence_id"]) == ("Error", "SchemaError", 2)
        assert "CloseStream, KeepAlive, ForceEndTurn" in error["description"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("&eot_threshold=0.4", "eot_threshold.*0.5 to 0.9"),
        ("&eager_eot_threshold=0.8&eot_threshold=0.7", "at most eot_threshold, 0.7; sent: 0.8"),
        ("&eot_timeout_ms=100", "eot_timeout_ms.*500 to 10000"),
        ("&interim_results=true", "interim_results"),
        ("&eot_treshold=0.7", "eot_threshold"),
    ],
)
async def test_a_wrong_parameter_is_named(running: LoopGateway, query: str, message: str) -> None:
    answer = await answer_to("GET", f"{running.url}/v2/listen?{RAW}{query}")
    assert answer.status == 400
    assert re.search(message, answer.body["err_msg"])


def events(turns: TurnMessages, news: LiveUpdate) -> list[tuple[str, int, str]]:
    return [told(message) for message in turns.after(news)]


def test_a_turn_goes_on_where_its_length_ends_an_utterance() -> None:
    turns = TurnMessages("req_1", 1.0)
    cut = update(30.0, said(0, 29.5, "length"), index=1)
    assert events(turns, cut) == [("StartOfTurn", 0, "")]
    spoken = OpenUtterance(29.6, (Word("more", 29.6, 30.2, 1.0),))
    going_on = update(30.3, spoken=spoken, index=1)
    assert events(turns, going_on) == [("Update", 0, "word0 more")]
    (end,) = turns.after(update(31.4, said(1, 30.3), index=2))
    assert (*told(end), end["trigger"]) == ("EndOfTurn", 0, "word0 word1", "timeout")
    assert [word["word"] for word in end["words"]] == ["word0", "word1"]
    again = update(32.0, said(1, 30.3), index=2)
    assert events(turns, again) == [], "a second pass comes too late for its turn"


def test_silence_after_an_utterance_that_was_cut_ends_the_turn() -> None:
    turns = TurnMessages("req_1", 1.0)
    assert events(turns, update(30.0, said(0, 29.5, "length"), index=1))
    assert events(turns, update(30.4, index=1)) == []
    assert events(turns, update(30.5, index=1)) == [("EndOfTurn", 0, "word0")]
    assert events(turns, update(39.0, index=1)) == []


def test_a_lost_server_ends_no_turn() -> None:
    turns = TurnMessages("req_1", 1.0)
    more = OpenUtterance(1.0, (Word("three", 1.0, 1.4, 1.0),))
    news = update(1.5, said(0, 0.9, LOST), spoken=more, index=1)
    assert events(turns, news) == [("StartOfTurn", 0, ""), ("Update", 0, "word0 three")]
    end = update(2.9, said(1, 1.5), index=2)
    assert events(turns, end) == [("EndOfTurn", 0, "word0 word1")]


def test_words_that_another_server_hears_again_are_in_one_turn() -> None:
    turns = TurnMessages("req_1", 1.0)
    first = update(2.0, said(0, 0.9, is_final=False), index=1)
    assert events(turns, first)[-1] == ("EndOfTurn", 0, "word0")
    again = OpenUtterance(0.5, (Word("word0", 0.45, 0.95, 1.0),))
    assert events(turns, update(2.5, spoken=again, index=1)) == []
    assert events(turns, update(3.0, said(1, 0.9), index=2)) == []
    other = OpenUtterance(0.5, (*again.words, Word("new", 3.0, 3.4, 1.0)))
    told_now = events(turns, update(3.5, spoken=other, index=2))
    assert told_now == [("StartOfTurn", 1, ""), ("Update", 1, "new")]


def test_an_eager_end_has_the_text_of_an_utterance_that_ends_with_it() -> None:
    turns = TurnMessages("req_1", 1.0)
    began, probable = TurnEvent("speech_started", 0.4, 0), TurnEvent("eager_end", 0.9, 0, 0.97)
    news = update(1.2, said(0, 0.9), events=(began, probable), index=1)
    assert events(turns, news) == [
        ("StartOfTurn", 0, ""),
        ("EagerEndOfTurn", 0, "word0"),
        ("EndOfTurn", 0, "word0"),
    ]


def test_noise_is_a_turn_without_words() -> None:
    turns = TurnMessages("req_1", 1.0)
    begun = update(0.6, events=(TurnEvent("speech_started", 0.4, 0),))
    assert events(turns, begun) == [("StartOfTurn", 0, "")]
    assert events(turns, update(1.0, spoken=OpenUtterance(0.4))) == []
    assert events(turns, update(2.5)) == [("EndOfTurn", 0, "")]
    assert events(turns, update(3.0, finalized=True)) == []

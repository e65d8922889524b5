"""What a client of /v1/conch/listen is told after each update."""

import gc
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from live_answers import answer, segment, words

from conch.gateway.listen_messages import MAX_END_TEXT, FrameAnswers, ListenMessages
from conch.gateway.live_segments import LiveSegment
from conch.gateway.live_session import LiveUpdate
from conch.session.answers import latest_segments
from conch.session.resume_state import ResumePoint
from conch.wire.result import OpenUtterance, RollingPasses, Stage, Transcript, TurnEvent


def update(
    spoken: tuple[str, str, str] | None = None, *segments: LiveSegment, index: int = 0, **fields
) -> LiveUpdate:
    firm, tentative, newest = (words(text) for text in spoken or ("", "", ""))
    utterance = None if spoken is None else OpenUtterance(1.5, firm, tentative, newest)
    fields = {"audio_s": 4.0, "transcript": answer(""), **fields}
    return LiveUpdate(utterance=utterance, index=index, segments=segments, **fields)


def types_of(messages: ListenMessages, *updates: LiveUpdate) -> list[list[str]]:
    return [[message["type"] for message in messages.after(item)] for item in updates]


@pytest.fixture
def messages() -> ListenMessages:
    return ListenMessages(has_stats=False)


def test_the_parts_of_an_open_utterance_are_told_once(messages: ListenMessages) -> None:
    (sent,) = messages.after(update(("He was", "here", "all the"), index=3))
    assert sent == {
        "type": "text",
        "index": 3,
        "start": 1.5,
        "firm": "He was",
        "tentative": "here",
        "newest": "all the",
        "text": "He was here all the",
        "audio_s": 4.0,
    }
    assert list(messages.after(update(("He was", "here", "all the"), audio_s=5.0))) == []
    (again,) = messages.after(update(("He was here", "", "all the"), audio_s=5.0))
    assert (again["firm"], again["tentative"]) == ("He was here", "")


def test_an_utterance_without_words_is_not_told_and_one_that_vanishes_is(
    messages: ListenMessages,
) -> None:
    assert types_of(messages, update(None), update(("", "", ""))) == [[], []]
    list(messages.after(update(("so", "", ""))))
    (gone,) = messages.after(update(None))
    assert (gone["text"], gone["firm"], gone["start"]) == ("", "", 4.0)
    assert types_of(messages, update(None)) == [[]]


def test_a_segment_takes_the_place_of_the_open_text(messages: ListenMessages) -> None:
    ended = LiveSegment(segment("so it is", 0), False)
    passed = LiveSegment(segment("So it is.", 0, 2), True)
    assert types_of(
        messages,
        update(("so", "", "")),
        update(None, ended),
        update(("and", "", ""), passed, index=1),
        update(None, LiveSegment(segment("And.", 1, 2), True), finalized=True),
    ) == [["text"], ["segment"], ["segment", "text"], ["segment", "finalized"]]
    assert messages.end() == {"type": "end", "text": "So it is. And.", "duration": 4.0}


def test_a_session_of_a_day_keeps_no_more_text_than_one_of_hours(messages: ListenMessages) -> None:
    def hear(utterances: range) -> str:
        for index in utterances:
            text = f"utterance {index:05d} of the day " * 3
            for is_final in (False, True):
                list(messages.after(update(None, LiveSegment(segment(text, index), is_final))))
        return messages.end()["text"]

    def held_after(utterances: range) -> int:
        hear(utterances)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    assert hear(range(100)).startswith("utterance 00000 of")
    tracemalloc.start()
    hours = held_after(range(100, 2_000))
    assert held_after(range(2_000, 4_000)) < hours + 10_000
    tracemalloc.stop()
    text = messages.end()["text"]
    assert MAX_END_TEXT - 100 < len(text) <= MAX_END_TEXT
    assert text.startswith("utterance 0") and text.rstrip().endswith("utterance 03999 of the day")


def test_the_same_words_in_the_next_utterance_are_told_again(messages: ListenMessages) -> None:
    ended = LiveSegment(segment("yes", 0), True)
    assert types_of(messages, update(("yes", "", "")), update(("yes", "", ""), ended, index=1)) == [
        ["text"],
        ["segment", "text"],
    ]


def test_turns_are_told_before_the_text_that_belongs_to_them(messages: ListenMessages) -> None:
    def heard(*events: TurnEvent) -> Transcript:
        return replace(answer(""), turn_events=events)

    begun, probable = TurnEvent("speech_started", 0.4, 0), TurnEvent("eager_end", 1.2, 0, 0.6)
    later = TurnEvent("speech_started", 3.0, 1)
    assert list(messages.after(update(None, transcript=heard(begun)))) == [
        {"type": "speech_started", "index": 0, "at": 0.4}
    ]
    eager, text = messages.after(update(("So", "it is", ""), transcript=heard(probable)))
    assert eager["text"] == text["text"] == "So it is"
    assert (eager["type"], eager["index"], eager["at"]) == ("eager_end", 0, 1.2)
    assert eager["probability"] == 0.6
    back = TurnEvent("resumed", 1.7, 0)
    ended = LiveSegment(segment("So it is.", 0), True)
    told = update(("and", "", ""), ended, index=1, transcript=heard(back, probable, later))
    sent = list(messages.after(told))
    assert [message["type"] for message in sent] == [
        *("resumed", "eager_end", "segment"),
        *("speech_started", "text"),
    ]
    assert sent[1]["text"] == "So it is."


def test_stats_add_up() -> None:
    messages = ListenMessages(has_stats=True)

    def heard(made: int, *path: str) -> LiveUpdate:
        stages = {name: Stage(2, 1.5) for name in path}
        rolling = RollingPasses(1280, made, 1, 2, 30)
        transcript = answer("", rolling=rolling)
        return update(transcript=replace(transcript, path=path, stages=stages), audio_s=made)

    sent = [
        list(messages.after(item))[-1]
        for item in (
            heard(1, "vad"),
            heard(5, "vad", "ctc"),
            heard(8, "vad"),
            heard(3),
        )
        if item.transcript.path
    ]
    assert [item["stages"]["vad"] for item in sent] == [
        {"calls": 2, "ms": 1.5},
        {"calls": 4, "ms": 3.0},
        {"calls": 6, "ms": 4.5},
    ]
    assert sent[-1]["path"] == ["vad", "ctc"]
    assert [item["rolling"]["made"] for item in sent] == [1, 5, 8]
    assert sent[-1]["rolling"] == {
        "interval_ms": 1280,
        "made": 8,
        "skipped": 1,
        "refused": 2,
        "late_ms": 30,
    }


def test_stats_of_one_pass_have_no_rolling() -> None:
    messages = ListenMessages(has_stats=True)
    said = update(transcript=replace(answer(""), path=("vad",)))
    assert next(iter(messages.after(said)))["rolling"] is None


def test_segments_of_keep_alives_come_with_the_next_answer() -> None:
    answers = FrameAnswers()
    first, second = segment("so", 0), segment("So.", 0, 2)

    def told(*segments, is_keep_alive: bool = False) -> Transcript | None:
        return answers.after(update(transcript=answer("", *segments), is_keep_alive=is_keep_alive))

    assert told(first).segments == (first,)
    assert told(second, is_keep_alive=True) is None
    assert told(is_keep_alive=True) is None
    assert told(segment("and", 1)).segments == (second, segment("and", 1))
    assert told().segments == ()


def test_later_segments_replace_those_before() -> None:
    one, two, passed = segment("one", 1), segment("zero", 0), segment("One", 1, 2)
    assert latest_segments([one, two, passed]) == (two, passed)


def test_where_another_session_would_go_on_is_told_when_it_changes() -> None:
    messages = ListenMessages(has_stats=False, has_resume=True)
    ended = LiveSegment(segment("He even thought", 0), True)

    def resume_at(cut: ResumePoint | None, *segments: LiveSegment) -> list[tuple[float, float]]:
        said = messages.after(update(None, *segments, cut=cut))
        sent = [message for message in said if message["type"] == "resume"]
        return [(message["from"], message["told"]) for message in sent]

    assert resume_at(None) == resume_at(ResumePoint(0.0)) == resume_at(ResumePoint(0.4)) == []
    assert resume_at(ResumePoint(1.5)) == [(1.5, 1.5)]
    assert resume_at(ResumePoint(1.5, ("He", "even"), 2.6)) == [(1.5, 2.6)]
    assert resume_at(ResumePoint(1.9, ("even",), 2.6)) == []
    # A word of an utterance that has ended would be sent twice.
    assert resume_at(ResumePoint(1.9, ("even",), 2.6), ended) == [(1.9, 2.6)]


def test_segments_and_words_have_their_speakers_if_these_are_known() -> None:
    (plain,) = ListenMessages(has_stats=False).after(
        update(None, LiveSegment(replace(segment("Yes.", 0), words=words("Yes.")), True))
    )
    assert "speaker" not in plain and "speaker" not in plain["words"][0]
    said = tuple(replace(word, speaker="B") for word in words("Yes."))
    labelled = replace(segment("Yes.", 0), words=said, speaker="B")
    (sent,) = ListenMessages(has_stats=False).after(update(None, LiveSegment(labelled, True)))
    assert (sent["speaker"], sent["words"][0]["speaker"]) == ("B", "B")


def test_a_segment_says_why_it_has_no_second_pass() -> None:
    why: dict[str, Any] = {
        "error": "no second pass: 4 of this stream wait",
        "error_code": "OVERLOADED",
    }
    left_out = LiveSegment(replace(segment("YES", 0), **why), True)
    (sent,) = ListenMessages(has_stats=False).after(update(None, left_out))
    assert {name: sent[name] for name in why} == why
    (plain,) = ListenMessages(has_stats=False).after(
        update(None, LiveSegment(segment("Yes.", 0), True))
    )
    assert not {*why} & {*plain}


def test_open_words_are_told_with_their_speakers_and_again_when_these_change(
    messages: ListenMessages,
) -> None:
    sent = []
    for who in ("", "A", "A", "B"):
        said = update(("Yes.", "", "No."))
        assert said.utterance is not None
        firm = tuple(replace(word, speaker=who or word.speaker) for word in said.utterance.firm)
        said = replace(said, utterance=replace(said.utterance, firm=firm))
        sent += [message.get("words", ()) for message in messages.after(said)]
    speakers = [[word.get("speaker") for word in words] for words in sent]
    assert speakers == [[], ["A", None], ["B", None]]

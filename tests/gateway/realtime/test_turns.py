"""The turns of a session, by made-up updates: what a server could tell, in any order it could."""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_answers import words

from conch.gateway.errors import ApiError
from conch.gateway.live_segments import LiveSegment
from conch.gateway.live_session import LiveUpdate
from conch.gateway.realtime.items import Item, ItemUtterance
from conch.gateway.realtime.turns import EventDialect, Turns
from conch.wire.result import Hypothesis, OpenUtterance, Segment, Transcript, TurnEvent

NOTHING = Transcript((Hypothesis("", 0, 0),), (), 0.0, (), {})
TEXT = "conversation.item.input_audio_transcription"


COMMITTED = ("committed", "added", "done")


def update(*segments: LiveSegment, audio_s: float = 0.0, **fields: Any) -> LiveUpdate:
    known = {"utterance": None, "index": 0, "transcript": NOTHING}
    return LiveUpdate(audio_s=audio_s, segments=segments, **{**known, **fields})


def speaking(
    index: int, firm: str, tentative: str = "", newest: str = "", *, start: float = 0.0
) -> LiveUpdate:
    utterance = OpenUtterance(start, words(firm), words(tentative), words(newest))
    return update(utterance=utterance, index=index, audio_s=start + 1)


def segment(index: int, text: str, *, final: bool, **fields: Any) -> LiveSegment:
    known = {"start": 0.0, "end": 1.0, "endpoint": "silence", **fields}
    nbest = (Hypothesis(text, 0, 0),)
    return LiveSegment(Segment(nbest=nbest, words=words(text), index=index, **known), final)


def types_of(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].rpartition(".")[2] for event in events]


def text_of_deltas(events: list[dict[str, Any]], item_id: str | None = None) -> str:
    return "".join(
        event["delta"]
        for event in events
        if event["type"] == f"{TEXT}.delta" and item_id in (None, event["item_id"])
    )


def completed(events: list[dict[str, Any]]) -> list[str]:
    return [event["transcript"] for event in events if event["type"] == f"{TEXT}.completed"]


@pytest.fixture
def turns() -> Turns:
    return Turns(is_manual=False)


def test_a_turn_is_told_under_one_id_from_its_first_word_to_its_text(turns: Turns) -> None:
    first = turns.after(speaking(0, "", "Good", start=1.2))
    assert types_of(first) == ["speech_started"]
    assert first[0]["audio_start_ms"] == 1200
    assert types_of(turns.after(speaking(0, "Good", "day", start=1.2))) == ["delta"]
    second = turns.after(speaking(0, "Good day", "to", start=1.2))
    assert [event["delta"] for event in second] == [" day"]
    ended = turns.after(update(segment(0, "Good day to yu", final=False, start=1.1, end=2.5)))
    assert types_of(ended) == ["speech_stopped", "committed", "added", "done"]
    assert ended[0]["audio_end_ms"] == 2500
    assert ended[1]["previous_item_id"] is None
    last = turns.after(update(segment(0, "Good day to you.", final=True, start=1.1, end=2.5)))
    assert [event.get("delta") for event in last] == [" to you.", None]
    assert last[1]["transcript"] == "Good day to you."
    assert last[1]["usage"] == {"type": "duration", "seconds": 1.4}
    ids = {event.get("item_id") or event["item"]["id"] for event in first + second + ended + last}
    assert len(ids) == 1


def test_the_next_turn_names_the_one_before(turns: Turns) -> None:
    one = turns.after(update(segment(0, "One.", final=True)))
    two = turns.after(update(segment(1, "Two.", final=True)))
    assert two[2]["previous_item_id"] == one[2]["item_id"]
    assert two[3]["previous_item_id"] == one[2]["item_id"]


def test_a_correction_of_firm_words_comes_with_the_text_alone(turns: Turns) -> None:
    turns.after(speaking(0, "Good bay"))
    events = turns.after(update(segment(0, "Good day.", final=True)))
    assert "delta" not in types_of(events)
    assert completed(events) == ["Good day."]


def test_an_utterance_that_is_spoken_while_another_awaits_its_text_is_an_item_of_its_own(
    turns: Turns,
) -> None:
    turns.after(speaking(0, "One"))
    turns.after(update(segment(0, "One too", final=False)))
    events = turns.after(speaking(1, "Three"))
    assert types_of(events) == ["speech_started", "delta"]
    late = turns.after(update(segment(0, "One, two.", final=True), index=1))
    assert completed(late) == ["One, two."]
    assert late[-1]["item_id"] != events[0]["item_id"]


def test_silence_without_speech_gives_no_event(turns: Turns) -> None:
    assert turns.after(update()) == []
    assert turns.after(update(segment(0, "", final=False))) == []
    assert turns.after(update(segment(0, "", final=True))) == []
    assert turns.after(update(finalized=False)) == []


def test_speech_begins_before_its_first_word(turns: Turns) -> None:
    begun = turns.after(speaking(0, "", start=0.4))
    assert types_of(begun) == ["speech_started"]
    assert begun[0]["audio_start_ms"] == 400
    assert types_of(turns.after(speaking(0, ""))) == []
    assert types_of(turns.after(speaking(0, "Good"))) == ["delta"]
    ended = turns.after(update(segment(0, "Good day.", final=True, end=2.0)))
    assert types_of(ended) == ["speech_stopped", *COMMITTED, "delta", "completed"]
    assert {event["item_id"] for event in [*begun, *ended] if "item_id" in event} == {
        begun[0]["item_id"]
    }


@pytest.mark.parametrize("has_segment", [True, False])
def test_speech_without_a_word_ends_as_it_began(turns: Turns, has_segment: bool) -> None:
    begun = turns.after(speaking(0, ""))
    segments = (segment(0, "", final=True),) if has_segment else ()
    ended = turns.after(update(*segments, audio_s=1.5))
    assert types_of(ended) == ["speech_stopped", *COMMITTED, "completed"]
    assert ended[0]["item_id"] == ended[-1]["item_id"] == begun[0]["item_id"]
    assert ended[-1]["transcript"] == ""
    # The next utterance has the number of one that has no segment.
    again = turns.after(speaking(1 if has_segment else 0, ""))
    assert types_of(again) == ["speech_started"]
    assert again[0]["item_id"] != begun[0]["item_id"]


def test_the_vad_tells_speech_before_the_utterance_and_the_model_its_end(turns: Turns) -> None:
    def heard(*told: TurnEvent, **fields: Any) -> list[dict[str, Any]]:
        transcript = replace(NOTHING, turn_events=told)
        return turns.after(replace(update(**fields), transcript=transcript))

    begun = heard(TurnEvent("speech_started", 0.5, 0), audio_s=0.64)
    assert types_of(begun) == ["speech_started"]
    assert begun[0]["audio_start_ms"] == 500
    assert heard(audio_s=0.7) == [], "the utterance is yet to come"
    assert turns.after(speaking(0, "", start=0.4)) == []
    probable, back = heard(
        TurnEvent("eager_end", 1.5, 0, 0.7),
        TurnEvent("resumed", 1.9, 0),
        utterance=OpenUtterance(0.4),
        index=0,
    )
    item_id = begun[0]["item_id"]
    del probable["event_id"], back["event_id"]
    assert probable == {
        "type": "conch.eager_end",
        "item_id": item_id,
        "audio_end_ms": 1500,
        "probability": 0.7,
    }
    assert back == {"type": "conch.resumed", "item_id": item_id, "audio_start_ms": 1900}
    told = replace(NOTHING, turn_events=(TurnEvent("speech_started", 3.0, 1),))
    ended = turns.after(update(segment(0, "Good day.", final=True, end=2.0), transcript=told))
    assert types_of(ended)[-1] == "speech_started"
    assert ended[0]["item_id"] == item_id != ended[-1]["item_id"]


def test_a_client_that_commits_its_turns_is_told_none() -> None:
    turns = Turns(is_manual=True)
    told = replace(NOTHING, turn_events=(TurnEvent("speech_started", 0.5, 0),))
    assert turns.after(update(transcript=told)) == []


def test_speech_that_is_cleared_before_its_utterance_has_ended(turns: Turns) -> None:
    told = replace(NOTHING, turn_events=(TurnEvent("speech_started", 0.5, 0),))
    (begun,) = turns.after(update(transcript=told))
    assert types_of(turns.clear(1.0)) == ["cleared", "speech_stopped", "failed"]
    turns.after(update(cleared=True, audio_s=1.0))
    (again,) = turns.after(update(transcript=told))
    assert again["item_id"] != begun["item_id"]


def test_without_the_vad_speech_begins_with_its_first_word() -> None:
    turns = Turns(is_manual=False, style=EventDialect(hears_speech=False))
    assert turns.after(speaking(0, "")) == []
    assert types_of(turns.after(speaking(0, "One"))) == ["speech_started", "delta"]


def test_a_text_that_only_the_second_pass_finds_is_an_item(turns: Turns) -> None:
    assert turns.after(update(segment(0, "", final=False))) == []
    events = turns.after(update(segment(0, "Yes.", final=True)))
    assert types_of(events) == [
        *("speech_started", "speech_stopped", "committed", "added", "done", "delta", "completed"),
    ]


def test_an_item_that_comes_late_names_the_one_before_it_in_time(turns: Turns) -> None:
    zero = turns.after(update(segment(0, "Zero.", final=True)))
    assert turns.after(update(segment(1, "", final=False))) == []
    two = turns.after(update(segment(2, "Two.", final=True)))
    one = turns.after(update(segment(1, "One.", final=True)))
    ids = [events[2]["item_id"] for events in (zero, one, two)]
    assert [events[2]["previous_item_id"] for events in (zero, two, one)] == [None, ids[0], ids[0]]
    three = turns.after(update(segment(3, "Three.", final=True)))
    assert three[2]["previous_item_id"] == ids[2]


def test_a_turn_that_turns_out_empty_is_completed_without_a_text(turns: Turns) -> None:
    turns.after(speaking(0, "", "", "hm"))
    events = turns.after(update(segment(0, "", final=True)))
    assert types_of(events) == ["speech_stopped", "committed", "added", "done", "completed"]
    assert completed(events) == [""]


def test_without_a_second_pass_the_text_so_far_completes_a_turn_and_nothing_fails_it(
    turns: Turns,
) -> None:
    events = turns.after(update(segment(0, "good day", final=True, error="no time")))
    assert completed(events) == ["good day"]
    turns.after(speaking(1, "", "", "hm"))
    events = turns.after(update(segment(1, "", final=True, error="no time")))
    assert types_of(events)[-1] == "failed"
    assert events[-1]["error"]["message"] == "no time"
    # Nobody would know of this one, had it no text and no error.
    wrong = "option 'language' takes auto or en; sent: 'xx'"
    events = turns.after(
        update(segment(2, "", final=True, error=wrong, error_code="INVALID_OPTION"))
    )
    assert types_of(events)[-3:] == ["added", "done", "failed"]
    assert events[-1]["error"]["param"] == "language"


def test_all_utterances_up_to_a_commit_are_one_item() -> None:
    turns = Turns(is_manual=True)
    assert [e["delta"] for e in turns.after(speaking(0, "Good"))] == ["Good"]
    assert turns.after(update(segment(0, "Good day", final=False))) == []
    # It waits for the text before it.
    assert turns.after(speaking(1, "how")) == []
    events = turns.after(update(segment(0, "Good day.", final=True)))
    assert [event["delta"] for event in events] == [" day. how"]
    commit = turns.commit(4.0)
    assert types_of(commit) == ["committed", "added", "done"]
    last = turns.after(update(segment(1, "How are you?", final=True), finalized=True))
    assert completed(last) == ["Good day. How are you?"]
    assert last[-1]["item_id"] == commit[0]["item_id"]
    assert last[-1]["usage"]["seconds"] == 4.0


def test_audio_after_a_commit_belongs_to_the_next_item() -> None:
    turns = Turns(is_manual=True)
    one = turns.commit(1.0)[0]["item_id"]
    two = turns.commit(2.0)[0]["item_id"]
    first = turns.after(update(segment(0, "One.", final=True), finalized=True))
    second = turns.after(update(segment(1, "Two.", final=True), finalized=True))
    assert (first[-1]["item_id"], second[-1]["item_id"]) == (one, two)
    assert completed(first + second) == ["One.", "Two."]


def test_a_committed_silence_is_completed_without_a_text() -> None:
    turns = Turns(is_manual=True)
    turns.commit(3.0)
    assert completed(turns.after(update(finalized=True))) == [""]


@pytest.mark.parametrize("is_manual", [True, False])
def test_a_commit_of_nothing_is_refused(is_manual: bool) -> None:
    turns = Turns(is_manual=is_manual)
    with pytest.raises(ApiError, match=r"at least 100 ms of audio; the buffer has 0 ms") as info:
        turns.commit(0.0)
    assert info.value.code == "input_audio_buffer_commit_empty"
    turns.commit(0.1)
    with pytest.raises(ApiError, match="the buffer has 50 ms"):
        turns.commit(0.15)


def test_audio_of_a_turn_that_was_found_is_not_committed_again(turns: Turns) -> None:
    turns.after(update(segment(0, "One.", final=True, end=2.0)))
    with pytest.raises(ApiError, match="the buffer has 50 ms"):
        turns.commit(2.05)


def test_a_commit_with_turn_detection_takes_the_utterance_that_is_being_spoken(
    turns: Turns,
) -> None:
    turns.after(update(segment(0, "Zero", final=False)))
    started = turns.after(speaking(1, "One"))
    commit = turns.commit(5.0)
    assert types_of(commit) == ["speech_stopped", *COMMITTED]
    assert commit[0]["item_id"] == commit[1]["item_id"] == started[0]["item_id"]
    last = turns.after(
        update(segment(0, "Zero.", final=True), segment(1, "One, two.", final=True), finalized=True)
    )
    assert completed(last) == ["Zero.", "One, two."]
    assert last[-1]["item_id"] == commit[0]["item_id"]
    assert types_of(turns.after(speaking(2, "More"))) == ["speech_started", "delta"]


def test_what_was_cleared_is_not_told_and_fails_if_it_was_begun(turns: Turns) -> None:
    turns.after(update(segment(0, "Zero", final=False)))
    begun = turns.after(speaking(1, "One"))
    events = turns.clear(3.0)
    assert types_of(events) == ["cleared", "speech_stopped", "failed"]
    assert events[-1]["item_id"] == begun[0]["item_id"]
    assert events[-1]["error"]["code"] == "cleared"
    assert turns.after(speaking(1, "One two")) == []
    # What was committed before gets its text.
    late = turns.after(update(segment(0, "Zero.", final=True), cleared=True))
    assert completed(late) == ["Zero."]
    assert types_of(turns.after(speaking(1, "New"))) == ["speech_started", "delta"]


@pytest.mark.parametrize("is_manual", [True, False])
@pytest.mark.parametrize("was_manual", [True, False])
def test_a_clear_drops_what_was_begun_under_other_settings(
    was_manual: bool, is_manual: bool
) -> None:
    turns = Turns(is_manual=was_manual)
    begun = turns.after(speaking(0, "One"))
    turns.cut(is_manual=is_manual)
    events = turns.clear(2.0)
    assert types_of(events)[-1] == "failed"
    assert events[-1]["item_id"] == begun[-1]["item_id"]
    assert turns.after(update(segment(0, "One.", final=True), finalized=True)) == []
    assert turns.after(update(cleared=True, index=1)) == []
    assert text_of_deltas(turns.after(speaking(1, "Two"))) == "Two"


def test_clearing_silence_tells_that_alone() -> None:
    for is_manual in (True, False):
        turns = Turns(is_manual=is_manual)
        assert types_of(turns.clear(3.0)) == ["cleared"]
        assert turns.after(update(cleared=True)) == []
        with pytest.raises(ApiError):
            turns.commit(3.05)


def test_a_turn_of_the_client_goes_on_under_other_settings() -> None:
    turns = Turns(is_manual=True)
    turns.after(speaking(0, "One"))
    turns.cut(is_manual=True)
    assert completed(turns.after(update(segment(0, "One.", final=True), finalized=True))) == []
    commit = turns.commit(2.0)
    last = turns.after(update(segment(1, "Two.", final=True), finalized=True))
    assert completed(last) == ["One. Two."]
    assert last[-1]["item_id"] == commit[0]["item_id"]


def test_turn_detection_that_is_turned_on_commits_what_the_client_has_not() -> None:
    turns = Turns(is_manual=True)
    turns.after(speaking(0, "One"))
    turns.cut(is_manual=False)
    events = turns.after(update(segment(0, "One.", final=True), finalized=True, audio_s=2.0))
    assert types_of(events) == ["delta", "committed", "added", "done", "completed"]
    assert completed(events) == ["One."]
    assert types_of(turns.after(speaking(1, "Two"))) == ["speech_started", "delta"]


def test_turn_detection_that_is_turned_off_ends_the_turn_that_it_has_found(turns: Turns) -> None:
    turns.after(speaking(0, "One"))
    turns.cut(is_manual=True)
    events = turns.after(update(segment(0, "One.", final=True), finalized=True))
    assert completed(events) == ["One."]
    assert types_of(turns.after(speaking(1, "Two"))) == ["delta"]


def test_the_end_of_a_session_completes_what_has_a_text() -> None:
    turns = Turns(is_manual=True)
    turns.after(speaking(0, "One"))
    turns.after(update(segment(0, "One.", final=True)))
    events = turns.finish(3.0)
    assert types_of(events) == ["committed", "added", "done", "completed"]
    assert turns.finish(3.0) == []
    assert Turns(is_manual=True).finish(3.0) == []


def test_a_failure_of_the_server_fails_what_a_client_waits_for(turns: Turns) -> None:
    turns.after(update(segment(0, "Zero", final=False)))
    turns.after(speaking(1, "One"))
    error = ApiError(503, "no server", code="no_server")
    events = turns.fail(error)
    assert types_of(events) == ["failed", "failed"]
    assert events[0]["error"] == error.as_dict()
    assert turns.fail(error) == []


def test_the_beta_has_one_event_for_an_item() -> None:
    turns = Turns(is_manual=False, style=EventDialect(is_beta=True))
    events = turns.after(update(segment(0, "One.", final=True)))
    assert "conversation.item.created" in [event["type"] for event in events]
    assert not {"added", "done"} & set(types_of(events))


def test_partials_tell_all_words_in_three_texts() -> None:
    turns = Turns(is_manual=False, style=EventDialect(has_partials=True))
    events = turns.after(speaking(0, "Good", "day to", "yu"))
    parts = [
        (e["firm"], e["tentative"], e["newest"]) for e in events if e["type"] == "conch.partial"
    ]
    assert parts == [("Good", " day to", " yu")]
    assert turns.after(speaking(0, "Good", "day to", "yu")) == []
    events = turns.after(update(segment(0, "Good day to you", final=False)))
    assert events[-1]["tentative"] == " day to you"


def test_partials_of_a_long_turn_hold_its_whole_text() -> None:
    turns = Turns(is_manual=True, style=EventDialect(has_partials=True))
    turns.after(speaking(0, "Good"))
    turns.after(update(segment(0, "Good day", final=False)))
    events = turns.after(speaking(1, "how", "are", "yu"))
    (partial,) = events
    assert (partial["firm"], partial["tentative"]) == ("Good", " day how are")
    assert (partial["final"], partial["newest"]) == ("", " yu")
    *_, partial = turns.after(update(segment(0, "Good day.", final=True)))
    assert (partial["final"], partial["firm"], partial["tentative"]) == (
        "Good day.",
        " how",
        " are",
    )
    *_, partial = turns.after(update(segment(1, "How are you?", final=True)))
    assert (partial["final"], partial["firm"]) == (" How are you?", "")


def test_an_update_of_a_long_turn_takes_no_longer_than_one_of_a_short_turn() -> None:
    turns = Turns(is_manual=True, style=EventDialect(has_partials=True))
    by_update = [turns.after(update(segment(index, "So.", final=True))) for index in range(1000)]
    assert max(len(str(events)) for events in by_update) < 2 * len(str(by_update[0]))
    (era,) = turns._eras
    assert not era.item.utterances and not turns._owners and not turns._positions
    turns.commit(2000.0)
    last = turns.after(update(finalized=True))
    assert completed(last) == [" ".join(["So."] * 1000)]


def test_log_probabilities_are_those_of_words() -> None:
    turns = Turns(is_manual=False, style=EventDialect(has_logprobs=True))
    events = turns.after(update(segment(0, "Good day", final=True)))
    tokens = events[-1]["logprobs"]
    assert [token["token"] for token in tokens] == ["Good", " day"]
    assert tokens[0]["logprob"] == pytest.approx(-0.693, abs=0.001)
    assert bytes(tokens[1]["bytes"]) == b" day"


def test_words_of_scripts_without_spaces_are_appended_without_them(turns: Turns) -> None:
    events = turns.after(speaking(0, "今日"))
    events += turns.after(speaking(0, "今日 は"))
    events += turns.after(update(segment(0, "今日はいい", final=True)))
    assert text_of_deltas(events) == "今日はいい"


class Server:
    """Makes up what a live session could tell, and what a client could ask for meanwhile."""

    def __init__(self, seed: int, *, is_manual: bool, corrects: bool) -> None:
        self.random = random.Random(seed)
        self.turns = Turns(is_manual=is_manual, style=EventDialect(has_partials=True))
        self.is_manual, self._corrects = is_manual, corrects
        self.audio_s = 0.0
        self.index = 0
        self._said: list[str] = []
        """Words of the open utterance."""
        self._num_firm = 0
        self._pending: dict[int, tuple[str, float, float]] = {}
        self._began = 0.0
        self.marks: list[str] = []

    def run(self, steps: int) -> list[dict[str, Any]]:
        events = [event for _ in range(steps) for event in self._step()]
        while self.marks:
            events += self.turns.after(self._reach())
        events += self.turns.after(self._ended(flag=""))
        return events + self.turns.finish(self.audio_s)

    def _step(self) -> Iterator[dict[str, Any]]:
        self.audio_s = round(self.audio_s + self.random.choice([0.05, 0.64, 2.0]), 3)
        match self.random.randrange(12):
            case 0 if not self.marks or self.random.random() < 0.5:
                yield from self._ask()
            case 1 | 2 if self.marks:
                yield from self.turns.after(self._reach())
            case 3 | 4 if self._said:
                yield from self.turns.after(update(*self._end(), *self._second(), **self._now()))
            case 5 | 6:
                yield from self.turns.after(update(*self._second(), **self._now()))
            case 7:
                yield from self.turns.after(self._open_update())
            case _:
                self._speak()
                yield from self.turns.after(self._open_update())

    def _ask(self) -> Iterator[dict[str, Any]]:
        match self.random.choice(["commit", "clear", "cut"]):
            case "commit":
                try:
                    yield from self.turns.commit(self.audio_s)
                except ApiError as error:
                    assert error.code == "input_audio_buffer_commit_empty"
                    return
                self.marks.append("finalized")
            case "clear":
                yield from self.turns.clear(self.audio_s)
                self.marks.append("cleared")
            case "cut":
                self.is_manual = self.random.random() < 0.5
                self.turns.cut(is_manual=self.is_manual)
                self.marks.append("finalized")

    def _now(self) -> dict[str, Any]:
        told = [
            TurnEvent(event_type, self.audio_s, self.index)
            for event_type in ("speech_started", "eager_end", "resumed")
            if self.random.random() < 0.2
        ]
        transcript = replace(NOTHING, turn_events=tuple(told))
        return {"index": self.index, "audio_s": self.audio_s, "transcript": transcript}

    def _speak(self) -> None:
        if not self._said:
            self._began = self.audio_s
        self._said.append(f"w{self.index}-{len(self._said)}")
        self._num_firm = self.random.randint(self._num_firm, len(self._said))

    def _open_update(self) -> LiveUpdate:
        if not self._said:
            # At times speech before its words, or none at all.
            open_utterance = OpenUtterance(self.audio_s) if self.random.random() < 0.3 else None
            return update(utterance=open_utterance, **self._now())
        firm, rest = self._said[: self._num_firm], self._said[self._num_firm :]
        middle = self.random.randint(0, len(rest))
        said = [words(" ".join(part)) for part in (firm, rest[:middle], rest[middle:])]
        utterance = OpenUtterance(self._began, said[0], said[1], said[2])
        return update(utterance=utterance, **self._now())

    def _end(self) -> list[LiveSegment]:
        if not self._said:
            return []
        text = " ".join(self._said)
        self._pending[self.index] = (text, self._began, self.audio_s)
        result = segment(self.index, text, final=False, start=self._began, end=self.audio_s)
        self.index += 1
        self._said, self._num_firm = [], 0
        return [result]

    def _second(self, *, all_of_them: bool = False) -> list[LiveSegment]:
        segments = []
        for index in sorted(self._pending):
            if all_of_them or self.random.random() < 0.5:
                text, start, end = self._pending.pop(index)
                if self._corrects and self.random.random() < 0.5:
                    text = self.random.choice(["", f"other{index}", f"{text} more"])
                segments.append(segment(index, text, final=True, start=start, end=end))
        return segments

    def _reach(self) -> LiveUpdate:
        flag = self.marks.pop(0)
        if flag == "cleared":
            self._said, self._num_firm = [], 0
        return self._ended(flag)

    def _ended(self, flag: str) -> LiveUpdate:
        ended = {item.segment.index for item in self._end()}
        segments = self._second(all_of_them=True)
        assert ended <= {item.segment.index for item in segments}
        flags = {flag: True} if flag else {}
        return update(*segments, **self._now(), **flags)


def order_of(word: str) -> tuple[int, ...]:
    return tuple(map(int, word[1:].split("-")))


def check_order(told: list[dict[str, Any]]) -> None:
    """Check that each item goes through its states in order, each once."""
    order = ["speech_started", "speech_stopped", "committed", "added", "done", "completed"]
    seen: dict[str, list[str]] = {}
    placed: list[str] = []
    for event in told:
        kind = event["type"].rpartition(".")[2]
        item_id = event.get("item_id") or event.get("item", {}).get("id")
        if item_id is None:
            assert kind == "cleared"
            continue
        before = seen.setdefault(item_id, [])
        assert not {"completed", "failed"} & set(before), "an item that was over"
        if kind in order:
            assert not before or order.index(kind) > max(map(order.index, before))
            before.append(kind)
        elif kind == "failed":
            before.append(kind)
        if kind == "committed":
            previous = event["previous_item_id"]
            placed.insert(0 if previous is None else placed.index(previous) + 1, item_id)
        if kind == "completed":
            assert "committed" in before
            assert event["usage"]["seconds"] >= 0
    for item_id, states in seen.items():
        assert {"completed", "failed"} & set(states), f"{item_id} is never over"
        assert ("speech_started" in states) == ("speech_stopped" in states)
    assert len({event["event_id"] for event in told}) == len(told)
    texts = {e["item_id"]: e["transcript"] for e in told if e["type"] == f"{TEXT}.completed"}
    said = [word for item_id in placed for word in texts[item_id].split() if word[0] == "w"]
    assert said == sorted(said, key=order_of), "items in the order of time"


@pytest.mark.parametrize("is_manual", [True, False])
@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_items_keep_their_order_and_deltas_their_text(
    seed: int, is_manual: bool
) -> None:
    events = Server(seed, is_manual=is_manual, corrects=False).run(60)
    check_order(events)
    for event in events:
        if event["type"] == f"{TEXT}.completed":
            assert text_of_deltas(events, event["item_id"]) == event["transcript"]


@pytest.mark.parametrize("is_manual", [True, False])
@pytest.mark.parametrize("seed", range(60))
def test_whatever_a_second_pass_corrects_deltas_keep_the_words_that_were_firm(
    seed: int, is_manual: bool
) -> None:
    events = Server(seed, is_manual=is_manual, corrects=True).run(60)
    check_order(events)
    for event in events:
        if event["type"] == f"{TEXT}.completed":
            deltas, text = text_of_deltas(events, event["item_id"]), event["transcript"]
            firm = [word for word in deltas.split() if word.startswith("w")]
            assert firm == sorted(firm, key=order_of)
            was_corrected = not text.startswith(deltas)
            assert was_corrected or deltas == text


@pytest.mark.parametrize("seed", range(50))
def test_every_word_is_told_once_where_the_client_commits_nothing(seed: int) -> None:
    server = Server(seed, is_manual=False, corrects=False)
    server._ask = lambda: iter(())  # type: ignore[method-assign]
    events = server.run(80)
    said = [word for text in completed(events) for word in text.split()]
    assert sorted(said) == sorted(set(said))
    assert {int(word[1:].split("-")[0]) for word in said} == set(range(server.index))


@pytest.mark.parametrize("seed", range(50))
def test_the_parts_of_a_partial_are_a_text_without_doubled_words(seed: int) -> None:
    final: dict[str, str] = defaultdict(str)
    for event in Server(seed, is_manual=True, corrects=False).run(60):
        if event["type"] == "conch.partial":
            final[event["item_id"]] += event["final"]
            before = final[event["item_id"]]
            text = before + event["firm"] + event["tentative"] + event["newest"]
            assert text == " ".join(text.split())
            assert len(set(text.split())) == len(text.split())


TEXTS = st.sampled_from(["a", "我", "。", "…", "「", "!", "。用"])


@given(st.lists(st.tuples(TEXTS, st.booleans())))
def test_final_texts_and_parts_are_the_text_of_the_item(said: list[tuple[str, bool]]) -> None:
    item, final = Item(is_single=False), ""
    for index, (text, is_shown) in enumerate(said):
        item.utterances[index] = ItemUtterance(text, is_final=True)
        item.fold()
        final += item.take_final() if is_shown else ""
    item.utterances[len(said)] = ItemUtterance("用 a", sure="用", solid="用")
    final += item.take_final()
    assert final + "".join(item.parts) == item.text


def test_each_speaker_of_a_turn_has_a_segment_before_its_text() -> None:
    said = segment(0, "Shall we? Yes.", final=True)
    speakers = zip(said.segment.words, "AAB", strict=True)
    labelled = tuple(replace(word, speaker=who) for word, who in speakers)
    result = replace(said, segment=replace(said.segment, words=labelled, speaker="A"))
    turns = Turns(is_manual=False)
    events = turns.after(update(result, audio_s=2.0))
    assert types_of(events)[-3:] == ["segment", "segment", "completed"]
    spoken = [(event["speaker"], event["text"]) for event in events if "speaker" in event]
    assert spoken == [("A", "Shall we?"), ("B", "Yes.")]
    again = replace(result, is_relabelled=True)
    assert turns.after(update(again, audio_s=3.0)) == [], "the item is complete"

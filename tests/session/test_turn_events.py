"""Turn events of a session whose streams are lost."""

from dataclasses import replace

from live_answers import answer, segment, spoken

from conch.session.answers import joined_answers
from conch.session.joined_streams import JoinedStreams
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript, TurnEvent

BEGUN = TurnEvent("speech_started", 0.2, 0)
PROBABLE = TurnEvent("eager_end", 0.8, 0, 0.7)
GOES_ON = TurnEvent("resumed", 0.9, 0)


def heard(*events: TurnEvent) -> Transcript:
    return replace(answer("", utterance=spoken("")), turn_events=events)


def session() -> JoinedStreams:
    joined = JoinedStreams(16_000)
    joined.begin(RecognitionOptions(mode="streaming"))
    return joined


def told(joined: JoinedStreams, *answers: Transcript) -> list[str]:
    for item in answers:
        joined.take(item, ends=False)
    return [event.type for event in joined.answer().turn_events]


def test_events_of_several_answers_are_told_once_and_in_order() -> None:
    joined = session()
    assert told(joined, heard(BEGUN), heard(PROBABLE)) == ["speech_started", "eager_end"]
    assert told(joined, heard(), heard(GOES_ON)) == ["resumed"]
    assert told(joined, heard()) == []


def test_a_lost_server_takes_an_eager_end_back_and_begins_no_utterance_again() -> None:
    joined = session()
    told(joined, heard(BEGUN, PROBABLE))
    joined.resume()
    joined.resume()  # the first attempt has met no server
    again = heard(BEGUN, PROBABLE)
    assert told(joined, again) == ["resumed", "eager_end"]
    assert told(joined, heard(BEGUN)) == [], "still the one that the lost stream has heard"
    assert told(joined, heard(replace(BEGUN, index=1))) == ["speech_started"]


def test_an_end_that_came_true_is_not_taken_back() -> None:
    joined = session()
    ended = replace(answer("", segment("Yes.", 0)), turn_events=(BEGUN, PROBABLE))
    told(joined, ended)
    joined.resume()
    assert told(joined, heard(BEGUN)) == ["speech_started"]


def test_events_are_on_the_clock_of_the_session_and_have_its_numbers() -> None:
    joined = JoinedStreams(16_000)
    joined.clear(160_000, 3)
    joined.begin(RecognitionOptions(mode="streaming"))
    joined.take(heard(BEGUN), ends=False)
    assert joined.answer().turn_events == (TurnEvent("speech_started", 10.2, 3),)
    joined.clear(320_000, 3)
    joined.begin(RecognitionOptions(mode="streaming"))
    assert told(joined, heard(BEGUN)) == ["speech_started"], "another one has that number now"


def test_answers_to_frames_keep_the_events_of_keep_alives() -> None:
    assert joined_answers([heard(BEGUN), heard(PROBABLE)]).turn_events == (BEGUN, PROBABLE)


def test_events_are_in_the_json_only_if_there_are_some() -> None:
    assert "turn_events" not in heard().to_json()
    sent = heard(BEGUN, PROBABLE)
    assert Transcript.from_json(sent.to_json()).turn_events == sent.turn_events
    assert sent.to_json().count('"probability"') == 1

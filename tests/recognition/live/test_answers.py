"""The ended utterances of a live stream."""

from live_answers import segment

from conch.recognition.config import RecognitionConfig
from conch.recognition.live.answers import History, LiveAnswers
from conch.wire.options import RecognitionOptions


def test_an_utterance_is_replaced_in_its_place() -> None:
    history = History(0)
    history.append(segment("Twenty-one dollars.", 0))
    history.replace(segment("$21.", 0, 2))
    assert [item.text for item in history.since(0)] == ["$21."]


def test_what_was_said_is_the_text_before_the_text_steps() -> None:
    options = RecognitionOptions.parse({"mode": "streaming", "decoder": "wfst"}, live=True)
    answers = LiveAnswers(options, RecognitionConfig(), None)
    answers.add(segment("$21.", 0), "twenty one dollars")
    assert answers.latest_text == "twenty one dollars"

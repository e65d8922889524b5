"""The ended utterances of a live stream."""

from live_answers import segment

from conch.recognition.live.history import History


def test_what_was_said_is_the_text_before_the_text_steps() -> None:
    history = History(0)
    history.append(segment("Twenty-one dollars.", 0), "twenty one dollars")
    history.replace(segment("$21.", 0, 2))
    assert history.latest_text == "twenty one dollars"
    assert [item.text for item in history.since(0)] == ["$21."]

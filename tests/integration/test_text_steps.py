"""The steps after recognition on the real server: replace, punctuate, itn and post."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from conch.client import Client
from conch.wire.errors import ComponentError, MissingModelError, OptionError
from conch.wire.formats import to_srt
from conch.wire.result import Transcript, text_of_words

pytestmark = pytest.mark.server

RULES = "tiger=>twenty one dollars; burning=>damn"
"""Said twice and once in the recording."""


def test_rules_numbers_and_a_users_model_in_their_order(client: Client, waveform: Any) -> None:
    plain = client.transcribe(waveform, word_timestamps=True)
    found = client.transcribe(
        waveform, word_timestamps=True, replace=RULES, itn=True, post="profanity_filter"
    )
    assert found.path[-2:] == ("inverse_normalizer", "profanity_filter")
    assert found.text.count("$21") == plain.text.lower().count("tiger") > 0
    assert "****" in found.text and "burning" not in found.text.lower()
    assert found.text == found.segments[0].text == text_of_words(found.words)
    assert "$21 $21 **** bright" in " ".join(to_srt(found).replace(",", "").split())
    for word, before in zip(found.words, plain.words, strict=True):
        assert (word.start, word.end) == (before.start, before.end)
        same = "tiger" not in before.text.lower() and "burning" not in before.text.lower()
        assert not same or word == before


@pytest.mark.parametrize("mode", ["offline", "streaming"])
def test_words_of_ctc_get_marks_and_capitals_and_keep_their_times(
    client: Client, waveform: np.ndarray, mode: str
) -> None:
    def transcript(**options: Any) -> Transcript:
        options |= {"decoder": "wfst", "hotwords": "BuRning", "word_timestamps": True}
        if mode == "offline":
            return client.transcribe(waveform, **options)
        with client.live(mode=mode, **options) as stream:
            return stream.finish(waveform)

    plain = transcript()
    found = transcript(punctuate=True, replace="in the=>in Mr.")
    assert found.text[0].isupper() and "BuRning" in found.text and " in Mr. " in found.text
    said = " ".join(word.strip(",.?") for word in found.text.split())
    assert said.lower() == plain.text.replace("in the", "in mr")
    assert found.text == text_of_words(found.words)
    assert [(word.start, word.end) for word in found.words] == [
        (word.start, word.end) for word in plain.words
    ]
    assert all(not segment.error for segment in found.segments)


def test_live_text_has_the_steps_where_it_is_final(client: Client, waveform: np.ndarray) -> None:
    options: dict[str, Any] = {
        "mode": "streaming",
        "replace": RULES,
        "itn": True,
        "post": "profanity_filter",
    }
    with client.live(**options) as stream:
        partials = [stream.send(piece) for piece in np.array_split(waveform, 10)[:-1]]
        final = stream.finish(np.array_split(waveform, 10)[-1])
    assert any("tiger" in answer.utterance.text for answer in partials if answer.utterance)
    assert "$21" in final.text and "tiger" not in final.text
    assert all(not segment.error for segment in final.segments)


def test_an_answer_that_is_none_is_an_error_of_its_request_alone(
    client: Client, waveform: np.ndarray
) -> None:
    def text(post: str) -> str:
        try:
            return client.transcribe(waveform, post=post).text
        except ComponentError as error:
            return f"error: {error}"

    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(text, ["", "nonsense", "profanity_filter", "nonsense"]))
    assert texts[0] == texts[2] and "error" not in texts[0]
    assert texts[1] == texts[3]
    assert texts[1].startswith("error: option 'post': the answer of nonsense is not what a text")


def test_what_a_step_raises_is_told_without_its_places(
    client: Client, waveform: np.ndarray
) -> None:
    with pytest.raises(ComponentError) as raised:
        client.transcribe(waveform, post="failing")
    assert str(raised.value).endswith("ValueError: no dictionary"), str(raised.value)
    assert str(raised.value).startswith("option 'post': failing: ")


@pytest.mark.parametrize(
    ("options", "kind", "problem"),
    [
        ({"post": "profanity"}, MissingModelError, "option 'post' names the model profanity"),
        ({"post": "speech"}, OptionError, "'post' takes models from text to text; speech is none"),
        ({"replace": "tiger"}, OptionError, "option 'replace', rule 1"),
    ],
)
def test_what_cannot_be_done_is_refused(
    client: Client, waveform: np.ndarray, options: Any, kind: type[Exception], problem: str
) -> None:
    with pytest.raises(kind, match=problem):
        client.transcribe(waveform, **options)

"""The steps after recognition on plain functions: order, n-best, words, live text, errors."""

from typing import Any

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_recognizer import calls_on, recognized, speech
from plain_streams import streaming

from conch.component import bytes_array
from conch.recognition.text.steps import with_text_steps
from conch.wire.errors import ComponentError, MissingModelError, OptionError
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Segment


class WithPost(PlainComponents):
    def __init__(self) -> None:
        super().__init__()
        self.answer: dict[str, Any] | None = None

    def starred(self, inputs: Any, parameters: Any) -> Any:
        """Write a star for the last letter, or the answer that a test wants."""
        if self.answer is not None:
            return self.answer
        text = inputs["text"][0].decode()
        size = len(text)
        return {
            "text": bytes_array([f"{text[:-1]}*"]),
            "spans": np.array([[size - 1, size, size - 1, size]], np.int32),
        }

    def bracketed(self, inputs: Any, parameters: Any) -> Any:
        text = inputs["text"][0].decode()
        size = len(text)
        spans = [[0, 0, 0, 1], [size, size, size + 1, size + 2]]
        return {"text": bytes_array([f"[{text}]"]), "spans": np.array(spans, np.int32)}


def recognize(components: PlainComponents, *levels: float, **parameters: Any) -> Any:
    return recognized(components, speech(*levels), **parameters)


def called(components: PlainComponents) -> list[str]:
    steps = ("punctuator", "inverse_normalizer", "starred", "bracketed")
    return [model for model in components.calls if model in steps]


@pytest.fixture
def components() -> WithPost:
    return WithPost()


def test_nothing_is_called_that_nobody_asks_for(components):
    assert recognize(components, 0.1).text == "spoken 0.10 0"
    assert called(components) == []


def test_the_steps_run_in_their_order(components):
    transcript = recognize(
        components,
        0.1,
        decoder="ctc",
        replace="heard=>hearing things",
        punctuate=True,
        itn=True,
        post="bracketed,starred",
    )
    assert transcript.text == "[<Hearing+things> 0.10.*"
    assert called(components) == ["punctuator", "inverse_normalizer", "bracketed", "starred"]
    assert transcript.path[-4:] == tuple(called(components))


def test_a_models_language_is_sent_where_it_is_known(components):
    recognize(components, 0.1, itn=True, language="de")
    recognize(components, 0.1, itn=True)
    sent = [item for item in components.inputs if "text" in item]
    assert [item["language"][0] for item in sent] == [b"de", b"en"]


def test_hotwords_are_punctuated_as_they_are_spelled():
    def text(**parameters: Any) -> str:
        asked = {"decoder": "ctc", "hotwords": "HeaRD, other Name:3", **parameters}
        return recognize(WithPost(), 0.1, **asked).text

    assert text() == "heard 0.10"
    assert text(punctuate=True) == "HeaRD 0.10."
    assert text(punctuate=True, replace="heard=>said") == "Said 0.10."
    assert text(itn=True) == "<heard+0.10>"


async def test_an_apostrophe_of_a_phone_is_the_one_that_is_heard():
    segment = Segment(0.0, 1.0, (Hypothesis("mister o'brien", -1.0, -1.0),))
    options = RecognitionOptions.parse(
        {"decoder": "ctc", "hotwords": "O\u2019Brien", "punctuate": True}
    )
    components = WithPost()
    calls = calls_on(components)
    found = await with_text_steps(segment, options, calls, is_punctuated=False)
    assert found.text == "Mister O\u2019Brien."


def test_whispers_text_has_its_punctuation(components):
    assert recognize(components, 0.1, punctuate=True).text == "spoken 0.10 0"
    assert called(components) == []


def test_words_segments_and_channels_follow():
    transcript = recognize(
        WithPost(), 0.1, 0.2, replace="spoken=>Spoken out", itn=True, word_timestamps=True
    )
    assert transcript.text == "<Spoken+out> 0.10 0 <Spoken+out> 0.20 0"
    assert [item.text for item in transcript.segments] == [
        "<Spoken+out> 0.10 0",
        "<Spoken+out> 0.20 0",
    ]
    plain = recognize(WithPost(), 0.1, 0.2, word_timestamps=True)
    assert [word.text for word in transcript.words] == transcript.text.split()
    assert [(word.start, word.end) for word in transcript.words] == [
        (word.start, word.end) for word in plain.words
    ]


def test_all_hypotheses_get_the_steps_and_equal_ones_are_one(components):
    transcript = recognize(components, 0.1, nbest=3, itn=True)
    texts = [f"<spoken+0.10> {rank}" for rank in range(3)]
    assert [item.text for item in transcript.nbest] == texts
    assert called(components) == ["inverse_normalizer"] * 3
    transcript = recognize(components, 0.1, nbest=3, replace="1=>0; 2=>0")
    assert [(item.text, item.score) for item in transcript.nbest] == [("spoken 0.10 0", -1.0)]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"text": bytes_array(["x"]), "spans": np.zeros((0, 4), np.int32)}, "no span says so"),
        ({"text": bytes_array(["x"]), "spans": np.zeros((1, 2), np.int32)}, "spans are integers"),
        ({"text": bytes_array(["x", "y"]), "spans": np.zeros((0, 4), np.int32)}, r"BYTES \[1\]"),
        ({"text": np.zeros(1), "spans": np.zeros((0, 4), np.int32)}, r"BYTES \[1\]"),
        ({"text": b"x", "spans": np.zeros((0, 4), np.int32)}, r"BYTES \[1\]"),
        ({"text": bytes_array(["x"])}, "it has no output 'spans'"),
        ({"text": bytes_array(["x"]), "spans": np.zeros(4, np.int32)}, "spans are integers"),
        ({"text": np.array([b"\xff"], object), "spans": np.zeros((0, 4), np.int32)}, "decode"),
        (
            {"text": bytes_array(["x" * 10_001]), "spans": np.array([[0, 13, 0, 10_001]])},
            "at most 10000 characters; has: 10001",
        ),
    ],
)
def test_nonsense_is_an_error_that_names_the_option_and_the_model(components, answer, problem):
    components.answer = answer
    with pytest.raises(ComponentError, match=f"^option 'post': .*starred.*{problem}"):
        recognize(components, 0.1, post="starred")
    assert recognize(components, 0.1, post="bracketed").text == "[spoken 0.10 0]"


def test_a_model_that_fails_is_named_with_its_option(components):
    components.failing = "inverse_normalizer"
    with pytest.raises(ComponentError, match=r"^option 'itn': inverse_normalizer: out of order"):
        recognize(components, 0.1, itn=True)


def test_an_option_that_a_users_model_refuses_is_its_failure(components):
    components.failing, components.failure = "starred", OptionError("starred: no such thing")
    with pytest.raises(ComponentError, match=r"^option 'post': starred: no such thing$"):
        recognize(components, 0.1, post="starred")


def test_a_missing_model_is_an_error_before_anything_is_recognised(components):
    components.missing = {"mask", "inverse_normalizer"}
    with pytest.raises(MissingModelError, match="option 'post' names the model mask"):
        recognize(components, 0.1, post="bracketed,mask")
    with pytest.raises(MissingModelError, match="model inverse_normalizer is not loaded"):
        recognize(components, 0.1, itn=True)
    assert components.calls == []


def test_an_unreadable_rule_is_refused_before_anything_is_recognised(components):
    with pytest.raises(OptionError, match=r"^option 'replace', rule 1"):
        recognize(components, 0.1, replace="conch")
    assert components.calls == []


async def live(chunks: str, components: PlainComponents, **parameters: Any) -> list[Any]:
    async with streaming(components, **parameters) as (client, _):
        answers = await client.say(chunks, ends=False)
        return [*answers, await client.send(np.zeros(0, np.float32), ends=True)]


async def test_live_partials_stay_as_recognised_and_the_final_text_has_the_steps():
    answers = await live(
        "12..3", WithPost(), itn=True, punctuate=True, endpoint_silence_ms=600, word_timestamps=True
    )
    texts = [item.text for item in answers]
    assert texts[:2] == ["0.10", "0.10 0.20"]
    assert "<0.10+0.20.>" in texts
    assert answers[-1].text.startswith("<0.10+0.20.> <0.30.")
    (first, *_) = answers[-1].segments
    assert [word.text for word in first.words] == ["<0.10+0.20.>"]


async def test_a_second_pass_of_whisper_gets_the_steps_but_no_punctuation(components):
    answers = await live(
        "1..", components, mode="two_pass", itn=True, punctuate=True, post="bracketed"
    )
    assert answers[-1].text == "[<spoken+0.10> 0]"
    assert [item.passes for item in answers[-1].segments] == [2]
    assert "punctuator" not in components.calls


async def test_without_a_second_pass_the_text_of_the_first_is_punctuated(components):
    components.failing = "moonshine_encoder"
    answers = await live("12..", components, mode="two_pass", punctuate=True, itn=True)
    (segment,) = answers[-1].segments
    assert (segment.text, segment.passes) == ("<0.10+0.20.>", 1)
    assert "no second pass" in segment.error


@pytest.mark.parametrize("mode", ["streaming", "two_pass"])
async def test_a_live_stream_goes_on_without_a_step_that_fails(components, mode):
    components.answer = {"text": bytes_array(["x"]), "spans": np.zeros((0, 4), np.int32)}
    answers = await live("12..3", components, mode=mode, post="starred", endpoint_silence_ms=600)
    assert [item.is_final for item in answers][-1]
    for segment in answers[-1].segments:
        assert segment.text and "x" not in segment.text
        assert segment.error.startswith("no text steps: option 'post': the answer of starred")


async def test_a_live_utterance_follows_what_was_said_and_not_what_was_written_for_it():
    class Doubtful(WithPost):
        def ctc_streaming_decoder(self, inputs: Any, parameters: Any, kept: list[Any]) -> Any:
            found = super().ctc_streaming_decoder(inputs, parameters, kept)
            (best,) = found.pop("hypotheses")
            stable = found.pop("stable")
            found = {name: np.concatenate([array, array]) for name, array in found.items()}
            return {**found, "hypotheses": bytes_array([best.decode(), "other"]), "stable": stable}

    components = Doubtful()
    await live(
        "12..34..",
        components,
        mode="streaming",
        decoder="ctc",
        replace="other=>ten",
        rescore=True,
        lm_context=True,
        nbest=2,
        endpoint_silence_ms=600,
    )
    contexts = [item["context"] for item in components.inputs if "context" in item]
    assert [context[0].decode() for context in contexts] == ["other"]


async def test_a_live_stream_does_not_wait_for_a_step_that_hangs(monkeypatch):
    monkeypatch.setattr("conch.recognition.text.steps.LIVE_PATIENCE_S", 0.05)
    components = WithPost()
    components.hold("starred")
    answers = await live(
        "12..3", components, mode="streaming", post="starred", endpoint_silence_ms=600
    )
    assert answers[-1].is_final and answers[-1].segments
    for segment in answers[-1].segments:
        assert segment.text and "*" not in segment.text
        assert segment.error == "no text steps: they have taken longer than 0.05 s"


def test_a_text_that_rules_make_too_long_is_an_error_that_names_them(monkeypatch):
    monkeypatch.setattr("conch.recognition.text.steps.MAX_TEXT", 100)
    with pytest.raises(OptionError, match=r"^option 'replace' makes texts .* has made: 109$"):
        recognize(WithPost(), 0.1, replace=f"0.10=>{'x' * 100}; spoken=>Spoken")


async def test_a_live_stream_with_a_missing_model_ends_at_its_start(components):
    components.missing = {"mask"}
    with pytest.raises(MissingModelError, match="option 'post' names the model mask"):
        await live("1", components, post="mask")
    assert components.calls == []

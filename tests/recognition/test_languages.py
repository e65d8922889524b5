"""Languages: detected once for a segment, sent with its other calls, and told."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_recognizer import recognized, recognizer_on, speech
from spoken_components import SpokenComponents, made, until_a_pause

from conch.recognition.request import RecognitionRequest
from conch.wire.errors import OptionError
from conch.wire.options import RecognitionOptions
from conch.wire.parts import language_of
from conch.wire.result import Hypothesis, Segment, Transcript


class TwoLanguages(PlainComponents):
    """Loud segments are German, at 0.9, others Chinese, at 0.6."""

    def attention_decoder(self, inputs, parameters):
        is_loud = "encoder_out" in inputs and inputs["encoder_out"][0, 0] > 0.5
        self.language_spoken, self.language_share = ("de", 0.9) if is_loud else ("zh", 0.6)
        return super().attention_decoder(inputs, parameters)


def recognize(
    components: PlainComponents,
    *segments: tuple[float, float],
    decoder: str | None = "attention",
    **sent,
) -> Transcript:
    """Return the transcript of segments of so many seconds, each of a level."""
    if decoder:
        sent["decoder"] = decoder
    wav = speech(*((level, seconds) for seconds, level in segments))
    recognizer = recognizer_on(components, first_pass_language="fr")
    request = RecognitionRequest(wav=wav[np.newaxis], parameters=sent)
    (transcript,) = asyncio.run(recognizer.recognize(request, components))
    return transcript


def test_each_segment_has_its_language_and_the_whole_that_of_most_seconds():
    found = recognize(TwoLanguages(), (1.0, 0.9), (2.0, 0.3), (3.0, 0.2), coverage=False)
    assert [item.language for item in found.segments] == ["de", "zh", "zh"]
    assert [item.language_probability for item in found.segments] == [0.9, 0.6, 0.6]
    assert (found.language, found.language_probability) == ("zh", 0.6)
    again = Transcript.from_json(found.to_json())
    assert (again.language, again.segments[0].language) == ("zh", "de")


def test_a_language_that_was_asked_for_has_no_probability():
    found = recognize(TwoLanguages(), (1.0, 0.9), language="fr", coverage=False)
    assert (found.language, found.language_probability) == ("fr", None)


def test_the_mean_is_weighted_by_length():
    def segment(seconds: float, language: str, share: float | None) -> Segment:
        best = (Hypothesis("a", 0.0, 0.0),)
        return Segment(0.0, seconds, best, language=language, language_probability=share)

    told = [segment(1.0, "de", 0.5), segment(3.0, "de", 0.9), segment(3.5, "en", 0.4)]
    assert language_of(told) == ("de", 0.8, "")
    assert language_of([segment(1.0, "de", None)]) == ("de", None, "")
    assert language_of([replace(told[0], language="")]) == ("", None, "")
    assert language_of([]) == ("", None, "")


def test_what_is_asked_for_reaches_the_decoder_and_nothing_else_is_sent():
    components = TwoLanguages()
    recognize(components, (1.0, 0.9), languages="de,zh", prompt="Names: Conch.", coverage=False)
    (sent,) = components.parameters_of("attention_decoder")
    assert (sent["language"], sent["languages"]) == ("auto", "de,zh")
    assert sent["prompt"] == "Names: Conch."
    components = TwoLanguages()
    recognize(components, (1.0, 0.9), coverage=False)
    (sent,) = components.parameters_of("attention_decoder")
    assert {"languages", "task", "prompt"} & set(sent) == set()


def test_a_decoder_that_reads_no_prompt_gets_none():
    """The neural rescorer reads it."""
    components = TwoLanguages()
    asked = {"decoder": "moonshine", "rescore": True, "prompt": "Names: Conch."}
    recognize(components, (1.0, 0.9), coverage=False, **asked)
    (sent,) = components.parameters_of("moonshine_decoder")
    assert "prompt" not in sent


def test_the_words_of_another_text_are_aligned_in_the_language_that_was_found():
    class Words(TwoLanguages):
        def spoken(self, level, seconds, nbest):
            return ["one", "two"]

    components = Words()
    recognize(
        components,
        (1.0, 0.9),
        rescore=True,
        rescorer="ngram",
        rescore_margin=100.0,
        lm_weight=1.0,
        word_timestamps=True,
        languages="de,zh",
    )
    decoding, aligning = components.parameters_of("attention_decoder")
    assert (decoding["language"], aligning["language"]) == ("auto", "de")
    assert "languages" not in aligning


def test_parts_that_are_decoded_again_and_the_second_opinion_know_the_language():
    components = SpokenComponents(until_a_pause)
    components.language_spoken, components.language_share = "de", 0.7
    found = recognized(components, made(".abcd-efgh."), decoder="attention")
    assert (found.language, found.language_probability) == ("de", 0.7)
    sent = components.parameters_of("attention_decoder")
    assert len(sent) > 1
    assert [item["language"] for item in sent] == ["auto", *["de"] * (len(sent) - 1)]
    assert components.parameters_of("ctc_decoder")[0]["language"] == "de"


def test_a_translation_is_english_and_tells_what_it_is_from():
    components = TwoLanguages()
    found = recognize(components, (1.0, 0.9), (2.0, 0.9), task="translate")
    assert (found.language, found.translated_from, found.language_probability) == ("en", "de", 0.9)
    assert {item["task"] for item in components.parameters_of("attention_decoder")} == {"translate"}
    assert "ctc_decoder" not in components.calls


def test_a_text_of_the_ctc_model_is_in_its_language():
    found = recognize(PlainComponents(), (1.0, 0.9), decoder="wfst")
    assert (found.language, found.language_probability) == ("fr", None)
    assert recognize(PlainComponents(), (1.0, 0.9), decoder="ctc", language="en").language == "en"


def test_a_segment_without_a_text_has_no_language():
    class Silent(TwoLanguages):
        def spoken(self, level, seconds, nbest):
            return [""]

    assert recognize(Silent(), (1.0, 0.9), coverage=False).language == ""


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"languages": "de,en", "language": "de"}, "option 'languages' goes with language=auto"),
        ({"languages": "de", "decoder": "ctc"}, "option 'languages' goes with decoder attention"),
        ({"task": "summarise"}, "option 'task' takes one of transcribe, translate"),
        ({"task": "translate", "decoder": "wfst"}, "option 'task' goes with decoder attention"),
        ({"task": "translate", "accuracy": "best"}, "option 'accuracy' takes fast with task"),
        ({"task": "translate", "rescore": True}, "option 'rescore' goes with task=transcribe"),
        ({"task": "translate", "ctc_rescore": True}, "option 'ctc_rescore' goes with task=tr"),
    ],
)
def test_what_contradicts_is_refused_by_name(sent, message):
    with pytest.raises(OptionError) as error:
        RecognitionOptions.parse(sent)
    assert str(error.value).startswith(message)


def test_coverage_is_left_out_of_translations():
    assert RecognitionOptions.parse({}).coverage
    assert not RecognitionOptions.parse({"task": "translate", "coverage": True}).coverage


def test_a_decoder_refuses_a_language_by_the_clients_option():
    class EnglishOnly(PlainComponents):
        def attention_decoder(self, inputs, parameters):
            raise OptionError("option 'languages' takes en: this model knows English only")

    with pytest.raises(OptionError, match="option 'languages'"):
        recognize(EnglishOnly(), (1.0, 0.9), languages="de", coverage=False)


class English(TwoLanguages):
    """Moonshine writes all speech as English, what is loud improbably."""

    def moonshine_decoder(self, inputs, parameters):
        found = super().moonshine_decoder(inputs, {**parameters, "language": "en"})
        is_loud = "encoder_out" in inputs and inputs["encoder_out"][0, 0] > 0.5
        return {**found, "scores": found["scores"] * 9 if is_loud else found["scores"]}


def heard(*, missing=(), **sent) -> tuple[Transcript, list[str]]:
    """Recognise loud and quiet speech, and return the models that were called too."""
    components = English()
    components.missing = set(missing)
    found = recognize(components, (2.0, 0.9), (2.0, 0.3), coverage=False, decoder=None, **sent)
    return found, components.calls


def doubts(found: Transcript) -> list[str]:
    return [text for text in found.warnings if "improbable" in text]


def test_speech_that_is_improbable_in_english_goes_to_a_decoder_of_more_languages():
    found, calls = heard()
    assert [segment.language for segment in found.segments] == ["de", "en"]
    assert calls.count("attention_decoder") == 1
    assert doubts(found) == []


@pytest.mark.parametrize(
    ("options", "missing"), [({"language": "en"}, ()), ({}, ("attention_decoder",))]
)
def test_speech_is_english_if_that_is_asked_for_or_no_other_decoder_is_loaded(options, missing):
    found, calls = heard(missing=missing, **options)
    assert [segment.language for segment in found.segments] == ["en", "en"]
    assert "attention_decoder" not in calls


def test_a_recording_that_is_improbable_in_english_has_a_warning():
    components = English()
    components.missing = {"attention_encoder"}
    found = recognize(components, (2.0, 0.9), coverage=False, decoder=None)
    (warning,) = doubts(found)
    assert "decoder moonshine knows en alone" in warning and "conch serve --whisper" in warning
    found = recognize(components, (2.0, 0.3), coverage=False, decoder=None)
    assert doubts(found) == []


def test_an_improbable_text_stays_if_the_other_decoder_hears_english_too():
    class OnlyEnglish(English):
        def language(self, parameters):
            self.language_spoken = "en"
            return super().language(parameters)

    components = OnlyEnglish()
    found = recognize(components, (2.0, 0.9), coverage=False, decoder=None)
    assert "attention_decoder" in components.calls
    assert [segment.language for segment in found.segments] == ["en"]


def test_a_text_stays_if_the_other_decoder_fails():
    components = English()
    components.failing = "attention_decoder"
    found = recognize(components, (2.0, 0.9), coverage=False, decoder=None)
    assert "attention_decoder" in components.calls
    assert [segment.language for segment in found.segments] == ["en"]

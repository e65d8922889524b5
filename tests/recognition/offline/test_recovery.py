"""Repair of texts that leave speech out, and none where no speech is left out."""

import asyncio
from itertools import pairwise

import numpy as np
import pytest
import virtual_time
from plain_recognizer import recognizer_on
from spoken_components import RATE, SpokenComponents, columns, from_a_pause_on, made, until_a_pause

from conch.component import bytes_array
from conch.recognition.metrics import GAPS, UNRECOGNISED_SECONDS
from conch.recognition.offline import coverage
from conch.recognition.offline.recovery import MAX_DEPTH
from conch.recognition.request import RecognitionRequest
from conch.recognition.speech import WORD_COLUMNS
from conch.wire.errors import ComponentError, DeadlineError
from conch.wire.result import Transcript, Word

ONCE = ["vad", "moonshine_encoder", "moonshine_decoder"]
ANOTHER = ["ctc_encoder", "ctc_decoder"]
AGAIN = ["moonshine_encoder", "moonshine_decoder"]
DECODED = ("hypotheses", "scores", "language", "language_probability")


@pytest.fixture(autouse=True)
def letters_are_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word of these tests has one letter, which is no sign that others are missing."""
    monkeypatch.setattr(coverage, "THIN_CHARS_PER_S", 0.0)


def recognize(components, waveform, **parameters) -> tuple[Transcript, dict]:
    """Return the transcript, and the counts of gaps."""
    recognizer = recognizer_on(components)
    request = RecognitionRequest(wav=waveform[np.newaxis], parameters=parameters)
    (transcript,) = asyncio.run(recognizer.recognize(request, components))
    counted = recognizer.runtime.metrics.drain()
    gaps = {key[0]: value for (family, key), value in counted.items() if family is GAPS}
    seconds = sum(value for (family, _), value in counted.items() if family is UNRECOGNISED_SECONDS)
    return transcript, gaps | ({"seconds": seconds} if seconds else {})


def starts_of(waveform: np.ndarray, text: str) -> list[float]:
    """When each letter of a text begins."""
    levels = np.round(np.abs(waveform) * 100)
    return [float(np.flatnonzero(levels == ord(letter) - 96)[0]) / RATE for letter in text]


def assert_words_are_timed(transcript: Transcript) -> None:
    assert " ".join(word.text for word in transcript.words) == transcript.text
    assert all(0 <= word.start < word.end <= transcript.duration for word in transcript.words)
    assert all(one.end <= other.start for one, other in pairwise(transcript.words))


def test_a_text_of_all_that_is_said_costs_no_call_more():
    components = SpokenComponents()
    transcript, counted = recognize(components, made(".abcd-efgh."))
    assert transcript.text == "a b c d e f g h"
    assert components.calls == ONCE
    assert counted == {}
    assert transcript.path == tuple(ONCE)
    assert (transcript.unrecognised, transcript.warnings) == ((), ())


@pytest.fixture
def components() -> SpokenComponents:
    return SpokenComponents(until_a_pause)


def test_of_a_text_that_ends_too_early_only_the_tail_is_decoded_again(components):
    waveform = made(".abcd-efgh.")
    transcript, counted = recognize(components, waveform, word_timestamps=True)
    assert transcript.text == "a b c d e f g h"
    assert components.calls == [*ONCE, *ANOTHER, *AGAIN]
    assert counted == {"filled": 1}
    assert_words_are_timed(transcript)
    starts = [word.start for word in transcript.words]
    assert starts == pytest.approx(starts_of(waveform, "abcdefgh"), abs=0.03)

    (whole, tail), (stretch,) = map(components.waveforms, ("moonshine_encoder", "ctc_encoder"))
    np.testing.assert_array_equal(tail, stretch)
    np.testing.assert_array_equal(tail, whole[-len(tail) :])
    assert set(np.round(np.abs(tail) * 100)) == {0, 5, 6, 7, 8}
    (segment,) = transcript.segments
    assert segment.end - segment.start == pytest.approx(len(whole) / RATE, abs=1e-3)


def test_a_text_that_ends_at_each_pause_is_followed_to_its_end(components):
    transcript, counted = recognize(components, made("abc-def-ghi-jkl"), word_timestamps=True)
    assert transcript.text == "a b c d e f g h i j k l"
    assert components.calls.count("moonshine_decoder") == 1 + 3
    assert components.calls.count("ctc_decoder") == 3
    assert counted == {"filled": 3}
    assert_words_are_timed(transcript)


def test_of_a_text_that_begins_too_late_both_parts_are_decoded_again():
    components = SpokenComponents(from_a_pause_on)
    waveform = made(".abcd-efgh.")
    transcript, counted = recognize(components, waveform, word_timestamps=True)
    assert transcript.text == "a b c d e f g h"
    assert components.calls == [*ONCE, *ANOTHER, *AGAIN, *AGAIN]
    assert counted == {"filled": 1}
    assert_words_are_timed(transcript)
    starts = [word.start for word in transcript.words]
    assert starts == pytest.approx(starts_of(waveform, "abcdefgh"), abs=0.03)
    (stretch,) = components.waveforms("ctc_encoder")
    assert set(np.round(np.abs(stretch) * 100)) == {0, 1, 2, 3, 4}


def test_a_passage_left_out_in_the_middle_comes_between_the_others():
    def without_the_middle(words, seconds):
        return [word for word in words if word.text not in "efg" or len(words) < 8]

    components = SpokenComponents(without_the_middle)
    transcript, _ = recognize(components, made("abcd-efg-hijk"), word_timestamps=True)
    assert transcript.text == "a b c d e f g h i j k"
    assert components.calls == [*ONCE, *ANOTHER, *AGAIN, *AGAIN, *AGAIN]
    assert_words_are_timed(transcript)


def test_where_the_other_hears_nobody_the_text_stays(components):
    components.other_hears = False
    transcript, counted = recognize(components, made(".abcd-efgh."))
    assert transcript.text == "a b c d"
    assert components.calls == [*ONCE, *ANOTHER]
    assert counted == {"refuted": 1}
    assert (transcript.unrecognised, transcript.warnings) == ((), ())


class WithoutAnother(SpokenComponents):
    """A server on which the CTC model is not loaded, or out of order."""

    def ctc_encoder(self, inputs, parameters):
        raise ComponentError("out of order")


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize(
    ("said", "text"), [("abcd-efg", "a b c d e f g"), ("abcd-ef", "a b c d")], ids=["long", "short"]
)
def test_without_a_second_opinion_only_a_gap_of_a_second_is_certain(said, text, is_loaded):
    components = WithoutAnother(until_a_pause)
    components.missing.update(() if is_loaded else {"ctc_encoder"})
    transcript, counted = recognize(components, made(said))
    assert transcript.text == text
    assert components.calls.count("ctc_encoder") == is_loaded
    assert components.calls.count("moonshine_decoder") == (2 if len(said) > 7 else 1)
    assert counted == ({"filled": 1} if len(said) > 7 else {})
    assert transcript.warnings == ()


def deaf_to_the_end(words, seconds):
    return [word for word in words if word.text < "e"]


def test_what_nobody_finds_a_text_for_is_reported():
    components = SpokenComponents(deaf_to_the_end)
    waveform = made(".abcd-efgh")
    transcript, counted = recognize(components, waveform)
    assert transcript.text == "a b c d"
    (left,) = transcript.unrecognised
    assert transcript.segments[0].unrecognised == (left,)
    assert left.heard == "e f g h"
    (start,) = starts_of(waveform, "e")
    assert start - 0.5 < left.start < start
    assert (
        left.end == pytest.approx(transcript.duration, abs=0.02) and left.end <= transcript.duration
    )
    assert counted == {"unrecognised": 1, "seconds": pytest.approx(left.end - left.start)}
    assert transcript.warnings == (
        f"speech from {left.start:.1f} to {left.end:.1f} s was not recognised",
    )
    assert components.calls.count("moonshine_decoder") == 2
    assert Transcript.from_json(transcript.to_json()) == transcript


def test_a_segment_without_any_text_is_reported_too():
    components = SpokenComponents(lambda words, seconds: [])
    transcript, counted = recognize(components, made("abcd"))
    assert transcript.text == ""
    assert [left.heard for left in transcript.unrecognised] == ["a b c d"]
    assert transcript.warnings == ("speech from 0.0 to 1.6 s was not recognised",)
    assert counted == {"unrecognised": 1, "seconds": pytest.approx(1.6)}
    assert components.calls == [*ONCE, *ANOTHER]


def test_without_coverage_nothing_is_aligned_and_nothing_checked(components):
    transcript, counted = recognize(components, made(".abcd-efgh."), coverage=False)
    assert transcript.text == "a b c d"
    assert components.calls == ONCE
    assert components.parameters[-1]["align"] is False
    assert components.wanted[-1] == DECODED
    assert counted == {}


def test_the_check_asks_for_words_and_keeps_them_to_itself():
    components = SpokenComponents()
    transcript, _ = recognize(components, made(".ab-cd."))
    assert components.parameters[-1]["align"] is True
    assert components.wanted[-1] == (*DECODED, *WORD_COLUMNS)
    assert transcript.words == ()


def test_a_text_of_speech_without_a_pause_is_not_aligned():
    components = SpokenComponents()
    recognize(components, made(".abcd."))
    assert components.calls == ONCE
    assert components.parameters[-1]["align"] is False


def test_a_thin_text_is_aligned_by_a_call_of_its_own(monkeypatch):
    monkeypatch.setattr(coverage, "THIN_CHARS_PER_S", 10.0)
    components = SpokenComponents(lambda words, seconds: words[:1] if len(words) > 7 else words)
    transcript, counted = recognize(components, made("abcdefgh"))
    assert transcript.text == "a b c d e f g h"
    assert counted == {"filled": 1}
    # The tail is thin as well, by these words of a letter each.
    aligned = [inputs for inputs in components.inputs if "text" in inputs]
    assert components.calls == [
        *ONCE,
        "moonshine_decoder",
        *ANOTHER,
        *AGAIN,
        "moonshine_decoder",
    ]
    assert [inputs["text"][0].decode() for inputs in aligned] == ["a", "b c d e f g h"]


@pytest.mark.parametrize("decoder", ["ctc", "wfst"])
def test_texts_of_ctc_are_not_checked(components, decoder):
    components.other_hears = False
    transcript, counted = recognize(components, made(".abcd-efgh."), decoder=decoder)
    assert components.calls == ["vad", *ANOTHER]
    assert (counted, transcript.unrecognised) == ({}, ())


def test_a_decoder_that_always_leaves_something_out_is_called_a_bounded_number_of_times():
    def two_words(words, seconds):
        """So long that no gap goes beyond them."""
        middles = 0.3 * seconds, 0.7 * seconds
        return [Word("m" * 120, middle - 0.02, middle + 0.02, 0.5) for middle in middles]

    components = SpokenComponents(two_words)
    waveform = made("abcdefghijkl" * 5)  # 24 s
    transcript, counted = recognize(components, waveform, word_timestamps=True)
    # Each part is cut in three, as often as it may be.
    assert components.calls.count("moonshine_decoder") == 1 + 3 + 9 + 27
    assert MAX_DEPTH == 3
    assert components.calls.count("ctc_decoder") == 1 + 3 + 9 + 1
    assert counted == {"filled": 1 + 3 + 9, "refuted": 1}
    assert len(transcript.words) == 2 * 27
    assert_words_are_timed(transcript)


def test_one_word_for_all_that_is_said_splits_the_report_of_the_rest(monkeypatch):
    monkeypatch.setattr(coverage, "THIN_CHARS_PER_S", 10.0)
    components = SpokenComponents(lambda words, seconds: [w for w in words if w.text == "f"])
    transcript, counted = recognize(components, made("abcdefghijkl"))
    assert transcript.text == "f"
    (left,) = transcript.unrecognised  # the longer side: g to l
    assert (left.start, left.end) == (pytest.approx(2.4, abs=0.05), transcript.duration)
    assert left.heard == "a b c d e f g h i j k l"
    assert counted["unrecognised"] == 1
    assert counted["seconds"] == pytest.approx(2.4, abs=0.05)


def test_speech_on_both_sides_of_a_text_is_decoded_again():
    def without_the_sides(words, seconds):
        return [word for word in words if word.text in "defg"] if len(words) > 6 else words

    components = SpokenComponents(without_the_sides)
    transcript, counted = recognize(components, made("abc-defg-hijklm"), word_timestamps=True)
    assert transcript.text == "a b c d e f g h i j k l m"
    assert transcript.unrecognised == ()
    assert counted["filled"] >= 1
    assert_words_are_timed(transcript)


def test_where_one_gap_stays_the_other_is_repaired_and_both_are_separate():
    def deaf_to_some(words, seconds):
        kept = [word for word in words if word.text not in "bcde"]
        return kept if len(words) < 10 else [word for word in kept if word.text not in "nopq"]

    components = SpokenComponents(deaf_to_some)
    transcript, _ = recognize(components, made("a-bcde-fghijklm-nopq-rst"))
    assert transcript.text == "a f g h i j k l m n o p q r s t"
    assert ["b" in left.heard for left in transcript.unrecognised] == [True]


@pytest.mark.parametrize("level", [0.0, 1e-5])
def test_silence_that_no_vad_and_no_second_opinion_heard_is_not_cut(level):
    class AlwaysYou(WithoutAnother):
        """What Whisper writes of silence."""

        def attention_decoder(self, inputs, parameters):
            you = {"hypotheses": bytes_array(["you"]), "scores": np.array([-1.0], np.float32)}
            words = columns([Word("you", 0.0, 0.5, 0.1)])
            return you | words | self.language(parameters)

    components = AlwaysYou()
    silence = np.full(20 * RATE, level, np.float32)
    transcript, counted = recognize(components, silence, vad=False)
    assert transcript.text == "you"
    assert components.calls.count("moonshine_encoder") == 1
    assert (counted, transcript.unrecognised) == ({}, ())


def test_a_long_segment_without_any_text_is_halved_where_it_is_quiet():
    def nothing_of_much(words, seconds):
        return [] if seconds > 6 else words

    components = SpokenComponents(nothing_of_much)
    transcript, counted = recognize(components, made("abcdefghijk-lmnopqrstuv"))
    assert transcript.text == " ".join("abcdefghijklmnopqrstuv")
    assert components.calls == [*ONCE, *ANOTHER, *AGAIN, *AGAIN]
    assert counted == {"filled": 1}
    parts = components.waveforms("moonshine_encoder")[1:]
    assert sum(map(len, parts)) == len(components.waveforms("moonshine_encoder")[0])
    assert transcript.unrecognised == ()


def test_the_deadline_holds_for_what_is_decoded_again(components):
    components.hold("ctc_encoder")
    with pytest.raises(DeadlineError, match="deadline_ms of 200 ran out in ctc_encoder"):
        recognize(components, made("abcd-efgh"), deadline_ms=200)
    assert components.calls == [*ONCE, "ctc_encoder"]


def test_hypotheses_of_the_parts_are_joined_best_first(components):
    transcript, _ = recognize(components, made("abcd-efgh"), nbest=3)
    assert [(item.text, item.score) for item in transcript.nbest] == [
        ("a b c d e f g h", -2.0),
        ("a b c d e f g h?", -3.0),
        ("a b c d? e f g h", -3.0),
    ]
    # Another hypothesis of the whole may be of more than the head.
    assert components.calls == [*ONCE, *ANOTHER, *AGAIN, *AGAIN]


def test_segments_of_one_recording_are_repaired_each_by_itself(components):
    transcript, counted = recognize(components, made("abcd.abcd-efgh.ijkl-mnop"))
    assert [item.text for item in transcript.segments] == [
        "a b c d",
        "a b c d e f g h",
        "i j k l m n o p",
    ]
    assert counted == {"filled": 2}


def test_whatever_is_left_out_words_are_in_order_and_the_calls_end():
    letters = "abcdefghijklmnopqrstuvwxyz"
    for seed in range(60):
        rng = np.random.default_rng(seed)

        def forgets(words, seconds, rng=rng):
            kept = [word for word in words if rng.random() < 0.5]
            late = [Word(w.text, w.start, w.end + 0.2, 0.5) for w in kept[-1:]]
            crossing = late and late[0].end > seconds
            return kept if crossing else [*kept[:-1], *late]

        components = SpokenComponents(forgets)
        said = "".join(letter + "-" * (rng.random() < 0.3) for letter in letters)
        transcript, _ = recognize(components, made(said), word_timestamps=True)
        assert_words_are_timed(transcript)
        assert components.calls.count("moonshine_decoder") <= 40
        spans = transcript.unrecognised
        assert all(0 <= item.start < item.end <= transcript.duration for item in spans)
        assert all(one.end <= other.start for one, other in pairwise(spans))


LONG = made(".abcd-efgh" + ".ij" * 20 + ".")
"""Twenty-one segments; of the first one a decoder until a pause leaves out the end."""


class Timed(SpokenComponents):
    """Components whose calls take a second each."""

    def __init__(self) -> None:
        super().__init__(until_a_pause)
        self.before = lambda model: asyncio.sleep(1)

    def place_of_repair(self) -> int:
        """Return how many calls of the encoder went before the one of what was left out."""
        loudest = [round(float(wave.max()) * 100) for wave in self.waveforms("moonshine_encoder")]
        (_, again) = (place for place, level in enumerate(loudest) if level == ord("h") - 96)
        return again


def test_a_repair_goes_before_the_first_calls_of_later_segments():
    components = Timed()
    request = RecognitionRequest(wav=LONG[np.newaxis], parameters={})
    recognizer = recognizer_on(components)
    (transcript,) = virtual_time.run(recognizer.recognize(request, components))
    assert transcript.segments[0].text == "a b c d e f g h"
    assert len(transcript.segments) == 21
    # Those that were encoded while the first segment was decoded, and its gap was heard.
    assert components.place_of_repair() < 12


@pytest.mark.virtual_time
async def test_a_repair_of_the_first_segment_does_not_stop_the_others():
    components = Timed()
    recognizer = recognizer_on(components, cores=2)
    request = RecognitionRequest(wav=LONG[np.newaxis], parameters={})
    encoded = [
        components.calls.count("moonshine_encoder")
        async for _ in recognizer.stream(request, components)
    ]
    first, *_, last = encoded
    place = components.place_of_repair()
    assert last == 22
    assert 2 < first < 12
    assert place < first

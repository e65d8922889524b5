import asyncio

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_streams import audio, ended_once, streaming

from conch.audio.segmentation import Span
from conch.component import VAD_FRAME_SAMPLES
from conch.recognition.live.endpointing import Endpointer, EndpointRules, SpeechExtent, speech_span
from conch.recognition.speech import SpeechProbs

RULES = EndpointRules(threshold=0.5, silence_ms=320, no_speech_ms=640, length_s=3.2)


def probs(text: str, frame_samples: int = VAD_FRAME_SAMPLES) -> SpeechProbs:
    """`#` is speech, `.` silence, `-` in between."""
    found = np.array([{"#": 0.9, ".": 0.1, "-": 0.4}[item] for item in text])
    return SpeechProbs(found, frame_samples)


def speech(*frames: int) -> SpeechExtent:
    return SpeechExtent(*(frame * VAD_FRAME_SAMPLES for frame in frames))


def first_endpoint(text: str, rules: EndpointRules = RULES) -> tuple[int, str] | None:
    """Return the number of frames, fed one by one, and the rule of the first endpoint."""
    endpointer = Endpointer(rules)
    for index, item in enumerate(text):
        if rule := endpointer.push(probs(item)):
            return index + 1, rule
    return None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("##" + "." * 20, (12, "silence")),
        ("." * 30, (20, "no_speech")),
        ("." * 19 + "##" + "." * 9 + "#" + "." * 10, (41, "silence")),
        ("#" * 200, (100, "length")),
        ("#-" + "." * 20, (12, "silence")),  # speech goes on above the lower threshold
        (".-" + "." * 20, (20, "no_speech")),  # but does not begin there
        ("##" + "." * 9, None),
    ],
)
def test_rules(text, expected):
    assert first_endpoint(text) == expected


def test_who_has_gone_on_speaking_meanwhile_has_not_ended():
    endpointer = Endpointer(RULES)
    assert endpointer.push(probs("##" + "." * 15 + "##")) is None
    assert endpointer.speech == speech(19, 0, 19, 17)


def test_an_utterance_after_the_other():
    endpointer = Endpointer(RULES)
    assert endpointer.push(probs("." * 4 + "##" + "." * 10)) == "silence"
    assert endpointer.speech == speech(16, 4, 6, 4)
    endpointer.restart()
    assert endpointer.push(probs("." * 20)) == "no_speech"
    endpointer.restart()
    assert endpointer.push(probs("#" * 100)) == "length"
    endpointer.restart()
    # In speech from the start, at probabilities that would not begin it.
    assert endpointer.push(probs("-" * 3)) is None
    assert endpointer.speech == speech(16 + 20 + 100 + 3, 136, 139, 136)


def test_a_pause_that_was_not_sent_is_silence_and_no_speech_goes_on_behind_it():
    endpointer = Endpointer(RULES)
    assert endpointer.push(probs("##..")) is None
    endpointer.pause_ms = 320 - 64 - 1
    assert endpointer.push(probs("")) is None
    endpointer.pause_ms += 1
    assert endpointer.push(probs("#")) is None
    endpointer.pause_ms = 320
    assert endpointer.push(probs("#")) == "silence"
    endpointer.restart()
    endpointer.pause_ms = 0
    assert endpointer.push(probs("-" * 3)) is None
    assert endpointer.speech.first is None


def test_where_somebody_speaks_is_padded_within_the_utterance():
    utterance, pad_ms, pad = Span(1_000, 50_000), 300, 4_800
    assert speech_span(SpeechExtent(50_000), utterance, pad_ms) == utterance
    found = speech_span(SpeechExtent(50_000, 10_000, 20_000), utterance, pad_ms)
    assert found == Span(10_000 - pad, 20_000 + pad)
    assert speech_span(SpeechExtent(50_000, 2_000, 49_000), utterance, pad_ms) == utterance


def test_frames_may_come_in_pieces_of_any_length():
    rng = np.random.default_rng(0)
    for _ in range(20):
        text = "".join(rng.choice(list("#.-"), size=60))
        whole, pieces = Endpointer(RULES), Endpointer(RULES)
        last = whole.push(probs(text))
        cuts = np.sort(rng.integers(0, 61, size=4))
        for piece in np.split(probs(text).probs, cuts):
            found = pieces.push(SpeechProbs(piece, VAD_FRAME_SAMPLES))
        assert (found, pieces.speech) == (last, whole.speech)


def test_frames_of_another_length():
    endpointer = Endpointer(RULES)
    assert endpointer.push(probs("#" + "." * 15, frame_samples=320)) is None
    assert endpointer.push(probs(".", frame_samples=320)) == "silence"
    assert endpointer.speech == SpeechExtent(17 * 320, 0, 320)


CHUNK = 1_600
"""Samples of 100 ms."""
STEP_S = 0.64


async def ends(text: str, components: PlainComponents, **options) -> list[tuple[float, float]]:
    """Return, of each utterance, its end and the audio after which it has ended, in seconds."""
    wave = audio(text)
    options = {"semantic_endpointing": True, "endpoint_silence_ms": 1900, **options}
    async with streaming(components, **options) as (client, components):
        found: dict[float, float] = {}
        for start in range(0, len(wave), CHUNK):
            for item in (await client.send(wave[start : start + CHUNK])).segments:
                found.setdefault(item.end, (start + CHUNK) / 16_000)
            for _ in range(20):  # the server is quicker than speech
                await asyncio.sleep(0)
        await client.send(wave[:0], ends=True)
    assert ended_once(components)
    return list(found.items())


@pytest.mark.parametrize("mode", ["two_pass", "streaming"])
async def test_an_utterance_ends_sooner_where_its_speaker_has_finished(mode):
    """And not in a pause within it."""
    components = PlainComponents()
    ((end, heard),) = await ends("3..9....", components, mode=mode)
    assert end > 4 * STEP_S
    # The step in which the model is asked, and the next chunk.
    assert heard == pytest.approx(5 * STEP_S + 0.1, abs=0.1)
    asked = components.waveforms("end_of_turn")
    assert [len(item) for item in asked] == [2 * 10_240, 5 * 10_240], "once in each pause"


@pytest.mark.parametrize("settings", [{}, {"endpointing": False}])
async def test_an_utterance_ends_sooner_where_the_first_pass_says_so(settings):
    components = PlainComponents()
    components.says_end = True
    options = {"decoder": "transducer", "mode": "streaming", "semantic_endpointing": False}
    found = await ends("3..9....", components, **options, **settings)
    assert "end_of_turn" not in components.calls
    if settings:
        assert not found
        return
    ((end, heard),) = found
    assert end > 4 * STEP_S
    # At 200 ms of silence: the word itself has brought the news.
    assert heard == pytest.approx(4 * STEP_S + 0.25, abs=0.05)


@pytest.mark.parametrize("reason", ["he goes on", "no model", "an error"])
async def test_otherwise_silence_decides(reason):
    components = PlainComponents()
    if reason == "no model":
        components.missing.add("end_of_turn")
    if reason == "an error":
        components.failing = "end_of_turn"
    text = "3...." if reason == "he goes on" else "9...."
    ((_, heard),) = await ends(text, components, mode="two_pass")
    assert heard == pytest.approx(4 * STEP_S, abs=0.1)
    assert components.calls.count("end_of_turn") == (reason != "no model")


async def test_without_the_option_nothing_is_asked():
    components = PlainComponents()
    assert await ends("9....", components, mode="two_pass", semantic_endpointing=False)
    assert "end_of_turn" not in components.calls

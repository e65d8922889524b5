"""What a decoder tells beside its text goes into the segments."""

import json

import numpy as np
from plain_components import PlainComponents
from plain_recognizer import recognized
from plain_streams import audio, streaming

from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript

ASKED = {"decoder": "sensevoice", "itn": True, "punctuate": True}


def test_a_recording_has_emotion_event_and_language():
    components = PlainComponents()
    components.language_share = 0.75
    found = recognized(components, np.full(16_000, 0.5, np.float32), **ASKED)
    (segment,) = found.segments
    assert (segment.emotion, segment.event) == ("emotion", "event")
    assert (segment.language, segment.language_probability) == ("en", 0.75)
    (written,) = json.loads(found.to_json())["segments"]
    assert (written["emotion"], written["event"]) == ("emotion", "event")
    assert Transcript.from_json(found.to_json()).segments == found.segments
    # The model writes digits and punctuation itself.
    assert components.calls == ["vad", "sensevoice"]
    assert components.parameters[-1]["itn"] is True


async def test_the_second_pass_of_live_audio_has_them():
    async with streaming(mode="two_pass", **ASKED) as (client, components):
        found = await client.send(audio("11"), ends=True)
    assert [segment.emotion for segment in found.segments] == ["emotion"]
    assert "inverse_normalizer" not in components.calls


def test_others_have_no_such_fields():
    found = recognized(PlainComponents(), np.full(16_000, 0.5, np.float32))
    assert not {"emotion", "event"} & {*json.loads(found.to_json())["segments"][0]}


def test_what_a_decoder_follows_itself_needs_no_model():
    own = RecognitionOptions.parse(ASKED)
    assert own.writes_punctuation
    assert set(components_of(own)) == {"vad", "sensevoice"}
    assert not RecognitionOptions.parse({"decoder": "sensevoice"}).writes_punctuation
    others = components_of(RecognitionOptions.parse({"itn": True}))
    assert "inverse_normalizer" in others

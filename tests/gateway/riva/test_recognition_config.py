"""What fields of Riva's protocol ask for."""

import pytest
from riva.client import EndpointingConfig, RecognitionConfig
from riva.client.proto.riva_asr_pb2 import SpeechContext
from riva.client.proto.riva_tts_pb2 import SynthesizeSpeechRequest, ZeroShotData

from conch.gateway.errors import ApiError
from conch.gateway.riva import recognition_config, synthesis
from conch.gateway.riva.protocol import POOL
from conch.gateway.riva.recognition import _container_of

NO_ALIASES: dict[str, str] = {}
DIARIZED = {"enable_speaker_diarization": True}
FIELDS = {
    "max_alternatives": (3, {"nbest": 3}),
    "language_code": ("de-DE", {"language": "de"}),
    "profanity_filter": (True, {"post": "profanity_filter"}),
    "speech_contexts": (
        [
            SpeechContext(phrases=["Conch", "New  York"], boost=20),
            SpeechContext(phrases=["a: b,", ""]),
        ],
        {"hotwords": "Conch:20,New York:20,a b"},
    ),
    "enable_word_time_offsets": (True, {"word_timestamps": True}),
    "enable_automatic_punctuation": (True, {"punctuate": True}),
    "model": ("conch-wfst", {"decoder": "wfst"}),
    "diarization_config": (
        DIARIZED | {"max_speaker_count": 3},
        {"speakers": "auto", "max_speakers": 3, "word_timestamps": True},
    ),
    "custom_configuration": (
        {"beam_size": "4", "coverage": "false"},
        {"beam_size": 4, "coverage": False},
    ),
    "endpointing_config": (
        EndpointingConfig(start_history=200, start_threshold=0.25, stop_history=320),
        {"vad_min_speech_ms": 200, "vad_threshold": 0.25, "endpoint_silence_ms": 320},
    ),
}
"""A value of each field that sets options, and these."""
OF_AUDIO = {"encoding", "sample_rate_hertz", "audio_channel_count"}


def settings(aliases=NO_ALIASES, *, live: bool = True, **fields):
    return recognition_config.settings_of(RecognitionConfig(**fields), aliases, live=live)


def options(**fields):
    return settings(**{"verbatim_transcripts": True, **fields}).options.sent


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_sets_its_options(field: str):
    sent, expected = FIELDS[field]
    assert options(**{field: sent}) == expected


def test_no_field_is_forgotten():
    ours = {"verbatim_transcripts", "enable_separate_recognition_per_channel", *OF_AUDIO, *FIELDS}
    config = POOL.FindMessageTypeByName("nvidia.riva.asr.RecognitionConfig")
    assert {field.name for field in config.fields} == ours


def test_numbers_are_in_digits_unless_the_transcript_is_verbatim():
    assert settings().options.sent == {"itn": True}
    assert settings().wishes == {"inverse_normalizer": "itn"}
    assert settings(custom_configuration={"itn": "true"}).wishes == {}


def test_punctuation_may_be_left_to_a_decoder_that_writes_it():
    sent = {"enable_automatic_punctuation": True, "verbatim_transcripts": True}
    assert settings(**sent).wishes == {"punctuator": "punctuate"}
    assert settings(**sent, model="conch-ctc", live=False).wishes == {}


@pytest.mark.parametrize("code", ["", "auto", "multi", "Multi"])
def test_a_language_may_be_left_open(code: str):
    assert options(language_code=code) == {}


def test_channels_of_a_recording_are_split():
    sent = {"enable_separate_recognition_per_channel": True, "audio_channel_count": 2}
    assert options(live=False, **sent) == {"channels": "split"}


def test_conchs_own_option_goes_before_a_field():
    assert options(max_alternatives=3, custom_configuration={"nbest": "5"}) == {"nbest": 5}
    sent = options(profanity_filter=True, custom_configuration={"post": "mine"})
    assert sent == {"post": "mine,profanity_filter"}


def test_an_alias_is_a_model():
    result = settings({"parakeet": "conch-ctc"}, model="parakeet")
    assert result.options.sent["decoder"] == "ctc"


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"encoding": 7}, "encoding takes ENCODING_UNSPECIFIED (0), .*; sent: 7"),
        ({"sample_rate_hertz": 3}, "sample_rate_hertz takes 4000 to 192000 Hz, .*; sent: 3"),
        ({"audio_channel_count": 65}, "audio_channel_count takes 0 to 64; sent: 65"),
        (
            {"audio_channel_count": 2, "encoding": 1},
            "audio_channel_count takes 0 to 1 with raw samples of a stream; sent: 2",
        ),
        ({"max_alternatives": 200}, "max_alternatives: option 'nbest' takes .*; sent: 200"),
        ({"max_alternatives": -1}, "max_alternatives: option 'nbest' takes .*; sent: -1"),
        (
            {"speech_contexts": [SpeechContext(phrases=["x"], boost=-1)]},
            "speech_contexts: option 'hotwords' takes weights from 0 to 100; sent: -1.0",
        ),
        (
            {"diarization_config": DIARIZED | {"max_speaker_count": 65}},
            "diarization_config.max_speaker_count: option 'max_speakers' takes .*; sent: 65",
        ),
        (
            {"endpointing_config": EndpointingConfig(stop_history=5)},
            "endpointing_config.stop_history: option 'endpoint_silence_ms' takes .*; sent: 5",
        ),
        (
            {"endpointing_config": EndpointingConfig(stop_threshold=0.5)},
            "endpointing_config.stop_threshold has no counterpart here: .*; sent: 0.5; .*",
        ),
        ({"enable_separate_recognition_per_channel": True}, "enable_separate_.* sent: true"),
        (
            {"custom_configuration": {"beem_size": "4"}},
            "unknown option 'beem_size'; did you mean .*",
        ),
        ({"model": "parakeet"}, "no model 'parakeet'; this server has .*"),
    ],
)
def test_a_wrong_value_is_named(sent, message: str):
    with pytest.raises(ApiError, match=f"^{message.replace('(', '[(]').replace(')', '[)]')}$"):
        options(**sent)


def spoken(**fields):
    said, voicing = synthesis.text_and_voicing(SynthesizeSpeechRequest(text="Good day.", **fields))
    assert said == "Good day."
    return voicing


def test_speech_has_the_clients_form():
    result = spoken(sample_rate_hz=22_050, encoding=1, language_code="en-US")
    assert (result.format, result.rate) == ("pcm_s16", 22_050)
    assert result.options == {"sample_rate": 22_050, "format": "pcm_f32"}
    assert (spoken().format, spoken().rate) == ("pcm_s16", 24_000)


def test_opus_has_the_next_rate_that_it_knows():
    assert [(spoken(encoding=4, sample_rate_hz=rate).rate) for rate in (8000, 22_050, 44_100)] == [
        *(8000, 24_000, 48_000)
    ]


@pytest.mark.parametrize(
    "name", ["", "hibari", "Conch.hibari", "English-US.Female-1", "Magpie-Multilingual.EN-US.Aria"]
)
def test_a_voice_has_the_name_that_is_listed_or_that_of_nvidias(name: str):
    assert spoken(voice_name=name).options.get("voice", "hibari") == "hibari"


def test_options_of_speech():
    result = spoken(custom_configuration={"speed": "1.5"}, enable_word_time_offsets=True)
    assert result.options == {"speed": 1.5, "timestamps": True, "format": "pcm_f32"}


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"text": " "}, "text takes 1 to 100000 characters; sent: 0"),
        (
            {"text": "<speak>One <break time='1s'/> two</speak>"},
            "text: SSML's <break> has no counterpart here: leave it out",
        ),
        ({"text": "<speak>A<![CDATA[b]]></speak>"}, r"text: SSML's <!\[CDATA\[b\]\]> has no .*"),
        ({"text": "<speak/>"}, "text takes SSML of <speak>…</speak> without .*; sent: '<speak/>'"),
        ({"text": "<!DOCTYPE speak [<!--]-->]>\n<speak>A</speak>"}, "text takes SSML of <speak>.*"),
        ({"encoding": 3}, "encoding takes LINEAR_PCM, OGGOPUS, FLAC; sent: MULAW"),
        ({"sample_rate_hz": 400}, "sample_rate_hz: option 'sample_rate' takes .*; sent: 400"),
        ({"voice_name": "Sofia"}, "voice_name: option 'voice' takes .*; sent: 'Sofia'"),
        ({"language_code": "de-DE"}, "language_code takes en-US with voice hibari; sent: 'de-DE'"),
        (
            {"zero_shot_data": ZeroShotData(audio_prompt=b"x")},
            "zero_shot_data has no counterpart.*",
        ),
        ({"custom_dictionary": "a  b"}, "custom_dictionary has no counterpart here: leave it out"),
        ({"custom_configuration": {"sped": "1"}}, "unknown option 'sped'; did you mean 'speed'?"),
    ],
)
def test_a_wrong_field_of_speech_is_named(sent, message: str):
    with pytest.raises(ApiError, match=f"^{message.replace('?', '[?]')}$"):
        synthesis.text_and_voicing(SynthesizeSpeechRequest(**{"text": "Good day.", **sent}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3 < 5 and <b>7</b>", "3 < 5 and <b>7</b>"),
        ("<speak version='1.0'>Salt &amp; sea</speak>", "Salt & sea"),
        ("<?xml version='1.0'?>\n<speak><p><s>One.</s> <s>Two</s></p></speak>", "One.\n\nTwo"),
        ("<speak><!-- <b> -->Hi <s xml:lang='en'>you</s> all</speak>", "Hi \n\nyou\n\nall"),
    ],
)
def test_a_text_in_ssml(text: str, said: str):
    assert synthesis.text_and_voicing(SynthesizeSpeechRequest(text=text))[0] == said


@pytest.mark.parametrize(
    ("first", "container"),
    [(b"OggS\0\2", "ogg"), (b"RIFF\0\0\0\0WAVE", "wav"), (b"fLaC", "flac"), (b"\1\0", None)],
)
def test_a_container_that_is_sent_as_samples_is_decoded(first: bytes, container: str | None):
    sent = settings(encoding=1, sample_rate_hertz=8000, live=False)
    assert _container_of(first + bytes(12), sent) == container


def test_no_field_of_speech_is_forgotten():
    tested = {
        *("language_code", "encoding", "sample_rate_hz", "voice_name", "zero_shot_data", "text"),
        *("custom_dictionary", "custom_configuration", "enable_word_time_offsets", "id"),
    }
    request = POOL.FindMessageTypeByName("nvidia.riva.tts.SynthesizeSpeechRequest")
    assert {field.name for field in request.fields} == tested

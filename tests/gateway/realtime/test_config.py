import pytest

from conch.families.whisper import MAX_PROMPT
from conch.gateway.errors import ApiError
from conch.gateway.realtime.config import (
    DELAYS,
    EAGERNESS_MS,
    LOGPROBS,
    PARTIALS,
    AudioFormat,
    SessionConfig,
)
from conch.wire.known_speakers import known_speakers_of

NO_ALIASES: dict[str, str] = {}
SPEECH_IS_TOLD = {"turn_events": True, "eager_end_threshold": 1.0}
"""What a session with turn detection asks for."""


def updated(*sessions: object) -> SessionConfig:
    config = SessionConfig()
    for session in sessions:
        config = config.updated(session, NO_ALIASES)
    return config


def of_input(**parts: object) -> dict:
    return {"type": "transcription", "audio": {"input": parts}}


def options(*sessions: object) -> dict:
    return dict(updated(*sessions).options(NO_ALIASES).sent)


def problem(*sessions: object) -> ApiError:
    with pytest.raises(ApiError) as info:
        updated(*sessions)
    assert info.value.status == (404 if info.value.code == "model_not_found" else 400)
    return info.value


def test_the_defaults_are_those_of_openai_and_told_whole() -> None:
    assert SessionConfig().as_session() == {
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24_000},
                "noise_reduction": None,
                "transcription": {"model": "conch"},
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.5,
                    "prefix_padding_ms": 300,
                    "silence_duration_ms": 500,
                },
            }
        },
        "include": [],
        "conch": {},
    }
    assert options() == {
        **SPEECH_IS_TOLD,
        "vad_threshold": 0.5,
        "vad_pad_ms": 300,
        "endpoint_silence_ms": 500,
    }


def test_only_what_is_named_changes() -> None:
    first = of_input(
        transcription={"model": "conch-attention", "language": "en"},
        turn_detection={"type": "server_vad", "silence_duration_ms": 700},
    )
    config = updated(first, of_input(transcription={"language": "de"}), {"type": "transcription"})
    shown = config.as_session()["audio"]["input"]
    assert shown["transcription"] == {"model": "conch-attention", "language": "de"}
    assert shown["turn_detection"]["silence_duration_ms"] == 700
    config = config.updated(of_input(turn_detection={"threshold": 0.7}), NO_ALIASES)
    assert config.options(NO_ALIASES).sent == {
        "decoder": "attention",
        "language": "de",
        **SPEECH_IS_TOLD,
        "vad_threshold": 0.7,
        "vad_pad_ms": 300,
        "endpoint_silence_ms": 700,
    }


def test_null_turns_off() -> None:
    config = updated(
        of_input(noise_reduction={"type": "near_field"}, transcription={"language": "de"}),
        of_input(noise_reduction=None, turn_detection=None, transcription={"language": None}),
    )
    assert config.is_manual
    shown = config.as_session()["audio"]["input"]
    assert (shown["noise_reduction"], shown["turn_detection"]) == (None, None)
    assert config.options(NO_ALIASES).sent == {}
    again = config.updated(of_input(turn_detection={"type": "server_vad"}), NO_ALIASES)
    assert not again.is_manual


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        ({"type": "audio/pcm", "rate": 16_000}, AudioFormat("audio/pcm", 16_000)),
        ({"type": "audio/pcm", "rate": 48_000.0}, AudioFormat("audio/pcm", 48_000)),
        ({"type": "audio/pcm"}, AudioFormat("audio/pcm", 24_000)),
        ({"rate": 8_000}, AudioFormat("audio/pcm", 8_000)),
        ({"type": "audio/pcmu"}, AudioFormat("audio/pcmu", 8_000)),
        ({"type": "audio/pcma"}, AudioFormat("audio/pcma", 8_000)),
    ],
)
def test_formats(sent: dict, wanted: AudioFormat) -> None:
    assert updated(of_input(format=sent)).format == wanted


def test_a_rate_stays_where_the_type_is_named_again() -> None:
    twice = updated(of_input(format={"rate": 16_000}), of_input(format={"type": "audio/pcm"}))
    assert twice.format.rate == 16_000


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [("pcm16", "audio/pcm"), ("g711_ulaw", "audio/pcmu"), ("g711_alaw", "audio/pcma")],
)
def test_the_fields_of_the_beta(sent: str, wanted: str) -> None:
    config = updated(
        {
            "input_audio_format": sent,
            "input_audio_transcription": {"model": "whisper-1", "language": "en-US"},
            "input_audio_noise_reduction": {"type": "far_field"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 600},
            "include": [LOGPROBS],
        }
    )
    assert config.format.type == wanted
    shown = config.as_beta_session()
    assert shown["input_audio_format"] == sent
    assert shown["input_audio_transcription"] == {"model": "whisper-1", "language": "en-US"}
    assert shown["input_audio_noise_reduction"] == {"type": "far_field"}
    assert shown["turn_detection"]["silence_duration_ms"] == 600
    assert shown["include"] == [LOGPROBS]
    chosen = config.options(NO_ALIASES).sent
    assert (chosen["language"], chosen["word_timestamps"]) == ("en", True)


def test_the_model_chooses_the_path() -> None:
    assert options(of_input(transcription={"model": "conch-wfst"}))["decoder"] == "wfst"
    assert "decoder" not in options(of_input(transcription={"model": None}))
    aliases = {"gpt-4o-transcribe": "conch-ctc"}
    sent = of_input(transcription={"model": "gpt-4o-transcribe"})
    config = SessionConfig().updated(sent, aliases)
    assert config.options(aliases).sent["decoder"] == "ctc"
    assert "decoder" not in options(sent)
    error = problem(of_input(transcription={"model": "gpt-4o"}))
    assert error.param == "session.audio.input.transcription.model"
    assert "this server has conch, and others, which GET /v1/models lists" in str(error)


def test_of_several_languages_whisper_chooses() -> None:
    assert options(of_input(transcription={"languages": ["fr"]}))["language"] == "fr"
    several = options(of_input(transcription={"languages": ["fr", "de-DE"]}))
    assert (several["languages"], "language" in several) == ("fr,de", False)
    assert options(of_input(transcription={"language": "Portuguese"}))["language"] == "pt"
    assert "language" not in options(of_input(transcription={"language": "auto"}))
    by_ctc = of_input(transcription={"languages": ["fr", "de"], "model": "conch-ctc"})
    assert "languages" not in options(by_ctc)


@pytest.mark.parametrize("delay", DELAYS)
def test_a_delay_sets_the_pace_of_passes_and_the_pause(delay: str) -> None:
    wanted = DELAYS[delay]
    chosen = options(of_input(transcription={"delay": delay}))
    assert chosen["rolling_pass_ms"] == wanted.rolling_pass_ms
    assert chosen["endpoint_silence_ms"] == wanted.silence_ms
    shown = updated(of_input(transcription={"delay": delay})).as_session()["audio"]["input"]
    assert shown["turn_detection"]["silence_duration_ms"] == wanted.silence_ms
    both = of_input(transcription={"delay": delay}, turn_detection={"silence_duration_ms": 333})
    assert options(both)["endpoint_silence_ms"] == 333


def test_higher_delays_wait_longer() -> None:
    ordered = [DELAYS[name] for name in ("minimal", "low", "medium", "high", "xhigh")]
    assert ordered == sorted(ordered)
    assert len(set(ordered)) == len(ordered)


@pytest.mark.parametrize("eagerness", EAGERNESS_MS)
def test_eagerness_is_the_longest_pause(eagerness: str) -> None:
    sent = of_input(turn_detection={"type": "semantic_vad", "eagerness": eagerness})
    assert options(sent) == {
        **SPEECH_IS_TOLD,
        "endpoint_silence_ms": EAGERNESS_MS[eagerness],
        "semantic_endpointing": eagerness != "low",
    }


def test_eager_ends_are_told_if_conchs_own_option_asks_for_them() -> None:
    own = {"conch": {"eager_end_threshold": 0.4}}
    assert options({**of_input(), **own})["eager_end_threshold"] == 0.4
    assert "turn_events" not in options(of_input(turn_detection=None))


def test_semantic_vad_is_told_with_its_default() -> None:
    shown = updated(of_input(turn_detection={"type": "semantic_vad"})).as_session()
    assert shown["audio"]["input"]["turn_detection"] == {
        "type": "semantic_vad",
        "eagerness": "auto",
    }


def test_a_threshold_at_the_edge_is_the_nearest_that_conch_takes() -> None:
    assert options(of_input(turn_detection={"threshold": 0}))["vad_threshold"] == 0.01
    assert options(of_input(turn_detection={"threshold": 1}))["vad_threshold"] == 0.99


def test_a_prompt_goes_where_something_reads_it() -> None:
    said = of_input(transcription={"prompt": "About whales."})
    assert options(said)["prompt"] == "About whales."
    by_ctc = of_input(transcription={"prompt": "About whales.", "model": "conch-ctc"})
    assert "prompt" not in options(by_ctc)
    assert options(said, {"conch": {"accuracy": "best"}})["prompt"] == "About whales."
    long = of_input(transcription={"prompt": "a" * MAX_PROMPT + "whales"})
    kept = options(long, {"conch": {"accuracy": "best"}})["prompt"]
    assert len(kept) == MAX_PROMPT
    assert kept.endswith("whales")


@pytest.mark.parametrize("model", [{}, {"model": "conch-ctc"}, {"model": "conch-wfst"}])
def test_keywords_are_names(model: dict[str, str]) -> None:
    words = {"keywords": ["Ishmael", "the Pequod, a ship: 1"]}
    chosen = options(of_input(transcription={**words, **model}))
    assert chosen["names"] == "Ishmael, the Pequod a ship 1"


def test_own_options_go_first_and_null_takes_one_away() -> None:
    config = updated({"conch": {"endpoint_silence_ms": 900, "mode": "streaming"}})
    chosen = config.options(NO_ALIASES).sent
    assert (chosen["endpoint_silence_ms"], chosen["mode"]) == (900, "streaming")
    config = config.updated({"conch": {"mode": None}}, NO_ALIASES)
    assert config.as_session()["conch"] == {"endpoint_silence_ms": 900}
    assert config.updated({"conch": None}, NO_ALIASES).own == {}


def test_known_speakers_have_names_and_are_not_sent_back() -> None:
    known = {"known_speaker_names": ["Ann"], "known_speaker_references": ["data:;base64,AAAA"]}
    config = updated(of_input(transcription=known))
    chosen = config.options(NO_ALIASES).sent
    assert chosen["speakers"] == "auto"
    (ann,) = known_speakers_of(str(chosen["known_speakers"]))
    assert (ann.name, ann.audio) == ("Ann", bytes(3))
    said = config.as_session()["audio"]["input"]["transcription"]
    assert said == {"model": "conch", "known_speaker_names": ["Ann"]}
    own = {"known_speakers": chosen["known_speakers"], "speakers": 2}
    config = updated({"conch": own})
    assert config.options(NO_ALIASES).sent["speakers"] == 2
    assert config.as_session()["conch"] == {"known_speakers": "Ann", "speakers": 2}


def test_what_is_included() -> None:
    config = updated({"include": [PARTIALS, "something.else", LOGPROBS]})
    assert config.include == (LOGPROBS, PARTIALS)
    assert updated({"include": [PARTIALS]}, {"include": None}).include == ()


def test_unknown_fields_are_left_out() -> None:
    config = updated(
        {
            "colour": "blue",
            **of_input(
                voice="alloy",
                transcription={"speed": 2},
                turn_detection={"create_response": True, "idle_timeout_ms": 6000},
            ),
        }
    )
    assert config == updated()


@pytest.mark.parametrize(
    ("session", "param"),
    [
        (None, "session"),
        ({"type": "realtime"}, "session.type"),
        ({"audio": []}, "session.audio"),
        ({"audio": {"input": 3}}, "session.audio.input"),
        ({"input_audio_format": "mp3"}, "session.input_audio_format"),
        ({"turn_detection": {"silence_duration_ms": "1"}}, "session.turn_detection."),
        ({"include": "all"}, "session.include"),
        ({"conch": 3}, "session.conch"),
        ({"conch": {"colour": "blue"}}, "session.conch.colour"),
        ({"conch": {"endpoint_silence_ms": 50}}, "session.conch.endpoint_silence_ms"),
        ({"conch": {"channels": "split"}}, "session.conch.channels"),
    ],
)
def test_what_is_wrong_is_named(session: object, param: str) -> None:
    error = problem(session)
    assert (error.param or "").startswith(param)
    assert error.code in ("invalid_value", "model_not_found")


@pytest.mark.parametrize(
    ("name", "value", "param"),
    [
        ("format", {"type": "audio/opus"}, ".type"),
        ("format", {"type": "audio/pcm", "rate": 96_000}, ".rate"),
        ("format", {"rate": True}, ".rate"),
        ("format", {"type": "audio/pcmu", "rate": 16_000}, ".rate"),
        ("format", {"rate": float("nan")}, ".rate"),
        ("noise_reduction", {"type": "loud"}, ".type"),
        ("noise_reduction", {"type": ["x"]}, ".type"),
        ("transcription", "conch", ""),
        ("transcription", {"language": 3}, ".language"),
        ("transcription", {"keywords": "a"}, ".keywords"),
        ("transcription", {"keywords": ["a", 1]}, ".keywords[1]"),
        ("transcription", {"known_speaker_names": ["Ann"]}, ".known_speaker_names"),
        (
            "transcription",
            {"known_speaker_names": ["Ann"], "known_speaker_references": ["?"]},
            ".known_speaker_names",
        ),
        ("transcription", {"delay": "none"}, ".delay"),
        ("turn_detection", {"type": "push"}, ".type"),
        ("turn_detection", {"threshold": 2}, ".threshold"),
        ("turn_detection", {"prefix_padding_ms": 9000}, ".prefix_padding_ms"),
        ("turn_detection", {"silence_duration_ms": 50}, ".silence_duration_ms"),
        ("turn_detection", {"type": "semantic_vad", "eagerness": "very"}, ".eagerness"),
    ],
)
def test_what_is_wrong_with_a_part_is_named(name: str, value: object, param: str) -> None:
    test_what_is_wrong_is_named(of_input(**{name: value}), f"session.audio.input.{name}{param}")


def test_a_contradiction_of_openais_fields_and_conchs_names_the_field() -> None:
    model = of_input(transcription={"model": "conch-attention"})
    error = problem(model, {"conch": {"mode": "streaming"}})
    assert error.param == "session.audio.input.transcription.model"


def test_of_noise_reduction_only_what_is_documented_is_kept() -> None:
    sent = {"type": "far_field", "strength": float("nan")}
    shown = updated(of_input(noise_reduction=sent)).as_session()["audio"]["input"]
    assert shown["noise_reduction"] == {"type": "far_field"}

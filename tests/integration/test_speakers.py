"""Speaker labels of a real server, with the models that `conch models get speakers` brings."""

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audio_files import audio_file
from gateways import gateway_alone
from known_models import skip_without
from openai import BadRequestError, OpenAI
from recordings import Recording

from conch.cli import main
from conch.client import Client, joined_parts
from conch.client.speakers import known_speakers
from conch.families.speakers import MODEL as SPEAKERS
from conch.launcher import ServerConfig, TritonServer
from conch.wire.errors import OptionError
from lab.recordings.sounds import music

pytestmark = [pytest.mark.server, pytest.mark.nightly]

LABELLERS = {"speaker_segmentation", "speaker_embedding"}
LIVE = ("ctc_streaming_encoder", "ctc_streaming_decoder")
MODELS = ("speech", "speech_stream", "vad", "ctc_encoder", "ctc_decoder", *LIVE, *LABELLERS)
ASKED: Mapping[str, Any] = {"decoder": "ctc", "speakers": "auto"}


@pytest.fixture(scope="module")
def server() -> Iterator[TritonServer]:
    skip_without(SPEAKERS)
    config = ServerConfig(models=MODELS, on_demand=True, warm_up=True, stop_timeout_s=8)
    with TritonServer(config) as running:
        yield running


@pytest.fixture
def talk(recordings: list[Recording]) -> tuple[np.ndarray, list[tuple[float, int]]]:
    """Return a talk of two voices, and when each turn ends and whose it is."""
    first, second = (
        next(item.waveform() for item in recordings if item.path.name == f"kokoro_{name}.ogg")
        for name in ("0_00788", "1_00119")
    )
    pause = np.zeros(8_000, np.float32)
    turns = [(0, first), (1, second)] * 2
    parts = [part for _, turn in turns for part in (turn, pause)]
    ends = np.cumsum([len(turn) + len(pause) for _, turn in turns]) / 16_000
    whose = [who for who, _ in turns]
    return np.concatenate(parts), list(zip(ends.tolist(), whose, strict=True))


def test_each_voice_has_its_letter(server, talk) -> None:
    waveform, turns = talk
    assert LABELLERS.isdisjoint(server.models())
    with Client(server.http_url) as client:
        found = client.transcribe(waveform, **ASKED)
    assert [speaker.name for speaker in found.speakers] == ["A", "B"]
    whose = [next(who for end, who in turns if word.start < end) for word in found.words]
    right = ["AB"[who] == word.speaker for who, word in zip(whose, found.words, strict=True)]
    assert np.mean(right) > 0.95
    assert set(found.path) >= LABELLERS
    assert set(server.models()) >= LABELLERS


def test_a_streamed_answer_ends_with_the_labels(server, talk) -> None:
    with Client(f"grpc://{server.grpc_url}") as client:
        whole = client.transcribe(talk[0], **ASKED)
        parts = list(client.stream(talk[0], **ASKED))
    joined = joined_parts(parts)
    before = [turn for part in parts[:-1] for turn in part.turns]
    assert [turn.speaker for turn in before] == [turn.speaker for turn in whole.turns]
    assert all(segment.speaker for part in parts[:-1] for segment in part.segments)
    assert (joined.text, joined.turns) == (whole.text, whole.turns)
    assert [item.speaker for item in joined.segments] == [item.speaker for item in whole.segments]


@pytest.fixture
def parts(recordings: list[Recording]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return two parts of the speech of each of two voices."""
    by_name = {item.path.name: item.waveform() for item in recordings}
    cuts = {"kokoro_1_01119.ogg": 80_000, "kokoro_0_00788.ogg": 36_000}
    return [(by_name[name][:cut], by_name[name][cut:]) for name, cut in cuts.items()]


@pytest.fixture
def enrolments(parts: list[tuple[np.ndarray, np.ndarray]]) -> list[np.ndarray]:
    return [first for first, _ in parts]


@pytest.fixture
def later(parts: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return a talk of both voices, without their enrolments."""
    pause = np.zeros(8_000, np.float32)
    return np.concatenate([part for _, said in [*parts, *parts] for part in (said, pause)])


def wav(waveform: np.ndarray) -> bytes:
    return audio_file(waveform, 16_000)


def test_known_voices_have_their_names(server, later, enrolments) -> None:
    known = dict(zip(("Ann", "Ben"), map(wav, enrolments), strict=True))
    with Client(server.http_url) as client:
        found = client.transcribe(later, **ASKED, known_speakers=known)
        assert [item.name for item in found.speakers] == ["Ann", "Ben"]
        assert found.turns[0].speaker == "Ann"
        found = client.transcribe(later, **ASKED, known_speakers={"Ben": known["Ben"]})
        assert {item.name for item in found.speakers} == {"A", "Ben"}
        asked: Mapping[str, Any] = {"decoder": "none", "speakers": 1, "speaker_embeddings": True}
        (ann,) = client.transcribe(enrolments[0], **asked).speakers
        again = [{"name": "Ann", "embedding": ann.embedding}]
        random = np.random.default_rng(2).standard_normal((39, 192)).tolist()
        crowd = [{"name": f"P{n}", "embedding": item} for n, item in enumerate(random)]
        found = client.transcribe(later, **ASKED, known_speakers=[*crowd, *again])
        assert [item.name for item in found.speakers] == ["A", "Ann"]
        assert set(found.path) == {"vad", "ctc_encoder", "ctc_decoder", *LABELLERS}


def test_known_voices_have_their_names_while_they_speak(server, later, enrolments) -> None:
    known = {"Ben": wav(enrolments[1])}
    options: dict[str, Any] = {"decoder": "ctc", "speakers": "auto", "adaptive": False}
    strangers = np.random.default_rng(2).standard_normal((63, 192))
    crowd = [{"name": f"P{n}", "embedding": item} for n, item in enumerate(strangers)]
    with (
        gateway_alone("--url", f"grpc://{server.grpc_url}") as gateway,
        Client(f"grpc://{server.grpc_url}") as direct,
        Client(gateway.url) as client,
    ):
        asked: Mapping[str, Any] = {"decoder": "none", "speakers": 1, "speaker_embeddings": True}
        (ben,) = direct.transcribe(enrolments[1], **asked).speakers
        for caller, voices in (
            (direct, known),
            (client, [*crowd, {"name": "Ben", "embedding": ben.embedding}]),
        ):
            with caller.live(mode="streaming", known_speakers=voices, **options) as stream:
                answers = [stream.send(chunk) for chunk in np.array_split(later, 40)]
                answers.append(stream.finish())
            assert {speaker.name for speaker in answers[-1].speakers} == {"A", "Ben"}
            told = {turn.speaker for answer in answers[:-1] for turn in answer.turns}
            assert told == {"A", "Ben"}
            firm = [word for item in answers if item.utterance for word in item.utterance.firm]
            assert "Ben" in {word.speaker for word in firm}
        both = wav(np.concatenate(enrolments))
        several = r"entry 1 \('Two'\): its audio has several voices"
        for caller, message in ((direct, several), (client, "send embeddings in place of audio")):
            live = caller.live(known_speakers={"Two": both}, resume_s=0, **options)
            with pytest.raises(OptionError, match=message), live as stream:
                stream.send(later[:16_000])


def test_wrong_enrolments_are_named(server, later, enrolments) -> None:
    both = wav(np.concatenate(enrolments))
    for known, message in (
        ({"Ann": both}, r"entry 1 \('Ann'\): its audio has several voices"),
        (
            {"Ann": wav(enrolments[0]), "Ben": wav(0.5 * enrolments[0])},
            "entry 2 .*same voice as 'Ann'",
        ),
        ({"Ann": wav(enrolments[0][:16_000])}, r"it takes at least 1\.2 s"),
        ({"Ann": [0.5] * 100}, "100 numbers; speaker_embedding gives 192"),
    ):
        with Client(server.http_url) as client, pytest.raises(OptionError, match=message):
            client.transcribe(later, **ASKED, known_speakers=known)


def test_voices_are_enrolled_by_a_command(
    server, later, enrolments, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    files = {"ann": enrolments[0], "ben": enrolments[1], "talk": later}
    for name, waveform in files.items():
        (tmp_path / name).write_bytes(wav(waveform))
    url = ("--url", server.http_url)
    assert main(["speakers", "add", "Ann", str(tmp_path / "ann"), *url]) == 0
    assert main(["speakers", "add", "Two", str(tmp_path / "talk"), *url]) == 1
    assert "has 2 voices" in capsys.readouterr().err
    assert main(["speakers", "add", "Two", *(str(tmp_path / n) for n in ("ann", "ben")), *url]) == 1
    assert "sounds like somebody else" in capsys.readouterr().err
    assert [item["name"] for item in known_speakers()] == ["Ann"]
    wanted = ("--known-speakers", "all", "--decoder", "none", "--format", "rttm")
    assert main(["transcribe", str(tmp_path / "talk"), *wanted, *url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[7] for line in lines} == {"Ann", "A"}
    said = ("--known-speakers", "all", "--decoder", "ctc", "--speed", "0")
    assert (
        main(["stream", str(tmp_path / "talk"), *said, "--url", f"grpc://{server.grpc_url}"]) == 0
    )
    assert {line.partition(":")[0] for line in capsys.readouterr().out.splitlines()} >= {"Ann", "A"}


def test_openais_package_has_known_speakers(server, later, enrolments) -> None:
    url = "data:audio/wav;base64," + base64.b64encode(wav(enrolments[1])).decode()
    asked: dict[str, Any] = {
        "model": "gpt-4o-transcribe-diarize",
        "response_format": "diarized_json",
        "chunking_strategy": "auto",
        "known_speaker_names": ["agent"],
        "extra_body": {"decoder": "ctc"},
    }
    file = ("talk.wav", wav(later))
    with (
        gateway_alone("--url", f"grpc://{server.grpc_url}") as gateway,
        OpenAI(base_url=gateway.openai_url, api_key="any", max_retries=0) as client,
    ):
        create = client.audio.transcriptions.create
        found = create(file=file, known_speaker_references=[url], **asked)
        speakers = [segment.speaker for segment in found.segments]
        assert set(speakers) == {"A", "agent"}
        events = list(create(file=file, known_speaker_references=[url], stream=True, **asked))
        turns = [item for item in events if item.type == "transcript.text.segment"]
        assert [item.speaker for item in turns] == speakers
        assert events[-1].type == "transcript.text.done"
        with pytest.raises(BadRequestError, match="known_speaker_references"):
            create(file=file, **asked)
        form: Any = {"headers": {"Content-Type": "multipart/form-data"}}
        who = client.post(
            "/audio/diarization", files={"file": file}, options=form, cast_to=dict[str, Any]
        )
        assert {item["speaker"] for item in who["segments"]} == {"A", "B"}


def test_bad_input_is_answered(server) -> None:
    random = np.random.default_rng(1)
    played = music(0, 80_000, 16_000) * 0.2
    with Client(server.http_url) as client:
        for waveform in (
            *(np.zeros(32_000), random.standard_normal(16_000) * 0.1, np.zeros(100)),
            *(played, played / 4 + random.standard_normal(80_000) * 0.01),
        ):
            for decoder in ("ctc", "none"):
                asked = {**ASKED, "decoder": decoder}
                found = client.transcribe(waveform.astype(np.float32), **asked)
                assert len(found.speakers) <= 1


def test_a_number_is_at_most_what_there_is(server, later, enrolments) -> None:
    with Client(server.http_url) as client:
        for speakers, most in ((1, 1), (64, 64)):
            asked = {**ASKED, "speakers": speakers}
            found = client.transcribe(later, **asked, known_speakers={"Ann": wav(enrolments[0])})
            assert 1 <= len(found.speakers) <= most
            assert sum(item.name == "Ann" for item in found.speakers) <= 1


@pytest.mark.parametrize("mode", ["streaming", "two_pass"])
def test_live_words_have_their_letters_and_the_end_agrees(server, talk, mode) -> None:
    waveform, turns = talk
    with Client(f"grpc://{server.grpc_url}") as client:
        options = {"mode": mode, "decoder": "ctc", "speakers": "auto", "adaptive": False}
        answers = []
        with client.live(sample_rate=16_000, **options) as stream:
            answers += [stream.send(chunk) for chunk in np.array_split(waveform, 60)]
            answers.append(stream.finish())
        whole = client.transcribe(waveform, **ASKED)
    last = answers[-1]
    assert [speaker.name for speaker in last.speakers] == ["A", "B"]
    whose = [next(who for end, who in turns if word.start < end) for word in last.words]
    right = ["AB"[who] == word.speaker for who, word in zip(whose, last.words, strict=True)]
    assert np.mean(right) > 0.9
    # Before the end, a new voice may be taken for the one before until it has spoken for a while.
    told = [turn for item in answers[:-1] for turn in item.turns]
    right_s = sum(
        turn.end - turn.start
        for turn in told
        if turn.speaker == "AB"[next(who for end, who in turns if turn.start < end)]
    )
    assert right_s > 0.8 * sum(turn.end - turn.start for turn in told)
    firm = [word for item in answers if item.utterance for word in item.utterance.firm]
    assert {word.speaker for word in firm} >= {"A", "B"}
    pairs = zip(last.speakers, whole.speakers, strict=True)
    assert all(abs(one.seconds - other.seconds) < 2.0 for one, other in pairs)

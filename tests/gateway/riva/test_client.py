"""Recordings, streams and texts by NVIDIA's unmodified client, as its own scripts call it.

The scripts are those of python-clients 7f611ba: `transcribe_file.py`, `transcribe_file_offline.py`,
`transcribe_mic.py` and `talk.py`.
"""

import io
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import numpy as np
import pytest
import riva.client
import soundfile
from audio_files import audio_file
from gateways import Gateway, new_key
from known_models import skip_without
from recordings import Recording, wer
from riva.client.proto import health_pb2, health_pb2_grpc, riva_asr_pb2, riva_tts_pb2
from riva.client.proto.riva_audio_pb2 import AudioEncoding

from conch.families.speakers import MODEL as SPEAKERS

pytestmark = pytest.mark.server

RATE = 16_000


@pytest.fixture(scope="module")
def auth(gateway: Gateway) -> Iterator[riva.client.Auth]:
    made = riva.client.Auth(uri=gateway.riva)
    yield made
    made.channel.close()


@pytest.fixture(scope="module")
def asr(auth: riva.client.Auth) -> riva.client.ASRService:
    return riva.client.ASRService(auth)


@pytest.fixture(scope="module")
def tts(auth: riva.client.Auth) -> riva.client.SpeechSynthesisService:
    return riva.client.SpeechSynthesisService(auth)


def as_file(recording: Recording, form: str, subtype: str, folder: Path) -> Path:
    path = folder / f"speech.{form.lower()}"
    soundfile.write(path, recording.waveform(), RATE, format=form, subtype=subtype)
    return path


def pcm_of(recording: Recording) -> bytes:
    return np.rint(recording.waveform() * 32_767).astype("<i2").tobytes()


def test_transcribe_file_offline(asr, speech, tmp_path, capsys):
    config = riva.client.RecognitionConfig(
        language_code="en-US",
        max_alternatives=2,
        enable_automatic_punctuation=True,
        verbatim_transcripts=True,
        enable_word_time_offsets=True,
    )
    riva.client.add_word_boosting_to_config(config, ["President"], 4.0)
    data = as_file(speech, "WAV", "PCM_16", tmp_path).read_bytes()
    answer = asr.offline_recognize(data, config)
    riva.client.print_offline(response=answer)
    text = capsys.readouterr().out.partition("Final transcript: ")[2]
    assert wer(speech.text, text) < 0.2
    (result,) = answer.results
    assert result.audio_processed == pytest.approx(len(speech.waveform()) / RATE, abs=0.01)
    best = result.alternatives[0]
    assert best.transcript.endswith(" ")
    assert 0 < best.confidence <= 1
    assert list(best.language_code) in ([], ["en"])
    assert " ".join(word.word for word in best.words) == best.transcript.strip()
    times = [time for word in best.words for time in (word.start_time, word.end_time)]
    assert times == sorted(times)
    assert times[-1] <= 1000 * result.audio_processed


@pytest.mark.parametrize(
    ("form", "subtype", "encoding"), [("FLAC", "PCM_16", 2), ("OGG", "OPUS", 4), ("OGG", "OPUS", 0)]
)
def test_files_are_what_they_say_or_what_their_first_bytes_show(
    asr, speech, tmp_path, form, subtype, encoding
):
    config = riva.client.RecognitionConfig(encoding=encoding, verbatim_transcripts=True)
    data = as_file(speech, form, subtype, tmp_path).read_bytes()
    answer = asr.offline_recognize(data, config)
    assert wer(speech.text, answer.results[0].alternatives[0].transcript) < 0.2


@pytest.mark.parametrize(("subtype", "encoding"), [("ULAW", 3), ("ALAW", 20), ("PCM_16", 1)])
def test_raw_samples_have_a_rate(asr, speech, subtype, encoding):
    waveform = speech.waveform()
    raw = audio_file(waveform, RATE, format="RAW", subtype=subtype, endian="LITTLE")
    config = riva.client.RecognitionConfig(
        encoding=encoding, sample_rate_hertz=RATE, verbatim_transcripts=True
    )
    answer = asr.offline_recognize(raw, config)
    assert wer(speech.text, answer.results[0].alternatives[0].transcript) < 0.2
    assert answer.results[0].audio_processed == pytest.approx(len(waveform) / RATE, abs=0.01)


def test_channels_have_results_of_their_own(asr, recordings):
    sides = [recordings[4].waveform(), recordings[0].waveform()]
    most = max(map(len, sides))
    stereo = np.stack([np.pad(side, (0, most - len(side))) for side in sides], axis=1)
    data = np.rint(stereo * 32_767).astype("<i2").tobytes()
    config = riva.client.RecognitionConfig(
        encoding=1,
        sample_rate_hertz=RATE,
        audio_channel_count=2,
        enable_separate_recognition_per_channel=True,
        verbatim_transcripts=True,
    )
    results = asr.offline_recognize(data, config).results
    assert [result.channel_tag for result in results] == [1, 2]
    for result, recording in zip(results, (recordings[4], recordings[0]), strict=True):
        assert wer(recording.text, result.alternatives[0].transcript) < 0.2


def test_silence_has_no_result(asr):
    config = riva.client.RecognitionConfig(encoding=1, sample_rate_hertz=RATE)
    assert not asr.offline_recognize(bytes(2 * RATE), config).results


def test_transcribe_file(asr, talk):
    """As the script does: a whole WAV in pieces of 1600 samples, as fast as they are taken."""
    config = riva.client.StreamingRecognitionConfig(
        config=riva.client.RecognitionConfig(
            language_code="en-US",
            max_alternatives=1,
            enable_automatic_punctuation=True,
            enable_word_time_offsets=True,
        ),
        interim_results=True,
    )
    printed = io.StringIO()
    with riva.client.AudioChunkFileIterator(talk.path, 1600) as chunks:
        answers = asr.streaming_response_generator(audio_chunks=chunks, streaming_config=config)
        riva.client.print_streaming(answers, printed, "time", word_time_offsets=True)
    lines = printed.getvalue().splitlines()
    texts = [line.partition("Transcript 0: ")[2] for line in lines if "Transcript 0" in line]
    assert len(texts) == 2
    assert wer(talk.text, "".join(texts)) < 0.2
    assert any(line.startswith(">>>Time") for line in lines)
    rows = [line.split() for line in lines if len(line.split()) == 4 and line[0] != ">"]
    ends = [int(row[2]) for row in rows if row[2].isdigit()]
    assert len(ends) == len("".join(texts).split())
    assert ends == sorted(ends)


def test_words_have_the_tags_of_their_speakers(asr, recordings):
    """With `--speaker-diarization`, of a recording and of a stream: two voices in turn."""
    skip_without(SPEAKERS)
    config = riva.client.RecognitionConfig(
        encoding=1, sample_rate_hertz=RATE, verbatim_transcripts=True
    )
    riva.client.add_speaker_diarization_to_config(config, True, 4)
    turns = [recordings[0], recordings[3]]
    data = b"".join(pcm_of(turn) + bytes(2 * RATE) for turn in turns)
    streaming = riva.client.StreamingRecognitionConfig(config=config)
    chunks = (data[start : start + 3200] for start in range(0, len(data), 3200))
    answers = [
        asr.offline_recognize(data, config),
        *asr.streaming_response_generator(chunks, streaming),
    ]
    words = [
        (word.word, word.speaker_tag)
        for answer in answers
        for result in answer.results
        for word in result.alternatives[0].words
    ]
    for tag, turn in enumerate(turns, 1):
        said = " ".join(word for word, own in words if own == tag)
        assert wer(" ".join([turn.text] * 2), said) < 0.3


def test_transcribe_mic(asr, speech):
    """As the script does: raw samples with their rate, in pieces of 100 ms."""
    config = riva.client.StreamingRecognitionConfig(
        config=riva.client.RecognitionConfig(
            encoding=riva.client.AudioEncoding.LINEAR_PCM,
            language_code="en-US",
            max_alternatives=1,
            verbatim_transcripts=True,
            sample_rate_hertz=RATE,
            audio_channel_count=1,
        ),
        interim_results=True,
    )
    riva.client.add_endpoint_parameters_to_config(config, -1, -1, 320, -1, -1, -1)
    data = pcm_of(speech)
    chunks = (data[start : start + 3200] for start in range(0, len(data), 3200))
    printed = io.StringIO()
    answers = asr.streaming_response_generator(chunks, config)
    riva.client.print_streaming(answers, printed, show_intermediate=True)
    finals = [line[3:] for line in printed.getvalue().splitlines() if "## " in line]
    assert wer(speech.text, " ".join(line.partition("## ")[2] or line for line in finals)) < 0.2


def test_models_are_listed_for_streams_and_for_recordings(asr):
    """As `--list-models` does."""
    answer = asr.stub.GetRivaSpeechRecognitionConfig(
        riva_asr_pb2.RivaSpeechRecognitionConfigRequest()
    )
    for kind in ("online", "offline"):
        languages = {
            item.model_name: item.parameters["language_code"]
            for item in answer.model_config
            if item.parameters["type"] == kind
        }
        assert set(languages) == {"conch", *(f"conch-{name}" for name in DECODERS)}
        assert set(languages.values()) == {"en"}


DECODERS = ("moonshine", "attention", "ctc", "wfst")


def test_calls_are_counted(gateway, asr):
    asr.stub.GetRivaSpeechRecognitionConfig(riva_asr_pb2.RivaSpeechRecognitionConfigRequest())
    with urllib.request.urlopen(f"{gateway.url}/metrics", timeout=10) as answer:
        metrics = answer.read().decode()
    labels = 'key="anybody",route="/nvidia.riva.asr.RivaSpeechRecognition/'
    labels += 'GetRivaSpeechRecognitionConfig",status="OK"'
    assert f"conch_gateway_requests_total{{{labels}}}" in metrics


def test_talk(tts):
    """As the script does, whole and streamed."""
    voices = tts.stub.GetRivaSynthesisConfig(riva_tts_pb2.RivaSynthesisConfigRequest())
    # The first is hibari; a machine may have others.
    config, *_ = voices.model_config
    voice = f"{config.parameters['voice_name']}.{config.parameters['subvoices'].split(',')[0]}"
    whole = tts.synthesize(
        "Good day. It is two.", voice, "en-US", sample_rate_hz=44_100, enable_word_time_offsets=True
    )
    seconds = len(whole.audio) / 2 / 44_100
    assert 1 < seconds < 6
    assert [word.word for word in whole.meta.words] == ["Good", "day.", "It", "is", "two."]
    assert whole.meta.words[-1].end_time <= 1000 * seconds
    parts = list(tts.synthesize_online(["Good day.", "It is two."], voice, sample_rate_hz=44_100))
    assert len(parts) > 1
    streamed = b"".join(part.audio for part in parts)
    assert len(streamed) / 2 / 44_100 == pytest.approx(seconds, rel=0.3)
    assert np.abs(np.frombuffer(streamed, "<i2")).max() > 1000


def test_speech_may_be_opus(tts):
    result = tts.synthesize("Good day.", encoding=AudioEncoding.OGGOPUS, sample_rate_hz=22_050)
    samples, rate = soundfile.read(io.BytesIO(result.audio))
    assert 0.5 < len(samples) / rate < 3


def test_health_needs_no_key(locked):
    credentials = grpc.ssl_channel_credentials(Path(locked.ca).read_bytes())
    with grpc.secure_channel(locked.riva, credentials) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="nvidia.riva.asr.RivaSpeechRecognition")
        assert health.Check(request).status == health_pb2.HealthCheckResponse.SERVING
        watched = health.Watch(request)
        assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
        watched.cancel()
        with pytest.raises(grpc.RpcError) as raised:
            health.Check(health_pb2.HealthCheckRequest(service="nvidia.riva.nlp"))
        assert raised.value.code() == grpc.StatusCode.NOT_FOUND


def test_a_key_is_a_bearer_token(locked, speech):
    def recognize(*metadata: list[str]) -> Any:
        auth = riva.client.Auth(
            ssl_root_cert=locked.ca, uri=locked.riva, use_ssl=True, metadata_args=[*metadata]
        )
        config = riva.client.RecognitionConfig(encoding=1, sample_rate_hertz=RATE)
        try:
            return riva.client.ASRService(auth).offline_recognize(pcm_of(speech), config)
        finally:
            auth.channel.close()

    function = ["function-id", "1598d209-5e27-4d3c-8079-4751568b1081"]
    assert recognize(function, ["authorization", f"Bearer {locked.key}"]).results
    for metadata, message in (([], "needs an API key"), (["authorization", "Bearer no"], "is not")):
        with pytest.raises(grpc.RpcError, match=message) as raised:
            recognize(function, *([metadata] if metadata else []))
        assert raised.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_a_file_above_the_limit_is_refused(locked):
    key = new_key("riva", locked.keys_file)
    auth = riva.client.Auth(
        ssl_root_cert=locked.ca, uri=locked.riva, metadata_args=[["authorization", f"Bearer {key}"]]
    )
    with pytest.raises(grpc.RpcError) as raised:
        riva.client.ASRService(auth).offline_recognize(
            bytes(3 << 20), riva.client.RecognitionConfig()
        )
    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    auth.channel.close()


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"language_code": "de-DE"}, "INVALID_ARGUMENT", "language_code: option 'language'"),
        ({"profanity_filter": True}, "UNIMPLEMENTED", "profanity_filter: option 'post' names"),
        ({"model": "parakeet"}, "NOT_FOUND", "no model 'parakeet'"),
    ],
)
def test_errors_have_their_codes(asr, speech, fields, code, message):
    config = riva.client.RecognitionConfig(encoding=1, sample_rate_hertz=RATE, **fields)
    with pytest.raises(grpc.RpcError, match=message) as raised:
        asr.offline_recognize(pcm_of(speech), config)
    assert raised.value.code().name == code


def test_a_stream_that_cannot_have_a_text_says_why(asr, speech):
    sent = riva.client.RecognitionConfig(encoding=1, sample_rate_hertz=RATE, language_code="de-DE")
    config = riva.client.StreamingRecognitionConfig(config=sent)
    with pytest.raises(grpc.RpcError, match=r"language_code: .*option 'language' takes") as raised:
        list(asr.streaming_response_generator([pcm_of(speech)], config))
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.nightly
def test_24_streams_at_once(asr, speech):
    data = pcm_of(speech)
    config = riva.client.StreamingRecognitionConfig(
        config=riva.client.RecognitionConfig(
            encoding=1, sample_rate_hertz=RATE, verbatim_transcripts=True
        )
    )

    def text(_: int) -> str:
        chunks = (data[start : start + 3200] for start in range(0, len(data), 3200))
        answers = asr.streaming_response_generator(chunks, config)
        return "".join(item.results[0].alternatives[0].transcript for item in answers)

    with ThreadPoolExecutor(24) as pool:
        texts = list(pool.map(text, range(24)))
    assert len(texts) == 24
    assert all(wer(speech.text, text) < 0.3 for text in texts)

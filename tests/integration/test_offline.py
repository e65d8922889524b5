"""The offline path on a real server, with real speech."""

import asyncio

import numpy as np
import pytest
import tritonclient.http as http
from infer_inputs import inputs_of
from recordings import wer
from waiting import wait_until

from conch.client import AsyncClient, Client

pytestmark = pytest.mark.server

TIGER = "Tiger, tiger, burning bright in the forests of the night"
NEARLY = 0.1
"""Word error rate: a word in ten, of which rounding may decide."""


@pytest.fixture
def client(server):
    with Client(server.http_url) as connected:
        yield connected


@pytest.fixture(params=["http", "grpc"])
def either_client(request, server):
    url = server.http_url if request.param == "http" else f"grpc://{server.grpc_url}"
    with Client(url) as connected:
        yield connected


def test_real_speech_is_transcribed(either_client, speech_wav):
    transcript = either_client.transcribe(speech_wav)
    assert wer(TIGER, transcript.text) <= NEARLY
    assert transcript.duration == pytest.approx(3.4, abs=0.001)
    assert transcript.path == ("vad", "moonshine_encoder", "moonshine_decoder")
    assert transcript.stages["moonshine_encoder"].calls == len(transcript.segments)


def test_many_voices_are_transcribed(client, recordings):
    reference = " ".join(recording.text for recording in recordings)
    texts = " ".join(client.transcribe(recording.path).text for recording in recordings)
    assert wer(reference, texts) < 0.08


def test_nbest_comes_with_descending_scores(client, speech_wav):
    transcript = client.transcribe(speech_wav, nbest=4)
    scores = [hypothesis.score for hypothesis in transcript.nbest]
    assert len({hypothesis.text for hypothesis in transcript.nbest}) == len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert all(score < 0 for score in scores)


def test_rescoring_is_called_only_when_asked_and_shows_its_parts(client, recordings, executions):
    path = recordings[0].path
    before, _ = executions("rescorer")
    plain = client.transcribe(path, nbest=5)
    assert executions("rescorer")[0] == before
    assert "rescorer" not in plain.path

    ngram = {"rescore": True, "rescorer": "ngram", "beam_size": 5}
    scored = client.transcribe(path, nbest=5, **ngram, lm_weight=0.7, word_bonus=1.0)
    # Triton counts a call after its answer.
    wait_until(lambda: executions("rescorer")[0] == before + len(scored.segments))
    assert scored.path[-1] == "rescorer"
    totals = []
    for item in scored.nbest:
        total = item.am_score + 0.7 * item.lm_score + 1.0 * item.num_words
        assert item.score == pytest.approx(total)
        totals.append(item.score)
    assert totals == sorted(totals, reverse=True)
    assert {item.text for item in scored.nbest} == {item.text for item in plain.nbest}


@pytest.mark.nightly
def test_a_heavy_language_model_changes_the_order(client, recordings):
    """With the decoder's scores drowned, the order is the language model's own."""
    changed = 0
    for recording in recordings:
        scored = client.transcribe(
            recording.path, nbest=5, rescore=True, beam_size=5, lm_weight=10.0, word_bonus=0.0
        )
        plain = client.transcribe(recording.path, nbest=5)
        changed += [item.text for item in scored.nbest] != [item.text for item in plain.nbest]
    assert changed >= 1


async def test_requests_in_flight_share_executions_and_keep_their_answers(
    server, client, recordings, executions
):
    whisper, paths = {"decoder": "attention"}, [recording.path for recording in recordings]
    expected = [client.transcribe(path, **whisper).text for path in paths]
    requests_before, executions_before = executions("attention_decoder")
    async with AsyncClient(f"grpc://{server.grpc_url}") as many:
        jobs = [many.transcribe(path, **whisper) for path in paths * 2]
        texts = [transcript.text for transcript in await asyncio.gather(*jobs)]
    requests, batches = executions("attention_decoder")
    assert batches - executions_before < requests - requests_before
    same = sum(text == want for text, want in zip(texts, expected * 2, strict=True))
    assert same >= len(texts) * 0.9, "batching may break a tie between hypotheses, no more"


def test_long_audio_comes_back_in_order_on_its_own_clock(client, recordings):
    pause = np.zeros(3 * 16_000, np.float32)
    pieces, starts, at = [], [], 0
    for recording in recordings * 2:
        pieces += [pause, recording.waveform()]
        starts.append((at + len(pause)) / 16_000)
        at += len(pieces[-1]) + len(pause)
    transcript = client.transcribe(np.concatenate(pieces))
    reference = " ".join(recording.text for recording in recordings * 2)
    assert wer(reference, transcript.text) < 0.08
    assert transcript.duration == pytest.approx(at / 16_000, abs=0.01)
    bounds = [edge for segment in transcript.segments for edge in (segment.start, segment.end)]
    assert bounds == sorted(bounds)
    for start in starts:
        assert any(abs(segment.start - start) < 0.7 for segment in transcript.segments)


def test_other_sample_rates_and_channels(client, speech_wav, waveform, tmp_path):
    import soundfile
    import soxr

    phone = soxr.resample(waveform, 16_000, 8_000)
    assert wer(TIGER, client.transcribe(phone, sample_rate=8_000).text) <= 0.2
    studio = soxr.resample(waveform, 16_000, 44_100)
    stereo = tmp_path / "stereo.flac"
    soundfile.write(stereo, np.stack([studio, studio], axis=1), 44_100)
    assert wer(TIGER, client.transcribe(stereo).text) <= NEARLY


def test_clients_of_the_ecosystem_work_unchanged(triton, waveform):
    """As WeNet's and sherpa's clients do: padded WAV, WAV_LENS, TRANSCRIPTS alone."""
    padded = np.zeros((1, len(waveform) + 16_000 * 5), np.float32)
    padded[0, : len(waveform)] = waveform
    inputs = inputs_of(http, WAV=padded, WAV_LENS=np.array([[len(waveform)]], np.int32))
    answer = triton.infer(
        "speech", inputs, request_id="10086", outputs=[http.InferRequestedOutput("TRANSCRIPTS")]
    )
    batch = answer.as_numpy("TRANSCRIPTS")
    assert len(batch) == 1
    assert wer(TIGER, batch[0][0].decode()) <= NEARLY
    assert answer.as_numpy("SCORES") is None

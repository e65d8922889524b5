"""The CTC components on the real server: the offline path, and streams into the encoder itself."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.http as http
from infer_inputs import inputs_of
from kaldi_lattice import best_path, read
from recordings import wer
from tritonclient.utils import InferenceServerException

from conch.client import Client
from conch.component import bytes_array
from conch.wire.options import RecognitionOptions

pytestmark = pytest.mark.server

DECODER, ENCODER = "ctc_decoder", "ctc_streaming_encoder"


@pytest.fixture
def client(server):
    with Client(server.http_url) as connected:
        yield connected


def test_the_ctc_decoder_writes_what_was_said(client, recordings):
    rates = []
    for item in recordings:
        answer = client.transcribe(item.path, decoder="ctc")
        assert answer.path == ("vad", "ctc_encoder", "ctc_decoder")
        rates.append(wer(item.text, answer.text))
    assert np.mean(rates) < 0.5


def test_its_words_have_times_and_confidence(client, recordings):
    answer = client.transcribe(recordings[0].path, decoder="ctc", word_timestamps=True)
    assert " ".join(word.text for word in answer.words) == answer.text
    assert all(0 < word.confidence <= 1 for word in answer.words)
    ends = [time for word in answer.words for time in (word.start, word.end)]
    assert ends == sorted(ends)
    assert answer.segments[0].start <= ends[0] <= ends[-1] <= answer.segments[-1].end


def test_its_texts_can_be_rescored(client, recordings):
    options = {"decoder": "ctc", "rescore": True, "rescorer": "ngram"}
    answer = client.transcribe(recordings[0].path, **options, nbest=2)
    assert answer.path == ("vad", "ctc_encoder", "ctc_decoder", "rescorer")
    assert answer.nbest[0].lm_score < 0


def test_the_graph_tells_its_lattice(client, recordings):
    answer = client.transcribe(recordings[2].path, decoder="wfst", nbest=2, lattice=True)
    assert answer.segments
    for segment in answer.segments:
        labels, words, graph_cost, acoustic_cost = best_path(read(segment.lattice))
        best = segment.nbest[0]
        assert " ".join(words) == best.text
        assert acoustic_cost == pytest.approx(-best.am_score, abs=0.05)
        assert graph_cost + acoustic_cost == pytest.approx(-best.score, abs=0.05)
        assert len(labels) == pytest.approx((segment.end - segment.start) / 0.02, abs=2)
    without = client.transcribe(recordings[2].path, decoder="wfst", nbest=2)
    assert without.text == answer.text
    assert not any(segment.lattice for segment in without.segments)


CTC = {"decoder": "ctc", "nbest": 2}
NGRAM = {"rescore": True, "rescorer": "ngram"}


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({**CTC, "lm_fusion": True}, ["ctc_encoder", "ctc_decoder"]),
        ({"decoder": "wfst", "nbest": 3}, ["ctc_encoder", "ctc_decoder"]),
        (
            {**CTC, "attention_rescore": True, "beam_size": 3},
            ["ctc_encoder", "ctc_decoder", "attention_encoder", "attention_decoder"],
        ),
        (
            {**CTC, **NGRAM, "attention_rescore": True, "beam_size": 3},
            ["ctc_encoder", "ctc_decoder", "rescorer", "attention_encoder", "attention_decoder"],
        ),
        ({"decoder": "wfst", "nbest": 2, **NGRAM}, ["ctc_encoder", "ctc_decoder", "rescorer"]),
    ],
)
def test_every_way_of_decoding_and_what_its_scores_are_made_of(client, recordings, options, path):
    answer = client.transcribe(recordings[2].path, word_timestamps=True, **options)
    assert set(answer.path) == {"vad", *path}
    assert " ".join(word.text for word in answer.words) == answer.text
    scores = [item.score for item in answer.nbest]
    assert scores == sorted(scores, reverse=True)
    parsed = RecognitionOptions.parse(options)
    weights = parsed.fusion_weights if parsed.lm_fusion else parsed.weights
    best = answer.nbest[0]
    if options["decoder"] == "ctc" or options.get("rescore"):
        score = best.am_score + weights.attention * (best.attention_score or 0)
        score += weights.word_bonus * (best.num_words or 0)
        score += weights.lm * (best.lm_score or 0)
        assert best.score == pytest.approx(score, abs=0.02)
    assert (best.lm_score is not None) == (
        bool(options.get("lm_fusion") or options.get("rescore")) or options["decoder"] == "wfst"
    )
    assert (best.attention_score is not None) == ("attention_rescore" in options)


@pytest.mark.parametrize(
    ("options", "number", "words"),
    [
        (CTC, 2, ("irritating:20", "prayer:20")),
        # No word of the graph.
        ({"decoder": "wfst", "nbest": 2}, 5, ("insolency",)),
        ({"mode": "streaming", "decoder": "wfst"}, 5, ("insolency",)),
    ],
)
def test_hotwords_pull_up_what_was_said(client, recordings, options, number, words):
    item = recordings[number]

    def transcribed(**hotwords: str) -> str:
        if "mode" not in options:
            return client.transcribe(item.path, **options, **hotwords).text
        stable = ""
        waveform = item.waveform()
        with client.live(endpointing=False, **options, **hotwords) as stream:
            for start in range(0, len(waveform), 8_000):
                answer = stream.send(waveform[start : start + 8_000])
                assert answer.text.startswith(stable)
                stable = answer.stable
            final = stream.finish().text
        assert final.startswith(stable)
        return final

    plain = transcribed()
    hot = transcribed(hotwords=", ".join((*words, "conch", "triton:12")))
    assert wer(item.text, hot) < wer(item.text, plain)
    wanted = {word.partition(":")[0] for word in words}
    assert wanted <= set(hot.split()) - set(plain.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "option 'beam_size' takes an integer from 1 to 128; sent: 0"),
        ({"beam_size": 10_000}, "option 'beam_size' takes an integer from 1 to 128; sent: 10000"),
        ({"beam_size": 4, "nbest": 5}, "option 'nbest' takes at most beam_size"),
        ({"hotwords": "größe"}, "option 'hotwords' takes"),
        ({"hotwords": "conch,,triton"}, "option 'hotwords' takes phrases separated by commas"),
        ({"hotwords": ",".join(["cone"] * 2001)}, "option 'hotwords' takes at most 2000 phrases"),
        ({"language": "de"}, "option 'language' takes auto or en with this CTC model"),
    ],
)
def test_what_a_decoder_cannot_do_is_said_and_it_goes_on(server, recordings, options, message):
    # The plain client: Conch's own would not even send some of these.
    with ThreadPoolExecutor(2) as pool:
        good = pool.submit(send_speech, server, recordings[0].waveform(), CTC)
        bad = pool.submit(send_speech, server, recordings[0].waveform(), {**CTC, **options})
        with pytest.raises(InferenceServerException) as error:
            bad.result()
        assert error.value.message().startswith(f"INVALID_OPTION: {message}")
        assert good.result()
    assert send_speech(server, recordings[0].waveform(), CTC)


def test_given_texts_are_scored_beside_rows_that_are_decoded(server, caller, recordings):
    said = [item.text for item in recordings]
    spelled_wrong = [text.replace("e", "o") for text in said]

    def asked(index: int) -> tuple[np.ndarray, str]:
        with contextlib.closing(http.InferenceServerClient(server.http_url)) as triton:
            encoded = triton.infer(
                "ctc_encoder",
                inputs_of(http, waveform=recordings[index].waveform()[np.newaxis]),
                parameters=caller,
            )
            names = ("log_probs", "log_probs_lens")
            inputs = inputs_of(http, **{name: encoded.as_numpy(name) for name in names})
            decoded = triton.infer(DECODER, inputs, parameters=caller)
            # Lists of different lengths: rows of a batch are not alike.
            texts = [*said, *spelled_wrong, ""][: 2 * len(said) + index % 2]
            inputs += inputs_of(http, texts=bytes_array(texts)[np.newaxis])
            scored = triton.infer(DECODER, inputs, parameters={**caller, "language": "en"})
            with pytest.raises(InferenceServerException, match="INVALID_OPTION: option 'language'"):
                triton.infer(DECODER, inputs, parameters={**caller, "language": "de"})
        scores = scored.as_numpy("text_scores")[0]
        assert len(scores) == len(texts)
        return scores, decoded.as_numpy("hypotheses")[0, 0].decode()

    indexes = range(len(recordings))
    with ThreadPoolExecutor(len(recordings)) as pool:
        answers = list(pool.map(asked, indexes))
    for index, (scores, text) in zip(indexes, answers, strict=True):
        assert scores.argmax() == index
        assert scores[index] > -40
        assert scores[len(said) + index] < scores[index] - 20
        assert wer(said[index], text) < 0.6


def test_a_thousand_hotwords(client, recordings):
    letters = "abcdefghij"
    words = ",".join(f"x{a}{b}{c}" for a in letters for b in letters for c in letters)
    assert client.transcribe(recordings[0].path, **CTC, hotwords=words).text


def send_speech(server, waveform: np.ndarray, parameters: dict) -> str:
    """Return the text of a request by Triton's own client."""
    inputs = inputs_of(http, WAV=waveform[np.newaxis])
    with contextlib.closing(http.InferenceServerClient(server.http_url)) as triton:
        answer = triton.infer("speech", inputs, parameters=parameters)
        return answer.as_numpy("TRANSCRIPTS")[0, 0].decode()


def step(
    triton, key: dict, waveform: np.ndarray, stream_id: int | str, start=False, end=False
) -> np.ndarray:
    """Return the log probabilities of one chunk of a stream."""
    answer = triton.infer(
        ENCODER,
        inputs_of(http, waveform=waveform[np.newaxis]),
        sequence_id=stream_id,
        sequence_start=start,
        sequence_end=end,
        parameters=key,
    )
    log_probs = answer.as_numpy("log_probs")[0]
    assert answer.as_numpy("log_probs_lens").item() == len(log_probs)
    return log_probs


def streamed(
    triton, key: dict, waveform: np.ndarray, stream_id: int | str, samples: int
) -> np.ndarray:
    starts = range(0, len(waveform), samples)
    return np.concatenate(
        [
            step(
                triton,
                key,
                waveform[start : start + samples],
                stream_id,
                start == 0,
                start + samples >= len(waveform),
            )
            for start in starts
        ]
    )


def test_streams_share_executions_and_keep_their_answers(server, caller, recordings, executions):
    waveforms = [item.waveform()[: 4 * 16_000] for item in recordings] * 2
    alone = http.InferenceServerClient(server.http_url)
    expected = [streamed(alone, caller, waveform, 1, len(waveform)) for waveform in waveforms]
    requests_before, executions_before = executions(ENCODER)
    together = threading.Barrier(len(waveforms))

    def stream(index: int) -> np.ndarray:
        client = http.InferenceServerClient(server.http_url)
        together.wait(30)
        # Ids of both kinds, and pieces of another length for each.
        stream_id = f"stream {index}" if index % 2 else index + 100
        found = streamed(client, caller, waveforms[index], stream_id, 3_000 + 1_000 * index)
        client.close()
        return found

    with ThreadPoolExecutor(len(waveforms)) as pool:
        answers = list(pool.map(stream, range(len(waveforms))))
    for found, wanted in zip(answers, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-3)
    requests_after, executions_after = executions(ENCODER)
    assert executions_after - executions_before < 0.7 * (requests_after - requests_before)
    alone.close()


def test_a_chunk_of_no_open_stream_is_refused(triton, caller, recordings):
    waveform = recordings[0].waveform()[:5_000]
    with pytest.raises(InferenceServerException, match="must specify the START flag"):
        step(triton, caller, waveform, 4711)
    with pytest.raises(InferenceServerException, match="correlation ID"):
        step(triton, caller, waveform, 0)


def test_a_bad_chunk_leaves_its_stream_open(triton, caller, recordings):
    waveform = recordings[0].waveform()[:20_480]
    expected = streamed(triton, caller, waveform, 5, 10_240)
    first = step(triton, caller, waveform[:10_240], 6, start=True)
    with pytest.raises(InferenceServerException, match="not finite"):
        step(triton, caller, np.full(100, np.nan, np.float32), 6)
    rest = step(triton, caller, waveform[10_240:], 6, end=True)
    np.testing.assert_allclose(np.concatenate([first, rest]), expected, rtol=0, atol=1e-3)

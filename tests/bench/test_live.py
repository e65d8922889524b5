"""What live streams say, and what is made of their answers; the server's part is in integration."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conch.bench.live import LiveBenchmark, largest, offline_wer, scripts, warm_up
from conch.bench.live_figures import Script, StreamResult, Watch, figures
from conch.bench.manifest import Utterance
from conch.bench.samples import Sample
from conch.wire.errors import BenchError
from conch.wire.result import Hypothesis, Segment, Transcript

BENCHMARK = LiveBenchmark(manifest=Path("none"), seconds=4.0, pause_s=0.5)


def sample(text: str, seconds: float, rate: int = 16_000) -> Sample:
    waveform = np.full(round(seconds * rate), 0.1, np.float32)
    return Sample(Utterance(Path(text), text), waveform, rate, seconds)


def answer(text: str, *segments: Segment) -> Transcript:
    nbest = (Hypothesis(text, 0.0, 0.0),)
    return Transcript(nbest, segments, 0.0, (), {})


def test_streams_say_utterances_in_turn_with_pauses():
    said = scripts([sample("one", 1.0), sample("two", 2.0)], 3, BENCHMARK)
    assert len(said) == 3
    for script in said:
        assert len(script.waveform) >= 4.0 * 16_000
        for start, end in script.spans:
            assert script.waveform[round(start * 16_000) : round(end * 16_000)].min() > 0
            assert not script.waveform[round(end * 16_000) : round((end + 0.5) * 16_000)].any()
        assert len(script.text.split()) == len(script.spans)


def test_streams_warm_up_by_their_first_seconds(monkeypatch):
    sent = []

    async def all_streams(url, said, benchmark, label):
        sent.append([len(script.waveform) for script in said])

    monkeypatch.setattr("conch.bench.live.all_streams", all_streams)
    said = scripts([sample("one", 1.0), sample("two", 2.0)], 3, BENCHMARK)
    warm_up("none", said, replace(BENCHMARK, warmup_s=0.0))
    assert sent == []
    warm_up("none", said, replace(BENCHMARK, warmup_s=1.5))
    assert sent == [[24_000] * 3]


def test_an_offline_path_that_fails_beside_the_streams_is_said_and_costs_no_figure(capsys):
    said = scripts([sample("one", 1.0)], 2, BENCHMARK)
    # Nobody listens on the discard port.
    assert asyncio.run(offline_wer("127.0.0.1:9", said, BENCHMARK)) is None
    assert "offline WER of 2 streams is not known: " in capsys.readouterr().err


def test_a_stream_has_one_sample_rate():
    with pytest.raises(BenchError, match=r"found: \[8000, 16000\]"):
        scripts([sample("one", 1.0), sample("two", 1.0, 8000)], 1, BENCHMARK)


def test_partials_and_finals_are_seen_when_they_come():
    result = StreamResult(Script(np.zeros(1, np.float32), 16_000, ((0.0, 2.0), (3.5, 5.0)), "a b"))
    watch = Watch(result, has_second_pass=True)
    first = Segment(0.0, 2.2, (Hypothesis("a", 0, 0),), index=0)
    watch.see(answer(""), 0.7)
    watch.see(answer("a"), 1.3)
    watch.see(answer("a", first), 3.2)  # not final yet
    watch.see(answer("a", Segment(0.0, 2.2, first.nbest, index=0, passes=2)), 3.8)
    watch.see(answer("a b"), 4.6)
    assert result.first_partial_s == [1.3, pytest.approx(1.1)]
    assert result.final_s == [pytest.approx(1.8)]


@pytest.mark.parametrize(("latency_s", "keeps_up"), [(0.1, True), (0.9, False)])
def test_a_server_keeps_up_while_chunks_are_answered_within_their_length(latency_s, keeps_up):
    script = Script(np.zeros(16_000, np.float32), 16_000, ((0.0, 1.0),), "a b")
    results = [
        StreamResult(script, chunk_s=[latency_s] * 10, calls=30, text="a b") for _ in range(2)
    ]
    run = figures(
        results, 640, {"speech": 0.1, "tritonserver": 0.15, "ctc_streaming_decoder": 0.75}
    )
    assert run.keeps_up is keeps_up
    assert (run.wer, run.chunks, run.calls_per_chunk) == (0, 20, 3.0)
    assert run.cpu_ms_per_chunk == 50.0
    assert run.cpu_ms_per_chunk_by_process["speech"] == 5.0
    assert run.orchestration_share == 0.25
    assert run.chunk_latency_ms.p99 == pytest.approx(1000 * latency_s)


def test_a_stream_that_broke_off_is_an_error_and_in_no_word_error_rate():
    script = Script(np.zeros(16_000, np.float32), 16_000, ((0.0, 1.0),), "a b")
    run = figures(
        [StreamResult(script, chunk_s=[0.1], text="a b"), StreamResult(script, error="gone")],
        640,
        None,
    )
    assert (run.errors, run.error_messages, run.wer) == (1, ["gone"], 0)
    assert run.keeps_up is False
    assert (run.cpu_ms_per_chunk, run.orchestration_share) == (None, None)


@pytest.mark.parametrize(("first", "limit"), [(8, 23), (8, 8), (16, 9), (4, 100), (3, 0)])
def test_the_largest_number_that_keeps_up_is_found(first, limit):
    def measured(streams):
        return replace(nothing, streams=streams, keeps_up=streams <= limit)

    nothing = figures([], 640, None)

    runs = [measured(first)]
    runs += largest(measured, runs)
    found = max((run.streams for run in runs if run.keeps_up), default=0)
    assert found <= limit <= found + max(1, found // 7 + 1)
    assert len(runs) < 12

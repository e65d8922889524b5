"""Rolling passes on the real server: what a live stream shows while somebody speaks."""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tritonclient.http as http
from infer_inputs import inputs_of
from live import Chunks
from metrics import metrics_of
from recordings import wer
from repositories import repositories_with
from tritonclient.utils import InferenceServerException
from waiting import wait_until

from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from conch.wire.needs import components_of_path
from conch.wire.options import RecognitionOptions, all_options
from conch.wire.result import OpenUtterance, Segment, Transcript

pytestmark = pytest.mark.server

RATE = 16_000
CHUNK = 5_120
"""Samples of the chunks of a paced stream: half a step."""
ASKED_MS = 1280
"""Default of rolling_pass_ms."""
ATTENTION = ("speech", *components_of_path("attention"))


@pytest.fixture(scope="module")
def talk(recordings) -> np.ndarray:
    """Return 20 s of speech: an utterance of two sentences and one of one, silence after each."""
    short, long = np.zeros(RATE // 4, np.float32), np.zeros(2 * RATE, np.float32)
    one, two, three = (item.waveform() for item in recordings[:3])
    return np.concatenate([one, short, two, long, three, long])


@pytest.fixture(scope="module")
def busy(tmp_path_factory) -> Iterator[TritonServer]:
    """Yield a server that makes one pass at once, and on which streams soon expire."""
    changes = {
        "speech": {"max_passes_in_flight": "1", "stream_ttl_s": "4"},
        "ctc_streaming_encoder": {"stream_ttl_s": "8"},
        "ctc_streaming_decoder": {"stream_ttl_s": "8"},
    }
    repositories = repositories_with(tmp_path_factory.mktemp("busy"), changes)
    models = ("speech", *components_of_path("two_pass"))
    config = ServerConfig(model_repositories=repositories, models=models, stop_timeout_s=8)
    with TritonServer(config) as running:
        yield running


def live(
    server: TritonServer, waveform: np.ndarray, speed: float = 1.0, **options: Any
) -> Iterator[Transcript]:
    """Send a stream as it is spoken, and yield each answer."""
    with Client(server.http_url) as client, client.live(**options) as stream:
        began = time.monotonic()
        for start in range(0, len(waveform), CHUNK):
            chunk = waveform[start : start + CHUNK]
            spoken_s = (start + len(chunk)) / RATE
            time.sleep(max(0.0, began + spoken_s / speed - time.monotonic()))
            yield stream.send(chunk)
        yield stream.finish()


def in_chunks(
    server: TritonServer, waveform: np.ndarray, lengths: Iterator[int], **options: Any
) -> list[Transcript]:
    """Send a stream as fast as it goes, in chunks of these lengths; return the answers."""
    answers, start = [], 0
    with Client(server.http_url) as client, client.live(**options) as stream:
        while start < len(waveform):
            length = next(lengths)
            answers.append(stream.send(waveform[start : start + length]))
            start += length
        answers.append(stream.finish())
    return answers


def by_utterance(answers: Sequence[Transcript]) -> list[list[OpenUtterance]]:
    """Return the open utterances of answers, those of each utterance together."""
    found: dict[float, list[OpenUtterance]] = {}
    for answer in answers:
        if answer.utterance:
            found.setdefault(answer.utterance.start, []).append(answer.utterance)
    return list(found.values())


def offline_text(
    server: TritonServer, waveform: np.ndarray, segment: Segment, **options: Any
) -> str:
    """Return what the offline path makes of the span of an utterance."""
    span = slice(round(segment.start * RATE), round(segment.end * RATE))
    with Client(server.http_url) as client:
        return client.transcribe(waveform[span], vad=False, **options).text


@pytest.mark.parametrize(
    "decoder", ["moonshine", pytest.param("attention", marks=pytest.mark.nightly)]
)
def test_firm_words_stay_until_the_utterance_ends(server, talk, recordings, decoder):
    # On a busy machine passes are left out, unless the stream waits for them.
    answers = list(live(server, talk, speed=4, adaptive=False, decoder=decoder))
    for answer in answers:
        assert answer.text.startswith(answer.stable)
    final, utterances = answers[-1], by_utterance(answers)
    assert len(utterances) >= 2
    for states in utterances:
        for before, now in pairwise(states):
            assert now.firm[: len(before.firm)] == before.firm
        first_firm = next(number for number, state in enumerate(states) if state.firm)
        assert any(state.tentative or state.newest for state in states[:first_firm])
        assert any(letter.isupper() for letter in states[-1].text)
    spoken = " ".join(word.text for states in utterances for word in states[-1].firm)
    # Of commas the rounding of a processor decides. Moonshine writes none amid a sentence.
    assert "." in spoken or decoder == "moonshine"
    assert any(state.tentative for states in utterances for state in states)
    assert any(state.newest for states in utterances for state in states)

    assert final.stable == final.text
    assert [item.passes for item in final.segments] == [2] * len(final.segments)
    assert [item.text for item in final.segments] == [
        offline_text(server, talk, item, decoder=decoder) for item in final.segments
    ]
    assert wer(" ".join(item.text for item in recordings[:3]), final.text) < 0.15
    assert final.rolling.made >= 8


@pytest.mark.nightly
def test_chunks_of_any_length_give_the_same_firm_words(server, talk):
    waveform = talk[: 12 * RATE]
    firm: list[dict[float, tuple]] = []
    finals = []
    for seed, longest in ((1, RATE // 2), (2, RATE), (3, 2 * RATE)):
        lengths = random.Random(seed)
        answers = in_chunks(
            server,
            waveform,
            iter(lambda lengths=lengths, longest=longest: lengths.randint(1, longest), 0),
            adaptive=False,
        )
        firm.append({})
        for states in by_utterance(answers):
            for state in states:
                place = state.start, state.heard_until
                assert firm[-1].setdefault(place, state.firm) == state.firm
        finals.append(answers[-1].text)
    assert finals[0]
    assert finals == [finals[0]] * 3
    for other in firm[1:]:
        both = firm[0].keys() & other.keys()
        assert len(both) >= 3
        assert any(firm[0][place] for place in both)
        assert [firm[0][place] for place in both] == [other[place] for place in both]


def test_the_end_flushes_all_that_was_heard(server, recordings):
    waveform = recordings[1].waveform()[: 4 * RATE]  # amid a sentence
    *answers, final = live(server, waveform, speed=1.5)
    assert answers[-1].utterance
    assert final.is_final
    assert final.utterance is None
    assert final.stable == final.text
    (segment,) = final.segments
    assert (segment.endpoint, segment.passes, segment.error) == ("end", 2, "")
    assert final.text == offline_text(server, waveform, segment)


@pytest.mark.nightly
def test_an_abandoned_stream_leaves_nothing(busy, recordings):
    gone = Chunks(busy.http_url, 1)
    waveform = recordings[0].waveform()
    for start in range(0, 3 * RATE, CHUNK):
        answer = gone.send(waveform[start : start + CHUNK])
    assert answer["utterance"]
    gone.client.close()
    wait_until(lambda: metrics_of(busy.metrics_url)["conch_component_streams"] > 0)
    expired = "conch_streams_ended_total{how=expired}"

    def is_gone() -> bool:
        now = metrics_of(busy.metrics_url)
        left = now["conch_open_streams"] + now["conch_component_streams"]
        return now[expired] == 1 and not left

    wait_until(is_gone)


def test_a_burst_leaves_other_streams_their_answers(server, talk):
    is_over = threading.Event()

    def bursts() -> list[Transcript]:
        finals = []
        while not is_over.is_set():
            finals.append(in_chunks(server, talk, iter([2 * RATE] * 1000))[-1])
        return finals

    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(bursts)
        *answers, final = live(server, talk[: 8 * RATE])
        is_over.set()
    assert all(burst.text for burst in sent.result())
    late = [answer for answer in answers if answer.stages["total"].ms > 640]
    assert len(late) <= len(answers) / 4
    assert any(answer.utterance and answer.utterance.text for answer in answers)
    assert final.text


@pytest.mark.nightly
def test_passes_become_rarer_under_load_and_come_back(busy, recordings):
    monologue = np.concatenate([item.waveform() for item in recordings] * 4)
    enough = threading.Event()

    def crowd() -> str:
        text = ""
        for answer in live(busy, monologue, rolling_pass_ms=ASKED_MS // 2):
            text = answer.text
            if enough.is_set():
                break
        return text

    def stretch() -> float:
        return metrics_of(busy.metrics_url)["conch_rolling_pass_stretch"]

    before = metrics_of(busy.metrics_url)
    others, intervals = [], [ASKED_MS]
    with ThreadPoolExecutor(24) as pool:
        for answer in live(busy, monologue):
            intervals.append(answer.rolling.interval_ms)
            if enough.is_set():
                if intervals[-1] == ASKED_MS and answer.rolling.skipped:
                    break
            elif intervals[-1] != ASKED_MS and stretch() > 1:
                enough.set()
            elif len(others) < answer.duration + 2:  # as many as this machine needs
                others.append(pool.submit(crowd))
        enough.set()
        # The latest may have had no time for a text.
        assert any([other.result() for other in others])
    assert answer.duration < 60
    assert max(intervals) > ASKED_MS
    assert intervals[-1] == ASKED_MS
    now = metrics_of(busy.metrics_url)
    for outcome in ("made", "skipped"):
        name = f"conch_passes_total{{kind=rolling,outcome={outcome}}}"
        assert now[name] > before[name]
    wait_until(lambda: stretch() == 1)


def test_a_language_that_whisper_lacks_is_an_error_that_names_it(server, talk):
    *_, final = live(server, talk[: 6 * RATE], speed=2, language="de")
    assert any("'de'" in segment.error for segment in final.segments), final


@pytest.mark.nightly
def test_whisper_alone_writes_where_there_is_no_first_pass(recordings):
    waveform = recordings[1].waveform()
    with TritonServer(ServerConfig(models=ATTENTION, stop_timeout_s=8)) as alone:
        answers = list(live(alone, waveform, speed=1.5))
    states = [state for states in by_utterance(answers) for state in states]
    assert any(state.firm for state in states)
    assert not any(state.newest for state in states)
    assert not any("ctc_streaming_encoder" in answer.path for answer in answers)
    assert "attention_decoder" in answers[-1].path
    assert wer(recordings[1].text, answers[-1].text) < 0.15


@pytest.mark.nightly
def test_without_both_recognisers_a_stream_without_options_is_streaming(recordings):
    models = ("speech", *components_of_path("streaming"))
    waveform = recordings[0].waveform()
    with TritonServer(ServerConfig(models=models, stop_timeout_s=8)) as lean:
        plain, chosen = (
            in_chunks(lean, waveform, iter([CHUNK] * 1000), **options)[-1]
            for options in ({}, {"mode": "streaming"})
        )
        asked = in_chunks(lean, waveform, iter([CHUNK] * 1000), mode="two_pass")[-1]
    assert plain.text == chosen.text != ""
    assert plain.rolling is None
    (segment,) = asked.segments
    assert "moonshine_encoder is not loaded" in segment.error
    assert asked.text == plain.text


def encoded(triton: http.InferenceServerClient, waveform: np.ndarray, **parameters: Any) -> int:
    """Return the seconds of the window that the attention encoder takes."""
    inputs = inputs_of(http, waveform=waveform[np.newaxis])
    answer = triton.infer("attention_encoder", inputs, parameters=parameters)
    return answer.as_numpy("encoder_out").shape[1] / 50


def test_a_caller_chooses_the_encoders_window(triton, caller, verses):
    second = verses[:RATE]
    assert encoded(triton, second, **caller) == 15
    assert encoded(triton, second, **caller, min_window_ms=7500, window_margin_ms=3000) == 7.5
    assert encoded(triton, verses, **caller, min_window_ms=7500, window_margin_ms=3000) == 12.5
    for name, range_, values in (
        ("min_window_ms", "1000 to 30000", (999, 30_001, -1, "wide")),
        ("window_margin_ms", "0 to 30000", (-1, 30_001, "3000")),
    ):
        for value in values:
            expected = f"INVALID_OPTION: option '{name}' takes an integer from {range_}; sent: "
            with pytest.raises(InferenceServerException, match=f"{expected}{value!r}"):
                encoded(triton, second, **caller, **{name: value})
    assert encoded(triton, second, **caller) == 15


def test_triton_takes_the_name_of_every_option(server, talk):
    """Triton keeps some names of parameters for itself."""
    usual = RecognitionOptions.parse({"decoder": "ctc", "mode": "two_pass"}, live=True)
    sent = {item.name: getattr(usual, item.name) for item in all_options().values()}
    asked = {name: value for name, value in sent.items() if value is not None}
    with Client(server.http_url) as client, client.live(**asked) as stream:
        stream.send(talk[:RATE])
        assert stream.finish().is_final

"""The decoder components: options and errors by row, and streams that equal whole segments."""

import gc
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from ctc_paths import log_probs_of
from kaldi_lattice import best_path, read
from without_torch import run

from conch.component import Row, bytes_array
from conch.decoding.graph.search import DecodingGraph
from conch.decoding.streaming_decoder import StreamingDecoder
from conch.decoding.units import units_from_dict
from conch.families.ctc.decoder import (
    CtcDecoder,
    CtcDecoderConfig,
    CtcStreamingDecoderConfig,
    unpacked_graph,
)
from conch.families.ctc.vocabulary import read_vocabulary
from conch.wire.errors import ConfigError, InvalidRequestError, OptionError, SessionError


@pytest.fixture(scope="module")
def decoder(letters) -> CtcDecoder:
    return CtcDecoder(CtcDecoderConfig(**letters))


@pytest.fixture(scope="module")
def streaming(letters):
    component = StreamingDecoder(CtcDecoder(CtcStreamingDecoderConfig(**letters)), 90.0)
    yield component
    component.close()


def inputs(log_probs: np.ndarray, length: int | None = None) -> dict[str, np.ndarray]:
    lens = np.array([len(log_probs) if length is None else length], np.int32)
    return {"log_probs": log_probs, "log_probs_lens": lens}


def row(log_probs: np.ndarray, length: int | None = None, **parameters) -> Row:
    return Row(inputs(log_probs, length), parameters)


def texts(answer) -> list[str]:
    return [item.decode() for item in answer["hypotheses"]]


@pytest.mark.parametrize("beam_size", [1, 8])
def test_text_and_words(decoder, beam_size):
    (answer,) = decoder([row(log_probs_of("-a--b ccc-c--"), beam_size=beam_size)])
    assert texts(answer) == ["ab cc"]
    assert answer["words"].tolist() == [b"ab", b"cc"]
    assert answer["num_words"].tolist() == [2]
    np.testing.assert_allclose(answer["word_starts"], [0.02, 0.12])


def test_the_largest_search_is_that_of_the_options(decoder):
    (answer,) = decoder([row(log_probs_of("ab"), beam_size=128, nbest=128)])
    assert texts(answer)[0] == "ab"


@pytest.mark.parametrize(("characters", "is_taken"), [(40_000, True), (40_001, False)])
def test_hotwords_are_limited_in_all(decoder, characters, is_taken):
    hotwords = ("a" * 49 + ",") * 799 + "a" * (characters - 39_950)
    assert len(hotwords) == characters
    (answer,) = decoder([row(log_probs_of("ab"), hotwords=hotwords)])
    assert isinstance(answer, OptionError) is not is_taken


@pytest.mark.parametrize(("frames", "is_taken"), [(6_000, True), (6_001, False)])
def test_frames_are_those_of_two_minutes_at_most(decoder, frames, is_taken):
    (answer,) = decoder([row(np.tile(log_probs_of("-"), (frames, 1)), beam_size=1)])
    assert isinstance(answer, InvalidRequestError) is not is_taken
    if not is_taken:
        assert str(answer) == "log_probs_lens takes 0 to 6000 frames, those of 120 s; sent: 6001"


@pytest.mark.parametrize(("count", "is_taken"), [(128, True), (129, False)])
def test_as_many_texts_are_scored_as_a_list_has(decoder, count, is_taken):
    scored = Row({**inputs(log_probs_of("ab")), "texts": bytes_array(["ab"] * count)})
    (answer,) = decoder([scored])
    assert isinstance(answer, InvalidRequestError) is not is_taken
    if not is_taken:
        assert str(answer) == "input 'texts' takes at most 128 texts; sent: 129"


def test_rows_of_a_batch_have_options_of_their_own(decoder):
    log_probs = log_probs_of("-c--o-n-k--", 0.4)
    rng = np.random.default_rng(0)
    log_probs += rng.normal(0, 0.01, log_probs.shape).astype(np.float32)  # no ties
    rows = [
        row(log_probs),
        row(log_probs, nbest=3, beam_size=4),
        row(log_probs, hotwords="Conch:30"),
        row(log_probs, lm_fusion=True, lm_weight="1.5", word_bonus="3", beam_size=20),
    ]
    together = decoder(rows)
    for one, answer in zip(rows, together, strict=True):
        (alone,) = decoder([one])
        assert texts(alone) == texts(answer)
        np.testing.assert_allclose(alone["scores"], answer["scores"], rtol=1e-6)
    plain, three, hot, fused = together
    assert texts(plain) == ["conk"]
    assert len(texts(three)) == 3
    assert texts(hot) == ["conch"]
    assert fused["lm_scores"][0] < 0
    assert plain["lm_scores"].tolist() == [0]


def test_the_graph_knows_words_only(decoder):
    rows = [
        row(log_probs_of("--th-e--  -do-kg--"), decoder="wfst"),
        row(log_probs_of("--th-e--  -do-kg--")),
    ]
    graph, beam = decoder(rows)
    assert texts(graph) == ["the dog"]
    assert texts(beam) == ["the dokg"]
    assert graph["lm_scores"][0] < 0
    assert graph["words"].tolist() == [b"the", b"dog"]


def test_a_lattice_is_sent_to_those_who_ask(decoder):
    frames = log_probs_of("--th-e--  -do-g--")
    asking, other = decoder(
        [row(frames, decoder="wfst", lattice=True, nbest=2), row(frames, decoder="wfst")]
    )
    assert texts(asking)[0] == texts(other)[0] == "the dog"
    assert "lattice" not in other
    (text,) = asking["lattice"]
    labels, words, graph_cost, acoustic_cost = best_path(read(text.decode()))
    assert words == ["the", "dog"]
    assert len(labels) == len(frames)
    assert acoustic_cost == pytest.approx(-asking["am_scores"][0], abs=1e-2)
    assert graph_cost + acoustic_cost == pytest.approx(-asking["scores"][0], abs=1e-2)


def test_every_search_runs_without_torch(letters):
    arpa = Path(letters["graph"]).with_name("words.arpa")
    code = f"""
import numpy as np
from conch.component import Row, bytes_array
from conch.families.ctc.decoder import CtcDecoder, CtcDecoderConfig

log_probs = np.full((6, 29), -9.0, np.float32)
log_probs[range(6), [22, 0, 10, 0, 7, 0]] = -0.1
inputs = dict(log_probs=log_probs, log_probs_lens=np.array([6], np.int32))
searches = [
    dict(beam_size=1),
    dict(beam_size=4),
    dict(beam_size=4, lm_fusion=True, hotwords="the"),
    dict(decoder="wfst"),
]
decoder = CtcDecoder(CtcDecoderConfig(**{letters!r}, language_model={str(arpa)!r}))
for answer in decoder([Row(inputs, item) for item in searches]):
    print(answer["hypotheses"][0].decode())
"""
    assert run(code).splitlines() == ["the"] * 4


def test_padding_is_not_read(decoder):
    (short,) = decoder([row(log_probs_of("-a--b ccc-c--"), 5)])
    assert texts(short) == ["ab"]


def test_what_cannot_be_decoded_fails_alone(decoder):
    good = log_probs_of("ab")
    wide, nan = np.zeros((4, 30), np.float32), np.full((4, 29), np.nan, np.float32)
    answers = decoder([row(wide), row(good), row(nan), row(good, 3)])
    assert texts(answers[1]) == ["ab"]
    messages = [str(item) for item in answers if isinstance(item, InvalidRequestError)]
    assert messages == [
        "log_probs takes [frames, 29] with at least log_probs_lens frames; sent: [4, 30] and 4",
        "log_probs holds values that are not numbers below infinity",
        "log_probs takes [frames, 29] with at least log_probs_lens frames; sent: [2, 29] and 3",
    ]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"beam_size": 0}, "option 'beam_size' takes"),
        ({"beam_size": 10_000}, "option 'beam_size' takes"),
        ({"lattice": True}, "option 'lattice' goes with decoder wfst; sent: lattice=true"),
        ({"lattice": 1, "decoder": "wfst"}, "option 'lattice' takes a bool; sent: 1"),
        ({"nbest": 0}, "option 'nbest' takes an integer from 1 to 128; sent: 0"),
        ({"nbest": 129}, "option 'nbest' takes an integer from 1 to 128; sent: 129"),
        ({"beam_size": 129}, "option 'beam_size' takes an integer from 1 to 128; sent: 129"),
        (
            {"hotwords": "a" * 40_001},
            "option 'hotwords' takes at most 40000 characters; sent: 40001",
        ),
        ({"lm_weight": "many"}, "option 'lm_weight' takes a number; sent: 'many'"),
        ({"language": "de"}, "option 'language' takes auto or en with this CTC model, which"),
        ({"hotwords": "conch,,triton"}, "option 'hotwords' takes phrases separated by commas"),
        ({"hotwords": "conch:much"}, "option 'hotwords' takes a number after a colon"),
        ({"hotwords": "größe"}, "option 'hotwords'"),
        ({"hotwords": ",".join(["a"] * 2001)}, "option 'hotwords' takes at most 2000 phrases"),
        ({"hotwords": "a" * 101}, "option 'hotwords' takes phrases of at most 100 characters"),
        ({"hotwords": "a:101"}, "option 'hotwords' takes weights from 0 to 100; sent: 101.0"),
        ({"hotwords": "a:nan"}, "option 'hotwords' takes weights from 0 to 100; sent: nan"),
        ({"hotwords": "größe", "decoder": "wfst"}, "option 'hotwords' takes phrases in the model"),
    ],
)
def test_a_wrong_option_fails_alone(decoder, parameters, message):
    bad, good = decoder([row(log_probs_of("ab"), **parameters), row(log_probs_of("ab"))])
    assert isinstance(bad, OptionError)
    assert str(bad).startswith(message)
    assert texts(good) == ["ab"]


def test_a_thousand_hotwords(decoder):
    words = ",".join(
        f"word{chr(97 + i % 26)}{chr(97 + i // 26 % 26)}{chr(97 + i // 676)}".replace(
            "word", "conch "
        )
        for i in range(1000)
    )
    (answer,) = decoder([row(log_probs_of("ab"), hotwords=words)])
    assert texts(answer) == ["ab"]


@pytest.mark.parametrize("parameters", [{}, {"lm_fusion": True}, {"decoder": "wfst"}])
def test_the_shipped_units_are_decoded(parameters):
    vocabulary = read_vocabulary("")
    units = units_from_dict(json.loads(vocabulary.units)).encode("we heard the wind")
    path = [unit for pair in zip(units, [0] * len(units), strict=True) for unit in pair]
    probs = np.full((len(path), len(vocabulary.texts)), 1e-4, np.float32)
    probs[np.arange(len(path)), path] = 1 - probs.sum(1) + 1e-4
    (answer,) = CtcDecoder(CtcDecoderConfig())([row(np.log(probs), **parameters)])
    assert texts(answer) == ["we heard the wind"]
    frame_s = vocabulary.frame_s
    assert answer["word_starts"][0] == pytest.approx(0.0)
    assert answer["word_ends"][-1] <= len(path) * frame_s + 1e-6


def test_what_is_missing_at_load_is_named():
    with pytest.raises(ConfigError, match=r"nowhere\.onnx does not exist"):
        CtcDecoder(CtcDecoderConfig(model="/nowhere.onnx"))
    with pytest.raises(ConfigError, match=r"nowhere\.arpa does not exist"):
        CtcDecoder(CtcDecoderConfig(language_model="/nowhere.arpa"))


def test_without_a_language_model_fusion_is_refused(letters):
    decoder = CtcDecoder(CtcDecoderConfig(**letters, language_model="none"))
    fused, plain = decoder([row(log_probs_of("ab"), lm_fusion=True), row(log_probs_of("ab"))])
    assert isinstance(fused, OptionError)
    assert texts(plain) == ["ab"]


def chunks_of(streaming, log_probs, stream_id, rng, last_is_over=False, **parameters):
    """Return the answers to a stream's chunks, cut anywhere."""
    cuts = np.sort(rng.integers(0, len(log_probs) + 1, size=5))
    pieces = np.split(log_probs, cuts)
    for index, piece in enumerate(pieces):
        is_last = index == len(pieces) - 1
        sent = parameters if index == 0 else {}
        (answer,) = streaming([Row(inputs(piece), sent, stream_id, index == 0, is_last)])
        yield answer


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"lm_fusion": True},
        {"hotwords": "abba:30"},
        {"decoder": "wfst"},
        {"decoder": "wfst", "hotwords": "abba:60"},
    ],
)
def test_a_stream_says_at_its_end_what_the_segment_says(decoder, streaming, parameters):
    rng = np.random.default_rng(0)
    log_probs = log_probs_of("--a-bb-b-a--  th-e--  -dd-o-g--", 0.3)
    # Words that partial texts agreed on leave no room for others.
    agrees = parameters.get("decoder") == "wfst" or "hotwords" in parameters
    parameters["nbest"] = 1 if agrees else 4
    (expected,) = decoder([row(log_probs, **parameters)])
    *_, final = chunks_of(streaming, log_probs, "s", rng, **parameters)
    assert texts(final) == texts(expected)
    np.testing.assert_allclose(final["scores"], expected["scores"], rtol=1e-5)
    np.testing.assert_allclose(final["word_starts"], expected["word_starts"])
    assert final["stable"].tolist() == [texts(final)[0].encode()]
    assert len(streaming) == 0


@pytest.mark.parametrize("hotwords", ["", "foks:40, lassie dock:40, jumps"])
@pytest.mark.parametrize("decoder", ["ctc", "wfst"])
def test_what_is_stable_stays(streaming, decoder, hotwords):
    rng = np.random.default_rng(1)
    paths = ["the--  quick--  brow-n", "fox--  jump-s  over--  the--  la-zy--  dog"]
    for path in paths:
        stable = ""
        parameters = {"decoder": decoder, "hotwords": hotwords}
        for answer in chunks_of(streaming, log_probs_of(path, 0.5), 7, rng, **parameters):
            assert texts(answer)[0].startswith(stable)
            found = answer["stable"][0].decode()
            assert found.startswith(stable)
            stable = found
        assert stable == texts(answer)[0]


def test_an_utterance_that_is_over_leaves_nothing_to_the_next(decoder, streaming):
    first, second = log_probs_of("ab-"), log_probs_of("-cd")
    answers = []
    for index, (frames, is_over) in enumerate([(first, True), (second, False)]):
        (answer,) = streaming([Row(inputs(frames), {"is_over": is_over}, 3, index == 0, False)])
        answers.append(texts(answer)[0])
    assert answers == ["ab", "cd"]
    (last,) = streaming([Row(inputs(np.zeros((0, 1), np.float32)), {}, 3, False, True)])
    assert texts(last) == ["cd"]
    np.testing.assert_allclose(last["word_starts"], [0.02])


@pytest.mark.parametrize("decoder", ["ctc", "wfst"])
def test_a_stream_keeps_nothing_of_its_utterances(streaming, decoder):
    frames = inputs(log_probs_of("--a-bb-b-a--  th-e--" * 4))

    def held_after(utterances: int, *, starts: bool = False) -> int:
        for number in range(2 * utterances):
            sent = {"is_over": bool(number % 2), **({"decoder": decoder} if starts else {})}
            streaming([Row(frames, sent, "long", starts, False)])
            starts = False
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        return held

    tracemalloc.start()
    first = held_after(5, starts=True)
    assert held_after(12) < first + frames["log_probs"].nbytes  # those of one
    tracemalloc.stop()
    streaming([Row(inputs(np.zeros((0, 1), np.float32)), {}, "long", False, True)])


def test_streams_share_a_batch_and_keep_apart(streaming):
    paths = {f"s{index}": log_probs_of(text) for index, text in enumerate(["ab", "cdc", "efgh"])}
    rows = [Row(inputs(item), {}, name, True, False) for name, item in paths.items()]
    assert [texts(item)[0] for item in streaming(rows)] == ["ab", "cdc", "efgh"]
    ends = [Row(inputs(item), {}, name, False, True) for name, item in paths.items()]
    assert [texts(item)[0] for item in streaming(ends)] == ["abab", "cdcdc", "efghefgh"]
    (unknown,) = streaming([Row(inputs(paths["s0"]), {}, "s0", False, False)])
    assert isinstance(unknown, SessionError)


def test_a_bad_option_at_the_start_fails_alone(streaming):
    frames = log_probs_of("ab")
    bad, good = streaming(
        [
            Row(inputs(frames), {"hotwords": "1"}, "bad", True, True),
            Row(inputs(frames), {}, "good", True, True),
        ]
    )
    assert isinstance(bad, OptionError)
    assert texts(good) == ["ab"]


HUGE = {"decoder": "wfst", "hotwords": "hello"}
"""Options of a search whose sums overflow with frames of the largest float."""


@pytest.mark.parametrize("options", [{}, {"lm_fusion": True}, {"decoder": "wfst"}])
def test_a_defect_ends_its_stream_and_no_other_of_the_batch(streaming, options):
    path = log_probs_of("--th-e--  -do-g--", 0.3)
    frames = {True: path[:8], False: path[8:]}
    largest = np.full_like(path, np.finfo(np.float32).max)

    def said(*others: Row, starts: bool) -> tuple[list, dict]:
        good = Row(inputs(frames[starts]), options if starts else {}, "good", starts, not starts)
        *failed, answer = streaming([*others, good])
        return failed, answer

    expected = [said(starts=starts)[1] for starts in (True, False)]
    overflows = Row(inputs(largest), HUGE, "overflows", True, False)
    unreadable = Row({"log_probs": path}, {}, "unreadable", True, False)
    failed, first = said(overflows, unreadable, starts=True)
    assert [type(error) for error in failed] == [OverflowError, KeyError]
    # Their searches are in an unknown state, and take no more.
    again = [Row(inputs(path), {}, name, False, False) for name in ("overflows", "unreadable")]
    failed, last = said(*again, starts=False)
    assert [type(error) for error in failed] == [SessionError, SessionError]
    for found, wanted in zip((first, last), expected, strict=True):
        assert texts(found) == texts(wanted)
        np.testing.assert_allclose(found["scores"], wanted["scores"], rtol=1e-6)
    assert len(streaming) == 0


def test_it_is_unpacked_once_and_loads(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = unpacked_graph()
    assert path.parent == tmp_path / "conch"
    assert DecodingGraph(path, read_vocabulary("").texts).words
    written = path.stat().st_mtime_ns
    assert unpacked_graph() == path
    assert path.stat().st_mtime_ns == written
    assert [item.name for item in path.parent.glob("[!.]*")] == [path.name]


def test_a_broken_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"missing\.xz does not exist"):
        unpacked_graph(tmp_path / "missing.xz")

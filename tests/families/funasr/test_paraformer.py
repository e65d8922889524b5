"""The component, and what it refuses."""

import math

import funasr_toys
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnxruntime import InferenceSession

from conch.component import Row
from conch.component.graph import Graph
from conch.families.funasr.folder import read_paraformer
from conch.families.funasr.network import features_of
from conch.families.funasr.paraformer import ParaformerComponent, Unit, times_of, words_of_units
from conch.families.search.graphs import DecoderConfig
from conch.wire.errors import AudioError, ConfigError, OptionError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "parameter 'model' is empty: conch serve --paraformer FOLDER sets it"),
        ({"model": ".", "precision": "int4"}, "'precision' takes float32 or int8; is: 'int4'"),
        ({"model": "."}, r"^\. holds no paraformer: it lacks model\.onnx"),
    ],
)
def test_a_config_that_is_wrong(settings, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        ParaformerComponent(DecoderConfig(**settings))


def test_a_row_that_is_refused(tmp_path):
    folder, _ = funasr_toys.paraformer(tmp_path)
    component = ParaformerComponent(DecoderConfig(model=str(folder), language="zh"))
    tone = np.zeros(16_000, np.float32)
    with pytest.raises(OptionError, match=r"'language' takes auto or zh with .*; sent: 'e"):
        component([Row({"waveform": tone}, {"language": "en"})])
    with pytest.raises(AudioError, match="at most 40 s of audio; sent: 41 s"):
        component([Row({"waveform": np.zeros(41 * 16_000, np.float32)})])
    (found,) = component([Row({"waveform": tone}, {"language": "zh"})])
    assert found["words"].size == found["word_starts"].size == found["word_confidences"].size


def test_a_failure_is_no_text_where_nothing_is_found_alone(tmp_path):
    folder, _ = funasr_toys.paraformer(tmp_path)
    silent = Row({"waveform": np.zeros(1000, np.float32)})
    (found,) = ParaformerComponent(DecoderConfig(model=str(folder)))([silent])
    assert found["hypotheses"].tolist() == [b""]
    graph, size = Graph(), len(funasr_toys.TOKENS)
    speech = graph.takes("speech", "N", "T", funasr_toys.WIDTH)
    lens = graph.takes("speech_lengths", "N", elem_type=TensorProto.INT32)
    mean = graph.op("ReduceMean", speech, graph.ints(1, 2), keepdims=1)
    # More than an address space.
    logits = graph.op("Expand", mean, graph.ints(1, 2**46, size))
    graph.gives(logits, "logits", "N", "L", size)
    graph.gives(lens, "token_num", "N", elem_type=TensorProto.INT32)
    onnx.save(graph.model("toy"), folder / "model.onnx")
    with pytest.raises(Exception, match="bad_alloc"):
        ParaformerComponent(DecoderConfig(model=str(folder)))([silent])


def test_hotwords_are_read_by_their_network(tmp_path):
    tone = np.sin(np.arange(40_000, dtype=np.float32) ** 1.1)
    plain, _ = funasr_toys.paraformer(tmp_path / "plain")
    with pytest.raises(OptionError, match=r"'hotwords' does not go with .* has no model_eb\.onnx"):
        ParaformerComponent(DecoderConfig(model=str(plain)))(
            [Row({"waveform": tone}, {"hotwords": "我"})]
        )
    folder, _ = funasr_toys.paraformer(tmp_path / "seaco", takes_hotwords=True)
    component = ParaformerComponent(DecoderConfig(model=str(folder)))
    sent = ("", "公园,good 我们", "hello:9")
    rows = component([Row({"waveform": tone}, {"hotwords": item}) for item in sent])
    assert len({row["hypotheses"][0] for row in rows}) > 1
    network, reader = (InferenceSession(folder / f"{name}.onnx") for name in ("model", "model_eb"))
    numbers = [
        [funasr_toys.TOKENS.index(part) for part in item] for item in ("公园", ["good", *"我们"])
    ]
    phrases = np.zeros((3, 10), np.int32)
    for row, item in enumerate([*numbers, [1]]):
        phrases[row, : len(item)] = item
    (read,) = reader.run(None, {"hotword": phrases})
    known = np.stack([read[1, 0], read[2, 1], read[0, 2]])
    features = features_of(read_paraformer(folder, "float32").front_end, tone)
    lens = np.array([len(features)], np.int32)
    feed = {"speech": features[None], "speech_lengths": lens, "bias_embed": known[None]}
    best = network.run(["logits"], feed)[0][0, :-1].argmax(1)
    symbols = [unit.symbol for unit in component.units(tone, ["公园", "good 我们"])]
    assert symbols == [funasr_toys.TOKENS[unit] for unit in best]
    with pytest.raises(OptionError, match="takes phrases of at most 10 letters with this Para"):
        component([Row({"waveform": tone}, {"hotwords": "我" * 11})])


def test_a_unit_lasts_until_the_next_but_not_through_a_pause():
    peaks = np.zeros(100, np.float32)
    peaks[[5, 20, 95]] = 1
    assert times_of(2, peaks, 1.95) == [(0.1, 0.4), (0.4, 1.0)]
    assert times_of(2, peaks, 0.5) == [(0.1, 0.4), (0.4, 0.5)]


def test_without_a_peak_for_each_units_share_the_audio():
    assert times_of(2, np.ones(2, np.float32), 3.0) == [(0.0, 1.5), (1.5, 3.0)]
    assert times_of(0, np.zeros(9, np.float32), 3.0) == []


def words(*symbols: str) -> list[str]:
    units = [Unit(symbol, at, at + 1.0, 0.0) for at, symbol in enumerate(symbols)]
    has_spaces = any(symbol.startswith("▁") for symbol in symbols)
    return [word.text for word in words_of_units(units, has_spaces=has_spaces)]


@pytest.mark.parametrize(
    ("symbols", "expected"),
    [
        (["今", "天"], ["今", "天"]),
        (["hel@@", "lo", "so"], ["hello", "so"]),
        (["a@@", "b@@", "c", "我"], ["abc", "我"]),
        (["mor@@", "我", "ning"], ["mor", "我", "ning"]),
        (["▁he", "llo", "▁so"], ["hello", "so"]),
        (["llo", "▁so", "▁", "far"], ["llo", "so", "far"]),
        (["end@@"], ["end"]),
        ([], []),
    ],
)
def test_words_of_units(symbols, expected):
    assert words(*symbols) == expected


def test_a_word_has_the_times_and_the_mean_of_its_units():
    units = [Unit("hel@@", 1.0, 1.2, math.log(0.9)), Unit("lo", 1.3, 1.5, math.log(0.4))]
    (word,) = words_of_units(units, has_spaces=False)
    assert (word.start, word.end) == (1.0, 1.5)
    assert word.confidence == pytest.approx(0.6)

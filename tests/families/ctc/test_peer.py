"""The same folder of CTC writes the same in sherpa-onnx and here."""

from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path
from typing import Any

import ctc_toys
import kaldi_native_fbank as knf
import numpy as np
import onnx
import onnx.compose
import onnxruntime
import pytest
from onnx import TensorProto
from recordings import recordings_of

from conch.component.graph import Graph
from conch.families.ctc.vocabulary import SHIPPED, read_vocabulary
from lab.baselines.components import live, recorded, text_of, words_of
from lab.baselines.folder_peers import PeerResult, peer_of

STEP = 10_240
ONE_GRAPH = ("medasr", "dolphin", "fire_red", "telespeech", "omnilingual")
WHOLE = ("icefall", "wenet", "nemo", "waveform", *ONE_GRAPH)
LIVE = ("icefall_live", "wenet")


def check(found: list[Any], expected: list[PeerResult], frame_s: float) -> None:
    texts = [text_of(item) for item in found]
    assert texts == [item.text for item in expected]
    assert len(set(texts)) == len(texts) and all(len(text.split()) > 5 for text in texts)
    for item, peer in zip(found, expected, strict=True):
        starts = words_of(item, "word_starts")
        assert len(starts) == len(peer.text.split())
        times = {round(time / frame_s) for time in peer.times}
        assert {round(time / frame_s) for time in starts} <= times


@pytest.mark.parametrize("kind", WHOLE)
def test_both_write_the_same_of_recordings(tmp_path, waveforms, kind):
    folder = getattr(ctc_toys, kind)(tmp_path / kind, seed=3)
    peer = peer_of("ctc", folder)
    if kind == "wenet":  # to which the peer adds noise of one bit
        random = np.random.default_rng(0)
        waveforms = [
            (item + random.normal(0, 0.03, len(item))).astype(np.float32) for item in waveforms
        ]
    expected = [peer(item) for item in waveforms]
    found = recorded("ctc", folder, waveforms)[1]
    if kind != "wenet":
        check(found, expected, 0.02 if kind in ("waveform", "omnilingual") else 0.04)
        return
    for item, peer in zip(found, expected, strict=True):
        texts = text_of(item), peer.text
        assert SequenceMatcher(None, *texts, autojunk=False).ratio() > 0.95


@pytest.mark.parametrize("normalize_type", ["NA", "per_feature"])
def test_live_audio_of_nemo_is_written_as_by_the_script_of_the_peer(
    tmp_path, waveforms, normalize_type
):
    """Its library takes Kaldi's features for it, with which no such model is trained.

    It normalises none either: NeMo's `online_normalization` does, chunk by chunk.
    """
    folder = ctc_toys.nemo_live(tmp_path / "toy", 3, normalize_type)
    known = [line.split()[0] for line in (folder / "tokens.txt").read_text().splitlines()]
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    for waveform, found in zip(waveforms, live("ctc", folder, waveforms, STEP)[1], strict=True):
        fbank = knf.OnlineFbank(nemo_options())
        fbank.accept_waveform(16_000, waveform.tolist())
        fbank.accept_waveform(16_000, [0.0] * int(0.66 * 16_000))
        fbank.input_finished()
        features = np.array([fbank.get_frame(n) for n in range(fbank.num_frames_ready)])
        states = [np.zeros((1, 2, 12, 32)), np.zeros((1, 2, 32, 5)), np.zeros(1)]
        names = [item.name for item in session.get_inputs()]
        feed = dict(zip(names[2:], states, strict=True))
        path: list[int] = []
        for start in range(0, len(features) - 41, 32):
            chunk = features[start : start + 41].T[None].astype(np.float32)
            if normalize_type != "NA":
                deviation = chunk.std(axis=2, ddof=1, keepdims=True) + 1e-5
                chunk = (chunk - chunk.mean(axis=2, keepdims=True)) / deviation
            kinds = [np.float32, np.int64, np.float32, np.float32, np.int64]
            values = [chunk, np.array([41]), *feed.values()]
            sent = {n: v.astype(k) for n, v, k in zip(names, values, kinds, strict=True)}
            log_probs, _, *after = session.run(None, sent)
            feed = dict(zip(names[2:], after, strict=True))
            path += log_probs[0].argmax(axis=1).tolist()
        units = [unit for unit, _ in groupby(path) if unit != 39]
        text = "".join(known[unit] for unit in units).replace("▁", " ").strip()
        assert text_of(found) == text
        assert len(text.split()) > 5


def nemo_options() -> Any:
    options = knf.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.frame_opts.remove_dc_offset = False
    options.frame_opts.window_type = "hann"
    options.mel_opts.low_freq, options.mel_opts.high_freq = 0, 8000
    options.mel_opts.num_bins = 80
    options.mel_opts.is_librosa = True
    return options


@pytest.mark.parametrize("kind", LIVE)
def test_both_write_the_same_of_live_audio(tmp_path, waveforms, kind):
    folder = getattr(ctc_toys, kind)(tmp_path / kind, seed=3)
    peer = peer_of("ctc", folder, step=STEP, is_live=True)
    expected = [peer(item) for item in waveforms]
    check(live("ctc", folder, waveforms, STEP)[1], expected, 0.04)
    if kind == "icefall_live":
        found = recorded("ctc", folder, waveforms)[1]
        assert [text_of(item) for item in found] == [item.text for item in expected]


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_both_write_the_same_with_real_weights(tmp_path):
    """The model that ships, as a network that hears normalised samples."""
    from lab.training.ctc.waveform_graph import waveform_graph

    graph = Graph()
    x = graph.takes("x", 1, "S")
    graph.gives(graph.op("Reshape", x, graph.ints(-1)), "waveform", "S")
    size = graph.op("Cast", graph.op("Shape", x, start=1, end=2), to=TensorProto.INT32)
    graph.gives(
        graph.op("Reshape", size, graph.ints(1, 1)), "sizes", 1, 1, elem_type=TensorProto.INT32
    )
    model, front = waveform_graph(SHIPPED), graph.model("front")
    front.ir_version = model.ir_version
    del front.opset_import[1:]
    front.opset_import[0].version = model.opset_import[0].version
    pairs = [("waveform", "waveform"), ("sizes", "waveform_shapes")]
    front = onnx.compose.add_prefix(front, "front_", rename_inputs=False, rename_outputs=False)
    whole = onnx.compose.merge_models(front, model, io_map=pairs, outputs=["log_probs"])
    texts = read_vocabulary("").texts
    dims = whole.graph.output[0].type.tensor_type.shape.dim
    dims[2].dim_value = len(texts)
    onnx.save(whole, tmp_path / "model.onnx")
    lines = (f"{text or '<blk>'} {unit}\n" for unit, text in enumerate(texts))
    (tmp_path / "tokens.txt").write_text("".join(lines))
    spoken = [item.waveform() for item in recordings_of(Path(__file__).parents[2] / "data")]
    peer = peer_of("ctc", tmp_path)
    found = [text_of(item) for item in recorded("ctc", tmp_path, spoken)[1]]
    assert found == [peer(item).text for item in spoken]
    assert sum(len(text.split()) for text in found) > 50

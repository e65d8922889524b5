"""The same folder of CTC writes the same in sherpa-onnx and here."""

from dataclasses import replace
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
import sherpa_onnx
from onnx import TensorProto
from recordings import recordings_of

from conch.component import Row
from conch.component.graph import Graph
from conch.families.ctc.decoder import CtcDecoder, CtcDecoderConfig
from conch.families.ctc.encoder import CtcEncoder, CtcEncoderConfig
from conch.families.ctc.streaming_decoder import CtcStreamingDecoder, CtcStreamingDecoderConfig
from conch.families.ctc.streaming_encoder import CtcStreamingEncoderConfig, streaming_encoder
from conch.families.ctc.vocabulary import SHIPPED, read_vocabulary

STEP = 10_240
WHOLE = {
    "icefall": sherpa_onnx.OfflineRecognizer.from_zipformer_ctc,
    "wenet": sherpa_onnx.OfflineRecognizer.from_wenet_ctc,
    "nemo": sherpa_onnx.OfflineRecognizer.from_nemo_ctc,
    "waveform": sherpa_onnx.OfflineRecognizer.from_omnilingual_asr_ctc,
}
LIVE = {
    "icefall_live": sherpa_onnx.OnlineRecognizer.from_zipformer2_ctc,
    "wenet": sherpa_onnx.OnlineRecognizer.from_wenet_ctc,
}


@pytest.fixture(scope="module")
def waveforms() -> list[np.ndarray]:
    found = recordings_of(Path(__file__).parents[2] / "data")
    return [item.waveform() for item in found[:3]]


def recorded(folder: Path, waveforms: list[np.ndarray]) -> list[Any]:
    encoder = CtcEncoder(CtcEncoderConfig(model=str(folder), intra_threads=1))
    decoder = CtcDecoder(CtcDecoderConfig(model=str(folder)))
    encoded = encoder([Row({"waveform": item}) for item in waveforms])
    return [*decoder([Row(item, {"beam_size": 1}) for item in encoded])]


def live(folder: Path, waveforms: list[np.ndarray]) -> list[Any]:
    """Return what is found in streams that are heard at the same time."""
    encoder = streaming_encoder(CtcStreamingEncoderConfig(model=str(folder)))
    decoder = CtcStreamingDecoder(CtcStreamingDecoderConfig(model=str(folder)))
    last = dict[int, Any]()
    for start in range(0, max(map(len, waveforms)), STEP):
        rows = [
            Row(
                {"waveform": item[start : start + STEP]},
                {"beam_size": 1},
                stream_id=number,
                starts=start == 0,
                ends=start + STEP >= len(item),
            )
            for number, item in enumerate(waveforms, 1)
            if start < len(item)
        ]
        encoded: Any = encoder(rows)
        frames = [replace(row, inputs=found) for row, found in zip(rows, encoded, strict=True)]
        last.update(zip((int(row.stream_id) for row in rows), decoder(frames), strict=True))
    encoder.close()
    decoder.close()
    return [last[number] for number in sorted(last)]


def check(found: list[Any], expected: list[Any], frame_s: float) -> None:
    texts = [item["hypotheses"][0].decode() for item in found]
    assert texts == [" ".join(item.text.split()) for item in expected]
    assert len(set(texts)) == len(texts) and all(len(text.split()) > 5 for text in texts)
    for item, peer in zip(found, expected, strict=True):
        starts = item["word_starts"][: item["num_words"][0]]
        assert len(starts) == len(peer.text.split())
        times = {round(time / frame_s) for time in peer.timestamps}
        assert {round(time / frame_s) for time in starts} <= times


@pytest.mark.parametrize("kind", WHOLE)
def test_both_write_the_same_of_recordings(tmp_path, waveforms, kind):
    folder = getattr(ctc_toys, kind)(tmp_path / kind, seed=3)
    (model,) = [path for path in folder.glob("*.onnx") if "streaming" not in path.name]
    recognizer = WHOLE[kind](str(model), str(folder / "tokens.txt"), num_threads=1)
    if kind == "wenet":  # to which the peer adds noise of one bit
        random = np.random.default_rng(0)
        waveforms = [
            (item + random.normal(0, 0.03, len(item))).astype(np.float32) for item in waveforms
        ]
    expected = []
    for waveform in waveforms:
        stream = recognizer.create_stream()
        stream.accept_waveform(16_000, waveform)
        recognizer.decode_stream(stream)
        expected.append(stream.result)
    found = recorded(folder, waveforms)
    if kind != "wenet":
        check(found, expected, 0.02 if kind == "waveform" else 0.04)
        return
    for item, peer in zip(found, expected, strict=True):
        texts = item["hypotheses"][0].decode(), " ".join(peer.text.split())
        assert SequenceMatcher(None, *texts, autojunk=False).ratio() > 0.95


def test_live_audio_of_nemo_is_written_as_by_the_script_of_the_peer(tmp_path, waveforms):
    """Its library takes Kaldi's features for it, with which no such model is trained."""
    folder = ctc_toys.nemo_live(tmp_path / "toy", seed=3)
    known = [line.split()[0] for line in (folder / "tokens.txt").read_text().splitlines()]
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    for waveform, found in zip(waveforms, live(folder, waveforms), strict=True):
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
            kinds = [np.float32, np.int64, np.float32, np.float32, np.int64]
            values = [chunk, np.array([41]), *feed.values()]
            sent = {n: v.astype(k) for n, v, k in zip(names, values, kinds, strict=True)}
            log_probs, _, *after = session.run(None, sent)
            feed = dict(zip(names[2:], after, strict=True))
            path += log_probs[0].argmax(axis=1).tolist()
        units = [unit for unit, _ in groupby(path) if unit != 39]
        text = "".join(known[unit] for unit in units).replace("▁", " ").strip()
        assert found["hypotheses"][0].decode() == text
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
    model = sorted(folder.glob("*.onnx"))[0]
    recognizer = LIVE[kind](str(folder / "tokens.txt"), str(model), num_threads=1)
    expected = []
    for waveform in waveforms:
        stream = recognizer.create_stream()
        for start in range(0, len(waveform), STEP):
            stream.accept_waveform(16_000, waveform[start : start + STEP])
            while recognizer.is_ready(stream):
                recognizer.decode_stream(stream)
        # As its examples do.
        stream.accept_waveform(16_000, np.zeros(int(0.66 * 16_000), np.float32))
        stream.input_finished()
        while recognizer.is_ready(stream):
            recognizer.decode_stream(stream)
        expected.append(recognizer.get_result_all(stream))
    check(live(folder, waveforms), expected, 0.04)
    if kind == "icefall_live":
        texts = [item.text.strip() for item in expected]
        found = recorded(folder, waveforms)
        assert [item["hypotheses"][0].decode() for item in found] == texts


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_both_write_the_same_with_real_weights(tmp_path):
    """The model that ships, as a network that hears normalised samples."""
    from lab.training.ctc.waveform_graph import waveform_graph

    graph = Graph()
    x = graph.takes("x", 1, "S")
    graph.gives(graph.op("Reshape", x, graph.ints(-1)), "waveform", "S")
    size = graph.op("Cast", graph.op("Shape", x, start=1, end=2), to=TensorProto.INT32)
    graph.gives(graph.op("Reshape", size, graph.ints(1, 1)), "sizes", 1, 1, kind=TensorProto.INT32)
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
    recognizer = WHOLE["waveform"](*(str(tmp_path / name) for name in ("model.onnx", "tokens.txt")))
    spoken = [item.waveform() for item in recordings_of(Path(__file__).parents[2] / "data")]
    expected = []
    for item in spoken:
        stream = recognizer.create_stream()
        stream.accept_waveform(16_000, item)
        recognizer.decode_stream(stream)
        expected.append(" ".join(stream.result.text.split()))
    found = [item["hypotheses"][0].decode() for item in recorded(tmp_path, spoken)]
    assert found == expected
    assert sum(len(text.split()) for text in found) > 50

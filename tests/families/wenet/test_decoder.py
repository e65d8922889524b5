"""Folders as WeNet exports them, against the same weights in PyTorch, frame by frame."""

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import kaldi_native_fbank as knf
import numpy as np
import onnx
import pytest
import torch
import wenet_toys
from recordings import recordings_of

from conch.component import Row
from conch.decoding.streaming_decoder import StreamingDecoder
from conch.decoding.vocab import vocab_of
from conch.families.search.graphs import (
    DecoderConfig,
    LiveConfig,
    LiveDecoderConfig,
    RecordingsConfig,
)
from conch.families.wenet.decoder import WenetDecoder
from conch.families.wenet.networks import (
    WenetEncoder,
    WenetGraph,
    WenetStreamingEncoder,
    opened_folder,
    vocabulary_of,
)
from conch.wire.errors import ConfigError, OptionError

MODEL = wenet_toys.U2pp(1)
KINDS = {
    "gpu": lambda folder: wenet_toys.gpu(folder, MODEL, is_live=False),
    "gpu_live": lambda folder: wenet_toys.gpu(folder, MODEL, is_live=True),
    "cpu": lambda folder: wenet_toys.cpu(folder, MODEL),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("wenet")
    return {name: made(root / name) for name, made in KINDS.items()}


@pytest.fixture(scope="module")
def waveforms() -> list[np.ndarray]:
    found = recordings_of(Path(__file__).parents[2] / "data")
    return [
        item.waveform()[: 16_000 * seconds] for item, seconds in zip(found, (3, 2, 3), strict=False)
    ]


def features_of(waveform: np.ndarray) -> torch.Tensor:
    """Return what WeNet hears: Kaldi's features with their default settings, without noise."""
    options = knf.FbankOptions()
    options.frame_opts.dither = 0.0
    options.mel_opts.num_bins = 80
    fbank = knf.OnlineFbank(options)
    fbank.accept_waveform(16_000, (waveform * 32_768).tolist())
    fbank.input_finished()
    return torch.tensor(np.array([fbank.get_frame(n) for n in range(fbank.num_frames_ready)]))


def hidden_of(kind: str, waveform: np.ndarray) -> torch.Tensor:
    first = wenet_toys.CHUNK * wenet_toys.LEFT if kind == "cpu" else 0
    return MODEL.whole(features_of(waveform), None if kind == "gpu" else wenet_toys.LEFT, first)


@cache
def encoder_of(folder: Path) -> WenetEncoder:
    return WenetEncoder(RecordingsConfig(model=str(folder), intra_threads=1))


def encoded(folder: Path, waveforms: list[np.ndarray]) -> list[Any]:
    return [*encoder_of(folder)([Row({"waveform": item}) for item in waveforms])]


def searched(log_probs: torch.Tensor, beam_size: int) -> dict[tuple[int, ...], float]:
    """Return the best texts of the prefix beam search of WeNet's papers, as units, with scores."""
    beam: dict[tuple[int, ...], list[float]] = {(): [0.0, -np.inf]}
    for row in log_probs.double().numpy():
        grown: dict[tuple[int, ...], list[float]] = {}

        def add(prefix, place, score, grown=grown):
            pair = grown.setdefault(prefix, [-np.inf, -np.inf])
            pair[place] = np.logaddexp(pair[place], score)

        for unit in np.argsort(-row)[:beam_size].tolist():
            for prefix, (blank, other) in beam.items():
                total = np.logaddexp(blank, other) + row[unit]
                if unit == 0:
                    add(prefix, 0, total)
                elif prefix and prefix[-1] == unit:
                    add(prefix, 1, other + row[unit])
                    add((*prefix, unit), 1, blank + row[unit])
                else:
                    add((*prefix, unit), 1, total)
        ranked = sorted(grown.items(), key=lambda item: -np.logaddexp.reduce(item[1]))
        beam = dict(ranked[:beam_size])
    return {prefix: float(np.logaddexp.reduce(pair)) for prefix, pair in beam.items()}


@cache
def decoder_of(folder: Path) -> WenetDecoder:
    return WenetDecoder(DecoderConfig(model=str(folder)))


def written(folder: Path, frames: Any, **parameters: Any) -> Any:
    (found,) = decoder_of(folder)([Row(frames, {"beam_size": 16, **parameters})])
    assert not isinstance(found, Exception), found
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_those_of_the_model(folders, waveforms, kind):
    found = encoded(folders[kind], waveforms)
    for waveform, item in zip(waveforms, found, strict=True):
        hidden, frames = hidden_of(kind, waveform), item["frames"]
        assert item["frames_lens"].tolist() == [len(hidden)] == [len(frames)]
        units, heard = np.split(frames, [wenet_toys.UNITS], axis=1)
        np.testing.assert_allclose(heard, hidden.numpy(), atol=1e-3)
        expected = MODEL.log_probs(hidden).numpy()
        is_told = np.ones_like(units, bool)
        if kind == "gpu_live":  # which tells the best units alone
            is_told = expected >= np.sort(expected)[:, -wenet_toys.BEAM, None] - 1e-3
            np.testing.assert_allclose(np.exp(units).sum(axis=1), 1, rtol=1e-4)
        np.testing.assert_allclose(units[is_told], expected[is_told], atol=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_those_of_the_search_and_of_both_decoders(folders, waveforms, kind):
    vocab = vocab_of(vocabulary_of(opened_folder(DecoderConfig(model=str(folders[kind])))))
    weight, count = (0.5, 10) if kind == "cpu" else (wenet_toys.CTC_WEIGHT, wenet_toys.BEAM)
    changes = 0
    for waveform, frames in zip(waveforms, encoded(folders[kind], waveforms), strict=True):
        hidden = hidden_of(kind, waveform)
        by_ctc = searched(MODEL.log_probs(hidden), 16)
        ranked = sorted(by_ctc, key=by_ctc.get, reverse=True)
        scores = {
            vocab.text_of(units): MODEL.score(hidden, [*units]) + weight * by_ctc[units]
            for units in ranked[:count]
        }
        first = written(folders[kind], frames)
        assert first["hypotheses"][0].decode() == vocab.text_of(ranked[0])
        found = written(folders[kind], frames, own_rescore=True, nbest=3)
        texts = [text.decode() for text in found["hypotheses"]]
        assert texts[0] == max(scores, key=scores.get)
        np.testing.assert_allclose(found["scores"], [scores[text] for text in texts], atol=0.1)
        assert [*found["scores"]] == sorted(found["scores"], reverse=True)
        spoken = found["words"][: found["num_words"][0]]
        assert b" ".join(spoken) == found["hypotheses"][0]
        changes += texts[0] != vocab.text_of(ranked[0])
    assert changes


def live(folder: Path, waveforms: list[np.ndarray], **parameters: Any) -> list[Any]:
    """Return what is found in streams that are heard at the same time, piece by piece."""
    encoder = WenetStreamingEncoder(LiveConfig(model=str(folder)))
    decoder = StreamingDecoder(WenetDecoder(LiveDecoderConfig(model=str(folder))), 90.0)
    last = dict[int, Any]()
    for start in range(0, max(map(len, waveforms)), 5_120):
        rows = [
            Row(
                {"waveform": item[start : start + 5_120]},
                {"beam_size": 16, "nbest": 3, **parameters},
                stream_id=number,
                starts=start == 0,
                ends=start + 5_120 >= len(item),
            )
            for number, item in enumerate(waveforms, 1)
            if start < len(item)
        ]
        heard: Any = encoder(rows)
        for row, item, answer in zip(
            rows,
            heard,
            decoder([replace(row, inputs=item) for row, item in zip(rows, heard, strict=True)]),
            strict=True,
        ):
            assert not isinstance(answer, Exception), answer
            assert item["speech_probs"].shape == item["frames_lens"]
            assert row.ends or item["behind_samples"] > 0
            last[int(row.stream_id)] = answer
    assert (len(encoder), len(decoder)) == (0, 0)
    return [last[number] for number in sorted(last)]


@pytest.mark.parametrize("kind", ["gpu_live", "cpu"])
@pytest.mark.parametrize("is_rescored", [False, True])
def test_pieces_are_heard_as_the_whole(folders, waveforms, kind, is_rescored):
    found = live(folders[kind], waveforms, own_rescore=is_rescored)
    for frames, item in zip(encoded(folders[kind], waveforms), found, strict=True):
        whole = written(folders[kind], frames, nbest=3, own_rescore=is_rescored)
        assert item["hypotheses"].tolist() == whole["hypotheses"].tolist()
        np.testing.assert_allclose(item["scores"], whole["scores"], atol=1e-2)
        np.testing.assert_allclose(item["word_starts"], whole["word_starts"], atol=1e-4)


@pytest.mark.parametrize(
    ("made", "behind"),
    [
        (lambda folder: wenet_toys.gpu(folder, MODEL, is_live=True, has_all=True, share=0.0), 2),
        (lambda folder: wenet_toys.cpu(folder, MODEL, left=-1), 1_000),
        (lambda folder: wenet_toys.cpu(folder, MODEL, chunk=-1, left=-1), None),
    ],
    ids=["all units, read from the left alone", "all that was heard", "recordings alone"],
)
def test_other_settings_of_an_export(tmp_path, waveforms, made, behind):
    folder, waveform = made(tmp_path), waveforms[0]
    hidden = MODEL.whole(features_of(waveform), behind)
    (frames,) = encoded(folder, [waveform])
    np.testing.assert_allclose(frames["frames"][:, wenet_toys.UNITS :], hidden, atol=1e-3)
    expected = MODEL.log_probs(hidden)
    np.testing.assert_allclose(frames["frames"][:, : wenet_toys.UNITS], expected, atol=1e-2)
    first, again = (written(folder, frames, own_rescore=asks) for asks in (False, True))
    assert first["scores"][0] > again["scores"][0]
    if behind is None:
        encoder = WenetStreamingEncoder(LiveConfig(model=str(folder)))
        with pytest.raises(OptionError, match="'decoder' cannot be wenet for live audio here"):
            encoder([Row({"waveform": waveform}, stream_id=1, starts=True)])


def test_hotwords_and_audio_without_a_frame(folders, waveforms):
    (frames,) = encoded(folders["cpu"], waveforms[:1])
    best, *others = written(folders["cpu"], frames, own_rescore=True, nbest=10)["hypotheses"]
    wanted = next(word for text in others for word in text.split() if word not in best.split())
    asked = {"own_rescore": True, "hotwords": f"{wanted.decode()}:100"}
    assert wanted in written(folders["cpu"], frames, **asked)["hypotheses"][0].split()
    (nothing,) = encoded(folders["cpu"], [np.zeros(100, np.float32)])
    assert written(folders["cpu"], nothing, own_rescore=True)["hypotheses"].tolist() == [b""]


def test_a_greedy_search_would_leave_nothing_to_choose(folders, waveforms):
    (frames,) = encoded(folders["cpu"], waveforms[:1])
    asked = {"own_rescore": True, "nbest": 10}
    found = [written(folders["cpu"], frames, beam_size=size, **asked) for size in (1, 10)]
    assert found[0]["hypotheses"].tolist() == found[1]["hypotheses"].tolist()
    assert len(found[0]["hypotheses"]) == 10


def test_a_lone_text_has_the_score_of_the_attention_decoders(folders):
    log_probs = np.full((3, wenet_toys.UNITS), -1_000, np.float32)
    log_probs[[0, 1, 2], [0, 5, 0]] = 0
    hidden = np.ones((3, wenet_toys.SIZE), np.float32)
    frames = {"frames": np.concatenate([log_probs, hidden], 1), "frames_lens": np.array([3])}
    found = written(folders["cpu"], frames, own_rescore=True, nbest=10)
    assert len(found["hypotheses"]) == 1
    expected = MODEL.score(torch.tensor(hidden), [5])
    np.testing.assert_allclose(found["scores"], [expected], atol=0.1)
    assert found["am_scores"][0] > expected + 1


def test_weights_of_the_decoders_may_be_links(folders, waveforms, tmp_path):
    expected = written(folders["gpu"], encoded(folders["gpu"], waveforms[:1])[0], own_rescore=True)
    folder = shutil.copytree(folders["gpu"], tmp_path / "toy")
    for path in [*folder.glob("*.onnx")]:
        data = f"{path.name}.data"
        network = onnx.load(path)
        onnx.save(network, path, save_as_external_data=True, location=data, size_threshold=0)
        (folder / data).rename(tmp_path / data)
        (folder / data).symlink_to(tmp_path / data)
    found = written(folder, encoded(folder, waveforms[:1])[0], own_rescore=True)
    assert found["hypotheses"].tolist() == expected["hypotheses"].tolist()
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-5)


def test_runs_side_by_side_share_the_threads(folders):
    graph = WenetGraph(opened_folder(DecoderConfig(model=str(folders["cpu"]))), 4)
    assert graph._ctc.get_session_options().intra_op_num_threads == 3


def test_what_is_refused(folders, waveforms, tmp_path):
    decoder = WenetDecoder(DecoderConfig(model=str(folders["cpu"]), language="zh"))
    (refused,) = decoder([Row(encoded(folders["cpu"], waveforms[:1])[0], {"language": "de"})])
    assert isinstance(refused, OptionError)
    assert "'language' takes auto or zh with this model of WeNet; sent: 'de'" in str(refused)
    path = shutil.copytree(folders["gpu"], tmp_path / "toy") / "decoder.onnx"
    model = onnx.load(path)
    (node,) = [node for node in model.graph.node if node.op_type == "ArgMax"]
    node.op_type = "ArgMin"
    onnx.save(model, path)
    with pytest.raises(ConfigError, match="does not find best_index by ArgMax"):
        WenetDecoder(DecoderConfig(model=str(path.parent)))
    path.unlink()
    with pytest.raises(ConfigError, match=r"is no model of WeNet: it lacks decoder\.onnx;"):
        WenetDecoder(DecoderConfig(model=str(path.parent)))

"""Folders of transducers: what is found in them, and what is refused before a server starts."""

import shutil
from pathlib import Path

import nemo_toys
import numpy as np
import onnx
import pytest
import transducer_toys
from onnx import TensorProto, helper
from onnx_metadata import change_metadata

from conch.catalogue.checks import ModelSummary, UnfitModelError
from conch.families.transducer.folder import check_transducer, read_transducer

NEMO = ("rnnt", "tdt", "streaming", "unified")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return transducer_toys.lstm(tmp_path / "lstm")


def test_what_a_streaming_folder_is(tmp_path):
    folder = transducer_toys.zipformer2(tmp_path / "toy")
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert check_transducer(folder) == ModelSummary(
        None,
        size,
        family="transducer (zipformer2)",
        features="80 mel filters of Kaldi, every 10 ms",
        units=40,
        is_live=True,
    )
    found = read_transducer(folder)
    assert (found.encoder.chunk, found.encoder.shift, found.context_size) == (45, 32, 2)
    axes = [item.axis for item in found.encoder.states]
    assert axes == [1, 1, 1, 1, 0, 0, 0, 0]
    assert found.encoder.states[1].shape == (1, 1, 16, 24)
    assert not any(item.counts for item in found.encoder.states)
    assert found.tokens[:4] == ("<blk>", "<sos/eos>", "<unk>", "▁ba")


def test_what_a_conformer_does_not_count_itself(tmp_path):
    found = read_transducer(transducer_toys.conformer(tmp_path / "toy"))
    assert [(item.axis, item.counts) for item in found.encoder.states] == [
        (2, 0),
        (2, 0),
        (0, 32),
    ]


def test_a_folder_for_recordings_has_no_states(tmp_path):
    found = read_transducer(transducer_toys.offline(tmp_path / "toy"))
    assert not found.encoder.is_live
    assert found.encoder.states == ()


def test_what_folders_of_nemo_are(tmp_path):
    folders = {kind: getattr(nemo_toys, kind)(tmp_path / kind) for kind in NEMO}
    found = {kind: check_transducer(folder) for kind, folder in folders.items()}
    assert [item.family for item in found.values()] == [
        "transducer (NeMo RNN-T)",
        "transducer (NeMo TDT)",
        "transducer (NeMo RNN-T)",
        "transducer (NeMo RNN-T)",
    ]
    assert {item.features for item in found.values()} == {"80 mel filters of NeMo, every 10 ms"}
    assert [item.is_live for item in found.values()] == [False, False, True, True]
    live = read_transducer(folders["streaming"])
    assert (live.encoder.chunk, live.encoder.shift) == (25, 16)
    assert (live.blank, live.frame_s) == (39, 0.08)
    assert [item.shape for item in live.encoder.states] == [(1, 2, 6, 32), (1, 2, 32, 4), (1,)]


def test_the_prompts_of_a_folder(tmp_path):
    found = read_transducer(nemo_toys.prompted(tmp_path))
    # A code without a region goes first, then the first region.
    assert found.encoder.prompts == {"en": 0, "auto": 101, "ja": 10, "zh": 4}
    assert [item.name for item in found.encoder.states if item.is_fixed] == ["prompt_index"]


@pytest.mark.parametrize(
    ("kind", "metadata", "message"),
    [
        ("rnnt", {"normalize_type": "all_features"}, "takes features of another kind than NeMo's"),
        ("rnnt", {"is_giga_am": "1"}, "takes features of another kind than NeMo's"),
        ("rnnt", {"vocab_size": "30"}, r"joiner\.onnx writes 40 units, and its encoder\.onnx sa"),
        ("tdt", {"vocab_size": "44"}, r"joiner\.onnx writes 45 units and durations, and its enc"),
        ("rnnt", {"pred_rnn_layers": ""}, "have no number 'pred_rnn_layers'"),
        ("prompted", {"prompt_dictionary": ""}, "have no prompt_dictionary with auto"),
        ("prompted", {"prompt_dictionary": "[101]"}, "have no prompt_dictionary with auto"),
        ("prompted", {"prompt_dictionary": '{"en": 0}'}, "have no prompt_dictionary with auto"),
        ("unified", {"right_feature_frames": "0"}, "have no number 'right_feature_frames'"),
        ("streaming", {"cache_last_time_dim2": ""}, "have no number 'cache_last_time_dim2'"),
    ],
)
def test_metadata_of_another_nemo(tmp_path, kind, metadata, message):
    folder = getattr(nemo_toys, kind)(tmp_path)
    change_metadata(folder / "encoder.onnx", **metadata)
    with pytest.raises(UnfitModelError, match=message):
        check_transducer(folder)


def test_a_decoder_and_tokens_that_are_not_nemos(tmp_path, folder):
    nemo = nemo_toys.rnnt(tmp_path / "nemo")
    lines = [f"t{n} {n}\n" for n in range(1, 40)]
    (nemo / "tokens.txt").write_text("".join(["<blk> 0\n", *lines]))
    with pytest.raises(UnfitModelError, match="is unit 0; that of such a model is unit 39"):
        check_transducer(nemo)
    asked = nemo_toys.streaming(tmp_path / "asked") / "encoder.onnx"
    model = onnx.load(asked)
    model.graph.input.append(helper.make_tensor_value_info("spk_targets", TensorProto.INT64, [1]))
    onnx.save(model, asked)
    with pytest.raises(UnfitModelError, match="takes spk_targets too, which is not known"):
        check_transducer(asked.parent)
    shutil.copy(folder / "decoder.onnx", nemo / "decoder.onnx")
    with pytest.raises(
        UnfitModelError, match="takes y; that of NeMo takes a unit, a length and two"
    ):
        check_transducer(nemo)


def test_which_file_is_taken(folder):
    shutil.copy(folder / "joiner.onnx", folder / "joiner.int8.onnx")
    (folder / "encoder.fp16.onnx").write_bytes(b"")
    assert read_transducer(folder).parts["joiner"].name == "joiner.onnx"
    int8 = read_transducer(folder, "int8")
    assert [path.name for path in int8.parts.values()] == [
        "encoder.onnx",
        "decoder.onnx",
        "joiner.int8.onnx",
    ]


def test_folders_inside_as_vosk_has_them(folder):
    for name, inside in (("am-onnx", "*.onnx"), ("lang", "tokens.txt")):
        (folder / name).mkdir()
        for path in folder.glob(inside):
            path.rename(folder / name / path.name)
    found = read_transducer(folder)
    assert {path.parent.name for path in found.parts.values()} == {"am-onnx"}
    assert check_transducer(folder).size > 50_000


def test_several_files_for_one_part(folder):
    shutil.copy(folder / "encoder.onnx", folder / "encoder-epoch-20.onnx")
    with pytest.raises(UnfitModelError, match=r"for the encoder: encoder-epoch-20\.onnx, enc"):
        check_transducer(folder)


@pytest.mark.parametrize("lacking", ["encoder", "decoder", "joiner", "tokens"])
def test_half_a_folder(folder, lacking):
    (path,) = folder.glob(f"{lacking}*")
    path.unlink()
    with pytest.raises(UnfitModelError, match=rf"^it lacks {lacking}\S*; a transducer has enc"):
        check_transducer(folder)


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x08\x0a"])
def test_a_file_that_is_no_model(folder, content):
    (folder / "encoder.onnx").write_bytes(content)
    with pytest.raises(UnfitModelError, match=r"^its encoder\.onnx is no ONNX model: "):
        check_transducer(folder)


@pytest.mark.parametrize(
    ("part", "metadata", "message"),
    [
        ("encoder", {"model_type": "wavlm"}, "has model_type 'wavlm'; those served are zipf"),
        ("encoder", {"feature": "whisper"}, "takes features of 'whisper', not of Kaldi"),
        ("encoder", {"T": ""}, r"metadata of its encoder\.onnx have no number 'T'"),
        ("decoder", {"context_size": "two"}, "have no number 'context_size'"),
        ("decoder", {"vocab_size": "500"}, r"joiner\.onnx writes 40 units and .* reads 500"),
    ],
)
def test_metadata_of_another_model(folder, part, metadata, message):
    change_metadata(folder / f"{part}.onnx", **metadata)
    with pytest.raises(UnfitModelError, match=message):
        check_transducer(folder)


def test_weights_beside_the_file(folder):
    onnx.save(
        onnx.load(folder / "joiner.onnx"),
        folder / "joiner.onnx",
        save_as_external_data=True,
        location="joiner.weights",
        size_threshold=0,
    )
    assert check_transducer(folder).units == 40
    (folder / "joiner.weights").unlink()
    message = r"^it lacks joiner\.weights, which holds weights of joiner\.onnx"
    with pytest.raises(UnfitModelError, match=message):
        check_transducer(folder)


def test_float16_needs_another_machine(folder):
    model = onnx.load(folder / "encoder.onnx")
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.save(model, folder / "encoder.onnx")
    with pytest.raises(UnfitModelError, match="takes float16, which needs a GPU: export it in"):
        check_transducer(folder)


def test_a_state_of_unknown_size(folder):
    model = onnx.load(folder / "encoder.onnx")
    model.graph.input[1].type.tensor_type.shape.dim[2].dim_param = "D"
    onnx.save(model, folder / "encoder.onnx")
    with pytest.raises(UnfitModelError, match=r"takes h\[1, 'N', 'D'\], whose sizes are not known"):
        check_transducer(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<blk> 0\na 1\n", "has 2 units and its joiner writes 40"),
        ("".join(f"t{n} {n}\n" for n in range(41)), "has 41 units and its joiner writes 40"),
        ("".join(f"t{n} {n + 1}\n" for n in range(40)), "has 40 units and its joiner writes 40"),
        ("a b c\n", "line 1 of its tokens.txt is no symbol and number"),
        ("".join(f"t{n} {n}\n" for n in range(39)) + "<blk> 39\n", "is unit 39; that of such a"),
    ],
)
def test_tokens_of_another_model(folder, text, message):
    (folder / "tokens.txt").write_text(text)
    with pytest.raises(UnfitModelError, match=message):
        check_transducer(folder)


def test_tokens_as_they_are_found(folder):
    lines = [
        "<eps> 0",
        "\u3000 1",
        " 2",
        "\t3 3",
        *(f"t{n} {n}" for n in range(4, 40)),
        "#0 40",
        "",
    ]
    (folder / "tokens.txt").write_text("\r\n".join(lines), "utf-8")
    assert read_transducer(folder).tokens[:5] == ("<eps>", "\u3000", " ", "3", "t4")


def test_int8_is_seen(folder):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])]
    nodes.append(helper.make_node("Identity", ["s"], ["y"]))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    weight = onnx.numpy_helper.from_array(np.zeros(1, np.float32), "w")
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    (folder / "joiner.onnx").unlink()
    onnx.save(helper.make_model(graph), folder / "joiner.int8.onnx")
    assert read_transducer(folder).headers["joiner"].is_int8

"""Folders of CTC models: what is found in them, and what is refused before a server starts."""

import json
import shutil
from pathlib import Path

import ctc_toys
import pytest
import transducer_toys
from onnx_metadata import change_metadata

from conch.catalogue.checks import UnfitModelError
from conch.catalogue.models import detect
from conch.families.ctc.encoder import CtcEncoderConfig, opened_folder
from conch.families.ctc.folder import check_ctc, read_ctc
from conch.wire.errors import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return ctc_toys.icefall(tmp_path / "toy")


@pytest.mark.parametrize(
    ("kind", "family", "features", "is_live", "frame_ms", "blank"),
    [
        ("icefall", "CTC (zipformer2_ctc)", "80 mel filters of Kaldi, every 10 ms", False, 40, 0),
        ("icefall_live", "CTC (zipformer2)", "80 mel filters of Kaldi, every 10 ms", True, 40, 0),
        ("wenet", "CTC (wenet_ctc)", "80 mel filters of Kaldi, every 10 ms", True, 40, 0),
        ("nemo", "CTC (EncDecCTCModelBPE)", "80 mel filters of NeMo, every 10 ms", False, 40, 39),
        (
            *("nemo_live", "CTC (EncDecHybridRNNTCTCBPEModel)"),
            *("80 mel filters of NeMo, every 10 ms", True, 40, 39),
        ),
        ("waveform", "CTC (waveform)", "the waveform", False, 20, 0),
        ("omnilingual", "CTC (omnilingual-asr)", "the waveform", False, 20, 0),
        ("medasr", "CTC (medasr_ctc)", "128 mel filters of MedASR, every 10 ms", False, 40, 0),
        ("dolphin", "CTC (dolphin)", "80 mel filters of Dolphin, every 10 ms", False, 40, 0),
        (
            *("telespeech", "CTC (telespeech_ctc)"),
            *("40 cepstral coefficients of Kaldi, every 10 ms", False, 40, 0),
        ),
        (
            *("fire_red", "CTC (fire-red-asr-2-ctc)"),
            *("80 mel filters of Kaldi, every 10 ms", False, 40, 0),
        ),
    ],
)
def test_what_a_folder_is(tmp_path, kind, family, features, is_live, frame_ms, blank):
    folder = getattr(ctc_toys, kind)(tmp_path / "toy")
    found, path, model = detect(str(folder))
    assert (found.name, path) == ("ctc", folder)
    assert (model.family, model.features, model.units) == (family, features, 40)
    assert model.is_live == is_live
    read = read_ctc(folder)
    assert (read.frame_ms, read.blank) == (frame_ms, blank)


def test_a_folder_with_an_encoder_for_each(tmp_path):
    found = read_ctc(ctc_toys.wenet(tmp_path / "toy"))
    assert found.recordings.path.name == "model.onnx"
    assert found.live is not None and found.live.path.name == "model-streaming.onnx"
    assert (found.live.chunk, found.live.shift, found.live.left) == (67, 64, 64)
    change_metadata(tmp_path / "toy" / "model.onnx", subsampling_factor="8")
    with pytest.raises(UnfitModelError, match=r"a frame for 8 .* for 4: they are of different"):
        check_ctc(tmp_path / "toy")


def test_the_symbols_of_wav2vec2(tmp_path):
    folder = ctc_toys.waveform(tmp_path / "toy")
    (folder / "tokens.txt").unlink()
    symbols = ["<pad>", "<s>", "</s>", "<unk>", "|", *(chr(65 + n) for n in range(35))]
    (folder / "vocab.json").write_text(json.dumps({text: n for n, text in enumerate(symbols)}))
    found = read_ctc(folder)
    assert (found.blank, found.tokens[:6]) == (0, ("<pad>", "<s>", "</s>", "<unk>", " ", "A"))
    assert found.recordings.is_normalised
    (folder / "preprocessor_config.json").write_text('{"do_normalize": false}')
    assert not read_ctc(folder).recordings.is_normalised
    (folder / "model_q4.onnx").write_bytes(b"")
    assert check_ctc(folder).units == 40
    (folder / "vocab.json").write_text(json.dumps({"<pad>": 0, "A": 1}))
    with pytest.raises(
        UnfitModelError, match=r"vocab\.json has 2 units and its model\.onnx writes 40"
    ):
        check_ctc(folder)
    for text in ("[]", '{"eng": {"<pad>": 0}}', '{"<pad>": "0"}'):
        (folder / "vocab.json").write_text(text)
        with pytest.raises(UnfitModelError, match=r"vocab\.json is no list of symbols"):
            check_ctc(folder)


def test_the_blank_of_wav2vec2(tmp_path):
    folder = ctc_toys.waveform(tmp_path / "toy")
    (folder / "tokens.txt").unlink()

    def blank_of(*last: str) -> str:
        symbols = ["a", "b", "|", *(chr(0x3B1 + n) for n in range(37 - len(last))), *last]
        (folder / "vocab.json").write_text(json.dumps({text: n for n, text in enumerate(symbols)}))
        found = read_ctc(folder)
        return found.tokens[found.blank]

    assert blank_of("[UNK]", "[PAD]") == "<PAD>"
    (folder / "special_tokens_map.json").write_text('{"pad_token": {"content": "~"}}')
    assert blank_of("<pad>", "~") == "~"
    assert blank_of("[PAD]") == "<PAD>"
    with pytest.raises(UnfitModelError, match=r"vocab\.json has no blank, <blk>, .* or \[PAD\]"):
        blank_of("~~")


def test_which_file_is_taken(folder):
    plain = next(folder.glob("*.onnx"))
    shutil.copy(plain, folder / "model.int8.onnx")
    (folder / "model_fp16.onnx").write_bytes(b"")
    assert read_ctc(folder).recordings.path == plain
    assert read_ctc(folder, "int8").recordings.path.name == "model.int8.onnx"
    shutil.copy(plain, folder / "other.onnx")
    with pytest.raises(UnfitModelError, match="several files for the model of recordings: ctc-ep"):
        check_ctc(folder)


@pytest.mark.parametrize("lacking", ["*.onnx", "tokens.txt"])
def test_half_a_folder(folder, lacking):
    next(folder.glob(lacking)).unlink()
    with pytest.raises(UnfitModelError, match=r"^it lacks .*; a CTC model has one \.onnx file"):
        check_ctc(folder)


def test_a_transducer_is_no_ctc(tmp_path):
    with pytest.raises(UnfitModelError, match=r"^it has decoder\.onnx, and a CTC model is one"):
        check_ctc(transducer_toys.lstm(tmp_path / "toy"))


@pytest.mark.parametrize(
    ("kind", "metadata", "message"),
    [
        ("icefall", {"model_type": "paraformer"}, "model_type 'paraformer'; those served are zipf"),
        ("icefall", {"model_type": ""}, "has model_type ''; those served are zipformer2_ctc, zipf"),
        ("icefall", {"feature": "whisper"}, "takes features of 'whisper', not of Kaldi"),
        ("nemo", {"is_giga_am": "1"}, "takes features of another kind than NeMo's"),
        ("nemo", {"normalize_type": "all"}, "takes features of another kind than NeMo's"),
        ("nemo", {"subsampling_factor": ""}, "have no number 'subsampling_factor'"),
        ("dolphin", {"mean": "1,2"}, "have no 80 numbers 'mean'"),
        ("fire_red", {"cmvn_inv_stddev": "high"}, "have no 80 numbers 'cmvn_inv_stddev'"),
    ],
)
def test_metadata_of_another_model(tmp_path, kind, metadata, message):
    folder = getattr(ctc_toys, kind)(tmp_path / "toy")
    change_metadata(next(folder.glob("*.onnx")), **metadata)
    with pytest.raises(UnfitModelError, match=message):
        check_ctc(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<blk> 0\na 1\n", r"has 2 units and its ctc-epoch-1-avg-1\.onnx writes 40"),
        ("".join(f"t{n} {n}\n" for n in range(40)), "has no blank, <blk>, <blank>, <eps>"),
        (
            "<blk> 0\n" + "".join(f"t{n % 38} {n}\n" for n in range(1, 40)),
            r"tokens\.txt has 2 units 't",
        ),
    ],
)
def test_tokens_of_another_model(folder, text, message):
    (folder / "tokens.txt").write_text(text)
    with pytest.raises(UnfitModelError, match=message):
        check_ctc(folder)


def test_parameters_that_do_not_go_with_a_folder(folder):
    for settings, message in (
        ({"precision": "int4"}, "'precision' takes float32 or int8; is: 'int4'"),
        ({"device": "cuda"}, "runs on a CPU alone"),
    ):
        with pytest.raises(ConfigError, match=message):
            opened_folder(CtcEncoderConfig(model=str(folder), **settings))

"""What cannot be converted is refused at once; a small random Whisper goes all the way."""

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from whisper_toys import whisper_toy

from conch.catalogue.checks import check_folder
from conch.catalogue.convert import convert
from conch.catalogue.models import KINDS, find
from conch.cli.models import QUANTIZATIONS
from conch.component import Row
from conch.families.whisper import TINY_EN
from conch.families.whisper.encoder import WhisperEncoder, WhisperEncoderConfig
from conch.packaged import install
from conch.wire.errors import ConfigError


def ignore(text: str) -> None:
    pass


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a folder that passes for a Whisper in Hugging Face's format until it is read."""
    folder = tmp_path / "hf"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "whisper"}')
    return folder


NO_CONFIG = r"not in Hugging Face's format: its config\.json can"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"model_type": "wav2vec2"}', r"hf is no Whisper: .* has model_type 'wav2vec2'$"),
        ("", NO_CONFIG),
        ("[]", NO_CONFIG),
    ],
)
def test_the_config_of_another_kind_of_model_or_none(
    source: Path, models: Path, text: str, message: str
) -> None:
    (source / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=message):
        convert(str(source), "", "float16", ignore)


def test_one_that_is_converted_already(tmp_path: Path, models: Path) -> None:
    folder = whisper_toy(tmp_path / "toy")
    with pytest.raises(ConfigError, match=f"already: conch serve --whisper {folder}$"):
        convert(str(folder), "", "float16", ignore)


@pytest.mark.parametrize("sent", ["whisper-small", "/nowhere/model", "a/b/c", ""])
def test_neither_a_folder_nor_a_name_of_the_hub(models: Path, sent: str) -> None:
    with pytest.raises(ConfigError, match=f"such as openai/whisper-small; sent: '{sent}'"):
        convert(sent, "", "float16", ignore)


@pytest.mark.parametrize("name", ["a/b", ".hidden", "-x", "a" * 101, "é"])
def test_a_name_that_is_no_folder(source: Path, models: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"--name takes 1 to 100 letters.*; sent: "):
        convert(str(source), name, "float16", ignore)


def test_a_name_that_is_taken(source: Path, models: Path) -> None:
    with pytest.raises(ConfigError, match=r"^base is the name of a model .* another --name$"):
        convert(str(source), "base", "float16", ignore)
    whisper_toy(models / "hf")
    with pytest.raises(ConfigError, match=r"models/hf exists already: give another --name, or"):
        convert(str(source), "", "float16", ignore)


@pytest.mark.parametrize("package", ["transformers", "torch"])
def test_without_a_package(
    source: Path, models: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError) as error:
        convert(str(source), "", "float16", ignore)
    assert str(error.value) == f"converting needs {package}; {install('convert')}"
    assert [path.name for path in models.iterdir()] == [".hf.lock"]


def test_an_error_of_the_libraries_own(
    source: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of safetensors, for a file that is cut short: it derives from Exception alone."""

    class SafetensorError(Exception):
        pass

    class TransformersConverter:
        def __init__(self, *args: object, **kwargs: object) -> None:
            raise SafetensorError("incomplete metadata\nhere")

    # The first line imports what would keep the module of the second.
    monkeypatch.setattr("ctranslate2.converters.TransformersConverter", TransformersConverter)
    monkeypatch.setitem(sys.modules, "transformers", ModuleType("transformers"))
    with pytest.raises(ConfigError, match=r"hf cannot be converted: incomplete metadata$"):
        convert(str(source), "", "float16", ignore)
    assert [path.name for path in models.iterdir()] == [".hf.lock"]


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")
def test_a_small_random_whisper(tmp_path: Path, models: Path) -> None:
    """With tokenizer.json, as on the hub, and without it: the server's component loads both."""
    transformers = pytest.importorskip("transformers")
    source = tmp_path / "random"
    model = transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            vocab_size=51864,
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
        )
    )
    model.save_pretrained(source)
    assert TINY_EN.package is not None and TINY_EN.package.folder is not None
    text = TINY_EN.package.folder / TINY_EN.package_folder / "tokenizer.json"
    transformers.WhisperTokenizerFast(tokenizer_file=str(text)).save_pretrained(source)
    for quantization in QUANTIZATIONS:
        folder = convert(str(source), f"random-{quantization}", quantization, ignore)
        assert check_folder(find(KINDS["whisper"], folder.name)).languages == 1

    _write_older_tokenizer(source)
    folder = convert(str(source), "", "int8", ignore)
    assert folder == models / "random"
    assert check_folder(folder).languages == 1
    encoder = WhisperEncoder(WhisperEncoderConfig(model=str(folder)))
    (outputs,) = encoder([Row(inputs={"waveform": np.zeros((1, 16_000), np.float32)})])
    assert isinstance(outputs, dict)
    assert outputs["encoder_out"].shape[-1] == 16

    (source / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="random cannot be converted: ") as error:
        convert(str(source), "again", "int8", ignore)
    assert "\n" not in str(error.value)
    assert not (models / "again").exists()


def _write_older_tokenizer(folder: Path) -> None:
    """Put vocab.json, merges.txt and added_tokens.json in place of tokenizer.json."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text("utf-8"))
    model = tokenizer["model"]
    merges = (item if isinstance(item, str) else " ".join(item) for item in model["merges"])
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    added = {item["content"]: item["id"] for item in tokenizer["added_tokens"]}
    (folder / "added_tokens.json").write_text(json.dumps(added))
    path.unlink()

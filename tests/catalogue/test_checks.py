"""Checks of a folder, which load nothing."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from whisper_toys import ENGLISH_TOKENS, MULTILINGUAL, model_bin, whisper_toy

from conch.catalogue.checks import UnfitModelError, check_folder, check_known
from conch.families import KNOWN_MODELS, moonshine
from conch.families.family import KnownFile
from conch.families.whisper import TINY_EN

Change = Callable[[Path], object]


def test_an_english_model() -> None:
    """The one that ships, by its real files."""
    assert TINY_EN.package is not None and TINY_EN.package.folder is not None
    folder = TINY_EN.package.folder / TINY_EN.package_folder
    found = check_folder(folder)
    assert (found.languages, found.size) == (1, TINY_EN.size)
    check_known(folder, TINY_EN.files)


def test_a_multilingual_model(tmp_path: Path) -> None:
    tokens = [*ENGLISH_TOKENS, "<|yue|>", "<|transcribe|>"]
    tokens += [f"t{number}" for number in range(MULTILINGUAL - len(tokens))]
    assert check_folder(whisper_toy(tmp_path / "toy", tokens)).languages == 3


def test_the_older_vocabulary(tmp_path: Path) -> None:
    folder = whisper_toy(tmp_path / "toy")
    (folder / "vocabulary.json").unlink()
    (folder / "vocabulary.txt").write_text("\n".join(ENGLISH_TOKENS) + "\n")
    assert check_folder(folder).languages == 1


def hugging_face(folder: Path) -> None:
    (folder / "model.bin").rename(folder / "model.safetensors")


def cut(folder: Path) -> None:
    path = folder / "model.bin"
    path.write_bytes(path.read_bytes()[:-1])


def removes(*names: str) -> Change:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return change


def writes(name: str, text: str) -> Change:
    return lambda folder: (folder / name).write_text(text)


def has_model(data: bytes) -> Change:
    return lambda folder: (folder / "model.bin").write_bytes(data)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (removes("model.bin"), "it lacks model.bin"),
        (removes("model.bin", "config.json"), "it lacks model.bin and config.json"),
        (removes("tokenizer.json"), "it lacks tokenizer.json; copy it from the folder of Hugging"),
        (removes("vocabulary.json"), "it lacks vocabulary.json or vocabulary.txt"),
        (hugging_face, "in Hugging Face's format, .* conch models convert "),
        (cut, "model.bin is cut short or broken: it ends after 132 bytes"),
        (has_model(b""), "model.bin is cut short or broken: it ends after 0 bytes"),
        (has_model(b"PK\3\4" + bytes(99)), "model.bin is not in CTranslate2's format"),
        (has_model(model_bin(5, "TransformerSpec")), "is no Whisper, but 'TransformerSpec'"),
        (has_model(model_bin(4)), "has 4 tokens and its vocabulary 5: they are of different"),
        (writes("config.json", "{"), "config.json is broken: "),
        (writes("config.json", "[]"), "config.json is no JSON object"),
        (writes("tokenizer.json", "{}"), "tokenizer.json is no tokenizer of Whisper"),
        (writes("tokenizer.json", '{"added_tokens": []}'), "it has no <|startoftranscript|>"),
        (writes("vocabulary.json", "{}"), "vocabulary.json is no list of tokens"),
        (
            writes("vocabulary.json", json.dumps(sorted(ENGLISH_TOKENS))),
            "tokenizer.json and its vocabulary number the tokens differently",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, change: Change, wrong: str) -> None:
    folder = whisper_toy(tmp_path / "toy")
    change(folder)
    with pytest.raises(UnfitModelError, match=wrong.replace("|", r"\|")):
        check_folder(folder)


def test_every_cut_of_a_model_is_seen(tmp_path: Path) -> None:
    folder = whisper_toy(tmp_path / "toy")
    path, data = folder / "model.bin", model_bin(len(ENGLISH_TOKENS))
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(UnfitModelError):
            check_folder(folder)


def test_a_known_model_is_checked_byte_by_byte(tmp_path: Path) -> None:
    files = {"model.bin": KnownFile(3, hashlib.sha256(b"one").hexdigest())}
    with pytest.raises(UnfitModelError, match=r"^it lacks model\.bin$"):
        check_known(tmp_path, files)
    (tmp_path / "model.bin").write_bytes(b"on")
    with pytest.raises(UnfitModelError, match=r"model\.bin has 2 bytes, not 3"):
        check_known(tmp_path, files)
    (tmp_path / "model.bin").write_bytes(b"two")
    with pytest.raises(UnfitModelError, match=r"sha256 of its model\.bin is [0-9a-f]{64}, exp"):
        check_known(tmp_path, files)
    (tmp_path / "model.bin").write_bytes(b"one")
    check_known(tmp_path, files)


def test_every_known_model_has_what_a_server_needs() -> None:
    for model in KNOWN_MODELS.values():
        if model.kind:
            files = {"model.bin", "config.json"} if model.kind == "whisper" else {*moonshine.FILES}
            assert files | {"tokenizer.json"} <= set(model.files)
        assert all(len(file.sha256) == 64 for file in model.files.values())
        assert bool(model.requirements) != bool(model.package)
        assert all(bool(file.parts) == bool(model.requirements) for file in model.files.values())

"""Check that a folder holds a complete model, without loading it.

The layout of `model.bin` is that of `ctranslate2.specs.model_spec.ModelSpec` (binary version 6).
"""

import codecs
import json
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from conch.families.family import AddedVoice, KnownFile
from conch.packaged import sha256_of
from conch.wire.errors import ConfigError

SPEC = "WhisperSpec"
_EMBEDDINGS = "decoder/embeddings/weight"
_VERSIONS = range(4, 256)
"""Binary versions whose variables have a type and a number of bytes; no real one is above."""
_MULTILINGUAL_VOCABULARY = 51865
"""Least tokens of a multilingual Whisper, by CTranslate2's rule; English ones have one less."""
_LANGUAGE = re.compile(r"<\|[a-z]{2,3}\|>")
_START = "<|startoftranscript|>"
_NEEDED = ("model.bin", "config.json", "tokenizer.json")
_VOCABULARIES = ("vocabulary.json", "vocabulary.txt")
_HUGGING_FACE = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")


class UnfitModelError(ConfigError):
    """A folder is not a complete model; the message says what is wrong with it."""

    def __init__(self, message: str, likeness: float = 1.0) -> None:
        """`likeness` says how much of such a model is there: all files are 1."""
        super().__init__(message)
        self.likeness = likeness


@contextmanager
def readable() -> Iterator[None]:
    """Raise an UnfitModelError for an OSError in a block or function that has this in front."""
    try:
        yield
    except OSError as error:
        raise UnfitModelError(f"it cannot be read: {error}") from None


@dataclass(frozen=True, slots=True)
class ModelSummary:
    languages: int | None
    """Number of languages; None where the files do not say."""
    size: int
    family: str = ""
    """Family of the model, in words; empty where only one kind has the files."""
    features: str = ""
    """Input of its encoder, in words; empty where it is always the same."""
    units: int | None = None
    is_live: bool = False
    voices: tuple[AddedVoice, ...] = ()


@readable()
def check_known(folder: Path, files: Mapping[str, KnownFile]) -> None:
    """Raise an UnfitModelError unless a folder has the files of a known model, byte by byte."""
    lacking = [name for name in files if not (folder / name).is_file()]
    if lacking:
        raise UnfitModelError(f"it lacks {_and(lacking)}")
    for name, file in files.items():
        size = (folder / name).stat().st_size
        if size != file.size:
            raise UnfitModelError(f"its {name} has {size} bytes, not {file.size}")
        # A run that serves one model reads its files once for this: 0.1 s for base.
        if (digest := sha256_of(folder / name)) != file.sha256:
            raise UnfitModelError(f"the sha256 of its {name} is {digest}, expected {file.sha256}")


@readable()
def check_folder(folder: Path) -> ModelSummary:
    """Check that a folder is a Whisper with all that a server reads; return what it describes."""
    _check_files(folder)
    vocabulary = _vocabulary_size(folder / "model.bin")
    tokens = _special_tokens(folder / "tokenizer.json")
    read_json(folder / "config.json", dict, "JSON object")
    _check_tokenizer(folder, tokens, vocabulary)
    size = size_of(folder)
    is_multilingual = vocabulary >= _MULTILINGUAL_VOCABULARY
    languages = sum(bool(_LANGUAGE.fullmatch(token)) for token in tokens)
    return ModelSummary(languages if is_multilingual else 1, size)


@readable()
def check_files(layouts: Sequence[Sequence[str]], folder: Path) -> ModelSummary:
    """Check that a folder has all files of one of several layouts, of a model of one language."""
    lacking = [[name for name in files if not (folder / name).is_file()] for files in layouts]
    if nearest := min(lacking, key=len):
        layout = layouts[lacking.index(nearest)]
        raise UnfitModelError(f"it lacks {_and(nearest)}", 1 - len(nearest) / len(layout))
    return ModelSummary(1, size_of(folder))


@readable()
def check_weights_are_here(folder: Path) -> None:
    """Raise an UnfitModelError if a file stands for one that Git LFS fetches."""
    os.listdir(folder)  # `glob` finds nothing in a folder that it may not list
    for path in (*folder.glob("*"), *folder.glob("*/*")):
        # Git LFS's specification says that they are shorter.
        is_short = path.is_file() and 0 < path.stat().st_size < 1024
        if is_short and path.read_bytes().startswith(b"version https://git-lfs"):
            raise UnfitModelError(
                f"its {path.name} is a pointer of Git LFS, without the weights: "
                "git lfs pull in that folder fetches them"
            )


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _check_files(folder: Path) -> None:
    lacking = [name for name in _NEEDED if not (folder / name).is_file()]
    if "model.bin" in lacking and any((folder / name).is_file() for name in _HUGGING_FACE):
        config = folder / "config.json"
        content = read_json(config, dict, "JSON object") if config.is_file() else {}
        raise UnfitModelError(
            "it is in Hugging Face's format, not in CTranslate2's; make one that is: "
            f"conch models convert {folder}",
            float(content.get("model_type") == "whisper"),
        )
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        lacking.append(" or ".join(_VOCABULARIES))
    if lacking:
        hint = "; copy it from the folder of Hugging Face that the model was made of"
        raise UnfitModelError(
            f"it lacks {_and(lacking)}{hint if lacking == ['tokenizer.json'] else ''}",
            1 - len(lacking) / (len(_NEEDED) + 1),
        )


def _vocabulary_size(path: Path) -> int:
    """Return the number of tokens of a model.bin, whose variables are all present."""
    size = path.stat().st_size
    with path.open("rb") as file:
        try:
            if _number(file, "I") not in _VERSIONS:
                raise UnfitModelError("its model.bin is not in CTranslate2's format")
            if (spec := _string(file)) != SPEC:
                raise UnfitModelError(f"its model.bin is no Whisper, but {spec!r:.40}")
            _number(file, "I")  # revision
            shapes = dict(_shape(file, size) for _ in range(_number(file, "I")))
            for _ in range(2 * _number(file, "I")):  # aliases: a name and what it stands for
                _string(file)
        except (struct.error, UnicodeDecodeError):
            raise UnfitModelError(
                f"its model.bin is cut short or broken: it ends after {size} bytes"
            ) from None
    if _EMBEDDINGS not in shapes:
        raise UnfitModelError(f"its model.bin has no {_EMBEDDINGS}")
    return int(shapes[_EMBEDDINGS][0])


def _shape(file: BinaryIO, size: int) -> tuple[str, tuple[int, ...]]:
    name = _string(file)
    shape = tuple(_number(file, "I") for _ in range(_number(file, "B")))
    _number(file, "B")  # type
    file.seek(_number(file, "I"), os.SEEK_CUR)
    if file.tell() > size:
        raise struct.error
    return name, shape


def _number(file: BinaryIO, code: str) -> int:
    layout = f"<{code}"
    (number,) = struct.unpack(layout, file.read(struct.calcsize(layout)))
    return int(number)


def _string(file: BinaryIO) -> str:
    length = _number(file, "H")
    text = file.read(length)
    if len(text) < length or not text.endswith(b"\0"):
        raise struct.error
    return text[:-1].decode()


def _special_tokens(path: Path) -> dict[str, int]:
    try:
        added = read_json(path, dict, "JSON object")["added_tokens"]
        return {str(item["content"]): int(item["id"]) for item in added}
    except (KeyError, TypeError, ValueError):
        raise UnfitModelError("its tokenizer.json is no tokenizer of Whisper") from None


def _check_tokenizer(folder: Path, tokens: Mapping[str, int], vocabulary: int) -> None:
    if _START not in tokens:
        raise UnfitModelError(f"its tokenizer.json is not Whisper's: it has no {_START}")
    texts = _vocabulary(folder)
    if len(texts) != vocabulary:
        raise UnfitModelError(
            f"its model.bin has {vocabulary} tokens and its vocabulary {len(texts)}: they are of "
            "different models"
        )
    start = tokens[_START]
    if start >= len(texts) or texts[start] != _START:
        raise UnfitModelError(
            "its tokenizer.json and its vocabulary number the tokens differently: they are of "
            "different models"
        )


def _vocabulary(folder: Path) -> list[str]:
    path = folder / _VOCABULARIES[0]
    if not path.is_file():
        return read_text(folder / _VOCABULARIES[1]).rstrip("\n").split("\n")
    return list(map(str, read_json(path, list, "list of tokens")))


def plain_text(path: Path) -> bytes:
    """Return a text file without the byte order mark and the ends of lines of Windows."""
    return path.read_bytes().removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")


def read_text(path: Path, errors: str = "replace") -> str:
    """Return a text file of a model's folder; see `plain_text`."""
    return plain_text(path).decode("utf-8", errors)


def read_json(path: Path, expected: type, what: str) -> Any:
    """Return a JSON file's content; raise an UnfitModelError unless it is `expected`, a `what`."""
    try:
        content = json.loads(read_text(path, "strict"))
    except ValueError as error:
        raise UnfitModelError(f"its {path.name} is broken: {error}") from None
    if not isinstance(content, expected):
        raise UnfitModelError(f"its {path.name} is no {what}")
    return content


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the names and values of a YAML file, or raise an UnfitModelError if it has none."""
    import yaml

    try:
        content = yaml.safe_load(read_text(path, "strict"))
    except (ValueError, yaml.YAMLError) as error:
        raise UnfitModelError(f"its {path.name} is broken: {error!s:.200}") from None
    if not isinstance(content, dict):
        raise UnfitModelError(f"its {path.name} is no list of names and values")
    return content


def _and(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last

"""Convert a Whisper in Hugging Face's format for CTranslate2."""

import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from conch.cache import alone_with
from conch.catalogue.checks import UnfitModelError, check_folder, read_text
from conch.catalogue.models import home
from conch.families import KNOWN_MODELS
from conch.packaged import install
from conch.whole import made_whole
from conch.wire.errors import ConfigError

_HALF = ("float16", "int8_float16")
"""Types for which CTranslate2's own command reads the weights as 16 bits, in half the memory."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")


def convert(source: str, name: str, quantization: str, say: Callable[[str], None]) -> Path:
    """Return the folder of a converted model, which appears whole or not at all.

    `source` is a folder in Hugging Face's format, or a name on its hub such as
    openai/whisper-small; without a `name` the folder has its last part.
    """
    path = Path(os.path.expanduser(source)).absolute()
    is_local = bool(source) and os.path.isdir(path)
    if is_local:
        source = str(path)
        _check_source(path)
    elif not _HUB_NAME.fullmatch(source):
        raise ConfigError(
            "convert takes a folder in Hugging Face's format, or a name on its hub such as "
            f"openai/whisper-small; sent: {source!r:.200}"
        )
    name = name or Path(source).name
    target = home() / _checked_name(name)
    with alone_with(target, say):
        if target.exists():
            raise ConfigError(
                f"{target} exists already: give another --name, or remove that folder"
            )
        with made_whole(target) as made:
            _convert(source, made, quantization, is_local=is_local)
    return target


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "--name takes 1 to 100 letters, digits, '_', '.' and '-', without '.' or '-' in front; "
            f"sent: {name!r:.200}"
        )
    if name in KNOWN_MODELS:
        raise ConfigError(
            f"{name} is the name of a model that conch models gets: give another --name"
        )
    return name


def _check_source(folder: Path) -> None:
    with suppress(UnfitModelError):
        check_folder(folder)
        raise ConfigError(
            f"{folder} is in CTranslate2's format already: conch serve --whisper {folder}"
        )
    try:
        model_type = json.loads(read_text(folder / "config.json", "strict")).get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"{folder} is not in Hugging Face's format: its config.json cannot be read: {error}"
        ) from None
    _check_model_type(str(folder), model_type)


def _check_model_type(source: str, model_type: object) -> None:
    if model_type != "whisper":
        raise ConfigError(
            f"{source} is no Whisper: its config.json has model_type {model_type!r:.40}"
        )


def _convert(source: str, folder: Path, quantization: str, *, is_local: bool) -> None:
    try:
        # Imported here: they take seconds.
        import torch  # noqa: F401  without it the next two fail late, with a NameError
        import transformers
        from ctranslate2.converters import TransformersConverter
    except ModuleNotFoundError as error:
        raise ConfigError(f"converting needs {error.name}; {install('convert')}") from None

    try:
        if not is_local:
            _check_model_type(source, transformers.AutoConfig.from_pretrained(source).model_type)
        has_file = not is_local or (Path(source) / "tokenizer.json").is_file()
        converter = TransformersConverter(
            source,
            copy_files=["tokenizer.json"] if has_file else None,
            load_as_float16=quantization in _HALF,
        )
        converter.convert(str(folder), quantization=quantization)
        if not has_file:
            # From the older vocab.json and merges.txt.
            tokenizer = transformers.AutoTokenizer.from_pretrained(source)
            tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
        check_folder(folder)
    except UnfitModelError as error:
        raise ConfigError(f"{source} was converted, but not to a Whisper: {error}") from None
    except ConfigError:
        raise
    # The libraries have errors of their own for broken files, which derive from Exception alone.
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(f"{source} cannot be converted: {reason or repr(error)}") from None

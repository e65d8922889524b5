"""Find out what kind of model a folder holds."""

import difflib
from collections.abc import Iterator
from pathlib import Path

from conch.catalogue.checks import Found, UnfitModelError
from conch.catalogue.kinds import KINDS, checked, kind_of, known_model
from conch.catalogue.places import find, folder_of_name, own_names
from conch.families import KNOWN_MODELS
from conch.families.family import ModelKind
from conch.wire.errors import ConfigError

MOST_INSIDE = 100
"""Folders inside one that is no model, which are looked at."""


def detect(asked: str, *, is_verbose: bool = False) -> tuple[ModelKind, Path, Found]:
    """Return the kind of a model, its absolute folder, and what its files say of it.

    `asked` is a name of a known model or of a folder of the user's, or a path. Raise a ConfigError
    if there is no such folder, or it holds no complete model of any kind. If `is_verbose`, it says
    what each kind lacks, and not the nearest alone.
    """
    for kind in KINDS.values():
        if known_model(kind, asked):
            folder = find(kind, asked)
            return kind, folder, checked(kind, folder)
    if asked in KNOWN_MODELS:
        raise ConfigError(
            f"{asked} is no recogniser, and needs no flag: {KNOWN_MODELS[asked].title}"
        )
    try:
        folder = folder_of_name(asked)
    except FileNotFoundError:
        raise ConfigError(
            f"no folder {asked!r:.200}, nor a model of that name (conch models lists them)"
            f"{_hint(asked)}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{asked:.200}: {error.strerror}") from None
    try:
        kind, found = kind_of(folder, is_verbose=is_verbose)
    except UnfitModelError as error:
        if inside := ", ".join(_inside(folder)):
            raise ConfigError(f"{folder} is no model, but the parent of some: {inside}") from None
        raise ConfigError(f"{folder} holds no complete model: {error}") from None
    return kind, folder, found


def _inside(folder: Path) -> Iterator[str]:
    """Yield the paths and kinds of the models right inside a folder."""
    for path in [item for item in sorted(folder.iterdir()) if item.is_dir()][:MOST_INSIDE]:
        try:
            yield f"{path} ({kind_of(path)[0].title})"
        except UnfitModelError:
            continue


def _hint(asked: str) -> str:
    """Return a hint at the name that was probably meant."""
    if close := difflib.get_close_matches(asked, [*KNOWN_MODELS, *own_names()], n=1):
        return f"; did you mean {close[0]}?"
    if "whisper" in asked.lower() and asked.count("/") < 2:
        hub = asked if "/" in asked else f"openai/{asked}"
        return f"; conch models convert {hub} makes one of a Whisper of Hugging Face"
    return ""

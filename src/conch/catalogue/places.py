"""Where models are: in the user's data folder, in installed packages, in any other folder."""

import difflib
import hashlib
import os
from dataclasses import dataclass
from errno import ENOTDIR
from pathlib import Path

from conch.cache import cached
from conch.catalogue.checks import UnfitModelError, check_known, check_weights_are_here
from conch.catalogue.kinds import checked, kind_of, known_model, known_models
from conch.families import KNOWN_MODELS
from conch.families.family import KnownModel, ModelKind, models_home
from conch.packaged import how_to_get
from conch.wire.errors import ConfigError

home = models_home


def folder_of(model: KnownModel) -> Path | None:
    """Return where a known model is or would be; None for one of a package that is missing."""
    if model.package is None:
        return home() / model.name
    package = model.package.folder
    return package / model.package_folder if package else None


def state_of(model: KnownModel) -> str:
    """Return what is wrong with a known model; empty if it is complete."""
    return _state(model, folder_of(model))


def _state(model: KnownModel, folder: Path | None) -> str:
    try:
        if folder is None or not folder.is_dir():
            return "not on this machine"
        check_known(folder, model.files)
    except UnfitModelError as error:
        return f"broken: {error}"
    except OSError as error:
        return f"broken: it cannot be read: {error}"
    return ""


def find(kind: ModelKind, asked: str) -> Path:
    """Return the absolute folder of a complete model.

    `asked` is the name of a known model or of a folder in `home`, or else a path. Raise a
    ConfigError that says what to do if it is missing or incomplete.
    """
    flag = kind.flag
    if model := known_model(kind, asked):
        folder, wrong = folder_of(model), state_of(model)
        if wrong and (linked := _links_to_shipped(model)):
            folder, wrong = linked, _state(model, linked)
        if wrong or folder is None:
            raise ConfigError(
                f"{flag} {asked}: {_with_folder(wrong, folder)}; to have it: {how_to_get(model)}"
            )
        return folder
    try:
        folder = folder_of_name(asked)
    except FileNotFoundError:
        close = difflib.get_close_matches(asked, names(kind), n=1)
        hint = f"did you mean {close[0]}?" if close else kind.others
        raise ConfigError(
            f"{flag} takes {', or '.join(filter(None, (', '.join(names(kind)), kind.form)))}; "
            f"sent: {asked!r:.200}; {hint}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{flag} {asked:.200}: {error.strerror}") from None
    try:
        check_weights_are_here(folder)
        checked(kind, folder)
    except UnfitModelError as error:
        raise ConfigError(f"{flag} {asked}: {_with_folder(str(error), folder)}") from None
    return folder


def _links_to_shipped(model: KnownModel) -> Path | None:
    """Return a folder that joins the files of a model in packages; None where a package lacks."""
    shipped = model.shipped
    if shipped is None or shipped.lacking:
        return None
    packages = {item.module: item.folder for item in (shipped, shipped.also_needs) if item}
    paths = {
        name: folder.parent / part
        for name, file in model.files.items()
        for part in file.parts
        if (folder := packages[part.partition("/")[0]])
    }

    def link(made: Path) -> None:
        made.mkdir()
        for name, path in paths.items():
            (made / name).symlink_to(path)

    where = hashlib.sha256("\0".join(map(str, paths.values())).encode()).hexdigest()[:16]
    return cached(f"{model.name}-{where}", model.title, link)


def folder_of_name(asked: str) -> Path:
    """Return the absolute folder of a name in `home` or of a path, or raise an OSError."""
    folder = home() / asked
    if os.sep in asked or asked.startswith(".") or not folder.is_dir():
        folder = Path(os.path.expanduser(asked)).absolute()
    if folder.is_file():
        folder_of_it = os.path.dirname(os.path.abspath(folder))
        raise NotADirectoryError(ENOTDIR, f"a file; a model is its folder, such as {folder_of_it}")
    if not folder.is_dir():
        raise FileNotFoundError(asked)
    return folder


def _with_folder(wrong: str, folder: Path | None) -> str:
    return f"{wrong} ({folder})" if folder is not None and os.path.exists(folder) else wrong


def names(kind: ModelKind) -> list[str]:
    """Return the names that `find` takes: known models, and folders in `home`."""
    return [*known_models(kind), *own_names()]


def own_names() -> list[str]:
    """Return the names of the folders in `home` that are no known models."""
    return [path.name for path in _own()]


def _own() -> list[Path]:
    try:
        paths = sorted(home().iterdir()) if home().is_dir() else []
        # Those with a dot are being made.
        return [
            path
            for path in paths
            if path.is_dir() and path.name not in KNOWN_MODELS and not path.name.startswith(".")
        ]
    except OSError as error:
        raise ConfigError(f"the folder of models cannot be read: {error}") from None


@dataclass(frozen=True, slots=True)
class Listed:
    """A model that is available, or on this machine."""

    name: str
    folder: Path | None
    """Folder; None if the model is not on this machine."""
    wrong: str = ""
    """What is wrong with it, and what to do; empty for a complete model."""
    languages: int | None = None
    """Number of languages; None where its files do not say."""
    size: int | None = None
    """Bytes on the disk, also of a model that is not on this machine."""
    title: str = ""
    """What it is; empty for the user's own."""
    licence: str = ""
    """Licence; empty for the user's own."""


def listed() -> list[Listed]:
    """Return the known models, then the user's own by name, or raise a ConfigError."""
    own, found = _own(), []
    for model in KNOWN_MODELS.values():
        wrong, folder = state_of(model), folder_of(model)
        if wrong and model.shipped and not model.shipped.lacking:
            wrong, folder = "", model.shipped.folder
        found.append(
            Listed(
                model.name,
                folder if folder is not None and folder.is_dir() else None,
                wrong and f"{wrong}; to have it: {how_to_get(model)}",
                languages=model.languages,
                size=model.size,
                title=model.title,
                licence=model.licence,
            )
        )
    for path in own:
        found.append(_listed(path))
    return found


def _listed(path: Path) -> Listed:
    """Return what a folder of the user's is, of the first kind that it fits."""
    try:
        _, model = kind_of(path)
    except UnfitModelError as error:
        return Listed(path.name, path, f"broken: {error}")
    return Listed(path.name, path, languages=model.languages, size=model.size)

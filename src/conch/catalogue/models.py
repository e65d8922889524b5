"""The models that a server can serve: their kinds, where they are, and what a folder holds."""

import difflib
import hashlib
import os
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from errno import ENOTDIR
from functools import cache
from pathlib import Path
from types import MappingProxyType

from conch.cache import cached
from conch.catalogue.checks import (
    ModelSummary,
    UnfitModelError,
    check_known,
    check_weights_are_here,
)
from conch.catalogue.exports import OnnxNetwork
from conch.families import FAMILIES, KNOWN_MODELS
from conch.families.family import KnownModel, ModelKind, models_home
from conch.packaged import how_to_get
from conch.wire.errors import ConfigError

KINDS: Mapping[str, ModelKind] = MappingProxyType(
    {kind.name: kind for family in FAMILIES for kind in family.models}
)
_function = cache(pkgutil.resolve_name)
MOST_INSIDE = 100
home = models_home


def checked(kind: ModelKind, folder: Path) -> ModelSummary:
    summary: ModelSummary = _function(kind.check)(folder)
    return summary


def networks_of(kind: ModelKind, folder: Path) -> tuple[OnnxNetwork, ...]:
    """Return the networks that a server of ONNX models can run; none where a kind has none."""
    return _function(kind.networks)(folder) if kind.networks else ()


def known_models(kind: ModelKind) -> Mapping[str, KnownModel]:
    return {name: model for name, model in KNOWN_MODELS.items() if model.kind == kind.name}


def known_model(kind: ModelKind, name: str) -> KnownModel | None:
    """Return the known model of a name, which may lack the kind in front; None for another."""
    known = known_models(kind)
    return known.get(name) or known.get(f"{kind.name}-{name}")


def kind_of(folder: Path, *, is_verbose: bool = False) -> tuple[ModelKind, ModelSummary]:
    """Return the first kind of which a folder is a complete model, and its summary.

    Otherwise raise an `UnfitModelError` that says what the nearest kind lacks, or each.
    """
    lacking: list[tuple[ModelKind, UnfitModelError]] = []
    check_weights_are_here(folder)
    for kind in KINDS.values():
        try:
            return kind, checked(kind, folder)
        except UnfitModelError as error:
            lacking.append((kind, error))
    most = max(error.likeness for _, error in lacking)
    lacking.sort(key=lambda item: -item[1].likeness)
    if is_verbose:
        raise UnfitModelError("".join(f"\n  as {kind.title}, {error}" for kind, error in lacking))
    nearest = [f"as {kind.title}, {error}" for kind, error in lacking if error.likeness == most]
    said = "; ".join(nearest if most else ["it has no file of one"])
    raise UnfitModelError(f"{said}. For all kinds: conch models inspect -v {folder}", most)


def components_chosen(kinds: Iterable[str]) -> set[str]:
    return {component for name in kinds for component in KINDS[name].components}


def folder_of(model: KnownModel) -> Path | None:
    """Return where a known model is or would be; None for one of a package that is missing."""
    if model.package is None:
        return home() / model.name
    package = model.package.folder
    return package / model.package_folder if package else None


def state_of(model: KnownModel) -> str:
    """Return the defect of a known model; empty if it is complete."""
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


def find(kind: ModelKind, name_or_path: str) -> Path:
    """Return the absolute folder of a complete model, or raise a ConfigError that says what to do.

    The name is that of a known model, or of a folder in `home`.
    """
    flag = kind.flag
    if model := known_model(kind, name_or_path):
        folder, wrong = folder_of(model), state_of(model)
        if wrong and (linked := _links_to_shipped(model)):
            folder, wrong = linked, _state(model, linked)
        if wrong or folder is None:
            raise ConfigError(
                f"{flag} {name_or_path}: {_with_folder(wrong, folder)}; "
                f"to have it: {how_to_get(model)}"
            )
        return folder
    try:
        folder = folder_of_name(name_or_path)
    except FileNotFoundError:
        close = difflib.get_close_matches(name_or_path, names(kind), n=1)
        hint = f"did you mean {close[0]}?" if close else kind.others
        raise ConfigError(
            f"{flag} takes {', or '.join(filter(None, (', '.join(names(kind)), kind.form)))}; "
            f"sent: {name_or_path!r:.200}; {hint}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{flag} {name_or_path:.200}: {error.strerror}") from None
    try:
        check_weights_are_here(folder)
        checked(kind, folder)
    except UnfitModelError as error:
        raise ConfigError(f"{flag} {name_or_path}: {_with_folder(str(error), folder)}") from None
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


def folder_of_name(name_or_path: str) -> Path:
    """Return the absolute folder of a name in `home` or of a path, or raise an OSError."""
    folder = home() / name_or_path
    if os.sep in name_or_path or name_or_path.startswith(".") or not folder.is_dir():
        folder = Path(os.path.expanduser(name_or_path)).absolute()
    if folder.is_file():
        folder_of_it = os.path.dirname(os.path.abspath(folder))
        raise NotADirectoryError(ENOTDIR, f"a file; a model is its folder, such as {folder_of_it}")
    if not folder.is_dir():
        raise FileNotFoundError(name_or_path)
    return folder


def _with_folder(wrong: str, folder: Path | None) -> str:
    return f"{wrong} ({folder})" if folder is not None and os.path.exists(folder) else wrong


def names(kind: ModelKind) -> list[str]:
    return [*known_models(kind), *(path.name for path in _own())]


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
    name: str
    folder: Path | None
    """Folder; None if the model is not on this machine."""
    wrong: str = ""
    """Defect and remedy; empty for a complete model."""
    languages: int | None = None
    size: int | None = None
    title: str = ""
    licence: str = ""


def listed() -> list[Listed]:
    """Return the known models, then the user's own by name, or raise a ConfigError."""
    own, models = _own(), []
    for model in KNOWN_MODELS.values():
        wrong, folder = state_of(model), folder_of(model)
        if wrong and model.shipped and not model.shipped.lacking:
            wrong, folder = "", model.shipped.folder
        models.append(
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
        models.append(_listed(path))
    return models


def _listed(path: Path) -> Listed:
    try:
        _, model = kind_of(path)
    except UnfitModelError as error:
        return Listed(path.name, path, f"broken: {error}")
    return Listed(path.name, path, languages=model.languages, size=model.size)


def detect(name_or_path: str, *, is_verbose: bool = False) -> tuple[ModelKind, Path, ModelSummary]:
    """Return the kind of a model, its absolute folder and its summary.

    If there is none, a ConfigError says what the nearest kind lacks, or if `is_verbose` each.
    """
    for kind in KINDS.values():
        if known_model(kind, name_or_path):
            folder = find(kind, name_or_path)
            return kind, folder, checked(kind, folder)
    if name_or_path in KNOWN_MODELS:
        raise ConfigError(
            f"{name_or_path} is no recogniser, and needs no flag: "
            f"{KNOWN_MODELS[name_or_path].title}"
        )
    try:
        folder = folder_of_name(name_or_path)
    except FileNotFoundError:
        raise ConfigError(
            f"no folder {name_or_path!r:.200}, nor a model of that name (conch models lists them)"
            f"{_hint(name_or_path)}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{name_or_path:.200}: {error.strerror}") from None
    try:
        kind, summary = kind_of(folder, is_verbose=is_verbose)
    except UnfitModelError as error:
        if inside := ", ".join(_inside(folder)):
            raise ConfigError(f"{folder} is no model, but the parent of some: {inside}") from None
        raise ConfigError(f"{folder} holds no complete model: {error}") from None
    return kind, folder, summary


def _inside(folder: Path) -> Iterator[str]:
    for path in [item for item in sorted(folder.iterdir()) if item.is_dir()][:MOST_INSIDE]:
        try:
            yield f"{path} ({kind_of(path)[0].title})"
        except UnfitModelError:
            continue


def _hint(name: str) -> str:
    if close := difflib.get_close_matches(
        name, [*KNOWN_MODELS, *(path.name for path in _own())], n=1
    ):
        return f"; did you mean {close[0]}?"
    if "whisper" in name.lower() and name.count("/") < 2:
        hub = name if "/" in name else f"openai/{name}"
        return f"; conch models convert {hub} makes one of a Whisper of Hugging Face"
    return ""

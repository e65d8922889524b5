"""The kinds of models of which a server can serve another than its default."""

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from conch.catalogue.checks import Found, UnfitModelError, check_weights_are_here
from conch.catalogue.exports import Network
from conch.families import FAMILIES, KNOWN_MODELS
from conch.families.family import KnownModel, ModelKind

KINDS: Mapping[str, ModelKind] = MappingProxyType(
    {kind.name: kind for family in FAMILIES for kind in family.models}
)
_function: Callable[[str], Callable[[Path], object]] = cache(pkgutil.resolve_name)


def checked(kind: ModelKind, folder: Path) -> Found:
    """Return what the files of a complete model of a kind say; else raise an `UnfitModelError`."""
    found = _function(kind.check)(folder)
    assert isinstance(found, Found)
    return found


def networks_of(kind: ModelKind, folder: Path) -> tuple[Network, ...]:
    """Return the networks that a server of ONNX models can run; none where a kind has none."""
    found = _function(kind.networks)(folder) if kind.networks else ()
    assert isinstance(found, tuple)
    return found


def known_models(kind: ModelKind) -> Mapping[str, KnownModel]:
    """Return the models of a kind that Conch knows, by name."""
    return {name: model for name, model in KNOWN_MODELS.items() if model.kind == kind.name}


def known_model(kind: ModelKind, asked: str) -> KnownModel | None:
    """Return the known model of a name, which may lack the kind in front; None for another."""
    known = known_models(kind)
    return known.get(asked) or known.get(f"{kind.name}-{asked}")


def kind_of(folder: Path, *, is_verbose: bool = False) -> tuple[ModelKind, Found]:
    """Return the first kind of which a folder is a complete model, and what its files say.

    Otherwise an `UnfitModelError` says what the nearest kind lacks, or each.
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
    """Return the components that load models of these kinds."""
    return {component for name in kinds for component in KINDS[name].components}

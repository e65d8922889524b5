"""Where the shipped models lie, and whether a folder can be a model repository."""

import difflib
from collections.abc import Iterable
from pathlib import Path

import conch
from conch.wire.errors import ServerError

NAMES = ("bls_models", "component_models")


def shipped_repositories() -> tuple[Path, ...]:
    """The two repositories: inside an installed wheel, or at the root of a checkout.

    Raises ServerError if neither place has both.
    """
    places = _places()
    for place in places:
        repositories = tuple(place / name for name in NAMES)
        if all(path.is_dir() for path in repositories):
            return repositories
    raise ServerError(
        f"the model repositories {' and '.join(NAMES)} are in neither of "
        f"{', '.join(map(str, places))}: name yours with --model-repository"
    )


def _places() -> tuple[Path, Path]:
    package = Path(conch.__file__).resolve().parent
    return package / "_models", package.parent.parent


def check_repository(path: Path) -> None:
    """Raises ServerError for what Triton would refuse late, or not refuse but hang on."""
    if not path.is_dir():
        raise ServerError(f"model repository {path} is not a folder")
    models = sorted(entry for entry in path.iterdir() if entry.is_dir())
    if not models:
        raise ServerError(f"model repository {path} has no model in it")
    for model in models:
        if model.name.startswith((".", "__")):
            raise ServerError(
                f"Triton takes every folder of a model repository for a model: remove {model}"
            )


def model_names(repositories: Iterable[Path]) -> tuple[str, ...]:
    """Names of the models in the repositories, sorted."""
    return tuple(
        sorted(entry.name for path in repositories for entry in path.iterdir() if entry.is_dir())
    )


def check_models(repositories: Iterable[Path], names: Iterable[str]) -> None:
    """Raises ServerError for a name that no repository has."""
    there = model_names(repositories)
    for name in names:
        if name not in there:
            close = difflib.get_close_matches(name, there, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there is {', '.join(there)}"
            raise ServerError(f"no model {name!r} in the model repositories; {hint}")


def models_with_config(repositories: Iterable[Path], name: str) -> tuple[str, ...]:
    """Names of the models that have a `configs/NAME.pbtxt`, sorted; the others keep theirs.

    Raises ServerError if there is none: Triton would say nothing and serve the usual configs.
    """
    found: dict[str, list[str]] = {}
    for repository in repositories:
        for path in repository.glob("*/configs/*.pbtxt"):
            found.setdefault(path.stem, []).append(path.parent.parent.name)
    if name not in found:
        there = [f"{key} (of {', '.join(sorted(found[key]))})" for key in sorted(found)]
        raise ServerError(
            f"no model has a configs/{name}.pbtxt; there is {', '.join(there) or 'no other either'}"
        )
    return tuple(sorted(found[name]))

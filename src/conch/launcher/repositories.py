"""Find the shipped models, and check model repositories."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import conch
from conch.wire.errors import ServerError

NAMES = ("bls_models", "component_models")


def shipped_repositories() -> tuple[Path, ...]:
    """Return the two repositories, of the installed wheel or of the checkout."""
    package = Path(conch.__file__).resolve().parent
    parents = (package / "_models", package.parent.parent)
    for parent in parents:
        repositories = tuple(parent / name for name in NAMES)
        if all(path.is_dir() for path in repositories):
            return repositories
    raise ServerError(
        f"the model repositories {' and '.join(NAMES)} are in neither of "
        f"{', '.join(map(str, parents))}: name yours with --model-repository"
    )


def check_repository(path: Path) -> None:
    """Check a repository for mistakes that Triton refuses late or hangs on."""
    if not path.is_dir():
        raise ServerError(f"model repository {path} is not a folder")
    models = sorted(entry for entry in path.iterdir() if entry.is_dir())
    if not models:
        raise ServerError(f"model repository {path} has no model in it")
    for model in models:
        if model.name.startswith((".", "__")):
            raise ServerError(
                f"Triton treats every folder of a model repository as a model: remove {model}"
            )


def model_names(repositories: Iterable[Path]) -> tuple[str, ...]:
    return tuple(
        sorted(entry.name for path in repositories for entry in path.iterdir() if entry.is_dir())
    )


def check_unique(repositories: Iterable[Path]) -> None:
    """Check that no two repositories have a model of one name: Triton would load neither."""
    owners: dict[str, Path] = {}
    for repository in repositories:
        for name in model_names([repository]):
            if name in owners:
                raise ServerError(
                    f"model {name!r} is in two model repositories, {owners[name]} and {repository}"
                    ": remove one of them, or serve a repository of all components in place of "
                    "Conch's: conch serve --model-repository"
                )
            owners[name] = repository


def check_models(repositories: Iterable[Path], names: Iterable[str]) -> None:
    there = model_names(repositories)
    for name in names:
        if name not in there:
            hint = f"they have {', '.join(there)}; conch serve --add-model-repository adds one"
            if close := difflib.get_close_matches(name, there, n=1):
                hint = f"did you mean {close[0]}?"
            raise ServerError(f"no model {name!r} in the model repositories; {hint}")


def served_config(model: Path, model_config: str) -> Path | None:
    """Return the config that a server takes for a model's folder; None if there is none."""
    paths = [model / "config.pbtxt"]
    if model_config:
        paths.insert(0, model / "configs" / f"{model_config}.pbtxt")
    return next((path for path in paths if path.is_file()), None)


def parsed_config(path: Path | None) -> Any | None:
    """Return a config as Triton's `ModelConfig`; None for none and for one that Triton refuses."""
    if path is None:
        return None
    # Imported here: it takes a third of a second.
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    try:
        return text_format.Parse(path.read_text("utf-8"), model_config_pb2.ModelConfig())
    except (text_format.ParseError, ValueError):
        return None


def link_model(model: Path, made: Path, config: str | None) -> None:
    """Make a folder of links to all files of a model but its configs, with this config.pbtxt."""
    made.mkdir()
    for entry in model.iterdir():
        if entry.name not in ("config.pbtxt", "configs"):
            (made / entry.name).symlink_to(entry.resolve())
    if config is not None:
        (made / "config.pbtxt").write_text(config, "utf-8")


def models_with_config(repositories: Iterable[Path], name: str) -> tuple[str, ...]:
    """Return the sorted names of the models that have a `configs/NAME.pbtxt`."""
    by_config: dict[str, list[str]] = {}
    for repository in repositories:
        for path in repository.glob("*/configs/*.pbtxt"):
            by_config.setdefault(path.stem, []).append(path.parent.parent.name)
    if name not in by_config:
        # Triton would serve the usual configs without a warning.
        there = [f"{key} (of {', '.join(sorted(by_config[key]))})" for key in sorted(by_config)]
        raise ServerError(
            f"no model has a configs/{name}.pbtxt; found: {', '.join(there) or 'none'}"
        )
    return tuple(sorted(by_config[name]))

"""Serve `speech` under further names, which clients written for other servers insist on."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from conch.launcher.config import ServerConfig
from conch.launcher.repositories import model_names, parsed_config, served_config
from conch.wire.errors import ServerError

SPEECH = "speech"
"""The model that has the further names."""


def check_aliases(repositories: Sequence[Path], names: Iterable[str]) -> None:
    """Check that the repositories have `speech`, and no model of one of these names.

    Raises:
        ServerError: `speech` is missing, or a name is taken.
    """
    there = model_names(repositories)
    for name in names:
        if SPEECH not in there:
            raise ServerError(
                f"--also-as {name} needs the model {SPEECH}, which no model repository has"
            )
        if name in there:
            raise ServerError(
                f"--also-as takes new names; the model repositories have a model {name!r}"
            )


def with_aliases(config: ServerConfig, directory: Path) -> ServerConfig:
    """Return the settings with a repository of `speech` under the names of `also_as`.

    Each name is a folder of links to the files of `speech`, with a config.pbtxt of its own: a copy
    of the one that `speech` is served by, so that a name in it can be changed.

    Args:
        config: the caller's choices, checked by `check_aliases`.
        directory: temporary folder, in which the repository is made.
    """
    if not config.also_as:
        return config
    repositories = tuple(map(Path, config.model_repositories))
    (model, *_) = (path / SPEECH for path in repositories if (path / SPEECH).is_dir())
    made = directory / "also_as"
    for name in config.also_as:
        (made / name).mkdir(parents=True)
        for entry in model.iterdir():
            if entry.name not in ("config.pbtxt", "configs"):
                (made / name / entry.name).symlink_to(entry.resolve())
        if path := served_config(model, config.model_config):
            (made / name / "config.pbtxt").write_text(_config_named(path, name), "utf-8")
    return replace(
        config,
        model_repositories=(*repositories, made),
        models=(*config.models, *config.also_as) if config.models else (),
        also_as=(),
    )


def _config_named(path: Path, name: str) -> str:
    """Return the text of a config.pbtxt for a folder of this name."""
    text = path.read_text("utf-8")
    config = parsed_config(path)
    # Triton refuses a name that is not the folder's. Most configs have none.
    if config is None or not config.name:
        return text
    config.name = name
    return str(config)

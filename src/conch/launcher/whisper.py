"""Serve another Whisper than the one that the configs of the components name."""

from dataclasses import replace
from pathlib import Path

from conch.catalogue.places import FLAG, find_whisper
from conch.families.whisper.declaration import COMPONENTS
from conch.launcher.config import ServerConfig
from conch.launcher.repositories import link_model, parsed_config, served_config
from conch.wire.errors import ServerError

PARAMETER = "model"
"""Key of the folder in a component's config.pbtxt."""


def with_whisper_found(config: ServerConfig) -> ServerConfig:
    """Return the settings with the folder of `whisper` in place of its name.

    Raises:
        ConfigError: the model is missing or incomplete.
        ServerError: the repositories lack a component that takes a Whisper.
    """
    if not config.whisper:
        return config
    repositories = [Path(path) for path in config.model_repositories]
    for component in COMPONENTS:
        there = [path / component for path in repositories if (path / component).is_dir()]
        if not there:
            raise ServerError(f"{FLAG} needs the model {component}, which no model repository has")
        path = served_config(there[0], config.model_config)
        parsed = parsed_config(path)
        if parsed is None or PARAMETER not in parsed.parameters:
            raise ServerError(
                f"{FLAG} sets the parameter '{PARAMETER}' of {component}, and {path or there[0]} "
                "has none: set your model there"
            )
    return replace(config, whisper=str(find_whisper(config.whisper)))


def with_whisper(config: ServerConfig, directory: Path) -> ServerConfig:
    """Return the settings with repositories whose components read the folder of `whisper`.

    Each repository with such a component is replaced by a folder of links to its models, in
    `directory`. Its components have the config.pbtxt that they are served by, with the parameter
    changed.
    """
    if not config.whisper:
        return config
    repositories = []
    for number, path in enumerate(map(Path, config.model_repositories)):
        if any((path / component).is_dir() for component in COMPONENTS):
            made = directory / f"whisper-{number}"
            _link(path.resolve(), made, config)
            path = made
        repositories.append(path)
    return replace(config, model_repositories=repositories, whisper="")


def _link(repository: Path, made: Path, config: ServerConfig) -> None:
    made.mkdir()
    for model in repository.iterdir():
        if model.name not in COMPONENTS:
            (made / model.name).symlink_to(model)
            continue
        parsed = parsed_config(served_config(model, config.model_config))
        assert parsed is not None, "with_whisper_found has read it"
        parsed.parameters[PARAMETER].string_value = config.whisper
        link_model(model, made / model.name, str(parsed))

"""Serve models in addition to Conch's own, each under a name that the option `model` chooses."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from conch.catalogue.models import detect
from conch.families.family import ModelKind
from conch.launcher.chosen_weights import folders_of_components, link_with_folder
from conch.launcher.config import MODEL_NAME, ServerConfig
from conch.wire.errors import ConfigError, ServerError
from conch.wire.named_models import decoders_of, served_as


def with_named_found(config: ServerConfig) -> ServerConfig:
    """Return the settings with folders in place of the models in `named`."""
    found = {}
    for name, asked in config.named.items():
        flag = f"--model {name}={asked:.200}"
        if not MODEL_NAME.fullmatch(name) or "." in name:
            raise ServerError(
                f"{flag}: a name has 1 to 128 letters, digits, '_' and '-', and begins with "
                "neither '-' nor '__'"
            )
        if name == "conch" or name.startswith("conch-"):
            raise ServerError(f"{flag}: conch, and names that begin with conch-, are Conch's own")
        try:
            kind, folder, _ = detect(asked)
        except ConfigError as error:
            raise ConfigError(f"{flag}: {error}") from None
        if not decoders_of(kind.components):
            raise ServerError(f"{flag}: {kind.title} has names of its own: {kind.flag} {asked}")
        folders_of_components(config, kind, flag)
        found[name] = str(folder)
    return replace(config, named=found)


def copies(config: ServerConfig) -> tuple[str, ...]:
    """Return the names of the models that `with_named_models` makes."""
    return tuple(
        served_as(component, name) for name, kind in _kinds(config) for component in kind.components
    )


def with_named_models(config: ServerConfig, directory: Path) -> ServerConfig:
    """Return the settings with a repository of copies of components, which read other folders.

    The repository is made in `directory`. `config` is that of `with_named_found`.
    """
    if not config.named:
        return config
    made = directory / "named"
    made.mkdir(parents=True)
    for name, kind in _kinds(config):
        for component, model in folders_of_components(config, kind, "--model").items():
            link_with_folder(model, made / served_as(component, name), config, config.named[name])
    return replace(config, model_repositories=(*config.model_repositories, made), named={})


def _kinds(config: ServerConfig) -> Iterator[tuple[str, ModelKind]]:
    return ((name, detect(folder)[0]) for name, folder in config.named.items())

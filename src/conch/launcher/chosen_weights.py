"""Serve other weights than those that the configs of the components name."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from conch.catalogue.models import KINDS, checked, find
from conch.families import VOICES, decoders
from conch.families.family import ModelKind
from conch.launcher.config import ServerConfig
from conch.launcher.repositories import link_model, parsed_config, served_config
from conch.wire.errors import ServerError
from conch.wire.needs import decoder_of_chosen

PARAMETER = "model"
"""Key of the folder in a component's config.pbtxt."""


def with_weights_found(config: ServerConfig) -> ServerConfig:
    """Return the settings with folders in place of the names in `weights`."""
    found = {}
    for name, asked in config.weights.items():
        if (kind := KINDS.get(name)) is None:
            raise ServerError(f"weights takes the keys {', '.join(KINDS)}; sent: {name!r:.100}")
        folders_of_components(config, kind, kind.flag)
        found[name] = str(find(kind, asked))
    return replace(config, weights=found) if found else config


def folders_of_components(config: ServerConfig, kind: ModelKind, flag: str) -> dict[str, Path]:
    """Return the folder in a model repository of each component that loads models of a kind."""
    repositories = [Path(path) for path in config.model_repositories]
    found = {}
    for component in kind.components:
        there = [path / component for path in repositories if (path / component).is_dir()]
        if not there:
            raise ServerError(f"{flag} needs the model {component}, which no model repository has")
        path = served_config(there[0], config.model_config)
        parsed = parsed_config(path)
        if parsed is None or PARAMETER not in parsed.parameters:
            raise ServerError(
                f"{flag} sets the parameter '{PARAMETER}' of {component}, and {path or there[0]} "
                "has none: set your model there"
            )
        found[component] = there[0]
    return found


def with_chosen_weights(config: ServerConfig, directory: Path) -> ServerConfig:
    """Return the settings with repositories whose components read the folders of `weights`.

    Each repository with such a component is replaced by a folder of links to its models, in
    `directory`. Its components have the config.pbtxt that they are served by, with the parameter
    changed.
    """
    folders = components_with_weights(config)
    if not folders:
        return config
    repositories = []
    for number, path in enumerate(map(Path, config.model_repositories)):
        if any((path / component).is_dir() for component in folders):
            made = directory / f"weights-{number}"
            _link(path.resolve(), made, config, folders)
            path = made
        repositories.append(path)
    return replace(config, model_repositories=repositories, weights={})


def components_with_weights(config: ServerConfig) -> dict[str, str]:
    """Return the components that `weights` chooses a model for, each with it."""
    return {
        component: asked
        for name, asked in config.weights.items()
        for component in KINDS[name].components
    }


def voices_environment(config: ServerConfig) -> dict[str, str]:
    """Return the environment with the voices that `weights` adds, which `with_weights_found` has
    found; none without any."""
    found = (checked(KINDS[name], Path(asked)) for name, asked in config.weights.items())
    voices = [asdict(voice) for item in found for voice in item.voices]
    return {VOICES: json.dumps(voices)} if voices else {}


def overruled(config: ServerConfig) -> set[str]:
    """Return the components of the default decoders before that of which `weights` chooses a model,
    and if it hears live audio, the live ones of all others.

    Whoever chooses a model wants its texts where a request leaves the decoder open.
    """
    chosen, before = components_with_weights(config), set[str]()
    for decoder in decoders().values():
        if decoder.default_when is None:
            continue
        if chosen.keys() >= {*decoder.components}:
            others = {*decoders().values()} - {decoder} if decoder.live else ()
            return before.union(*(item.live for item in others))
        before |= {*decoder.components}
    return before if decoder_of_chosen(chosen) else set()


def _link(repository: Path, made: Path, config: ServerConfig, folders: Mapping[str, str]) -> None:
    made.mkdir()
    for model in repository.iterdir():
        if model.name not in folders:
            (made / model.name).symlink_to(model)
            continue
        link_with_folder(model, made / model.name, config, folders[model.name])


def link_with_folder(model: Path, made: Path, config: ServerConfig, folder: str) -> None:
    """Make a folder of links to a component that `folders_of_components` has found.

    Its config is the one that it is served by, with `folder` as the model to load.
    """
    parsed = parsed_config(served_config(model, config.model_config))
    assert parsed is not None, "folders_of_components has read it"
    parsed.parameters[PARAMETER].string_value = folder
    if parsed.name:  # Triton refuses one that is not the folder's
        parsed.name = made.name
    link_model(model, made, str(parsed))

"""Variants of models in the repositories: other weights, and models under further names."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from conch.catalogue.models import KINDS, checked, detect, find
from conch.families import VOICES, decoders
from conch.families.family import ModelKind
from conch.launcher.config import MODEL_NAME, ServerConfig
from conch.launcher.repositories import link_model, model_names, parsed_config, served_config
from conch.wire.errors import ConfigError, ServerError
from conch.wire.named_models import decoders_of, served_as
from conch.wire.needs import decoder_of_chosen

PARAMETER = "model"
"""Key of the folder in a component's config.pbtxt."""
SPEECH = "speech"
RELAY = "speech_stream"
"""A model whose code hands requests to another one."""


def with_weight_folders(config: ServerConfig) -> ServerConfig:
    folders = {}
    for name, model in config.weights.items():
        if (kind := KINDS.get(name)) is None:
            raise ServerError(f"weights takes the keys {', '.join(KINDS)}; sent: {name!r:.100}")
        folders_of_components(config, kind, kind.flag)
        folders[name] = str(find(kind, model))
    return replace(config, weights=folders) if folders else config


def folders_of_components(config: ServerConfig, kind: ModelKind, flag: str) -> dict[str, Path]:
    """Return the folder in a model repository of each component that loads models of a kind."""
    repositories = [Path(path) for path in config.model_repositories]
    folders = {}
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
        folders[component] = there[0]
    return folders


def with_chosen_weights(config: ServerConfig, directory: Path) -> ServerConfig:
    """Return the settings with repositories whose components read the folders of `weights`.

    Each repository with such a component is replaced by a folder of links in `directory`.
    """
    folders = components_with_weights(config)
    if not folders:
        return config
    repositories = []
    for number, path in enumerate(map(Path, config.model_repositories)):
        if any((path / component).is_dir() for component in folders):
            made = directory / f"weights-{number}"
            made.mkdir()
            for model in path.resolve().iterdir():
                if folder := folders.get(model.name):
                    link_with_folder(model, made / model.name, config, folder)
                else:
                    (made / model.name).symlink_to(model)
            path = made
        repositories.append(path)
    return replace(config, model_repositories=repositories, weights={})


def components_with_weights(config: ServerConfig) -> dict[str, str]:
    return {
        component: model
        for name, model in config.weights.items()
        for component in KINDS[name].components
    }


def voices_environment(config: ServerConfig) -> dict[str, str]:
    """Return the environment with the voices in the folders of `weights`; empty without any."""
    models = (checked(KINDS[name], Path(folder)) for name, folder in config.weights.items())
    voices = [asdict(voice) for item in models for voice in item.voices]
    return {VOICES: json.dumps(voices)} if voices else {}


def overruled(config: ServerConfig) -> set[str]:
    """Return components of default decoders that the models in `weights` make needless.

    Whoever chooses a model wants its texts where a request leaves the decoder open. So the default
    decoders before that model's are left out; and if it hears live audio, the live components of
    all others.
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


def link_with_folder(model: Path, made: Path, config: ServerConfig, folder: str) -> None:
    """Make a folder of links to a component that `folders_of_components` has found."""
    parsed = parsed_config(served_config(model, config.model_config))
    assert parsed is not None, "folders_of_components has read it"
    parsed.parameters[PARAMETER].string_value = folder
    if parsed.name:  # Triton refuses one that is not the folder's
        parsed.name = made.name
    link_model(model, made, str(parsed))


def with_named_folders(config: ServerConfig) -> ServerConfig:
    folders = {}
    for name, model in config.named.items():
        flag = f"--model {name}={model:.200}"
        if not MODEL_NAME.fullmatch(name) or "." in name:
            raise ServerError(
                f"{flag}: a name has 1 to 128 letters, digits, '_' and '-', and begins with "
                "neither '-' nor '__'"
            )
        if name == "conch" or name.startswith("conch-"):
            raise ServerError(f"{flag}: conch, and names that begin with conch-, are Conch's own")
        try:
            kind, folder, _ = detect(model)
        except ConfigError as error:
            raise ConfigError(f"{flag}: {error}") from None
        if not decoders_of(kind.components):
            raise ServerError(f"{flag}: {kind.title} has names of its own: {kind.flag} {model}")
        folders_of_components(config, kind, flag)
        folders[name] = str(folder)
    return replace(config, named=folders)


def copies(config: ServerConfig) -> tuple[str, ...]:
    return tuple(
        served_as(component, name) for name, kind in _named(config) for component in kind.components
    )


def with_named_models(config: ServerConfig, directory: Path) -> ServerConfig:
    """Return the settings with a repository of copies of components, which read other folders."""
    if not config.named:
        return config
    made = directory / "named"
    made.mkdir(parents=True)
    for name, kind in _named(config):
        for component, model in folders_of_components(config, kind, "--model").items():
            link_with_folder(model, made / served_as(component, name), config, config.named[name])
    return replace(config, model_repositories=(*config.model_repositories, made), named={})


def _named(config: ServerConfig) -> Iterator[tuple[str, ModelKind]]:
    return ((name, detect(folder)[0]) for name, folder in config.named.items())


def check_aliases(repositories: Sequence[Path], names: Iterable[str]) -> None:
    """Check that the repositories have `speech`, and no model of one of these names."""
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

    The code behind a name is that of `speech_stream`, which hands requests to the process of
    `speech`. A repository without `speech_stream` is not Conch's; there it is that of `speech`.
    """
    if not config.also_as:
        return config
    repositories = tuple(map(Path, config.model_repositories))
    (model, *_) = (path / SPEECH for path in repositories if (path / SPEECH).is_dir())
    relay = model.with_name(RELAY)
    is_own = relay.is_dir()
    made = directory / "also_as"
    made.mkdir(parents=True)
    for name in config.also_as:
        path = served_config(model, config.model_config)
        text = _config_of(path, name, host=SPEECH if is_own else "") if path else None
        link_model(relay if is_own else model, made / name, text)
    return replace(
        config,
        model_repositories=(*repositories, made),
        models=(*config.models, *config.also_as) if config.models else (),
        also_as=(),
    )


def _config_of(path: Path, name: str, host: str) -> str:
    text = path.read_text("utf-8")
    config = parsed_config(path)
    # Triton refuses a name that is not the folder's. Most configs have none.
    if config is None or not (host or config.name):
        return text
    if config.name:
        config.name = name
    if host:
        for key in [key for key in config.parameters if not key.isupper()]:
            del config.parameters[key]  # those in upper case are Triton's
        config.parameters["host"].string_value = host
    return str(config)

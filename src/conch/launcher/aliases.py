"""Serve `speech` under further names, which clients written for other servers insist on."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from conch.launcher.config import ServerConfig
from conch.launcher.repositories import link_model, model_names, parsed_config, served_config
from conch.wire.errors import ServerError

SPEECH = "speech"
"""The model that has the further names."""
RELAY = "speech_stream"
"""A model whose code hands requests to another one."""


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

    Each name is a folder with the config.pbtxt that `speech` is served by. Its code is that of
    `speech_stream`, which hands requests to the process of `speech`. A repository without
    `speech_stream` is not Conch's; there the code is that of `speech`. The repository is made in
    `directory`.
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
    """Return the config of `speech` for a folder of this name; the model `host` answers."""
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

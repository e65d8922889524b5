"""Start without the models whose weights are not installed."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from conch import packaged
from conch.families import all_components
from conch.families.family import WeightsPackage
from conch.launcher.chosen_weights import components_with_weights, overruled
from conch.launcher.config import ServerConfig
from conch.launcher.logs import LOGGER
from conch.launcher.repositories import model_names, parsed_config, served_config
from conch.wire.errors import ServerError


def optional() -> Mapping[str, WeightsPackage]:
    """Return the packages of weights that no extra of Conch installs, by the model of each."""
    return {
        component.name: component.package
        for component in all_components()
        if component.package and component.package.command
    }


def with_weights(config: ServerConfig) -> ServerConfig:
    """Return the settings without the models whose weights are not installed, or overruled.

    Models that the caller chooses by Triton's own options stay.
    """
    repositories = [Path(path) for path in config.model_repositories]
    lacking = without_weights(repositories, config.model_config, components_with_weights(config))
    for model, remedy in lacking.items():
        if model in config.models:
            raise ServerError(f"model {model} cannot be loaded: {remedy}")
    others = overruled(config)
    if not (lacking or others) or config.models or config.callers_models:
        return config
    known = optional()
    for model, remedy in lacking.items():
        if known[model].is_of_user:
            continue
        LOGGER.info("model %s is left out: %s", model, remedy)
    return replace(config, models=set(model_names(repositories)) - {*lacking, *others})


def without_weights(
    repositories: Iterable[Path], model_config: str, chosen: Container[str] = ()
) -> dict[str, str]:
    """Return the models whose weights are not installed, by name, each with what to do.

    See `served_config` for `model_config`. The models in `chosen` get other weights.
    """
    missing = {name: lack for name, package in optional().items() if (lack := package.lacking)}
    found = {}
    for repository in repositories:
        for name, package in missing.items():
            path = served_config(repository / name, model_config)
            if name not in chosen and path is not None and _takes_the_default(path):
                found[name] = packaged.missing(package)
    return found


def _takes_the_default(path: Path) -> bool:
    """Return whether a config.pbtxt has the parameter `model`, as Conch's have, and it is empty."""
    config = parsed_config(path)
    parameters = config.parameters if config else {}
    return "model" in parameters and not parameters["model"].string_value

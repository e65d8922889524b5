"""Decide which models a server loads: at its start, when a request needs them, or not at all."""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from conch import packaged
from conch.families import all_components
from conch.families.family import WeightsPackage
from conch.launcher.admin import headers_for
from conch.launcher.config import ServerConfig
from conch.launcher.endpoints import Endpoints
from conch.launcher.logs import LOGGER
from conch.launcher.repositories import model_names, parsed_config, served_config
from conch.launcher.variants import components_with_weights, overruled
from conch.wire.entry_points import ENTRY_POINTS, FITTING, OnDemandSettings
from conch.wire.errors import ServerError
from conch.wire.hosts import host_port
from conch.wire.needs import components_to_serve


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
    names = set(model_names(repositories))
    unasked = set() if config.voices_from_recordings else {FITTING}
    left_out = names.intersection({*lacking, *overruled(config), *unasked})
    if not left_out or config.models or config.callers_models:
        return config
    known = optional()
    for model, remedy in lacking.items():
        if not known[model].is_of_user:
            LOGGER.info("model %s is left out: %s", model, remedy)
    return replace(config, models=names - left_out)


def without_weights(
    repositories: Iterable[Path], model_config: str, chosen: Container[str] = ()
) -> dict[str, str]:
    """Return what to do for each model without weights, but for those that are `chosen`."""
    missing = {name: lack for name, package in optional().items() if (lack := package.lacking)}
    remedies = {}
    for repository in repositories:
        for name, package in missing.items():
            path = served_config(repository / name, model_config)
            if name not in chosen and path is not None and _takes_the_default(path):
                remedies[name] = packaged.missing(package)
    return remedies


def _takes_the_default(path: Path) -> bool:
    """Return whether a config.pbtxt has the parameter `model`, as Conch's have, and it is empty."""
    config = parsed_config(path)
    parameters = config.parameters if config else {}
    return "model" in parameters and not parameters["model"].string_value


def on_demand(models: Collection[str], chosen: Collection[str] = ()) -> tuple[str, ...]:
    """Return the sorted ones of a server's models that need not be loaded at its start.

    Left out are models that a recording or live audio needs without options, that no family
    declares, or that are `chosen`. Without `speech`, which loads them, there are none.
    """
    if ENTRY_POINTS[0] not in models:
        return ()
    declared = {item.name for item in all_components()}
    needed = {
        component
        for live in (False, True)
        for component in components_to_serve({}, live=live, lacking=declared.difference(models))
    }
    return tuple(sorted(declared.intersection(models) - needed.union(chosen)))


def settings_for(models: tuple[str, ...], endpoints: Endpoints) -> OnDemandSettings:
    return OnDemandSettings(
        models,
        f"http://{host_port(endpoints.reachable, endpoints.http_port)}/v2/repository/models",
        headers_for("model-repository", endpoints.restricted),
    )

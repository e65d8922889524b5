"""Check the settings of a server and this machine, before anything is started."""

from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from conch import fitted_voices
from conch.fitted_voices import CONSENT_VARIABLE
from conch.launcher.admin import with_component_key
from conch.launcher.config import ServerConfig
from conch.launcher.endpoints import require_free, resolve_host
from conch.launcher.installation import (
    Installation,
    check_numpy,
    find_installation,
    server_environment,
    shared_memory_shortage,
    trace_environment,
    wheel_root,
)
from conch.launcher.loaded_models import on_demand, with_weights
from conch.launcher.logs import LOGGER
from conch.launcher.repositories import (
    check_models,
    check_repository,
    check_unique,
    model_names,
    models_with_config,
)
from conch.launcher.variants import (
    check_aliases,
    components_with_weights,
    copies,
    voices_environment,
    with_named_folders,
    with_weight_folders,
)
from conch.wire.entry_points import CODE, CODE_VARIABLE, DECODER_VARIABLE, SERVED_VARIABLE
from conch.wire.needs import decoder_of_chosen


@dataclass(frozen=True)
class Preparation:
    config: ServerConfig
    """Caller's settings with the folders of its weights, and the models to load at the start."""
    address: str
    installation: Installation
    environment: dict[str, str]
    on_demand: tuple[str, ...]


def prepare(config: ServerConfig, component_key: str) -> Preparation:
    address = resolve_host(config.host)
    for option, port in config.ports().items():
        if port:
            require_free(address, port, option)
    repositories = [Path(path) for path in config.model_repositories]
    for repository in repositories:
        check_repository(repository)
    check_unique(repositories)
    check_models(repositories, config.models)
    check_aliases(repositories, config.also_as)
    config = with_weights(with_weight_folders(with_named_folders(config)))
    if name := config.model_config:
        models = ", ".join(models_with_config(repositories, name))
        LOGGER.info("config %s: %s; the other models run their config.pbtxt", name, models)
    installation = find_installation(config.tritonserver, wheel=wheel_root())
    backend = installation.python_backend
    if backend:
        check_numpy(metadata.version("numpy"))
    environment = server_environment(backend.stub if backend else None)
    environment = with_component_key(environment, component_key)
    environment = trace_environment(config.extra_args, environment) | voices_environment(config)
    if config.voices_from_recordings:
        environment |= {fitted_voices.VARIABLE: "1", CONSENT_VARIABLE: config.voice_consent}
    later: tuple[str, ...] = ()
    if not config.callers_models:
        environment[CODE_VARIABLE] = str(CODE)
        named = copies(config)
        if named and config.models:
            config = replace(config, models=(*config.models, *named))
        served = {*(config.models or model_names(repositories)), *named}
        chosen = components_with_weights(config)
        if config.on_demand and (later := on_demand(served, chosen.keys())):
            config = replace(config, models=sorted(served.difference(later)))
        environment[SERVED_VARIABLE] = ",".join(sorted(served.difference(later)))
        environment[DECODER_VARIABLE] = decoder_of_chosen(chosen.keys())
    config = replace(config, on_demand=bool(later))
    if warning := shared_memory_shortage():
        LOGGER.warning("%s", warning)
    return Preparation(config, address, installation, environment, later)

"""Decide which models a server loads at its start, and which when a request first needs them."""

from collections.abc import Collection

from conch.families import all_components
from conch.launcher.admin import headers_for
from conch.launcher.endpoints import Endpoints
from conch.wire.entry_points import ENTRY_POINTS
from conch.wire.hosts import host_port
from conch.wire.needs import components_to_serve
from conch.wire.on_demand import OnDemandSettings


def on_demand(models: Collection[str], chosen: Collection[str] = ()) -> tuple[str, ...]:
    """Return the sorted ones of a server's models that need not be loaded at its start.

    These are the components that neither a recording nor live audio needs without options. Models
    that are not declared are not among them, nor those in `chosen`, whose weights somebody chose;
    and none is without `speech`, which loads them.
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
    """Return how `speech` loads these models on the server that has these ports."""
    return OnDemandSettings(
        models,
        f"http://{host_port(endpoints.reachable, endpoints.http_port)}/v2/repository/models",
        headers_for("model-repository", endpoints.restricted),
    )

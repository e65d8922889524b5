"""The doors of a gateway, as they are declared."""

import pytest

from conch.gateway.app import make_app
from conch.gateway.config import GatewayConfig
from conch.gateway.doors import DOORS, PORTS, Door
from conch.gateway.openapi import make_document
from conch.gateway.riva.protocol import RECOGNITION, SYNTHESIS, methods_of
from conch.gateway.state import Gateway


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_a_door_is_answered_by_what_it_names(door: Door) -> None:
    assert callable(door.answer)
    assert callable(door.refusal)


def test_names_and_addresses_are_those_of_one_door() -> None:
    assert len({door.name for door in DOORS}) == len(DOORS)
    assert len({(door.method, door.address) for door in DOORS}) == len(DOORS)


def test_every_address_that_takes_something_is_a_door() -> None:
    app = make_app(Gateway(GatewayConfig()))
    paths = make_document()["paths"]
    posts = {
        str(route.resource.canonical)
        for route in app.router.routes()
        if route.method == "POST" and route.resource is not None
    }
    posts = {path for path in posts if "requestBody" in paths[path]["post"]}
    sockets = {
        path
        for path, methods in paths.items()
        if "101" in methods.get("get", {}).get("responses", ())
    }
    declared = {
        (door.method, door.address) for door in DOORS if door.transport in ("http", "websocket")
    }
    assert declared == {*(("POST", path) for path in posts), *(("GET", path) for path in sockets)}


def test_every_method_of_riva_that_takes_audio_or_texts_is_a_door() -> None:
    declared = {door.address for door in DOORS if door.transport == "grpc"}
    methods = {
        method.path
        for service in (RECOGNITION, SYNTHESIS)
        for method in methods_of(service).values()
    }
    assert declared == {path for path in methods if not path.endswith("Config")}


def test_every_port_is_a_setting_with_an_opener() -> None:
    for port in PORTS:
        assert getattr(GatewayConfig(), port.name.lower()) is None
        assert callable(port.opener)
    assert {port.transport for port in PORTS} == {
        door.transport for door in DOORS if door.transport not in ("http", "websocket")
    }

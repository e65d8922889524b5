"""A server of one decoder, whose weights are those of a known model."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from conch.catalogue.kinds import KINDS
from conch.catalogue.known import KnownModel
from conch.catalogue.places import state_of
from conch.client import Client
from conch.launcher import ServerConfig, TritonServer


@contextmanager
def client_of(model: KnownModel, asked: str) -> Iterator[Client]:
    """Yield a client of a new server; skip the test where the model was not got.

    `asked` names the model as its flag takes it.
    """
    if wrong := state_of(model):
        pytest.skip(f"{model.title} is {wrong}: {model.how_to_get}")
    models = ("speech", "vad", *KINDS[model.kind].components)
    config = ServerConfig(models=models, weights={model.kind: asked}, stop_timeout_s=8)
    with TritonServer(config) as server, Client(server.http_url) as client:
        yield client

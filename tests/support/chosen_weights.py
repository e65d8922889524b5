"""A server of one decoder, whose weights are those of a known model."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from conch.catalogue.models import KINDS, state_of
from conch.client import Client
from conch.families.family import KnownModel
from conch.launcher import ServerConfig, TritonServer
from conch.packaged import how_to_get


@contextmanager
def client_of(model: KnownModel, asked: str) -> Iterator[Client]:
    """Yield a client of a new server; skip the test where the model was not got.

    `asked` names the model as its flag takes it.
    """
    if wrong := state_of(model):
        pytest.skip(f"{model.title} is {wrong}: {how_to_get(model)}")
    models = ("speech", "vad", *KINDS[model.kind].components)
    config = ServerConfig(models=models, weights={model.kind: asked}, stop_timeout_s=8)
    with TritonServer(config) as server, Client(server.http_url) as client:
        yield client

"""A server of one decoder, whose weights are those of a known model."""

from collections.abc import Iterator
from contextlib import contextmanager

from known_models import skip_without

from conch.catalogue.models import KINDS
from conch.client import Client
from conch.families.family import KnownModel
from conch.launcher import ServerConfig, TritonServer


@contextmanager
def client_of(model: KnownModel, asked: str) -> Iterator[Client]:
    """Yield a client of a new server; skip the test where the model was not got.

    `asked` names the model as its flag takes it.
    """
    skip_without(model)
    models = ("speech", "vad", *KINDS[model.kind].components)
    config = ServerConfig(models=models, weights={model.kind: asked}, stop_timeout_s=8)
    with TritonServer(config) as server, Client(server.http_url) as client:
        yield client

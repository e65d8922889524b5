"""A gateway with its Triton, and a locked one in front of the same, for clients of every kind."""

import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import trustme
from browsers import chromium
from gateways import Gateway, gateway_alone, new_key, serving_gateway
from lone_gateway import lone_gateway
from loop_gateway import LoopGateway, loop_gateway
from own_gateway import OwnGateway, own_gateway
from plain_live import PlainLiveClient
from playwright.sync_api import Browser
from programs import NODE_TESTS
from recordings import Recording, recordings_of

ROOT = Path(__file__).parents[2]
GIVEN = "CONCH_TESTED_GATEWAYS"
"""Environment variable of gateways that run already, for a pytest of another `openai`."""
RATE = 16_000


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Yield `conch serve` with its gateway, which takes every client."""
    if given := os.environ.get(GIVEN):
        yield Gateway(**json.loads(given)[0])
        return
    with pytest.MonkeyPatch.context() as patch:
        # Keys of whoever runs the tests would lock it.
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("CONCH_API_KEYS", raising=False)
        # Four such servers start at once.
        with serving_gateway("--models", "all", "--startup-timeout", "170") as running:
            yield running


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """Yield the address of a gateway without a server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CONCH_API_KEYS", raising=False)
        with lone_gateway() as service:
            yield service.url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a browser whose microphone beeps."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def behind() -> Any:
    """Return what stands for the client of a gateway's server."""
    return PlainLiveClient()


@pytest.fixture
async def running(behind: Any) -> AsyncIterator[LoopGateway]:
    """Yield a gateway in the loop of the test, in front of a client that reaches no server."""
    async with loop_gateway(behind) as running:
        yield running


class _Packages(SimpleHTTPRequestHandler):
    """Serves node's packages to a browser."""

    def log_message(self, format: str, *values: object) -> None:
        pass


@pytest.fixture(scope="session")
def elsewhere() -> Iterator[str]:
    """Yield the origin of a web server that is not the gateway, with node's packages."""
    folder = str(NODE_TESTS / "node_modules")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Packages, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def locked(
    gateway: Gateway, elsewhere: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Yield a gateway before the same Triton: keys, TLS, a small limit of the body, one origin."""
    if given := os.environ.get(GIVEN):
        yield Gateway(**json.loads(given)[1])
        return
    folder = tmp_path_factory.mktemp("tls")
    keys_file = str(folder / "keys.json")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    key = new_key("tests", keys_file)
    arguments = [
        *("--url", gateway.grpc_url),
        *("--tls-cert", str(folder / "server.pem")),
        *("--keys", keys_file),
        *("--max-body-mb", "1"),
        *("--allow-origin", elsewhere),
    ]
    trust = str(folder / "ca.pem")
    with gateway_alone(*arguments, ca=trust, key=key, keys_file=keys_file) as running:
        yield running


@pytest.fixture(scope="session")
def grpc_url(gateway: Gateway) -> str:
    """Return the address of the Triton behind the gateway."""
    return gateway.grpc_url


@pytest.fixture(scope="session")
def metrics_url(gateway: Gateway) -> str:
    """Return the address of that Triton's metrics."""
    return gateway.metrics_url


@pytest.fixture(scope="session")
def inner_gateway(grpc_url: str) -> Iterator[OwnGateway]:
    """Yield a gateway of this process in front of the same Triton."""
    with own_gateway(grpc_url) as running:
        yield running


@pytest.fixture(scope="session")
def gateway_url(inner_gateway: OwnGateway) -> str:
    """Return its address, as `http://HOST:PORT`."""
    return inner_gateway.url


@pytest.fixture
def given_gateways(gateway: Gateway, locked: Gateway) -> dict[str, str]:
    """Return the environment in which another pytest tests the same two gateways."""
    return {**os.environ, GIVEN: json.dumps([asdict(gateway), asdict(locked)])}


@pytest.fixture(scope="session")
def recordings() -> list[Recording]:
    """Return the utterances of tests/data with their references."""
    return recordings_of(ROOT / "tests" / "data")


@pytest.fixture(scope="session")
def speech(recordings: list[Recording]) -> Recording:
    """Return an utterance of four seconds."""
    return recordings[4]


@pytest.fixture(scope="session")
def talk(recordings: list[Recording], tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Return two utterances of four seconds each, with a pause of two after each."""
    pause = np.zeros(2 * RATE, np.float32)
    spoken = recordings[4], recordings[0]
    path = tmp_path_factory.mktemp("talk") / "talk.wav"
    waveform = np.concatenate([part for one in spoken for part in (one.waveform(), pause)])
    soundfile.write(path, waveform, RATE)
    return Recording(path, " ".join(one.text for one in spoken))

"""A voice of Piper's shape on a real server, whose gateway learns of it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from toy_piper import HOP, write_piper

from conch.client import Client
from conch.gateway import GatewayConfig, GatewayService
from conch.launcher import ServerConfig, TritonServer
from conch.wire.entry_points import SYNTHESIS
from conch.wire.errors import OptionError

pytestmark = [pytest.mark.server, pytest.mark.nightly]

PATH = ("text_frontend", "piper_acoustic", "piper_vocoder")
TEXT = "Nobody knows where the old man went, or why he left the house so early."


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder: Path = tmp_path_factory.mktemp("piper")
    write_piper(folder, "crowd", speakers=("ann", "ben"))
    models = ("speech", "vad", *SYNTHESIS, *PATH)
    config = ServerConfig(models=models, weights={"piper": str(folder)}, stop_timeout_s=8)
    with TritonServer(config) as server:
        url = f"grpc://{server.grpc_url}"
        with GatewayService(GatewayConfig(servers=(url,), port=0)) as gateway:
            yield url, gateway.url


def test_a_voice_of_the_users_speaks_in_chunks(urls: tuple[str, str]) -> None:
    for url in urls:
        with Client(url) as client:
            *chunks, end = client.synthesize_stream(TEXT, voice="crowd#ben", timestamps=True)
            samples = np.concatenate([item.waveform for item in chunks])
            whole = client.synthesize(TEXT, voice="crowd#ben").waveform
            with pytest.raises(OptionError, match="crowd#SPEAKER with one of ann, ben"):
                client.synthesize(TEXT, voice="crowd#eve")
            with pytest.raises(OptionError, match=r"takes one of hibari, .*crowd"):
                client.synthesize(TEXT, voice="nobody")
        assert len(chunks) > 2 and end.spoken.sample_rate == 16_000
        assert len(samples) % HOP == 0
        np.testing.assert_allclose(samples, whole, atol=1e-5)

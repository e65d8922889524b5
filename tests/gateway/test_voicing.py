"""How texts are to sound, and what their audio counts for."""

from collections.abc import AsyncGenerator

import numpy as np
import pytest

from conch.client import Speech
from conch.gateway.config import GatewayConfig
from conch.gateway.state import Gateway
from conch.gateway.voicing import Voicing, counted
from conch.wire.errors import OptionError
from conch.wire.synthesis import Spoken

COUNTED = 'conch_gateway_audio_seconds_total{key="anybody",route="/v1/some"}'


def test_the_server_makes_the_samples_that_the_gateway_encodes() -> None:
    assert Voicing.parse({"speed": 2}, "mp3") == Voicing(
        {"speed": 2, "format": "pcm_f32"}, "mp3", "hibari", 24_000
    )
    assert Voicing.parse({"sample_rate": 8000}, "opus").rate == 8000
    with pytest.raises(OptionError, match="sample_rate"):
        Voicing.parse({"sample_rate": 44_100}, "opus")


async def test_seconds_are_counted_as_they_come() -> None:
    async def spoken() -> AsyncGenerator[Speech, None]:
        for samples, end_s in ((0, 0.0), (1, 1.5), (1, 2.0), (0, 2.0)):
            yield Speech(np.zeros(samples, np.float32), b"", Spoken(end_s, 24_000, "hibari"))

    gateway, requests = Gateway(GatewayConfig(port=0)), []
    pieces = counted(
        *(spoken(), gateway, gateway.caller(None), "/v1/some"),
        lambda: requests.append(1) or 0.0,  # type: ignore[func-returns-value]
    )
    seen = []
    async for _ in pieces:
        lines = gateway.metrics.as_text().decode().splitlines()
        seen.append(sum(float(line.split()[1]) for line in lines if line.startswith(COUNTED)))
    await gateway.servers.close()
    assert (seen, len(requests)) == ([0.0, 1.5, 2.0, 2.0], 1)

"""The counters of heals and restarts, as the gateway shows them."""

from pathlib import Path

from conch.cli.heal_metrics import HealMetrics
from conch.gateway.metrics import GatewayMetrics
from conch.launcher import ServerConfig, TritonServer


def test_what_was_healed_is_counted_by_model(tmp_path: Path) -> None:
    server = TritonServer(ServerConfig([tmp_path]))
    metrics = GatewayMetrics()
    metrics.registry.register(HealMetrics(server, ["vad"]))
    assert b"conch_server_restarts_total 0.0" in metrics.as_text()
    assert b'conch_heals_total{model="vad"} 0.0' in metrics.as_text()
    server.heals["vad"] += 2
    server.heals["speech"] += 1
    server.restarts += 1
    lines = metrics.as_text().decode().splitlines()
    assert 'conch_heals_total{model="vad"} 2.0' in lines
    assert 'conch_heals_total{model="speech"} 1.0' in lines
    assert "conch_server_restarts_total 1.0" in lines

"""A real Prometheus with the configuration of deploy/ asks every query of the dashboard."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from project_scripts import script
from servers import ANY_TRITON_PORTS, SERVE
from waiting import wait_until

from conch.cli.demo import SPEECH

pytestmark = [pytest.mark.server, pytest.mark.nightly, pytest.mark.timeout(600)]

DEPLOY = Path(__file__).parents[2] / "deploy"
KEY, METRICS_KEY = "a-key-of-a-client", "a-key-for-prometheus"
MADE = {
    *("conch_chunks_total", "conch_answer_seconds_total", "conch_audio_seconds_total"),
    *("conch_calls_total", "conch_call_seconds_total", "conch_streams_ended_total"),
    *("conch_open_streams", "conch_component_streams"),
    *("conch_gateway_requests_total", "conch_gateway_request_seconds", "conch_gateway_sessions"),
    *("conch_gateway_files", "conch_gateway_sessions_ended_total"),
    *("conch_gateway_audio_seconds_total", "conch_gateway_first_text_seconds"),
    *("conch_heals_total", "conch_server_restarts_total"),
}
"""Metrics that live streams and a request for a missing model bring about."""

Json = dict[str, Any]


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    """Yield the URLs of a server for live streams, with keys: `gateway` and `metrics`."""
    keys = {"CONCH_API_KEYS": f"me:{KEY},metrics:{METRICS_KEY}"}
    command = [*SERVE, *ANY_TRITON_PORTS, "--gateway", "127.0.0.1:0", "--models", "streaming"]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | keys,
    ) as process:
        try:
            assert process.stdout is not None
            found: dict[str, str] = {}
            for line in process.stdout:
                if match := re.match(r" +(gateway|metrics) +http://([\w.:]+)", line):
                    found[match[1]] = match[2]
                if "Ctrl-C" in line:
                    break
            assert set(found) == {"gateway", "metrics"}
            yield found
        finally:
            process.terminate()
            process.wait(80)


@pytest.fixture(scope="module")
def prometheus(addresses: dict[str, str], tmp_path_factory) -> Iterator[str]:
    """Yield the address of a Prometheus with the shipped configuration, which asks every second."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is missing: apt-get install prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    shutil.copy(DEPLOY / "prometheus" / "alerts.yml", folder)
    (folder / "metrics_key").write_text(METRICS_KEY)
    config = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    changes = {
        "15s": "1s",
        "127.0.0.1:8002": addresses["metrics"],
        "127.0.0.1:9000": addresses["gateway"],
        "/run/secrets/metrics_key": str(folder / "metrics_key"),
    }
    for there, here in changes.items():
        assert there in config
        config = config.replace(there, here)
    (folder / "prometheus.yml").write_text(config)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    flags = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [program, *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        ) as process,
    ):
        try:

            def ready() -> bool:
                assert process.poll() is None, (folder / "log").read_text()
                with contextlib.suppress(OSError):
                    return bool(asked(address, "query", query="up"))
                return False

            wait_until(ready)
            yield address
        finally:
            process.terminate()
            process.wait(20)


def asked(address: str, what: str, **query: str) -> Any:
    """Return what Prometheus answers; a wrong query is an `HTTPError`."""
    url = f"http://{address}/api/v1/{what}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=10) as response:
        answer: Json = json.load(response)
    assert answer["status"] == "success"
    return answer["data"]


def values(address: str, query: str) -> list[Json]:
    """Return the series of a query, each with its value now."""
    found: list[Json] = asked(address, "query", query=query)["result"]
    return found


def has_values(address: str, query: str) -> bool:
    return bool(values(address, query))


async def work(gateway: str) -> None:
    """Speak once, and send a file for whose model nothing is loaded."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with aiohttp.ClientSession(f"http://{gateway}", headers=headers) as session:
        async with session.ws_connect("/v1/conch/listen?mode=streaming") as live:
            await live.send_bytes(SPEECH.read_bytes())
            await live.send_json({"type": "close"})
            kinds = [frame.json()["type"] async for frame in live]
            assert kinds[-1] == "end" and "segment" in kinds
        form = aiohttp.FormData({"model": "conch"})
        form.add_field("file", SPEECH.read_bytes(), filename="tiger.ogg")
        async with session.post("/v1/audio/transcriptions", data=form) as answer:
            assert answer.status == 400


@pytest.fixture(scope="module")
def at_work(addresses: dict[str, str], prometheus: str) -> str:
    """Return the address of Prometheus, which has seen counters begin and grow."""

    def reached(count: int) -> bool:
        found = values(prometheus, "sum(conch_streams_ended_total)")
        return bool(found) and float(found[0]["value"][1]) >= count

    for count in range(3):
        asyncio.run(work(addresses["gateway"]))
        wait_until(partial(reached, count + 1))
    return prometheus


def test_both_ports_are_read_and_the_rules_hold(at_work: str) -> None:
    up = {item["metric"]["job"]: item["value"][1] for item in values(at_work, "up")}
    assert up == {"conch": "1", "conch-gateway": "1"}

    def rules() -> list[Json]:
        return [rule for group in asked(at_work, "rules")["groups"] for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] == "ok" for rule in rules()))
    assert len(rules()) >= 5
    assert [rule["name"] for rule in rules() if rule["state"] == "firing"] == []


def test_every_query_of_the_dashboard_is_answered(at_work: str) -> None:
    dashboards = script("dashboard")
    shown = json.loads(dashboards.DASHBOARD.read_text("utf-8"))
    names = set(asked(at_work, "label/__name__/values"))
    there = {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}
    assert there >= MADE
    answered = 0
    for query in dashboards.queries_of(shown):
        query = query.replace(dashboards.WINDOW, "1m")
        selectors = re.findall(r"conch_\w+(?:\{[^}]*\})?", query)
        if all(values(at_work, f"count({selector})") for selector in selectors):
            # An increase needs a second sample, which a busy machine takes late.
            wait_until(partial(has_values, at_work, query))
            answered += 1
    assert answered >= len(MADE)


def test_a_wrong_query_would_be_seen(at_work: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        values(at_work, "sum by (conch_chunks_total")
    assert refused.value.code == 400
    refused.value.close()

"""A gateway in a process of its own, with all its ports and the limits that a test gives it.

As a program it runs until its standard input ends; `gateway_with` starts it.
"""

import json
import logging
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from conch.gateway import GatewayConfig, GatewayService
from conch.gateway.config import Times
from conch.gateway.doors import PORTS, Door

ANY_PORT = ("127.0.0.1", 0)


@dataclass(frozen=True, slots=True)
class GatewayAddresses:
    """Where a gateway listens, as `host:port`."""

    http: str
    others: Mapping[str, str]
    """By transport."""
    pid: int

    def of(self, door: Door) -> str:
        return self.others.get(door.transport, self.http)

    def running(self) -> dict[str, float]:
        """Return what the gateway says is in work: files, texts and sessions, by name and route."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=60) as answer:
            families = [*text_string_to_metric_families(answer.read().decode())]
        names = ("conch_gateway_files", "conch_gateway_texts", "conch_gateway_sessions")
        return {
            " ".join((sample.name, *sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
            if sample.name in names and sample.value
        }


@contextmanager
def gateway_with(server: str, log: Path, **settings: Any) -> Iterator[GatewayAddresses]:
    """Yield where a gateway in front of a server listens; its log goes to a file.

    `settings` are those of `GatewayConfig`, with `times` as those of `Times`.
    """
    command = [sys.executable, "-m", __name__, json.dumps({"servers": [server], **settings})]
    # The caller's own keys would lock it.
    environment = {**os.environ, "CONCH_API_KEYS": ""}
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        try:
            said = process.stdout.readline()
            assert said, f"the gateway did not start: {log.read_text()}"
            yield GatewayAddresses(**json.loads(said))
        finally:
            process.stdin.close()


def main() -> None:
    """Run a gateway whose settings are the only argument."""
    settings = json.loads(sys.argv[1])
    settings["times"] = Times(**settings.get("times", {}))
    ports: dict[str, Any] = {port.name.lower(): ANY_PORT for port in PORTS}
    logging.basicConfig(format="%(levelname)s %(name)s %(message)s", level=logging.INFO)
    with GatewayService(GatewayConfig(port=0, **ports, **settings)) as service:
        others = {
            port.transport: service.other_urls[port.name].partition("//")[2] for port in PORTS
        }
        said = {"http": service.url.partition("//")[2], "others": others, "pid": os.getpid()}
        print(json.dumps(said), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

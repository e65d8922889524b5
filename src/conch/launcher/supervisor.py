"""Keep a server serving: heal models whose processes die or freeze, and start it again."""

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from conch.launcher import diagnosis
from conch.launcher.command import Endpoints
from conch.launcher.healing import Backoff
from conch.launcher.keeper import LOOK_S
from conch.launcher.logs import LOGGER
from conch.wire.errors import ServerError

if TYPE_CHECKING:
    from conch.launcher.triton_server import TritonServer

HEALTHY_S = 60.0
"""Seconds between two starts after which the next failure is treated as the first."""


class Supervisor:
    """Watches one server that was started."""

    def __init__(self, server: "TritonServer", endpoints: Endpoints) -> None:
        """Watch nothing yet.

        Args:
            server: Server to restart on the same ports.
            endpoints: Its ports.
        """
        self._server, self._endpoints = server, endpoints
        self._backoff = Backoff(HEALTHY_S)

    def run(self, ended: threading.Event) -> None:
        """Heal the server's models, and start it again where that does not help, until `ended`."""
        while not ended.is_set():
            if reason := self._watch(ended):
                LOGGER.error("tritonserver is started again: %s", reason)
                self._restart(ended)

    def _watch(self, ended: threading.Event) -> str:
        """Heal models until only a new server helps; return why, nothing if `ended` is set."""
        server = self._server
        try:
            keeper = server.new_keeper(self._endpoints)
        except OSError as error:
            return f"its models' processes cannot be listed: {error}"
        blind = False
        try:
            while server.process.poll() is None:
                if ended.wait(LOOK_S):
                    return ""
                try:
                    keeper.look()
                    server.close_to_others()  # a model that was healed has new segments
                    blind = False
                except OSError as error:
                    # Connections to the gateway may hold all file descriptors of this program.
                    if not blind:
                        LOGGER.error("the models' processes cannot be watched: %s", error)
                    blind = True
        except ServerError as error:
            return str(error)
        finally:
            keeper.close()
        if ended.is_set():
            return ""
        how = diagnosis.describe_exit(server.process.poll())
        log = server.log_tail()
        return f"tritonserver ended by itself ({how}); the last lines of its log:\n{log}"

    def _restart(self, ended: threading.Event) -> None:
        began = time.monotonic()
        # Clients that wait for an answer learn at once that there will be none.
        with contextlib.suppress(OSError):
            self._server.kill()
        while not ended.wait(self._backoff.wait_s(time.monotonic())):
            self._backoff.attempt(time.monotonic())
            try:
                self._server.start_again(self._endpoints)
            except (ServerError, OSError) as error:
                if not ended.is_set():
                    LOGGER.error("tritonserver could not be started again: %s", error)
            else:
                self._server.restarts += 1
                LOGGER.warning("tritonserver serves again after %.1f s", time.monotonic() - began)
                return

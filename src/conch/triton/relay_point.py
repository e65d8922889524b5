"""Hand the requests of a BLS model to another model of the server, which answers them."""

import gc
from collections.abc import Mapping
from typing import Any

from conch.bls.channel import address_of, is_of_this_server
from conch.bls.relay import Relay, RelayConfig
from conch.triton.logs import log_to_stderr
from conch.triton.memory import watch
from conch.triton.messages import Requests


class RelayPoint:
    """Hands requests on, and sends the answers; it imports nothing of what answers them."""

    def __init__(self, config: RelayConfig, args: Mapping[str, str]) -> None:
        log_to_stderr()
        self._relay = Relay(address_of(config.host), config.host, is_of_this_server)
        self._requests = Requests(args, self._relay.start)

    def start(self, request: Any) -> None:
        self._requests.start(request)
        watch.called()

    def close(self) -> None:
        """Answer what still runs by an error, and stop all threads."""
        self._relay.close()
        self._requests.close()
        # Tensors in the frames of what failed: Triton's stub crashes where they outlive it.
        gc.collect()

"""Connect a BLS model of Triton with the host of its service, and give its calls threads."""

import gc
import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from conch.bls.channel import address_of, is_of_this_server
from conch.bls.config import BlsConfig, OwnComponents, with_copies
from conch.bls.failover import OnDemand
from conch.bls.hangs import HangWatch, ModelProcesses, boot_time_s
from conch.bls.host import Host
from conch.bls.metrics import Metrics
from conch.bls.relay import RelayServer
from conch.bls.runtime import Runtime
from conch.bls.service import Message, Responder, Service
from conch.triton.components import TritonComponents, load
from conch.triton.logs import log_to_stderr
from conch.triton.messages import Requests
from conch.triton.metrics import MetricsPublisher
from conch.triton.server_arguments import missing_arguments, parents_command
from conch.triton.tracing import tracer_of_environment
from conch.wire.entry_points import DECODER_VARIABLE, SERVED_VARIABLE, OnDemandSettings

logger = logging.getLogger(__name__)

DRAIN_TIMEOUT_S = 5.0
"""Longest time for requests of other processes to be answered, in seconds."""
FINISH_TIMEOUT_S = 10.0
"""Longest time for requests in flight to be cancelled, and for their calls to end, in seconds: more
than a component that hangs has to answer."""


class EntryPoint:
    """Answers the requests of a BLS model by a service.

    `start` only starts a request. Its answers go through its response sender, so that one instance
    has any number of requests in flight.
    """

    def __init__(
        self,
        service: Callable[[Any, Runtime], Service[Any]],
        config: BlsConfig,
        own: OwnComponents,
        args: Mapping[str, str],
    ) -> None:
        log_to_stderr()
        for lack in missing_arguments(parents_command(), os.environ, config.max_calls_in_flight):
            logger.warning("this tritonserver was started without %s", lack)
        self._lanes = lanes = Lanes(config.max_calls_in_flight, config.max_passes_in_flight)
        metrics = Metrics()
        processes = ModelProcesses(os.getppid())
        served = [*filter(None, os.environ.get(SERVED_VARIABLE, "").split(","))]
        own = with_copies(own, served)
        self._hangs = HangWatch(processes, own, config.min_hang_s, metrics, boot_time_s)
        detached = TritonComponents(None, None, self._hangs, lanes.passes, lanes.ends, lanes.post)
        settings = OnDemandSettings.of(os.environ)
        on_demand = OnDemand(settings.models, detached.is_loaded, partial(load, settings))
        decoder = os.environ.get(DECODER_VARIABLE, "")
        runtime = Runtime(config, own, detached, served, metrics, on_demand, decoder)
        made = service(config, runtime)
        self._tracer = tracer_of_environment()
        self._publisher = MetricsPublisher(args["model_name"], metrics, made.gauges)
        self._host = Host(made, runtime, self._components_for, lanes.audio)
        self._requests = Requests(args, self._host.start)
        self.start = self._requests.start
        address = address_of(args["model_name"])
        self._relays = RelayServer(address, self._host.start, is_of_this_server)
        self._hangs.start()

    def close(self) -> None:
        """Free ended streams, cancel what still runs, and stop all threads.

        Triton waits for its requests to this model before it calls this. Those of other processes
        have DRAIN_TIMEOUT_S more. A call that never ends is not waited for.
        """
        self._relays.drain(DRAIN_TIMEOUT_S)
        self._host.close(FINISH_TIMEOUT_S, self._stop_calls)
        self._relays.close()
        self._publisher.close()
        if self._tracer:
            self._tracer.close()
        # Tensors in the frames of tasks that failed: Triton's stub crashes where they outlive it.
        gc.collect()

    def _components_for(self, message: Message, responder: Responder) -> TritonComponents:
        names = {"triton.model_name": message.model, "triton.request_id": message.request_id}
        span = self._tracer.begin(message.trace, names) if self._tracer else None
        lanes = self._lanes
        pool = lanes.live if message.stream_id else lanes.recordings
        return TritonComponents(
            span, responder, self._hangs, pool, lanes.ends, lanes.post, ends_stream=message.ends
        )

    def _stop_calls(self) -> None:
        if not self._lanes.close(FINISH_TIMEOUT_S):
            logger.error("calls of components have not ended, and are left behind")
        self._hangs.close()
        self._requests.close()


class Lanes:
    """Threads for calls and for reading audio: an urgent call never waits behind another one."""

    def __init__(self, max_calls: int, max_passes: int) -> None:
        """Take at least 4 `max_calls`. A pass makes one at once, with rescoring up to three."""
        live, ends, post = max_calls // 4, max(1, max_calls // 16), max_calls // 8
        passes = min(2 * max_passes, live)
        self.live = _lane("live", live)
        """Calls for chunks of live streams."""
        self.passes = _lane("pass", passes)
        """Calls that belong to no request: passes over live utterances."""
        self.ends = _lane("end", ends)
        """Calls that end a stream of a component."""
        self.recordings = _lane("call", max_calls - live - passes - ends - post)
        self.post = _lane("post", post) if post else self.recordings
        """Calls of models that are not Conch's own: one that hangs keeps its thread."""
        self.audio = _lane("audio", (os.cpu_count() or 1) + 4)
        """Reads audio files; it calls no component."""

    def close(self, timeout_s: float) -> bool:
        """Drop what waits, wait for what runs, and stop all threads; return whether they stopped.

        Calls may never end, so the wait has a limit. Those of models that are not Conch's own are
        not waited for.
        """
        lanes = (self.live, self.passes, self.ends, self.recordings, self.audio)
        for lane in (self.post, *lanes):
            lane.shutdown(wait=False, cancel_futures=True)

        def wait() -> None:
            for lane in lanes:
                lane.shutdown()

        waiting = threading.Thread(target=wait, name="lanes-end", daemon=True)
        waiting.start()
        waiting.join(timeout_s)
        return not waiting.is_alive()


def _lane(name: str, threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix=f"bls-{name}")

"""Limits, failover and metrics of a process, shared by all of its requests."""

from collections.abc import Callable, Iterable, Mapping

from conch.bls.admission import Admission
from conch.bls.call import Components, Deadline, Policy
from conch.bls.calls import Calls
from conch.bls.concurrency import ConcurrencyLimits
from conch.bls.config import BlsConfig, OwnComponents
from conch.bls.failover import Failover, OnDemand
from conch.bls.metrics import AUDIO_IN_FLIGHT, COMPONENTS_AWAY, Metric, Metrics
from conch.fitted_voices import own_voices
from conch.wire.entry_points import Health
from conch.wire.named_models import named_models


class Runtime:
    def __init__(
        self,
        config: BlsConfig,
        own: OwnComponents,
        detached: Components,
        served: Iterable[str] = (),
        metrics: Metrics | None = None,
        on_demand: OnDemand | None = None,
        decoder: str = "",
    ) -> None:
        """`decoder` is the default of requests; "" for that of the families."""
        self.detached = detached
        self.metrics = metrics or Metrics()
        self.admission = Admission(config, self.metrics)
        self.limits = ConcurrencyLimits(config, own, self.metrics)
        served = [*served]
        self.failover = Failover(detached, self.metrics, served, on_demand)
        self.named, self.decoder = named_models(served), decoder

    @property
    def gauges(self) -> Mapping[Metric, Callable[[], float]]:
        """Return functions that give the present values of metrics that each service has."""
        return {
            AUDIO_IN_FLIGHT: lambda: self.admission.audio_s,
            COMPONENTS_AWAY: lambda: len(self.failover.away),
        }

    @property
    def health(self) -> Health:
        """Return the components that are away or on demand, and the named models."""
        on_demand = tuple(self.failover.on_demand)
        named = tuple(sorted(self.named))
        return Health(tuple(self.failover.away), on_demand, named, own_voices())

    def calls(
        self,
        components: Components,
        mode: str,
        deadline: Deadline,
        turns: Policy,
        model: str = "",
    ) -> Calls:
        """Return the calls of one recording, which wait for its `RecordingTurns`.

        `model` is the name of a named model whose components they call; empty for none.
        """
        policies = (self.failover, turns)
        copies = self.named.get(model, {})
        return Calls(components, policies, self.failover, self.metrics, mode, deadline, copies)

    def live_calls(
        self,
        components: Components,
        mode: str,
        deadline: Deadline | None = None,
        model: str = "",
    ) -> Calls:
        """Return the calls of a live chunk, which do not wait."""
        turns = self.limits.without_waiting
        return self.calls(components, mode, deadline or Deadline(), turns, model)

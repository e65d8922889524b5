"""Limits, failover and metrics of a process, shared by all of its requests."""

from collections.abc import Iterable

from conch.bls.admission import Admission
from conch.bls.availability import Availability
from conch.bls.call import Components, Policy
from conch.bls.calls import Calls
from conch.bls.concurrency import ConcurrencyLimits, RecordingTurns, WithoutWaiting
from conch.bls.config import BlsConfig
from conch.bls.deadline import Deadline
from conch.bls.failover import Failover
from conch.bls.metrics import Metrics
from conch.bls.traits import OwnComponents


class Runtime:
    """What all requests of a process share."""

    def __init__(
        self,
        config: BlsConfig,
        own: OwnComponents,
        detached: Components,
        served: Iterable[str] = (),
        metrics: Metrics | None = None,
    ) -> None:
        """Start without requests.

        Args:
            config: Limits.
            own: Traits of this server's components.
            detached: Components for calls that belong to no request.
            served: Names of the components that the server is known to have.
            metrics: Where the work is counted; new ones if None.
        """
        self.detached = detached
        self.metrics = metrics or Metrics()
        self.admission = Admission(config, self.metrics)
        self.limits = ConcurrencyLimits(config, own, self.metrics)
        self._without_waiting = WithoutWaiting(self.limits)
        self.availability = Availability(detached, served, self.limits.give_up)
        self._failover = Failover(self.availability, self.metrics)

    @property
    def away(self) -> list[str]:
        """Components whose calls wait: they have died, hang or are being replaced."""
        return self.availability.away

    def calls(
        self, components: Components, mode: str, deadline: Deadline, turns: RecordingTurns
    ) -> Calls:
        """Return the calls of one recording, which wait for their turn.

        Args:
            components: Components for the calls of the request.
            mode: Label of the path in the metrics.
            deadline: Time budget of the request.
            turns: Turns of the recording.
        """
        return self._calls(components, mode, deadline, turns)

    def live_calls(
        self, components: Components, mode: str, deadline: Deadline | None = None
    ) -> Calls:
        """Return the calls of a live chunk, which do not wait; see `calls` for the arguments."""
        return self._calls(components, mode, deadline or Deadline(), self._without_waiting)

    def _calls(self, components: Components, mode: str, deadline: Deadline, turns: Policy) -> Calls:
        policies = (self._failover, turns)
        return Calls(components, policies, self.availability, self.metrics, mode, deadline)

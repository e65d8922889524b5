"""Which components `speech` loads on demand, and how: the launcher says it by an environment."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

VARIABLE = "CONCH_ON_DEMAND"
"""Environment variable of `tritonserver`, which its models inherit."""


@dataclass(frozen=True)
class OnDemandSettings:
    """The components that a server has, but loads only when a request needs them."""

    models: tuple[str, ...] = ()
    url: str = ""
    """URL of Triton's repository API, up to the name of a model."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers with the key of this API."""

    def to_environment(self) -> dict[str, str]:
        """Return the environment variable; none without components."""
        return {VARIABLE: json.dumps(asdict(self))} if self.models else {}

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "OnDemandSettings":
        return cls(**json.loads(environment.get(VARIABLE, "{}")))

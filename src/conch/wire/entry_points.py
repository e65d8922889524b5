"""The BLS models of a server, which call its components, and their environment."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

ENTRY_POINTS = ("speech", "speech_stream")
"""Entry points of recognition."""
SYNTHESIS = ("synthesis", "synthesis_stream")
"""Entry points of synthesis."""

SERVED_VARIABLE = "CONCH_SERVED_MODELS"
"""Environment variable of `tritonserver`: the names of the models that it loads, with commas. So an
entry point that is loaded again knows which components come back too."""
DECODER_VARIABLE = "CONCH_DECODER"
"""Environment variable of `tritonserver`: the decoder that writes the text where a request leaves
that open; empty for those that are declared."""
CODE = Path(__file__).resolve().parents[1]
"""Folder of this code."""
CODE_VARIABLE = "CONCH_CODE"
"""Environment variable of `tritonserver`: the folder of the code that has started it."""
ON_DEMAND_VARIABLE = "CONCH_ON_DEMAND"
"""Environment variable of `tritonserver`, with `OnDemandSettings`."""


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
        return {ON_DEMAND_VARIABLE: json.dumps(asdict(self))} if self.models else {}

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "OnDemandSettings":
        return cls(**json.loads(environment.get(ON_DEMAND_VARIABLE, "{}")))

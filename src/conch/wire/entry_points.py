"""The BLS models of a server: their names, their environment, and the parameters of their calls.

The component key is that of `speech`; no other client has it. Triton cancels no call that a model
has made. Where rows are in flight together, another call therefore names the number of a call that
shall leave. This helps where it can: a call that has gone to another instance, or comes later, does
not leave.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

ENTRY_POINTS = ("speech", "speech_stream")
"""Entry points of recognition."""
SYNTHESIS = ("synthesis", "synthesis_stream")
"""Entry points of synthesis."""
FITTING = "fitting"
"""Entry point by which voices are fitted to recordings."""
ALL_ENTRY_POINTS = (*ENTRY_POINTS, *SYNTHESIS, FITTING)

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
COMPONENT_KEY_VARIABLE = "CONCH_COMPONENT_KEY"
"""Environment variable of `tritonserver`: its models inherit the key. Without it, components answer
any client."""
COMPONENT_KEY = "component_key"
"""Request parameter of each call of a component."""
CALL_NUMBER = "call_number"
"""Request parameter: the number of a call, an integer that no other call of the server has."""
LEAVING_CALL = "call_leaves"
"""Request parameter: the number of the call that nobody waits for any more."""
HEALTH = "health"
"""Request parameter that asks for the components. Such a request needs no audio; it has any tensor
of the model."""


@dataclass(frozen=True)
class OnDemandSettings:
    """The components that a server has, but loads only when a request needs them."""

    models: tuple[str, ...] = ()
    url: str = ""
    """URL of Triton's repository API, up to the name of a model."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers with the key of this API."""

    def to_environment(self) -> dict[str, str]:
        return {ON_DEMAND_VARIABLE: json.dumps(asdict(self))} if self.models else {}

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "OnDemandSettings":
        return cls(**json.loads(environment.get(ON_DEMAND_VARIABLE, "{}")))


def own_key() -> dict[str, str]:
    """Return the request parameter that components ask for; none where they are open."""
    key = os.environ.get(COMPONENT_KEY_VARIABLE)
    return {COMPONENT_KEY: key} if key else {}


@dataclass(frozen=True, slots=True)
class ChunkPosition:
    """The position of a chunk in its stream, as Triton's sequence batcher has it."""

    stream_id: str
    starts: bool
    ends: bool


class Health(msgspec.Struct, frozen=True):
    """The answer of `speech` about its components.

    Triton calls a model ready whose process has died or hangs. `speech` knows better. The defaults
    stand for what a server of an earlier version does not say.
    """

    away: tuple[str, ...]
    """The components whose calls wait."""
    on_demand: tuple[str, ...] = ()
    """The components that are loaded when a request needs them."""
    models: tuple[str, ...] = ()
    """The values of the option `model`."""
    voices: tuple[str, ...] = ()
    """Voices as `conch.families.add_voices` takes them."""

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Health":
        """Return what `to_json` wrote; raise a ValueError for another text."""
        return msgspec.json.decode(text, type=cls)

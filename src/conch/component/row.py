"""The interface of a component model: a function from a batch of rows to a batch of outputs.

The code of a component does not know Triton. `conch.triton.respond` calls it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from conch.component.arrays import Array
from conch.wire.errors import TranscriptionError

Outputs = Mapping[str, Array]
"""Output tensors by name, without the batch dimension."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of one request to a component, without the batch dimension."""

    inputs: Mapping[str, Array]
    """Input tensors by name, without optional inputs that were not sent."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Request parameters: bool, int or str."""
    stream_id: int | str = 0
    """Id of the stream that the row belongs to; 0 or "" outside streams."""
    starts: bool = False
    """Whether the row is the first of its stream."""
    ends: bool = False
    """Whether the row is the last of its stream."""

    def texts(self, name: str) -> list[str]:
        """Return a BYTES input as strings."""
        return [
            item.decode() if isinstance(item, bytes) else str(item)
            for item in self.inputs[name].ravel()
        ]


class Component(Protocol):
    """Answers each row of a batch, in order, with outputs or with an error of that row."""

    def __call__(self, rows: Sequence[Row], /) -> Sequence[Outputs | TranscriptionError]: ...


def bytes_array(texts: Sequence[str]) -> Array:
    """Return strings as a 1-D array for a BYTES tensor."""
    return np.array([text.encode() for text in texts], dtype=np.object_)

"""What a component model is to Conch: a function from a batch of rows to a batch of outputs.

The code behind a component knows nothing of Triton; `conch.triton.respond` feeds it.
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
    """Input tensors by name; an optional input that was not sent is absent."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Request parameters of the caller: bool, int or str."""
    stream_id: int | str = 0
    """The stream that the row is a chunk of; 0 or "" is none."""
    starts: bool = False
    """Whether it is the stream's first chunk."""
    ends: bool = False
    """Whether it is the last."""

    def texts(self, name: str) -> list[str]:
        """Return a BYTES input as strings."""
        return [
            item.decode() if isinstance(item, bytes) else str(item)
            for item in self.inputs[name].ravel()
        ]


class Component(Protocol):
    """Answers every row of a batch, in order, with outputs or with that row's own error."""

    def __call__(self, rows: Sequence[Row], /) -> Sequence[Outputs | TranscriptionError]: ...


def bytes_array(texts: Sequence[str]) -> Array:
    """Return strings as a 1-D array for a BYTES tensor."""
    return np.array([text.encode() for text in texts], dtype=np.object_)

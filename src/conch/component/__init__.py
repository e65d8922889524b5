"""What a component model is made of: rows, parameters and the state of its streams; no Triton."""

from conch.component.arrays import Array, FloatArray
from conch.component.row import Component, Outputs, Row, bytes_array

__all__ = ["Array", "Component", "FloatArray", "Outputs", "Row", "bytes_array"]

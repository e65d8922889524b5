"""What a component model is made of: rows, parameters and the state of its streams; no Triton."""

from conch.component.row import Array, Component, Outputs, Row, bytes_array

__all__ = ["Array", "Component", "Outputs", "Row", "bytes_array"]

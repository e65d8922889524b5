"""Building blocks of component models: rows, parameters, state of streams. Knows no Triton."""

from conch.component.arrays import Array, FloatArray
from conch.component.row import Component, Outputs, Row, RowByRow, answers, bytes_array

__all__ = [
    "Array",
    "Component",
    "FloatArray",
    "Outputs",
    "Row",
    "RowByRow",
    "answers",
    "bytes_array",
]

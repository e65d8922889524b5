"""Building blocks of component models: rows, parameters, state of streams. Knows no Triton."""

from conch.component.arrays import Array, FloatArray
from conch.component.row import ComponentModel, Outputs, Row, RowByRow, answers, bytes_array

__all__ = [
    "Array",
    "ComponentModel",
    "FloatArray",
    "Outputs",
    "Row",
    "RowByRow",
    "answers",
    "bytes_array",
]

"""Moonshine's graphs in float32, a reference: int8 products differ by processor."""

from pathlib import Path

import pytest

from conch.component import FloatArray
from conch.families.moonshine import graphs, weights


class ExactGraph(graphs.MoonshineGraph):
    def linear(self, value: str, weight: FloatArray, bias: FloatArray | None = None) -> str:
        value = self.op("MatMul", value, self.array(weight))
        return value if bias is None else self.op("Add", value, self.array(bias))

    linear_by_row = linear

    def gelu(self, value: str) -> str:
        return self.op("Gelu", value)

    def rows(self, weight: FloatArray, indices: str) -> str:
        return self.op("Gather", self.array(weight), indices)


def write_exact_graphs(source: Path, folder: Path) -> None:
    """Write float32 graphs of a model, as `write_graphs` does those in int8."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "MoonshineGraph", ExactGraph)
        weights.write_graphs(source, folder)

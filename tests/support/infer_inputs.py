"""Inputs of a request as Triton's own clients send them."""

from typing import Any

from tritonclient.utils import np_to_triton_dtype

from conch.component import Array


def inputs_of(kind: Any, **arrays: Array) -> list[Any]:
    """Return arrays as inputs of these names; `kind` is a module of `tritonclient`."""
    made = [
        kind.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        for name, array in arrays.items()
    ]
    return [item.set_data_from_numpy(arrays[item.name()]) for item in made]

"""The arrays that the beam is searched with: numpy's on the CPU, torch's on a GPU.

Both libraries have the same functions under the same names, with few exceptions; those are here.
The arrays of a beam are small, and numpy takes a third of torch's time for each operation on one.
"""

from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = Any
"""A numpy array or a torch tensor."""


def namespace(array: Array) -> Any:
    """Return the library of an array: numpy or torch."""
    return np if isinstance(array, np.ndarray) else _torch()


def placed(array: NDArray[Any], device: str | None) -> Array:
    """Return an array where it is searched with.

    Args:
        array: on the host.
        device: of torch, as `cuda:0`; None is numpy.
    """
    if device is None:
        return array
    # torch warns of arrays that may not be written to, as those of the cache.
    return _torch().from_numpy(np.require(array, requirements=["C", "W"])).to(device)


def on_host(array: Array) -> NDArray[Any]:
    """Return an array as numpy's."""
    if isinstance(array, np.ndarray):
        return array
    host: NDArray[Any] = array.cpu().numpy()
    return host


def indices(array: Array) -> Array:
    """Return integers of any size as int64, which torch takes for indices."""
    return array.astype(np.int64) if isinstance(array, np.ndarray) else array.long()


def largest(values: Array, count: int) -> tuple[Array, Array]:
    """Return the largest values of each row, largest first, and where in all rows they are.

    Args:
        values: `[B, 1, N]`.
        count: how many, at most N.

    Returns:
        `[B, 1, count]`, and int64 `[B, 1, count]` in `[0, B * N)`.
    """
    rows, _, width = values.shape
    if not isinstance(values, np.ndarray):
        found = values.topk(count)
        firsts = _torch().arange(0, rows * width, width, device=values.device)
        return found.values, found.indices + firsts[:, None, None]
    firsts = np.arange(0, rows * width, width)[:, None, None]
    places = values.argpartition(width - count, 2)[:, :, width - count :] + firsts
    order = (-values.take(places)).argsort(2)
    order += np.arange(0, rows * count, count)[:, None, None]
    places = places.take(order)
    return values.take(places), places


def first_true(flags: Array) -> Array:
    """Return where the first True is in each of `[..., N]`; 0 where all are False."""
    if isinstance(flags, np.ndarray):
        return flags.argmax(-1)
    return flags.max(-1).indices


def _torch() -> ModuleType:
    # Not for who stays on the CPU: it takes a second or two, and 200 MB.
    import torch

    return torch

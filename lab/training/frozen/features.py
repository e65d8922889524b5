"""Linear maps from the features of other families to those of the CTC model."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import nn

from conch.component.arrays import FloatArray


def fitted_map(pairs: Iterable[tuple[FloatArray, FloatArray]]) -> nn.Linear:
    """Return the linear map of rows `[N, inputs]` to targets `[N, outputs]`, by least squares."""
    squares = products = np.zeros(())
    for rows, targets in pairs:
        padded = np.pad(rows, ((0, 0), (0, 1)), constant_values=1.0).astype(np.float64)
        squares = squares + padded.T @ padded
        products = products + padded.T @ targets
    solution = np.linalg.solve(squares + 1e-3 * np.eye(len(squares)), products)
    front = nn.Linear(len(squares) - 1, products.shape[1])
    with torch.no_grad():
        front.weight.copy_(torch.from_numpy(solution[:-1].T))
        front.bias.copy_(torch.from_numpy(solution[-1]))
    return front

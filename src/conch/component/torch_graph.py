"""Run a graph of ONNX on PyTorch, which can differentiate it: ONNX Runtime has no gradients.

It knows the operators of the graphs that Conch differentiates, with the attributes that stand
there. Converters of packages lack those of dynamic quantisation.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

Attributes: TypeAlias = Mapping[str, Any]
Operator: TypeAlias = Callable[..., Any]
_TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool}
LARGEST_EXPONENT = 20.0
_PRODUCTS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}
"""Products of quantised values, and those of real ones."""


class TorchGraph:
    """A graph with real weights. Values that it would quantise in a call stay as they are."""

    def __init__(self, path: Path) -> None:
        """Read a graph; raise a ValueError if it has an unknown operator."""
        import onnx  # it takes a second to import

        graph = onnx.load(str(path)).graph
        self._weights = {
            item.name: torch.from_numpy(np.array(onnx.numpy_helper.to_array(item)))
            for item in graph.initializer
        }
        self._outputs = [item.name for item in graph.output]
        self._nodes: list[tuple[Operator, Attributes, Sequence[str], Sequence[str]]] = []
        for node in graph.node:
            attributes = {
                item.name: onnx.helper.get_attribute_value(item) for item in node.attribute
            }
            inputs, kind = [*node.input], node.op_type
            if kind in _PRODUCTS:
                _, weight, _, zero = inputs
                real = self._weights[weight].float() - self._weights[zero].float()
                inputs, kind = [inputs[0], f"{weight} real"], _PRODUCTS[kind]
                self._weights[inputs[1]] = real
            ends = attributes.get("pads", [])
            if ends[: len(ends) // 2] != ends[len(ends) // 2 :]:
                raise ValueError(f"{path}: {kind} pads its ends differently")
            if kind not in OPERATORS:
                raise ValueError(f"{path}: the operator {kind} is unknown")
            self._nodes.append((OPERATORS[kind], attributes, inputs, [*node.output]))
        used = {name for _, _, inputs, _ in self._nodes for name in inputs}
        self._weights = {name: self._weights[name] for name in self._weights.keys() & used}

    def __call__(self, inputs: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the outputs of the graph, in its order."""
        values: dict[str, Any] = {"": None, **self._weights, **inputs}
        for operator, attributes, names, outputs in self._nodes:
            made = operator(attributes, *(values[name] for name in names))
            values.update(zip(outputs, made if isinstance(made, tuple) else (made,), strict=False))
        return [values[name] for name in self._outputs]


def _method(name: str) -> Operator:
    return lambda _, value: getattr(value, name)()


def _divided(attributes: Attributes, value: Tensor, by: Tensor) -> Tensor:
    return value / by if value.is_floating_point() else value.div(by, rounding_mode="trunc")


def _unsqueezed(attributes: Attributes, value: Tensor, axes: Tensor) -> Tensor:
    for axis in sorted(axes.tolist()):
        value = value.unsqueeze(axis)
    return value


def _squeezed(attributes: Attributes, value: Tensor, axes: Tensor | None = None) -> Tensor:
    return value.squeeze() if axes is None else value.squeeze(tuple(axes.tolist()))


def _reshaped(attributes: Attributes, value: Tensor, shape: Tensor) -> Tensor:
    sizes = [value.shape[axis] if size == 0 else size for axis, size in enumerate(shape.tolist())]
    return value.reshape(sizes)


def _gathered(attributes: Attributes, value: Tensor, indices: Tensor) -> Tensor:
    axis = attributes.get("axis", 0)
    taken = value.index_select(axis, indices.long().reshape(-1) % value.shape[axis])
    return taken.reshape([*value.shape[:axis], *indices.shape, *value.shape[axis + 1 :]])


def _sliced(
    attributes: Attributes,
    value: Tensor,
    starts: Tensor,
    ends: Tensor,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    chosen = range(len(starts)) if axes is None else axes.tolist()
    paces = [1] * len(starts) if steps is None else steps.tolist()
    for start, end, axis, step in zip(starts.tolist(), ends.tolist(), chosen, paces, strict=True):
        taken = range(value.shape[axis])[start:end:step]
        value = (
            value.narrow(axis, taken.start, len(taken))
            if step == 1
            else value.index_select(axis, torch.tensor(taken))
        )
    return value


def _scattered(attributes: Attributes, value: Tensor, indices: Tensor, new: Tensor) -> Tensor:
    changed = value.clone()
    changed[tuple(indices.unbind(-1))] = new
    return changed


def _reduction(name: str) -> Operator:
    return lambda attributes, value, axes: getattr(value, name)(
        axes.tolist(), keepdim=bool(attributes.get("keepdims", 1))
    )


def _padded(
    attributes: Attributes,
    value: Tensor,
    pads: Tensor,
    constant: Tensor | None = None,
    axes: Tensor | None = None,
) -> Tensor:
    sizes = pads.reshape(2, -1).T.tolist()
    around = [[0, 0] for _ in value.shape]
    for axis, size in zip(range(len(sizes)) if axes is None else axes.tolist(), sizes, strict=True):
        around[axis] = size
    while len(around) > 1 and around[0] == [0, 0]:
        del around[0]  # PyTorch reflects the last axes alone
    mode = attributes.get("mode", b"constant").decode()
    return functional.pad(value, [size for pair in reversed(around) for size in pair], mode=mode)


def _convolved(
    attributes: Attributes, value: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    convolve = functional.conv1d if weight.dim() == 3 else functional.conv2d
    return convolve(value, weight, bias, **_of_kernel(attributes, weight.dim() - 2))


def _transposed_convolution(
    attributes: Attributes, value: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    settings = {**_of_kernel(attributes, 1), "output_padding": attributes.get("output_padding", 0)}
    return functional.conv_transpose1d(value, weight, bias, **settings)


def _of_kernel(attributes: Attributes, axes: int) -> dict[str, Any]:
    return {
        "stride": attributes.get("strides", [1] * axes),
        "padding": attributes.get("pads", [0] * axes)[:axes],  # the same at both ends
        "dilation": attributes.get("dilations", [1] * axes),
        "groups": attributes.get("group", 1),
    }


OPERATORS: Mapping[str, Operator] = {
    **{name: _method(name.lower()) for name in ("Cos", "Floor", "Relu", "Sigmoid", "Sin")},
    "Add": lambda _, left, right: left + right,
    "Cast": lambda attributes, value: value.to(_TYPES[attributes["to"]]),
    "Concat": lambda attributes, *values: torch.cat(values, attributes["axis"]),
    "Conv": _convolved,
    "ConvTranspose": _transposed_convolution,
    "Div": _divided,
    # The scale and the zero of a value that stays as it is.
    "DynamicQuantizeLinear": lambda _, value: (value, torch.ones(()), torch.zeros(())),
    "Equal": lambda _, left, right: left == right,
    # A stretch has spikes at its ends, of which no infinity may come.
    "Exp": lambda _, value: value.clamp_max(LARGEST_EXPONENT).exp(),
    "Expand": lambda _, value, shape: value.expand(shape.tolist()),
    "Gather": _gathered,
    "Greater": lambda _, left, right: left > right,
    "Identity": lambda _, value: value,
    "LeakyRelu": lambda attributes, value: functional.leaky_relu(value, attributes["alpha"]),
    "MatMul": lambda _, left, right: left @ right,
    "Max": lambda _, left, right: torch.maximum(left, right),
    "Min": lambda _, left, right: torch.minimum(left, right),
    "Mul": lambda _, left, right: left * right,
    "NonZero": lambda _, value: value.nonzero().T,
    "Pad": _padded,
    "Pow": lambda _, value, power: value**power,
    "Range": lambda _, start, end, step: torch.arange(start.item(), end.item(), step.item()),
    "ReduceMean": _reduction("mean"),
    "ReduceSum": _reduction("sum"),
    "Reshape": _reshaped,
    # The nearest value, of the last axis alone.
    "Resize": lambda _, value, region, scales: value.repeat_interleave(int(scales[-1]), -1),
    "ScatterND": _scattered,
    "Shape": lambda attributes, value: torch.tensor(value.shape[attributes.get("start", 0) :]),
    "Slice": _sliced,
    "Split": lambda attributes, value, sizes: value.split(sizes.tolist(), attributes["axis"]),
    # The gradient at 0 is infinite.
    "Sqrt": lambda _, value: value.clamp_min(1e-12).sqrt(),
    "Squeeze": _squeezed,
    "Sub": lambda _, left, right: left - right,
    "Sum": lambda _, *values: sum(values[1:], start=values[0]),
    "Transpose": lambda attributes, value: value.permute(attributes["perm"]),
    "Unsqueeze": _unsqueezed,
    "Where": lambda _, chooses, left, right: torch.where(chooses, left, right),
}

"""The graphs that Conch runs to tell speakers apart, made for ONNX Runtime on a CPU.

`segmentation` says how many speak when: sinc filters (Ravanelli & Bengio, 2018,
https://arxiv.org/abs/1808.00158), recurrent layers and a class for each set of speakers (Plaquet &
Bredin, 2023, https://arxiv.org/abs/2310.13025). `embedding` says how a voice sounds: CAM++ (Wang et
al., 2023, https://arxiv.org/abs/2303.00332).
"""

import re
from collections.abc import Mapping

import numpy as np
import onnx

from conch.component import SAMPLE_RATE, DoubleArray, FloatArray
from conch.component.graph import Graph

Weights = Mapping[str, FloatArray]

STRIDE = 10
"""Samples from one sinc filter's output to the next."""
POOLED = 3
"""Outputs of which each of the three convolutions keeps the largest."""
LOWEST_HZ = NARROWEST_HZ = 50.0
_EPSILON = 1e-5


def segmentation(weights: Weights) -> onnx.ModelProto:
    """Return the graph of `waveform` [rows, samples] to `log_probs` [rows, frames, classes]."""
    graph = Graph()
    value = graph.op("Unsqueeze", graph.takes("waveform", "rows", "samples"), graph.ints(1))
    value = _instance_norm(graph, value, weights, "sincnet.wav_norm1d")
    low_hz, band_hz, window = (
        weights[f"sincnet.conv1d.0.filterbank.{part}_"] for part in ("low_hz", "band_hz", "window")
    )
    filters = sinc_filters(low_hz, band_hz, window)
    value = graph.op("Abs", graph.op("Conv", value, graph.array(filters), strides=[STRIDE]))
    for number in range(3):
        if number:
            kernel = [weights[f"sincnet.conv1d.{number}.{part}"] for part in ("weight", "bias")]
            value = graph.op("Conv", value, *map(graph.array, kernel))
        value = graph.op("MaxPool", value, kernel_shape=[POOLED], strides=[POOLED])
        value = _instance_norm(graph, value, weights, f"sincnet.norm1d.{number}")
        value = graph.op("LeakyRelu", value)
    value = graph.op("Transpose", value, perm=[2, 0, 1])
    for layer in range(_count(weights, r"lstm\.weight_hh_l\d+")):
        value = _lstm(graph, value, weights, layer)
    value = graph.op("Transpose", value, perm=[1, 0, 2])
    for name in ("linear.0", "linear.1"):
        value = graph.op("LeakyRelu", _linear(graph, value, weights, name))
    value = graph.op("LogSoftmax", _linear(graph, value, weights, "classifier"), axis=-1)
    graph.gives(value, "log_probs", "rows", "frames", "classes")
    return graph.model("segmentation")


def sinc_filters(low_hz: FloatArray, band_hz: FloatArray, window: FloatArray) -> FloatArray:
    """Return band-pass filters, first even and then odd ones, float32 `[2 · bands, 1, taps]`.

    `low_hz` and `band_hz`, `[bands, 1]`, are above `LOWEST_HZ` and `NARROWEST_HZ`; `window`,
    `[taps // 2]`, is the left half.
    """
    low = LOWEST_HZ + np.abs(low_hz.astype(np.float64))
    high = np.clip(low + NARROWEST_HZ + np.abs(band_hz), LOWEST_HZ, SAMPLE_RATE / 2)
    angles = 2 * np.pi * np.arange(-len(window), 0) / SAMPLE_RATE
    scaled = window / (angles / 2)
    even = (np.sin(high * angles) - np.sin(low * angles)) * scaled
    odd = (np.cos(low * angles) - np.cos(high * angles)) * scaled
    middle: DoubleArray = 2 * (high - low)
    halves = ((even, middle, even[:, ::-1]), (odd, 0 * middle, -odd[:, ::-1]))
    filters = [np.concatenate(parts, axis=1) / middle for parts in halves]
    return np.asarray(np.concatenate(filters)[:, None], np.float32)


def embedding(weights: Weights) -> onnx.ModelProto:
    """Return the graph of `features` [rows, frames, bands] to `embeddings` [rows, size].

    The masks of CAM++ depend on the mean of all frames and on that of each segment of 100. Of at
    most 200 features there is one segment, so both are the same here, and pieces must not be
    longer. The last batch norm has no ReLU behind it: with it, voices are further from themselves.
    """
    graph = Graph()
    value = graph.takes("features", "rows", "frames", "bands")
    value = graph.op("Unsqueeze", graph.op("Transpose", value, perm=[0, 2, 1]), graph.ints(1))
    value = _conv_2d(graph, value, weights, "head.conv1", "head.bn1")
    for name in ("layer1.0", "layer1.1", "layer2.0", "layer2.1"):
        value = _residual(graph, value, weights, f"head.{name}")
    value = _conv_2d(graph, value, weights, "head.conv2", "head.bn2", stride=2)
    value = graph.op("Reshape", value, graph.ints(0, -1, 1, 0))
    value = graph.op("Squeeze", value, graph.ints(2))
    folded = _folded(weights, "xvector.tdnn.linear", "xvector.tdnn.nonlinear.batchnorm")
    value = graph.op("Conv", value, *map(graph.array, folded), strides=[2], pads=[2, 2])
    # [rows, frames, channels] from here on: products with constant weights are fastest.
    value = graph.op("Transpose", graph.op("Relu", value), perm=[0, 2, 1])
    for block, dilation in ((1, 1), (2, 2), (3, 2)):
        dense = f"xvector.block{block}.tdnnd"
        for number in range(1, 1 + _count(weights, rf"{dense}\d+\.linear1\.weight")):
            value = _dense_layer(graph, value, weights, f"{dense}{number}", dilation)
        kernel, bias = weights[f"xvector.transit{block}.linear.weight"], np.zeros(1, np.float32)
        if block == 3:
            kernel, bias = _folded(
                weights, "xvector.transit3.linear", "xvector.out_nonlinear.batchnorm"
            )
        norm = f"xvector.transit{block}.nonlinear.batchnorm"
        value = _normed_linear(graph, value, weights, norm, kernel, bias)
    value = graph.op("Transpose", graph.op("Relu", value), perm=[0, 2, 1])
    mean = graph.op("ReduceMean", value, graph.ints(2))
    spread = graph.op("Sub", value, mean)
    spread = graph.op("ReduceSum", graph.op("Mul", spread, spread), graph.ints(2))
    # Unbiased, as in training.
    count = graph.op("Cast", graph.op("Shape", value, start=2), to=onnx.TensorProto.FLOAT)
    one = graph.array(np.ones(1, np.float32))
    spread = graph.op("Sqrt", graph.op("Div", spread, graph.op("Sub", count, one)))
    value = graph.op("Concat", mean, spread, axis=1)
    folded = _folded(weights, "xvector.dense.linear", "xvector.dense.nonlinear.batchnorm")
    value = graph.op("Squeeze", graph.op("Conv", value, *map(graph.array, folded)), graph.ints(2))
    graph.gives(value, "embeddings", "rows", len(folded[1]))
    return graph.model("embedding")


def _count(weights: Weights, pattern: str) -> int:
    return sum(re.fullmatch(pattern, name) is not None for name in weights)


def _instance_norm(graph: Graph, value: str, weights: Weights, name: str) -> str:
    parts = (graph.array(weights[f"{name}.{part}"]) for part in ("weight", "bias"))
    return graph.op("InstanceNormalization", value, *parts, epsilon=_EPSILON)


def _linear(graph: Graph, value: str, weights: Weights, name: str) -> str:
    value = graph.op("MatMul", value, graph.array(weights[f"{name}.weight"].T))
    return graph.op("Add", value, graph.array(weights[f"{name}.bias"]))


def _lstm(graph: Graph, value: str, weights: Weights, layer: int) -> str:
    """Add a layer in both directions, [frames, rows, inputs] to [frames, rows, 2 · size]."""

    def both(part: str) -> FloatArray:
        names = (f"lstm.{part}_l{layer}", f"lstm.{part}_l{layer}_reverse")
        gates = (np.split(weights[name], 4) for name in names)
        # ONNX's order is input, output, forget, cell.
        return np.stack([np.concatenate([four[at] for at in (0, 3, 1, 2)]) for four in gates])

    inputs, hidden = both("weight_ih"), both("weight_hh")
    bias = np.concatenate((both("bias_ih"), both("bias_hh")), axis=1)
    size = hidden.shape[2]
    kernels = map(graph.array, (inputs, hidden, bias))
    value = graph.op("LSTM", value, *kernels, direction="bidirectional", hidden_size=size)
    value = graph.op("Transpose", value, perm=[0, 2, 1, 3])
    return graph.op("Reshape", value, graph.ints(0, 0, -1))


def _normed_linear(
    graph: Graph, value: str, weights: Weights, norm: str, kernel: FloatArray, bias: FloatArray
) -> str:
    """Add a batch norm, a ReLU and a linear layer.

    The ReLU of `scale · x + shift` is `scale · max(x, -shift / scale) + shift`, of a scale below
    zero with the minimum. So the linear layer takes in all but the comparison.
    """
    scale, shift = _affine(weights, norm)
    edge, is_below = -shift / scale, scale < 0
    value = graph.op("Max", value, graph.array(np.where(is_below, -np.inf, edge).astype("f")))
    if is_below.any():
        value = graph.op("Min", value, graph.array(np.where(is_below, edge, np.inf).astype("f")))
    kernel = kernel[:, :, 0]
    value = graph.op("MatMul", value, graph.array((kernel * scale).T))
    return graph.op("Add", value, graph.array(kernel @ shift + bias))


def _folded(weights: Weights, conv: str, norm: str) -> tuple[FloatArray, FloatArray]:
    """Return kernel and bias of a convolution with the batch norm behind it."""
    kernel, (scale, shift) = weights[f"{conv}.weight"], _affine(weights, norm)
    return kernel * scale.reshape(-1, *(1,) * (kernel.ndim - 1)), shift


def _affine(weights: Weights, norm: str) -> tuple[FloatArray, FloatArray]:
    mean, variance = (weights[f"{norm}.running_{part}"] for part in ("mean", "var"))
    scale = weights.get(f"{norm}.weight", np.float32(1)) / np.sqrt(variance + np.float32(_EPSILON))
    return scale, weights.get(f"{norm}.bias", np.float32(0)) - mean * scale


def _conv_2d(
    graph: Graph, value: str, weights: Weights, conv: str, norm: str, stride: int = 1
) -> str:
    folded = _folded(weights, conv, norm)
    pads = [folded[0].shape[2] // 2] * 4
    value = graph.op("Conv", value, *map(graph.array, folded), strides=[stride, 1], pads=pads)
    return graph.op("Relu", value)


def _residual(graph: Graph, value: str, weights: Weights, name: str) -> str:
    # The first block of a layer keeps every second band.
    stride = 2 if f"{name}.shortcut.0.weight" in weights else 1
    inner = _conv_2d(graph, value, weights, f"{name}.conv1", f"{name}.bn1", stride)
    kernel = _folded(weights, f"{name}.conv2", f"{name}.bn2")
    inner = graph.op("Conv", inner, *map(graph.array, kernel), pads=[1] * 4)
    if stride > 1:
        kernel = _folded(weights, f"{name}.shortcut.0", f"{name}.shortcut.1")
        value = graph.op("Conv", value, *map(graph.array, kernel), strides=[stride, 1])
    return graph.op("Relu", graph.op("Add", inner, value))


def _dense_layer(graph: Graph, value: str, weights: Weights, name: str, dilation: int) -> str:
    """Add a layer of a dense block: its outputs follow its inputs."""
    folded = _folded(weights, f"{name}.linear1", f"{name}.nonlinear2.batchnorm")
    inner = _normed_linear(graph, value, weights, f"{name}.nonlinear1.batchnorm", *folded)
    inner = graph.op("Transpose", graph.op("Relu", inner), perm=[0, 2, 1])
    kernel = graph.array(weights[f"{name}.cam_layer.linear_local.weight"])
    local = graph.op("Conv", inner, kernel, pads=[dilation] * 2, dilations=[dilation])
    mask = graph.op("ReduceMean", inner, graph.ints(2))
    first, second = (
        [weights[f"{name}.cam_layer.linear{number}.{part}"] for part in ("weight", "bias")]
        for number in (1, 2)
    )
    # The mean of all frames and that of the segment are added, and are the same.
    mask = graph.op("Conv", mask, graph.array(2 * first[0]), graph.array(first[1]))
    mask = graph.op("Conv", graph.op("Relu", mask), *map(graph.array, second))
    output = graph.op("Mul", local, graph.op("Sigmoid", mask))
    return graph.op("Concat", value, graph.op("Transpose", output, perm=[0, 2, 1]), axis=2)

"""`python -m lab zipformer`: a streaming transducer of the size that people serve, random weights.

The folder has the names, shapes and metadata of icefall's streaming zipformer2 in its medium size,
for chunks of 320 ms, as in sherpa-onnx-streaming-zipformer-en-2023-06-26. It is for load, memory
and speed: its text has no sense. Layers are those of Yao et al. (2024), "Zipformer: A faster and
better encoder for automatic speech recognition".
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from conch.component.graph import Graph
from lab.command import Command

MELS, CHUNK, SHIFT, LEFT, UNITS, SIZE = 80, 45, 32, 128, 500, 512
QUERY, VALUE, POSITION, POSITION_SIZE = 32, 12, 4, 48
_FRAMES = SHIFT // 2
"""Frames of a chunk in the first stack."""
_BLANK = 0.15
"""Added to the score of the blank, so that some frames of a second have a unit, as in speech."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Layers of one frame rate."""

    size: int
    layers: int
    heads: int
    kernel: int
    forward: int
    """Size inside the feed-forward parts."""
    down: int
    """Frames of the first stack in one."""


STACKS = (
    Stack(192, 2, 4, 31, 512, 1),
    Stack(256, 2, 4, 31, 768, 2),
    Stack(384, 3, 4, 15, 1024, 4),
    Stack(512, 4, 8, 15, 1536, 8),
    Stack(384, 3, 4, 15, 1024, 4),
    Stack(256, 2, 4, 31, 768, 2),
)


@dataclass(slots=True)
class State:
    """What the encoder keeps from chunk to chunk."""

    name: str
    shape: tuple[int | str, ...]
    value: str
    new: str = ""


class Network:
    """A graph under construction. Values are `[frames, N, size]` where nothing else is said."""

    def __init__(self, seed: int) -> None:
        self.graph, self._random = Graph(), np.random.default_rng(seed)
        self.op = self.graph.op
        self.num_weights = 0

    def weight(self, *shape: int, fan_in: int = 0) -> str:
        values = self._random.normal(0, (fan_in or shape[0]) ** -0.5, shape)
        self.num_weights += values.size
        return self.graph.array(values.astype(np.float32))

    def number(self, value: float) -> str:
        return self.graph.array(np.array(value, np.float32))

    def linear(self, x: str, rows: int, columns: int) -> str:
        return self.op(
            "Add", self.op("MatMul", x, self.weight(rows, columns)), self.vector(columns)
        )

    def vector(self, size: int, middle: float = 0.0) -> str:
        """Return values for the channels."""
        self.num_weights += size
        values = self._random.uniform(middle - 0.1, middle + 0.1, size)
        return self.graph.array(values.astype(np.float32))

    def swoosh(self, x: str, shift: float, constant: float) -> str:
        """Return log(1 + exp(x - shift)) - 0.08 x - constant, as exports compute it."""
        shifted, zero = self.op("Sub", x, self.number(shift)), self.number(0.0)
        near = self.op("Exp", self.op("Neg", self.op("Abs", shifted)))
        more = self.op("Log", self.op("Add", near, self.number(1.0)))
        soft = self.op("Add", self.op("Max", shifted, zero), more)
        sloped = self.op("Sub", soft, self.op("Mul", x, self.number(0.08)))
        return self.op("Sub", sloped, self.number(constant))

    def swoosh_l(self, x: str) -> str:
        return self.swoosh(x, 4.0, 0.035)

    def swoosh_r(self, x: str) -> str:
        return self.swoosh(x, 1.0, 0.313261687)

    def norm(self, x: str, size: int) -> str:
        centred = self.op("Sub", x, self.vector(size))
        square = self.op("Mul", centred, centred)
        mean = self.op("ReduceMean", square, self.graph.ints(-1), keepdims=1)
        return self.op("Div", x, self.op("Sqrt", mean))

    def cut(self, x: str, start: int, end: int, axis: int) -> str:
        ints = self.graph.ints
        return self.op("Slice", x, ints(start), ints(end), ints(axis))

    def joined(self, cache: "State", new: str, axis: int) -> str:
        """Return a cache with new frames behind it, and keep the last of both."""
        both = self.op("Concat", cache.value, new, axis=axis)
        size = cache.shape[axis]
        assert isinstance(size, int)
        cache.new = self.cut(both, -size, 2**31 - 1, axis)
        return both

    def bypass(self, before: str, after: str, size: int) -> str:
        change = self.op("Mul", self.op("Sub", after, before), self.vector(size, 0.5))
        return self.op("Add", before, change)

    def forward(self, x: str, size: int, inner: int) -> str:
        hidden = self.swoosh_l(self.linear(x, size, inner))
        return self.op("Add", x, self.linear(hidden, inner, size))

    def conv(self, x: str, *shape: int, **attributes: object) -> str:
        fan_in = int(np.prod(shape[1:]))
        weight, bias = self.weight(*shape, fan_in=fan_in), self.vector(shape[0])
        return self.op("Conv", x, weight, bias, **attributes)


def encoder() -> Network:
    net = Network(0)
    graph, op, ints = net.graph, net.op, net.graph.ints
    x = op("Unsqueeze", graph.takes("x", "N", CHUNK, MELS), ints(1))
    stacks = [stack for stack in STACKS for _ in range(stack.layers)]
    states = [_states(net, number, stack) for number, stack in enumerate(stacks)]
    embed = _state(net, "embed_states", "N", 128, 3, 19)
    lens = graph.takes("processed_lens", "N", elem_type=TensorProto.INT64)
    x = net.norm(_embedded(net, x, embed), STACKS[0].size)
    # Of the cache, frames before the stream began are not heard; the last ones are the newest.
    age = graph.array(np.arange(LEFT - 1, -1, -1))
    is_empty = op("LessOrEqual", op("Unsqueeze", lens, ints(1)), age)
    penalties = op("Mul", op("Cast", is_empty, to=TensorProto.FLOAT), net.number(-1000.0))
    outputs, of_layers = [], iter(states)
    for stack in STACKS:
        x = before = _resized(net, x, stack.size)
        x = _downsampled(net, x, stack.down, stack.size)
        mask = op("Slice", penalties, ints(0), ints(LEFT), ints(1), ints(stack.down))
        # The frames of the chunk are all there.
        mask = op("Pad", mask, ints(0, 0, 0, _FRAMES // stack.down))
        for _ in range(stack.layers):
            x = _layer(net, x, stack, next(of_layers), mask)
        if stack.down > 1:
            wide = op("Expand", op("Unsqueeze", x, ints(1)), ints(1, stack.down, 1, 1))
            x = net.bypass(before, op("Reshape", wide, ints(_FRAMES, -1, stack.size)), stack.size)
        outputs.append(x)
    pieces = [outputs[5], net.cut(outputs[4], 256, 384, 2), net.cut(outputs[3], 384, 512, 2)]
    x = _downsampled(net, op("Concat", *pieces, axis=2), 2, SIZE)
    x = net.linear(op("Transpose", x, perm=[1, 0, 2]), SIZE, SIZE)
    graph.gives(x, "encoder_out", "N", _FRAMES // 2, SIZE)
    for state in [item for layer in states for item in layer.values()] + [embed]:
        graph.gives(state.new, f"new_{state.name}", *state.shape)
    counted = op("Add", lens, ints(_FRAMES))
    graph.gives(counted, "new_processed_lens", "N", elem_type=TensorProto.INT64)
    return net


def _state(net: Network, name: str, *shape: int | str) -> State:
    return State(name, shape, net.graph.takes(name, *shape))


def _states(net: Network, number: int, stack: Stack) -> dict[str, State]:
    left, before = LEFT // stack.down, stack.kernel // 2
    shapes: dict[str, tuple[int | str, ...]] = {
        "key": (left, "N", QUERY * stack.heads),
        "nonlin_attn": (1, "N", left, 3 * stack.size // 4),
        "val1": (left, "N", VALUE * stack.heads),
        "val2": (left, "N", VALUE * stack.heads),
        "conv1": ("N", stack.size, before),
        "conv2": ("N", stack.size, before),
    }
    return {key: _state(net, f"cached_{key}_{number}", *shape) for key, shape in shapes.items()}


def _embedded(net: Network, x: str, before: State) -> str:
    """Return the frames of 20 ms of features `[N, 1, CHUNK, MELS]`."""
    op = net.op
    x = net.swoosh_r(net.conv(x, 8, 1, 3, 3, pads=[0, 1, 0, 1]))
    x = net.swoosh_r(net.conv(x, 32, 8, 3, 3, strides=[2, 2]))
    x = net.swoosh_r(net.conv(x, 128, 32, 3, 3, strides=[1, 2]))
    joined = op("Concat", before.value, x, axis=2)
    before.new = net.cut(joined, _FRAMES, _FRAMES + 3, 2)
    deep = net.conv(joined, 128, 1, 7, 7, group=128, pads=[0, 3, 0, 3])
    wide = net.swoosh_l(net.conv(deep, 384, 128, 1, 1))
    x = op("Add", net.cut(x, 0, _FRAMES, 2), net.conv(wide, 128, 384, 1, 1))
    x = op("Transpose", x, perm=[2, 0, 1, 3])
    rows = op("Reshape", x, net.graph.ints(_FRAMES, -1, 128 * 19))
    return net.linear(rows, 128 * 19, STACKS[0].size)


def _resized(net: Network, x: str, size: int) -> str:
    """Return the first channels, or with zeros behind them."""
    padded = net.op("Pad", x, net.graph.ints(0, 0, 0, 0, 0, SIZE))
    return net.cut(padded, 0, size, 2)


def _downsampled(net: Network, x: str, down: int, size: int) -> str:
    """Return the mean of each `down` frames, by weights."""
    if down == 1:
        return x
    groups = net.op("Reshape", x, net.graph.ints(_FRAMES // down, down, -1, size))
    weights = net.graph.array(np.full((down, 1, 1), 1 / down, np.float32))
    return net.op("ReduceSum", net.op("Mul", groups, weights), net.graph.ints(1), keepdims=0)


def _layer(net: Network, x: str, stack: Stack, kept: dict[str, State], mask: str) -> str:
    op, size, inner, first = net.op, stack.size, stack.forward, x
    weights = _attention(net, x, stack, kept["key"], mask)
    x = net.forward(x, size, inner * 3 // 4)
    x = op("Add", x, _gated(net, x, stack, kept["nonlin_attn"], net.cut(weights, 0, 1, 0)))
    x = op("Add", x, _attended(net, x, stack, kept["val1"], weights))
    x = op("Add", x, _convolved(net, x, stack, kept["conv1"]))
    x = net.bypass(first, net.forward(x, size, inner), size)
    x = op("Add", x, _attended(net, x, stack, kept["val2"], weights))
    x = op("Add", x, _convolved(net, x, stack, kept["conv2"]))
    x = net.norm(net.forward(x, size, inner * 5 // 4), size)
    return net.bypass(first, x, size)


def _attention(net: Network, x: str, stack: Stack, keys: State, mask: str) -> str:
    """Return the weights of attention, `[heads, N, frames, frames of cache and chunk]`."""
    op, ints, heads = net.op, net.graph.ints, stack.heads
    frames, left = _FRAMES // stack.down, LEFT // stack.down
    wide, narrow = heads * QUERY, heads * POSITION
    projected = net.linear(x, stack.size, 2 * wide + narrow)
    query, key = net.cut(projected, 0, wide, 2), net.cut(projected, wide, 2 * wide, 2)
    position = net.cut(projected, 2 * wide, 2 * wide + narrow, 2)
    all_keys = net.joined(keys, key, 0)

    def split(value: str, perm: list[int]) -> str:
        return op("Transpose", op("Reshape", value, ints(0, 0, heads, -1)), perm=perm)

    scores = op("MatMul", split(query, [2, 1, 0, 3]), split(all_keys, [2, 1, 3, 0]))
    span = left + 2 * frames - 1
    # Of a table, which ONNX Runtime multiplies once.
    table = net.graph.array(np.zeros((span, POSITION_SIZE), np.float32))
    rows = op(
        "Reshape", op("MatMul", table, net.weight(POSITION_SIZE, narrow)), ints(span, heads, 1, -1)
    )
    far = op("MatMul", split(position, [2, 1, 0, 3]), op("Transpose", rows, perm=[1, 2, 3, 0]))
    shifts = np.arange(frames - 1, -1, -1)[:, None] + np.arange(left + frames)
    one = op("Shape", x, start=1, end=2)
    shape = op("Concat", ints(heads), one, ints(frames, left + frames), axis=0)
    positions = op("Expand", net.graph.array(shifts), shape)
    scores = op("Add", scores, op("GatherElements", far, positions, axis=3))
    scores = op("Add", scores, op("Unsqueeze", mask, ints(0, 2)))
    return op("Softmax", scores, axis=-1)


def _gated(net: Network, x: str, stack: Stack, before: State, weights: str) -> str:
    """Return the attention of one head to gated frames."""
    op, ints, inner = net.op, net.graph.ints, 3 * stack.size // 4
    projected = net.linear(x, stack.size, 3 * inner)
    gate, value, out = (net.cut(projected, inner * n, inner * (n + 1), 2) for n in range(3))
    value = op("Mul", value, op("Tanh", gate))
    rows = op("Unsqueeze", op("Transpose", value, perm=[1, 0, 2]), ints(0))
    attended = op("MatMul", weights, net.joined(before, rows, 2))
    attended = op("Transpose", op("Squeeze", attended, ints(0)), perm=[1, 0, 2])
    return net.linear(op("Mul", attended, out), inner, stack.size)


def _attended(net: Network, x: str, stack: Stack, before: State, weights: str) -> str:
    """Return what attention finds."""
    op, ints, inner = net.op, net.graph.ints, stack.heads * VALUE
    values = net.joined(before, net.linear(x, stack.size, inner), 0)
    rows = op("Reshape", values, ints(0, 0, stack.heads, VALUE))
    attended = op("MatMul", weights, op("Transpose", rows, perm=[2, 1, 0, 3]))
    attended = op("Reshape", op("Transpose", attended, perm=[2, 1, 0, 3]), ints(0, 0, inner))
    return net.linear(attended, inner, stack.size)


def _convolved(net: Network, x: str, stack: Stack, before: State) -> str:
    """Return a convolution over the frames before, and one inside the chunk."""
    op, size, kernel = net.op, stack.size, stack.kernel
    projected = net.linear(x, size, 2 * size)
    value = op(
        "Mul", net.cut(projected, 0, size, 2), op("Sigmoid", net.cut(projected, size, 2 * size, 2))
    )
    rows = op("Transpose", value, perm=[1, 2, 0])
    causal = net.conv(net.joined(before, rows, 2), size, 1, (kernel + 1) // 2, group=size)
    inside = net.conv(rows, size, 1, kernel, group=size, pads=[kernel // 2] * 2)
    edges = net.weight(size, _FRAMES // stack.down, fan_in=1)
    summed = op("Add", causal, op("Mul", inside, edges))
    rows = net.swoosh_r(op("Transpose", summed, perm=[2, 0, 1]))
    return net.linear(rows, size, size)


def predictor() -> Network:
    net = Network(1)
    op, y = net.op, net.graph.takes("y", "N", 2, elem_type=TensorProto.INT64)
    # -1 is before the first.
    known = op("Max", y, net.graph.ints(0))
    rows = op("Gather", net.weight(UNITS, SIZE, fan_in=1), known, axis=0)
    x = net.conv(op("Transpose", rows, perm=[0, 2, 1]), SIZE, 4, 2, group=SIZE // 4)
    x = op("Squeeze", op("Relu", x), net.graph.ints(2))
    net.graph.gives(net.linear(x, SIZE, SIZE), "decoder_out", "N", SIZE)
    return net


def joiner() -> Network:
    net = Network(2)
    frames, said = (net.graph.takes(name, "N", SIZE) for name in ("encoder_out", "decoder_out"))
    x = net.op("Tanh", net.op("Add", frames, said))
    blank = np.zeros(UNITS, np.float32)
    blank[0] = _BLANK
    logits = net.op("Add", net.linear(x, SIZE, UNITS), net.graph.array(blank))
    net.graph.gives(logits, "logit", "N", UNITS)
    return net


def write(folder: Path) -> int:
    """Write the folder, and return the number of weights."""
    folder.mkdir(parents=True, exist_ok=True)
    each = {
        "encoder_dims": [stack.size for stack in STACKS],
        "query_head_dims": [QUERY] * len(STACKS),
        "value_head_dims": [VALUE] * len(STACKS),
        "num_heads": [stack.heads for stack in STACKS],
        "num_encoder_layers": [stack.layers for stack in STACKS],
        "cnn_module_kernels": [stack.kernel for stack in STACKS],
        "left_context_len": [LEFT // stack.down for stack in STACKS],
    }
    lists = {key: ",".join(map(str, values)) for key, values in each.items()}
    parts: dict[str, tuple[Network, dict[str, object]]] = {
        "encoder": (
            encoder(),
            {"model_type": "zipformer2", "T": CHUNK, "decode_chunk_len": SHIFT, **lists},
        ),
        "decoder": (predictor(), {"context_size": 2, "vocab_size": UNITS}),
        "joiner": (joiner(), {"joiner_dim": SIZE}),
    }
    for name, (net, metadata) in parts.items():
        model = net.graph.model(name)
        onnx.helper.set_model_props(model, {key: str(value) for key, value in metadata.items()})
        onnx.save(model, folder / f"{name}-chunk-16-left-128.onnx")
    symbols = ["<blk>", "<sos/eos>", "<unk>", *(f"▁{n:x}" for n in range(3, UNITS))]
    lines = [f"{text} {unit}\n" for unit, text in enumerate(symbols)]
    (folder / "tokens.txt").write_text("".join(lines), "utf-8")
    return sum(net.num_weights for net, _ in parts.values())


def run_command(args: argparse.Namespace) -> int:
    print(f"{args.folder}: {write(args.folder) / 1e6:.1f} million weights")
    return 0


COMMAND = Command(
    run=run_command,
    description="Write a folder as of icefall's streaming zipformer2 in its medium size, with "
    "random weights. It is for load, memory and speed: its text has no sense.",
    epilog="""
examples:
  python -m lab zipformer runs/zipformer
""",
    add=lambda parser: parser.add_argument("folder", type=Path, metavar="FOLDER"),
    has_report=False,
    codes="0 written; 1 not written; 2 wrong usage",
)

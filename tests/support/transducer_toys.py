"""Folders of transducers as icefall exports them, with random weights.

Each state of an encoder changes what it hears later, so that a wrong axis changes the text.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from conch.component.graph import Graph

MELS, SIZE, UNITS = 80, 32, 40
LEFT, CHUNK, SHIFT = 16, 45, 32
_FRAMES = SHIFT // 4
_SYLLABLES = ["ba", "do", "ki", "lu", "me", "no", "ra", "si", "tu", "ve", "za", "ing"]


class Toy:
    """A graph under construction, with random weights of its seed."""

    def __init__(self, seed: int | np.random.Generator) -> None:
        self.graph, self.random = Graph(), np.random.default_rng(seed)

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        values = self.random.normal(0, scale / np.sqrt(shape[0]), shape)
        return self.graph.array(values.astype(np.float32))

    def mean(self, value: str, *axes: int, keepdims: int = 0) -> str:
        return self.graph.op("ReduceMean", value, self.graph.ints(*axes), keepdims=keepdims)

    def sum(self, *values: str) -> str:
        total, *others = values
        for other in others:
            total = self.graph.op("Add", total, other)
        return total

    def shifted(self, cache: str, new: str, axis: int) -> str:
        """Return a cache with the frames of `new`, as long as it was."""
        graph = self.graph
        joined = graph.op("Concat", cache, new, axis=axis)
        size, end = graph.op("Shape", cache, start=axis, end=axis + 1), graph.ints(2**31)
        return graph.op("Slice", joined, graph.op("Neg", size), end, graph.ints(axis))

    def projected(self, value: str, columns: int, rows: int = SIZE, scale: float = 1.0) -> str:
        return self.graph.op("MatMul", value, self.weight(rows, columns, scale=scale))

    def heard(self, x: str, num_frames: int | None = None, mels: int = MELS) -> str:
        """Return `[N, T / 4, SIZE]` of features `[N, T, mels]`, four frames together."""
        graph = self.graph
        if num_frames is not None:
            x = graph.op("Slice", x, graph.ints(0), graph.ints(4 * num_frames), graph.ints(1))
        scaled = graph.op("Mul", graph.op("Add", x, scalar(graph, 8.0)), scalar(graph, 0.2))
        joined = graph.op("Reshape", scaled, graph.ints(0, -1, 4 * mels))
        return graph.op("Tanh", self.projected(joined, SIZE, 4 * mels, scale=2.0))

    def spelled(self, said: str, blank: int = 0, *, is_normalised: bool = True) -> str:
        """Return log probabilities `[N, T, UNITS]`."""
        bias = np.zeros(UNITS, np.float32)
        bias[blank] = 3.0
        # Those behind it are no text, which sherpa-onnx would write.
        bias[[(blank + 1) % UNITS, (blank + 2) % UNITS]] = -100.0
        logits = self.graph.op(
            "Add", self.projected(said, UNITS, scale=6.0), self.graph.array(bias)
        )
        return self.graph.op("LogSoftmax", logits, axis=-1) if is_normalised else logits

    def said(self, heard: str, *memories: str) -> str:
        """Return the frames with what is remembered, `[N, SIZE]` each."""
        graph = self.graph
        known = [graph.op("Unsqueeze", item, graph.ints(1)) for item in memories]
        return graph.op("Tanh", self.sum(heard, *known))

    def save(self, path: Path, **metadata: object) -> None:
        model = self.graph.model(path.stem)
        onnx.helper.set_model_props(model, {key: str(value) for key, value in metadata.items()})
        onnx.save(model, path)


def scalar(graph: Graph, value: float) -> str:
    return graph.array(np.array(value, np.float32))


def zipformer2(folder: Path, seed: int = 0, name: str = "") -> Path:
    """Write a streaming folder with the tensors of zipformer2, and return it.

    With the name of a file it is of CTC.
    """
    folder.mkdir(parents=True, exist_ok=True)
    toy = Toy(seed)
    graph = toy.graph
    dim, heads, query, value, kernel = SIZE, 2, 6, 4, 7
    x = graph.takes("x", "N", CHUNK, MELS)
    key = graph.takes("cached_key_0", LEFT, "N", query * heads)
    nonlin = graph.takes("cached_nonlin_attn_0", 1, "N", LEFT, 3 * dim // 4)
    values = [graph.takes(f"cached_val{n}_0", LEFT, "N", value * heads) for n in (1, 2)]
    convs = [graph.takes(f"cached_conv{n}_0", "N", dim, kernel // 2) for n in (1, 2)]
    embed = graph.takes("embed_states", "N", 128, 3, 19)
    lens = graph.takes("processed_lens", "N", elem_type=TensorProto.INT64)
    heard = toy.heard(x, _FRAMES)
    time = graph.op("Cast", graph.op("Unsqueeze", lens, graph.ints(1)), to=TensorProto.FLOAT)
    memories = [
        toy.projected(toy.mean(key, 0), dim, query * heads, scale=2.0),
        toy.projected(toy.mean(nonlin, 0, 2), dim, 3 * dim // 4, scale=2.0),
        *(toy.projected(toy.mean(item, 0), dim, value * heads, scale=2.0) for item in values),
        *(toy.projected(toy.mean(item, 2), dim, dim, scale=2.0) for item in convs),
        toy.projected(toy.mean(embed, 2, 3), dim, 128, scale=4.0),
        graph.op("Sin", toy.projected(time, dim, 1, scale=0.1)),
    ]
    said = toy.said(heard, *memories)
    if name:
        graph.gives(toy.spelled(said), "log_probs", "N", _FRAMES, UNITS)
    else:
        graph.gives(said, "encoder_out", "N", _FRAMES, dim)
    first = graph.op("Transpose", said, perm=[1, 0, 2])
    graph.gives(
        toy.shifted(key, toy.projected(first, query * heads), 0),
        "new_cached_key_0",
        *(LEFT, "N", query * heads),
    )
    rows = graph.op("Unsqueeze", toy.projected(said, 3 * dim // 4), graph.ints(0))
    graph.gives(
        toy.shifted(nonlin, rows, 2), "new_cached_nonlin_attn_0", 1, "N", LEFT, 3 * dim // 4
    )
    for n, item in enumerate(values, 1):
        after = toy.shifted(item, toy.projected(first, value * heads), 0)
        graph.gives(after, f"new_cached_val{n}_0", LEFT, "N", value * heads)
    last = graph.op("Transpose", said, perm=[0, 2, 1])
    for n, item in enumerate(convs, 1):
        graph.gives(toy.shifted(item, last, 2), f"new_cached_conv{n}_0", "N", dim, kernel // 2)
    level = graph.op("Unsqueeze", toy.projected(toy.mean(said, 1), 128), graph.ints(2, 3))
    faded = graph.op("Mul", embed, scalar(graph, 0.5))
    graph.gives(graph.op("Add", faded, level), "new_embed_states", "N", 128, 3, 19)
    counted = graph.op("Add", lens, graph.ints(SHIFT // 2))
    graph.gives(counted, "new_processed_lens", "N", elem_type=TensorProto.INT64)
    toy.save(
        folder / (name or "encoder-epoch-1-avg-1.onnx"),
        model_type="zipformer2",
        T=CHUNK,
        decode_chunk_len=SHIFT,
        encoder_dims=dim,
        query_head_dims=query,
        value_head_dims=value,
        num_heads=heads,
        num_encoder_layers=1,
        cnn_module_kernels=kernel,
        left_context_len=LEFT,
    )
    if not name:
        return _with_the_rest(folder, seed)
    write_tokens(folder)
    return folder


def lstm(folder: Path, seed: int = 0) -> Path:
    """Write a streaming folder with the tensors of icefall's LSTM, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    toy = Toy(seed)
    graph = toy.graph
    hidden, shift, chunk = 24, 4, 9
    x = graph.takes("x", "N", chunk, MELS)
    h, c = graph.takes("h", 1, "N", SIZE), graph.takes("c", 1, "N", hidden)
    said = toy.said(
        toy.heard(x, 1),
        toy.projected(toy.mean(h, 0), SIZE, scale=2.0),
        toy.projected(toy.mean(c, 0), SIZE, hidden, scale=2.0),
    )
    graph.gives(said, "encoder_out", "N", 1, SIZE)
    first = graph.op("Transpose", said, perm=[1, 0, 2])
    graph.gives(toy.projected(first, SIZE), "next_h", 1, "N", SIZE)
    faded = graph.op("Mul", c, scalar(graph, 0.7))
    after = graph.op("Add", faded, toy.projected(first, hidden))
    graph.gives(after, "next_c", 1, "N", hidden)
    toy.save(
        folder / "encoder.onnx",
        model_type="lstm",
        T=chunk,
        decode_chunk_len=shift,
        num_encoder_layers=1,
        rnn_hidden_size=hidden,
        d_model=SIZE,
    )
    return _with_the_rest(folder, seed)


def conformer(folder: Path, seed: int = 0) -> Path:
    """Write a streaming folder with the tensors of icefall's conformer, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    toy = Toy(seed)
    graph = toy.graph
    layers, kernel = 2, 5
    x = graph.takes("x", "N", CHUNK, MELS)
    attention = graph.takes("cached_attn", layers, LEFT, "N", SIZE)
    conv = graph.takes("cached_conv", layers, kernel - 1, "N", SIZE)
    lens = graph.takes("processed_lens", "N", elem_type=TensorProto.INT64)
    time = graph.op("Cast", graph.op("Unsqueeze", lens, graph.ints(1)), to=TensorProto.FLOAT)
    said = toy.said(
        toy.heard(x, _FRAMES),
        toy.projected(toy.mean(attention, 0, 1), SIZE, scale=2.0),
        toy.projected(toy.mean(conv, 0, 1), SIZE, scale=2.0),
        graph.op("Sin", toy.projected(time, SIZE, 1, scale=0.1)),
    )
    graph.gives(said, "encoder_out", "N", _FRAMES, SIZE)
    first = graph.op("Transpose", said, perm=[1, 0, 2])
    both = [graph.op("Unsqueeze", toy.projected(first, SIZE), graph.ints(0)) for _ in range(2)]
    rows = graph.op("Concat", *both, axis=0)
    graph.gives(toy.shifted(attention, rows, 1), "new_cached_attn", layers, LEFT, "N", SIZE)
    graph.gives(toy.shifted(conv, rows, 1), "new_cached_conv", layers, kernel - 1, "N", SIZE)
    toy.save(
        folder / "encoder.onnx",
        model_type="conformer",
        T=CHUNK,
        decode_chunk_len=SHIFT,
        num_encoder_layers=layers,
        left_context=LEFT,
        encoder_dim=SIZE,
        pad_length=7,
        cnn_module_kernel=kernel,
    )
    return _with_the_rest(folder, seed)


def offline(folder: Path, seed: int = 0) -> Path:
    """Write a folder for whole recordings, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    toy = Toy(seed)
    graph = toy.graph
    x = graph.takes("x", "N", "T", MELS)
    lens = graph.takes("x_lens", "N", elem_type=TensorProto.INT64)
    # Whole groups of four frames.
    whole = graph.op("Div", graph.op("Shape", x, start=1, end=2), graph.ints(4))
    end = graph.op("Mul", whole, graph.ints(4))
    cut = graph.op("Slice", x, graph.ints(0), end, graph.ints(1))
    said = graph.op("Tanh", toy.projected(toy.heard(cut), SIZE, scale=2.0))
    graph.gives(said, "encoder_out", "N", "S", SIZE)
    graph.gives(
        graph.op("Div", lens, graph.ints(4)), "encoder_out_lens", "N", elem_type=TensorProto.INT64
    )
    toy.save(folder / "encoder.onnx", model_type="zipformer2", comment="non-streaming zipformer2")
    return _with_the_rest(folder, seed)


def _with_the_rest(folder: Path, seed: int) -> Path:
    toy = Toy(seed + 1)
    graph = toy.graph
    y = graph.takes("y", "N", 2, elem_type=TensorProto.INT64)
    # As icefall's, which knows -1 as the unit before the first.
    known = graph.op("Max", y, graph.ints(0))
    rows = graph.op("Gather", toy.weight(UNITS, SIZE, scale=4.0), known, axis=0)
    is_there = graph.op("Cast", graph.op("GreaterOrEqual", y, graph.ints(0)), to=TensorProto.FLOAT)
    masked = graph.op("Mul", rows, graph.op("Unsqueeze", is_there, graph.ints(2)))
    joined = graph.op("Reshape", masked, graph.ints(0, 2 * SIZE))
    out = toy.projected(joined, SIZE, 2 * SIZE, scale=2.0)
    graph.gives(out, "decoder_out", "N", SIZE)
    toy.save(folder / "decoder.onnx", context_size=2, vocab_size=UNITS)

    toy = Toy(seed + 2)
    graph = toy.graph
    heard = graph.takes("encoder_out", "N", SIZE)
    said = graph.takes("decoder_out", "N", SIZE)
    both = graph.op("Tanh", graph.op("Add", heard, said))
    blank = np.zeros(UNITS, np.float32)
    blank[0] = 2.5
    logits = graph.op("Add", toy.projected(both, UNITS, scale=6.0), graph.array(blank))
    graph.gives(logits, "logit", "N", UNITS)
    toy.save(folder / "joiner.onnx", joiner_dim=SIZE)

    write_tokens(folder)
    return folder


def write_tokens(folder: Path) -> None:
    beginnings = [f"▁{text}" for text in _SYLLABLES]
    others = [chr(97 + n) for n in range(UNITS - 3 - 2 * len(_SYLLABLES))]
    symbols = ["<blk>", "<sos/eos>", "<unk>", *beginnings, *_SYLLABLES, *others, "#0", "#1"]
    lines = [f"{text} {number}\n" for number, text in enumerate(symbols)]
    (folder / "tokens.txt").write_text("".join(lines), "utf-8")

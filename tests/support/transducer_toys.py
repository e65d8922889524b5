"""Folders of transducers as icefall exports them, with random weights.

Each state of an encoder changes what it hears later, so that a wrong axis changes the text.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from conch.component.graph import Graph

MELS, SIZE, UNITS = 80, 32, 40
LEFT, CHUNK, SHIFT = 16, 45, 32
_FRAMES = SHIFT // 4
SYLLABLES = ["ba", "do", "ki", "lu", "me", "no", "ra", "si", "tu", "ve", "za", "ing"]
TEXTS = [f"▁{text}" for text in SYLLABLES] + SYLLABLES
TEXTS += [chr(97 + n) for n in range(UNITS - 3 - len(TEXTS))]
SYMBOLS = ["<blk>", "<sos/eos>", "<unk>", *TEXTS, "#0", "#1"]


class Toy(Graph):
    """A graph under construction, with random weights of its seed."""

    def __init__(self, seed: int | np.random.Generator) -> None:
        super().__init__()
        self.random = np.random.default_rng(seed)

    def takes_ints(self, name: str, *shape: int | str) -> str:
        return self.takes(name, *shape, elem_type=TensorProto.INT64)

    def gives_ints(self, value: str, name: str, *shape: int | str) -> None:
        self.gives(value, name, *shape, elem_type=TensorProto.INT64)

    def gives_lens(self, lens: str, name: str, shape: str = "N", by: int = 4) -> None:
        """Give lengths in frames, each for so many features."""
        self.gives_ints(self.op("Div", lens, self.ints(by)), name, shape)

    def scalar(self, value: float) -> str:
        return self.array(np.array(value, np.float32))

    def floats(self, value: str) -> str:
        return self.op("Cast", value, to=TensorProto.FLOAT)

    def unsqueezed(self, value: str, *axes: int) -> str:
        return self.op("Unsqueeze", value, self.ints(*axes))

    def transposed(self, value: str, *axes: int) -> str:
        return self.op("Transpose", value, perm=axes)

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        values = self.random.normal(0, scale / np.sqrt(shape[0]), shape)
        return self.array(values.astype(np.float32))

    def mean(self, value: str, *axes: int, keepdims: int = 0) -> str:
        return self.op("ReduceMean", value, self.ints(*axes), keepdims=keepdims)

    def sum(self, *values: str) -> str:
        total, *others = values
        for other in others:
            total = self.op("Add", total, other)
        return total

    def whole(self, x: str, size: int = 4, axis: int = 1) -> str:
        """Return `x` without the frames behind its last whole group of so many."""
        groups = self.op("Div", self.op("Shape", x, start=axis, end=axis + 1), self.ints(size))
        end = self.op("Mul", groups, self.ints(size))
        return self.op("Slice", x, self.ints(0), end, self.ints(axis))

    def shifted(self, cache: str, new: str, axis: int) -> str:
        """Return a cache with the frames of `new`, as long as it was."""
        joined = self.op("Concat", cache, new, axis=axis)
        size, end = self.op("Shape", cache, start=axis, end=axis + 1), self.ints(2**31)
        return self.op("Slice", joined, self.op("Neg", size), end, self.ints(axis))

    def projected(self, value: str, columns: int, rows: int = SIZE, scale: float = 1.0) -> str:
        return self.op("MatMul", value, self.weight(rows, columns, scale=scale))

    def remembered(self, value: str, *axes: int, rows: int = SIZE, scale: float = 2.0) -> str:
        """Return what a cache tells, `[N, SIZE]`, by its mean over some axes."""
        return self.projected(self.mean(value, *axes), SIZE, rows, scale)

    def timed(self, count: str, axis: int = 1) -> str:
        """Return what the number of frames that were heard tells, `[N, SIZE]`."""
        time = self.floats(self.unsqueezed(count, axis))
        return self.op("Sin", self.projected(time, SIZE, 1, scale=0.1))

    def heard(self, x: str, num_frames: int | None = None, mels: int = MELS) -> str:
        """Return `[N, T / 4, SIZE]` of features `[N, T, mels]`, four frames together."""
        if num_frames is not None:
            x = self.op("Slice", x, self.ints(0), self.ints(4 * num_frames), self.ints(1))
        scaled = self.op("Mul", self.op("Add", x, self.scalar(8.0)), self.scalar(0.2))
        joined = self.op("Reshape", scaled, self.ints(0, -1, 4 * mels))
        return self.op("Tanh", self.projected(joined, SIZE, 4 * mels, scale=2.0))

    def spelled(self, said: str, blank: int = 0, *, is_normalised: bool = True) -> str:
        """Return log probabilities `[N, T, UNITS]`."""
        bias = np.zeros(UNITS, np.float32)
        bias[blank] = 3.0
        # Those behind it are no text, which sherpa-onnx would write.
        bias[[(blank + 1) % UNITS, (blank + 2) % UNITS]] = -100.0
        logits = self.op("Add", self.projected(said, UNITS, scale=6.0), self.array(bias))
        return self.op("LogSoftmax", logits, axis=-1) if is_normalised else logits

    def said(self, heard: str, *memories: str) -> str:
        """Return the frames with what is remembered, `[N, SIZE]` each."""
        known = [self.unsqueezed(item, 1) for item in memories]
        return self.op("Tanh", self.sum(heard, *known))

    def save(self, path: Path, **metadata: object) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        model = self.model(path.stem)
        onnx.helper.set_model_props(model, {key: str(value) for key, value in metadata.items()})
        onnx.save(model, path)


def zipformer2(folder: Path, seed: int = 0, name: str = "") -> Path:
    """Write a streaming folder with the tensors of zipformer2, and return it.

    With the name of a file it is of CTC.
    """
    toy = Toy(seed)
    dim, heads, query, value, kernel = SIZE, 2, 6, 4, 7
    x = toy.takes("x", "N", CHUNK, MELS)
    key = toy.takes("cached_key_0", LEFT, "N", query * heads)
    nonlin = toy.takes("cached_nonlin_attn_0", 1, "N", LEFT, 3 * dim // 4)
    values = [toy.takes(f"cached_val{n}_0", LEFT, "N", value * heads) for n in (1, 2)]
    convs = [toy.takes(f"cached_conv{n}_0", "N", dim, kernel // 2) for n in (1, 2)]
    embed = toy.takes("embed_states", "N", 128, 3, 19)
    lens = toy.takes_ints("processed_lens", "N")
    heard = toy.heard(x, _FRAMES)
    memories = [
        toy.remembered(key, 0, rows=query * heads),
        toy.remembered(nonlin, 0, 2, rows=3 * dim // 4),
        *(toy.remembered(item, 0, rows=value * heads) for item in values),
        *(toy.remembered(item, 2) for item in convs),
        toy.remembered(embed, 2, 3, rows=128, scale=4.0),
        toy.timed(lens),
    ]
    said = toy.said(heard, *memories)
    if name:
        toy.gives(toy.spelled(said), "log_probs", "N", _FRAMES, UNITS)
    else:
        toy.gives(said, "encoder_out", "N", _FRAMES, dim)
    first = toy.transposed(said, 1, 0, 2)
    toy.gives(
        toy.shifted(key, toy.projected(first, query * heads), 0),
        "new_cached_key_0",
        *(LEFT, "N", query * heads),
    )
    rows = toy.unsqueezed(toy.projected(said, 3 * dim // 4), 0)
    toy.gives(toy.shifted(nonlin, rows, 2), "new_cached_nonlin_attn_0", 1, "N", LEFT, 3 * dim // 4)
    for n, item in enumerate(values, 1):
        after = toy.shifted(item, toy.projected(first, value * heads), 0)
        toy.gives(after, f"new_cached_val{n}_0", LEFT, "N", value * heads)
    last = toy.transposed(said, 0, 2, 1)
    for n, item in enumerate(convs, 1):
        toy.gives(toy.shifted(item, last, 2), f"new_cached_conv{n}_0", "N", dim, kernel // 2)
    level = toy.unsqueezed(toy.projected(toy.mean(said, 1), 128), 2, 3)
    faded = toy.op("Mul", embed, toy.scalar(0.5))
    toy.gives(toy.op("Add", faded, level), "new_embed_states", "N", 128, 3, 19)
    counted = toy.op("Add", lens, toy.ints(SHIFT // 2))
    toy.gives_ints(counted, "new_processed_lens", "N")
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
    return with_tokens(folder) if name else _with_the_rest(folder, seed)


def lstm(folder: Path, seed: int = 0) -> Path:
    """Write a streaming folder with the tensors of icefall's LSTM, and return it."""
    toy = Toy(seed)
    hidden, shift, chunk = 24, 4, 9
    x = toy.takes("x", "N", chunk, MELS)
    h, c = toy.takes("h", 1, "N", SIZE), toy.takes("c", 1, "N", hidden)
    said = toy.said(
        toy.heard(x, 1),
        toy.remembered(h, 0),
        toy.remembered(c, 0, rows=hidden),
    )
    toy.gives(said, "encoder_out", "N", 1, SIZE)
    first = toy.transposed(said, 1, 0, 2)
    toy.gives(toy.projected(first, SIZE), "next_h", 1, "N", SIZE)
    faded = toy.op("Mul", c, toy.scalar(0.7))
    after = toy.op("Add", faded, toy.projected(first, hidden))
    toy.gives(after, "next_c", 1, "N", hidden)
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
    toy = Toy(seed)
    layers, kernel = 2, 5
    x = toy.takes("x", "N", CHUNK, MELS)
    attention = toy.takes("cached_attn", layers, LEFT, "N", SIZE)
    conv = toy.takes("cached_conv", layers, kernel - 1, "N", SIZE)
    lens = toy.takes_ints("processed_lens", "N")
    said = toy.said(
        toy.heard(x, _FRAMES),
        toy.remembered(attention, 0, 1),
        toy.remembered(conv, 0, 1),
        toy.timed(lens),
    )
    toy.gives(said, "encoder_out", "N", _FRAMES, SIZE)
    first = toy.transposed(said, 1, 0, 2)
    both = [toy.unsqueezed(toy.projected(first, SIZE), 0) for _ in range(2)]
    rows = toy.op("Concat", *both, axis=0)
    toy.gives(toy.shifted(attention, rows, 1), "new_cached_attn", layers, LEFT, "N", SIZE)
    toy.gives(toy.shifted(conv, rows, 1), "new_cached_conv", layers, kernel - 1, "N", SIZE)
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
    toy = Toy(seed)
    x = toy.takes("x", "N", "T", MELS)
    lens = toy.takes_ints("x_lens", "N")
    said = toy.op("Tanh", toy.projected(toy.heard(toy.whole(x)), SIZE, scale=2.0))
    toy.gives(said, "encoder_out", "N", "S", SIZE)
    toy.gives_lens(lens, "encoder_out_lens")
    toy.save(folder / "encoder.onnx", model_type="zipformer2", comment="non-streaming zipformer2")
    return _with_the_rest(folder, seed)


def _with_the_rest(folder: Path, seed: int) -> Path:
    toy = Toy(seed + 1)
    y = toy.takes_ints("y", "N", 2)
    # As icefall's, which knows -1 as the unit before the first.
    known = toy.op("Max", y, toy.ints(0))
    rows = toy.op("Gather", toy.weight(UNITS, SIZE, scale=4.0), known, axis=0)
    is_there = toy.floats(toy.op("GreaterOrEqual", y, toy.ints(0)))
    masked = toy.op("Mul", rows, toy.unsqueezed(is_there, 2))
    joined = toy.op("Reshape", masked, toy.ints(0, 2 * SIZE))
    out = toy.projected(joined, SIZE, 2 * SIZE, scale=2.0)
    toy.gives(out, "decoder_out", "N", SIZE)
    toy.save(folder / "decoder.onnx", context_size=2, vocab_size=UNITS)

    toy = Toy(seed + 2)
    heard = toy.takes("encoder_out", "N", SIZE)
    said = toy.takes("decoder_out", "N", SIZE)
    both = toy.op("Tanh", toy.op("Add", heard, said))
    blank = np.zeros(UNITS, np.float32)
    blank[0] = 2.5
    logits = toy.op("Add", toy.projected(both, UNITS, scale=6.0), toy.array(blank))
    toy.gives(logits, "logit", "N", UNITS)
    toy.save(folder / "joiner.onnx", joiner_dim=SIZE)

    return with_tokens(folder)


def with_tokens(folder: Path, symbols: Sequence[str] = SYMBOLS) -> Path:
    """Write the units of a folder, and return it."""
    lines = [f"{text} {number}\n" for number, text in enumerate(symbols)]
    (folder / "tokens.txt").write_text("".join(lines), "utf-8")
    return folder

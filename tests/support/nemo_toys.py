"""Folders of NeMo's transducers as sherpa-onnx exports them, with random weights."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType

import numpy as np
from onnx import TensorProto
from transducer_toys import SYLLABLES, Toy, with_tokens


@dataclass(frozen=True, kw_only=True)
class Sizes:
    mels: int = 80
    size: int = 32
    layers: int = 2
    kept: int = 6
    kernel: int = 4
    window: int = 25
    shift: int = 16
    hidden: int = 24
    lstm_layers: int = 2
    units: int = 40
    """The last one is the blank."""
    blank: float = 7.5
    """Its advantage."""


SMALL = Sizes()
_LARGE = Sizes(mels=128, kernel=8, hidden=640)
NEMOTRON = replace(
    _LARGE, size=1024, layers=24, kept=56, window=65, shift=56, units=13_088, blank=14
)
"""Nemotron 3.5 with chunks of 560 ms; the number of units is about that."""
REALTIME_EOU = replace(_LARGE, size=512, layers=17, kept=70, lstm_layers=1, units=1027, blank=12)
DURATIONS = 5
UNIFIED = {"left": 70, "chunk": 2, "right": 5}
"""Frames of output in a window, as in a published model."""
PROMPTS = {"auto": 101, "en": 0, "en-GB": 1, "en-US": 0, "ja-JP": 10, "zh-CN": 4, "zh-TW": 5}
_NO_PROMPTS: Mapping[str, int] = MappingProxyType({})
_NOTHING: Mapping[str, object] = MappingProxyType({})
TAGS = ("<en-US>", "<ja>")
"""Units that are no text."""


def rnnt(folder: Path, seed: int = 0) -> Path:
    """Write a folder for recordings, and return it."""
    return _offline(folder, seed, 0, "https://huggingface.co/nvidia/parakeet-rnnt-toy")


def tdt(folder: Path, seed: int = 0) -> Path:
    """Write a folder for recordings whose joiner says how far to go on, and return it."""
    return _offline(folder, seed, DURATIONS, "https://huggingface.co/nvidia/parakeet-tdt-toy")


def unified(folder: Path, seed: int = 0) -> Path:
    """Write a folder that hears live audio in windows, and return it."""
    frames = {f"{part}_encoder_frames": num for part, num in UNIFIED.items()}
    frames |= {f"{part}_feature_frames": 8 * num for part, num in UNIFIED.items()}
    known = {"streaming_model_type": "nemo_parakeet_unified_streaming", "buffered_streaming": 1}
    return _offline(folder, seed, 0, "https://huggingface.co/nvidia/toy", {**known, **frames})


def ending(folder: Path, seed: int = 0) -> Path:
    """Write a folder like `streaming` with units that say that speech ends, and return it."""
    return streaming(folder, seed, tags=("<EOU>", "<EOB>"))


def prompted(folder: Path, seed: int = 0) -> Path:
    """Write a folder like `streaming` whose encoder is told a language, and return it."""
    return streaming(folder, seed, PROMPTS, TAGS)


def streaming(
    folder: Path,
    seed: int = 0,
    prompts: Mapping[str, int] = _NO_PROMPTS,
    tags: Sequence[str] = (),
    sizes: Sizes = SMALL,
) -> Path:
    """Write a folder for live audio, whose encoder keeps caches, and return it."""
    toy = Toy(seed)
    x = toy.takes("audio_signal", "a_0", sizes.mels, sizes.window)
    lens = toy.takes_ints("length", "l_0")
    channel = toy.takes("cache_last_channel", "c_0", sizes.layers, sizes.kept, sizes.size)
    time = toy.takes("cache_last_time", "t_0", sizes.layers, sizes.size, sizes.kernel)
    known = toy.takes_ints("cache_last_channel_len", "k_0")
    count = toy.floats(toy.unsqueezed(known, 1))
    said = toy.said(
        _heard(toy, x, sizes, sizes.shift),
        toy.projected(toy.mean(channel, 1, 2), sizes.size, sizes.size, scale=2.0),
        toy.projected(toy.mean(time, 1, 3), sizes.size, sizes.size, scale=2.0),
        toy.op("Sin", toy.projected(count, sizes.size, 1, scale=0.3)),
        *([_prompt(toy, sizes.size)] if prompts else []),
    )
    last = toy.transposed(said, 0, 2, 1)
    toy.gives(last, "outputs", "a_0", sizes.size, sizes.shift // 8)
    toy.gives_lens(lens, "encoded_lengths", "l_0", by=8)
    rows = [
        toy.unsqueezed(toy.projected(said, sizes.size, sizes.size), 1) for _ in range(sizes.layers)
    ]
    after = toy.shifted(channel, toy.op("Concat", *rows, axis=1), 2)
    toy.gives(after, "cache_last_channel_next", "c_0", sizes.layers, sizes.kept, sizes.size)
    rows = [toy.unsqueezed(last, 1) for _ in range(sizes.layers)]
    after = toy.shifted(time, toy.op("Concat", *rows, axis=1), 3)
    toy.gives(after, "cache_last_time_next", "t_0", sizes.layers, sizes.size, sizes.kernel)
    counted = toy.op("Min", toy.op("Add", known, toy.ints(sizes.shift // 8)), toy.ints(sizes.kept))
    toy.gives_ints(counted, "cache_last_channel_len_next", "k_0")
    toy.save(
        folder / "encoder.onnx",
        **_metadata("", "https://catalog.ngc.nvidia.com/fastconformer_streaming", sizes),
        window_size=sizes.window,
        chunk_shift=sizes.shift,
        cache_last_channel_dim1=sizes.layers,
        cache_last_channel_dim2=sizes.kept,
        cache_last_channel_dim3=sizes.size,
        cache_last_time_dim1=sizes.layers,
        cache_last_time_dim2=sizes.size,
        cache_last_time_dim3=sizes.kernel,
        **({"prompt_dictionary": json.dumps(prompts), "auto_prompt_id": 101} if prompts else {}),
    )
    return _with_the_rest(folder, seed, tags=tags, sizes=sizes)


def _prompt(toy: Toy, size: int) -> str:
    index = toy.takes_ints("prompt_index", "p_0")
    return toy.op("Gather", toy.weight(128, size, scale=8.0), index, axis=0)


def _metadata(normalize_type: str, url: str, sizes: Sizes = SMALL) -> dict[str, object]:
    return {
        "vocab_size": sizes.units - 1,
        "normalize_type": normalize_type,
        "pred_rnn_layers": sizes.lstm_layers,
        "pred_hidden": sizes.hidden,
        "subsampling_factor": 8,
        "model_type": "EncDecRNNTBPEModel",
        "model_author": "NeMo",
        "url": url,
        "feat_dim": sizes.mels,
    }


def _heard(toy: Toy, x: str, sizes: Sizes, num_frames: int | None = None) -> str:
    """Return `[N, T / 8, size]` of features `[N, mels, T]`, eight frames together."""
    rows = toy.transposed(x, 0, 2, 1)
    if num_frames is None:
        cut = toy.whole(rows, 8)
    else:
        rows = toy.op("Mul", toy.op("Add", rows, toy.scalar(8.0)), toy.scalar(0.2))
        cut = toy.op("Slice", rows, toy.ints(0), toy.ints(num_frames), toy.ints(1))
    joined = toy.op("Reshape", cut, toy.ints(0, -1, 8 * sizes.mels))
    return toy.op("Tanh", toy.projected(joined, sizes.size, 8 * sizes.mels, scale=2.0))


def _offline(
    folder: Path,
    seed: int,
    durations: int,
    url: str,
    more: Mapping[str, object] = _NOTHING,
) -> Path:
    toy = Toy(seed)
    x = toy.takes("audio_signal", "a_0", SMALL.mels, "a_2")
    lens = toy.takes_ints("length", "l_0")
    last = toy.transposed(_heard(toy, x, SMALL), 0, 2, 1)
    toy.gives(last, "outputs", "a_0", SMALL.size, "o_2")
    toy.gives_lens(lens, "encoded_lengths", "l_0", by=8)
    toy.save(folder / "encoder.onnx", **_metadata("per_feature", url), **more)
    return _with_the_rest(folder, seed, durations, more)


def _with_the_rest(
    folder: Path,
    seed: int,
    durations: int = 0,
    metadata: Mapping[str, object] = _NOTHING,
    tags: Sequence[str] = (),
    sizes: Sizes = SMALL,
) -> Path:
    toy = Toy(seed + 1)
    y = toy.takes("targets", "y_0", "y_1", elem_type=TensorProto.INT32)
    lens = toy.takes("target_length", "n_0", elem_type=TensorProto.INT32)
    h, c = (
        toy.takes(name, sizes.lstm_layers, "s_1", sizes.hidden)
        for name in ("states.1", "onnx::Slice_3")
    )
    rows = toy.op("Gather", toy.weight(sizes.units, sizes.hidden, scale=4.0), y, axis=0)
    first = toy.transposed(rows, 1, 0, 2)
    mixed = toy.projected(
        toy.sum(toy.mean(h, 0, keepdims=1), first), sizes.hidden, sizes.hidden, scale=2.0
    )
    new_h = toy.op("Tanh", toy.sum(mixed, toy.op("Mul", h, toy.scalar(0.5)), c))
    faded = toy.op("Mul", c, toy.scalar(0.6))
    new_c = toy.op("Add", faded, toy.projected(first, sizes.hidden, sizes.hidden))
    out = toy.transposed(toy.mean(new_h, 0, keepdims=1), 1, 2, 0)
    toy.gives(out, "outputs", "y_0", sizes.hidden, "u_2")
    toy.gives(lens, "prednet_lengths", "n_0", elem_type=TensorProto.INT32)
    toy.gives(new_h, "states", sizes.lstm_layers, "s_1", sizes.hidden)
    toy.gives(new_c, "74", sizes.lstm_layers, "s_1", sizes.hidden)
    toy.save(folder / "decoder.onnx", **metadata)

    toy = Toy(seed + 2)
    heard = toy.takes("encoder_outputs", "e_0", sizes.size, "e_2")
    said = toy.takes("decoder_outputs", "d_0", sizes.hidden, "d_2")
    heard, said = (
        toy.unsqueezed(toy.transposed(item, 0, 2, 1), axis)
        for item, axis in ((heard, 2), (said, 1))
    )
    both = toy.op(
        "Tanh",
        toy.sum(
            toy.projected(heard, sizes.size, sizes.size),
            toy.projected(said, sizes.size, sizes.hidden, scale=2.0),
        ),
    )
    bias = np.zeros(sizes.units + durations, np.float32)
    # The fewer units at a frame, the less of them the blank prevents.
    bias[sizes.units - 1], bias[0] = 3.5 if durations else sizes.blank, -20.0
    logits = toy.op(
        "Add",
        toy.projected(both, sizes.units + durations, sizes.size, scale=6.0),
        toy.array(bias),
    )
    toy.gives(logits, "outputs", "e_0", "e_2", "d_2", sizes.units + durations)
    toy.save(folder / "joiner.onnx")

    beginnings = [f"▁{text}" for text in SYLLABLES]
    letters = [chr(97 + n) for n in range(26)]
    others = [*letters, *map("".join, product(letters, repeat=3))]
    del others[sizes.units - 2 - 2 * len(SYLLABLES) - len(tags) :]
    symbols = ["<unk>", *beginnings, *SYLLABLES, *others, *tags, "<blk>"]
    return with_tokens(folder, symbols)

"""Folders of NeMo's transducers as sherpa-onnx exports them, with random weights."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
from onnx import TensorProto
from transducer_toys import Toy, scalar

MELS, SIZE, HIDDEN, LAYERS, UNITS = 80, 32, 24, 2, 40
"""The last unit is the blank."""
DURATIONS = 5
UNIFIED = {"left": 70, "chunk": 2, "right": 5}
"""Frames of output in a window, as in a published model."""
PROMPTS = {"auto": 101, "en": 0, "en-GB": 1, "en-US": 0, "ja-JP": 10, "zh-CN": 4, "zh-TW": 5}
_NO_PROMPTS: Mapping[str, int] = MappingProxyType({})
_NOTHING: Mapping[str, object] = MappingProxyType({})
WINDOW, SHIFT = 25, 16
_KEPT, _KERNEL = 6, 4
TAGS = ("<en-US>", "<ja>")
"""Units that are no text."""
_SYLLABLES = ["ba", "do", "ki", "lu", "me", "no", "ra", "si", "tu", "ve", "za", "ing"]
_LENS = {"elem_type": TensorProto.INT64}


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
) -> Path:
    """Write a folder for live audio, whose encoder keeps caches, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    toy = Toy(seed)
    graph = toy.graph
    x = graph.takes("audio_signal", "a_0", MELS, WINDOW)
    lens = graph.takes("length", "l_0", **_LENS)
    channel = graph.takes("cache_last_channel", "c_0", LAYERS, _KEPT, SIZE)
    time = graph.takes("cache_last_time", "t_0", LAYERS, SIZE, _KERNEL)
    known = graph.takes("cache_last_channel_len", "k_0", **_LENS)
    count = graph.op("Cast", graph.op("Unsqueeze", known, graph.ints(1)), to=TensorProto.FLOAT)
    said = toy.said(
        _heard(toy, x, SHIFT),
        toy.projected(toy.mean(channel, 1, 2), SIZE, scale=2.0),
        toy.projected(toy.mean(time, 1, 3), SIZE, scale=2.0),
        graph.op("Sin", toy.projected(count, SIZE, 1, scale=0.3)),
        *([_prompt(toy)] if prompts else []),
    )
    last = graph.op("Transpose", said, perm=[0, 2, 1])
    graph.gives(last, "outputs", "a_0", SIZE, SHIFT // 8)
    graph.gives(graph.op("Div", lens, graph.ints(8)), "encoded_lengths", "l_0", **_LENS)
    rows = [graph.op("Unsqueeze", toy.projected(said, SIZE), graph.ints(1)) for _ in range(LAYERS)]
    after = toy.shifted(channel, graph.op("Concat", *rows, axis=1), 2)
    graph.gives(after, "cache_last_channel_next", "c_0", LAYERS, _KEPT, SIZE)
    rows = [graph.op("Unsqueeze", last, graph.ints(1)) for _ in range(LAYERS)]
    after = toy.shifted(time, graph.op("Concat", *rows, axis=1), 3)
    graph.gives(after, "cache_last_time_next", "t_0", LAYERS, SIZE, _KERNEL)
    counted = graph.op("Min", graph.op("Add", known, graph.ints(2)), graph.ints(_KEPT))
    graph.gives(counted, "cache_last_channel_len_next", "k_0", **_LENS)
    toy.save(
        folder / "encoder.onnx",
        **_metadata("", "https://catalog.ngc.nvidia.com/stt_en_fastconformer_streaming"),
        window_size=WINDOW,
        chunk_shift=SHIFT,
        cache_last_channel_dim1=LAYERS,
        cache_last_channel_dim2=_KEPT,
        cache_last_channel_dim3=SIZE,
        cache_last_time_dim1=LAYERS,
        cache_last_time_dim2=SIZE,
        cache_last_time_dim3=_KERNEL,
        **({"prompt_dictionary": json.dumps(prompts), "auto_prompt_id": 101} if prompts else {}),
    )
    return _with_the_rest(folder, seed, tags=tags)


def _prompt(toy: Toy) -> str:
    index = toy.graph.takes("prompt_index", "p_0", **_LENS)
    return toy.graph.op("Gather", toy.weight(128, SIZE, scale=8.0), index, axis=0)


def _metadata(normalize_type: str, url: str) -> dict[str, object]:
    return {
        "vocab_size": UNITS - 1,
        "normalize_type": normalize_type,
        "pred_rnn_layers": LAYERS,
        "pred_hidden": HIDDEN,
        "subsampling_factor": 8,
        "model_type": "EncDecRNNTBPEModel",
        "model_author": "NeMo",
        "url": url,
        "feat_dim": MELS,
    }


def _heard(toy: Toy, x: str, num_frames: int | None = None) -> str:
    """Return `[N, T / 8, SIZE]` of features `[N, MELS, T]`, eight frames together."""
    graph = toy.graph
    rows = graph.op("Transpose", x, perm=[0, 2, 1])
    if num_frames is None:
        whole = graph.op("Div", graph.op("Shape", x, start=2, end=3), graph.ints(8))
        end = graph.op("Mul", whole, graph.ints(8))
    else:
        end = graph.ints(num_frames)
        rows = graph.op("Mul", graph.op("Add", rows, scalar(graph, 8.0)), scalar(graph, 0.2))
    cut = graph.op("Slice", rows, graph.ints(0), end, graph.ints(1))
    joined = graph.op("Reshape", cut, graph.ints(0, -1, 8 * MELS))
    return graph.op("Tanh", toy.projected(joined, SIZE, 8 * MELS, scale=2.0))


def _offline(
    folder: Path,
    seed: int,
    durations: int,
    url: str,
    more: Mapping[str, object] = _NOTHING,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    toy = Toy(seed)
    graph = toy.graph
    x = graph.takes("audio_signal", "a_0", MELS, "a_2")
    lens = graph.takes("length", "l_0", **_LENS)
    last = graph.op("Transpose", _heard(toy, x), perm=[0, 2, 1])
    graph.gives(last, "outputs", "a_0", SIZE, "o_2")
    graph.gives(graph.op("Div", lens, graph.ints(8)), "encoded_lengths", "l_0", **_LENS)
    toy.save(folder / "encoder.onnx", **_metadata("per_feature", url), **more)
    return _with_the_rest(folder, seed, durations, more)


def _with_the_rest(
    folder: Path,
    seed: int,
    durations: int = 0,
    metadata: Mapping[str, object] = _NOTHING,
    tags: Sequence[str] = (),
) -> Path:
    toy = Toy(seed + 1)
    graph = toy.graph
    y = graph.takes("targets", "y_0", "y_1", elem_type=TensorProto.INT32)
    lens = graph.takes("target_length", "n_0", elem_type=TensorProto.INT32)
    h, c = (graph.takes(name, LAYERS, "s_1", HIDDEN) for name in ("states.1", "onnx::Slice_3"))
    rows = graph.op("Gather", toy.weight(UNITS, HIDDEN, scale=4.0), y, axis=0)
    first = graph.op("Transpose", rows, perm=[1, 0, 2])
    mixed = toy.projected(toy.sum(toy.mean(h, 0, keepdims=1), first), HIDDEN, HIDDEN, scale=2.0)
    new_h = graph.op("Tanh", toy.sum(mixed, graph.op("Mul", h, scalar(graph, 0.5)), c))
    faded = graph.op("Mul", c, scalar(graph, 0.6))
    new_c = graph.op("Add", faded, toy.projected(first, HIDDEN, HIDDEN))
    out = graph.op("Transpose", toy.mean(new_h, 0, keepdims=1), perm=[1, 2, 0])
    graph.gives(out, "outputs", "y_0", HIDDEN, "u_2")
    graph.gives(lens, "prednet_lengths", "n_0", elem_type=TensorProto.INT32)
    graph.gives(new_h, "states", LAYERS, "s_1", HIDDEN)
    graph.gives(new_c, "74", LAYERS, "s_1", HIDDEN)
    toy.save(folder / "decoder.onnx", **metadata)

    toy = Toy(seed + 2)
    graph = toy.graph
    heard = graph.takes("encoder_outputs", "e_0", SIZE, "e_2")
    said = graph.takes("decoder_outputs", "d_0", HIDDEN, "d_2")
    heard, said = (
        graph.op("Unsqueeze", graph.op("Transpose", item, perm=[0, 2, 1]), graph.ints(axis))
        for item, axis in ((heard, 2), (said, 1))
    )
    both = graph.op(
        "Tanh", toy.sum(toy.projected(heard, SIZE), toy.projected(said, SIZE, HIDDEN, scale=2.0))
    )
    bias = np.zeros(UNITS + durations, np.float32)
    # The fewer units at a frame, the less of them the blank prevents.
    bias[UNITS - 1], bias[0] = 3.5 if durations else 7.5, -20.0
    logits = graph.op("Add", toy.projected(both, UNITS + durations, scale=6.0), graph.array(bias))
    graph.gives(logits, "outputs", "e_0", "e_2", "d_2", UNITS + durations)
    toy.save(folder / "joiner.onnx")

    beginnings = [f"▁{text}" for text in _SYLLABLES]
    others = [chr(97 + n) for n in range(UNITS - 2 - 2 * len(_SYLLABLES) - len(tags))]
    symbols = ["<unk>", *beginnings, *_SYLLABLES, *others, *tags, "<blk>"]
    lines = [f"{text} {number}\n" for number, text in enumerate(symbols)]
    (folder / "tokens.txt").write_text("".join(lines), "utf-8")
    return folder

"""Folders of CTC models as others export them, with random weights."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto
from transducer_toys import MELS, SIZE, UNITS, Toy, scalar, write_tokens, zipformer2

WENET_CHUNK, WENET_LEFT, WENET_CONTEXT = 16, 4, 6


def icefall(folder: Path, seed: int = 0) -> Path:
    """Write a folder of icefall's for recordings, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    toy = Toy(seed)
    graph = toy.graph
    x = graph.takes("x", "N", "T", MELS)
    lens = graph.takes("x_lens", "N", elem_type=TensorProto.INT64)
    said = toy.heard(_whole(toy, x))
    graph.gives(toy.spelled(said), "log_probs", "N", "S", UNITS)
    _gives_lens(toy, lens, "log_probs_len")
    toy.save(folder / "ctc-epoch-1-avg-1.onnx", model_type="zipformer2_ctc")
    write_tokens(folder)
    return folder


def icefall_live(folder: Path, seed: int = 0) -> Path:
    """Write a folder of icefall's for live audio, and return it."""
    return zipformer2(folder, seed, "ctc-epoch-1-avg-1-chunk-16-left-128.onnx")


def wenet(folder: Path, seed: int = 0) -> Path:
    """Write a folder of WeNet's for recordings and live audio, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    toy = Toy(seed)
    graph = toy.graph
    x = graph.takes("x", "N", "T", MELS)
    lens = graph.takes("x_lens", "N", elem_type=TensorProto.INT64)
    graph.gives(toy.spelled(toy.heard(_quieter(toy, _whole(toy, x)))), "log_probs", "N", "S", UNITS)
    _gives_lens(toy, lens, "log_probs_lens")
    known = {"model_type": "wenet_ctc", "subsampling_factor": 4, "vocab_size": UNITS}
    toy.save(folder / "model.onnx", **known)
    _wenet_live(folder / "model-streaming.onnx", seed, known)
    write_tokens(folder)
    tokens = folder / "tokens.txt"
    tokens.write_text(tokens.read_text().replace("<blk>", "<blank>"))
    return folder


def _wenet_live(path: Path, seed: int, known: dict[str, object]) -> None:
    layers, heads, kernel, left = 2, 4, 5, WENET_CHUNK * WENET_LEFT
    toy = Toy(seed)
    graph = toy.graph
    x = graph.takes("x", "N", "T", MELS)
    offset = graph.takes("offset", 1, elem_type=TensorProto.INT64)
    required = graph.takes("required_cache_size", 1, elem_type=TensorProto.INT64)
    attention = graph.takes("attn_cache", layers, heads, "C", 2 * SIZE // heads)
    conv = graph.takes("conv_cache", layers, 1, SIZE, kernel - 1)
    mask = graph.takes("attn_mask", "N", 1, "M", elem_type=TensorProto.BOOL)
    heard = toy.heard(_quieter(toy, x), WENET_CHUNK)
    # Of what the mask shows, and of the time.
    is_seen = graph.op("Cast", mask, to=TensorProto.FLOAT)
    seen = graph.op("ReduceMean", is_seen, graph.ints(1, 2), keepdims=0)
    seen = graph.op("Unsqueeze", seen, graph.ints(1))
    cached = graph.op("Unsqueeze", toy.mean(attention, 0, 1, 2), graph.ints(0))
    counted = graph.op("Sub", offset, required)
    time = graph.op("Unsqueeze", graph.op("Cast", counted, to=TensorProto.FLOAT), graph.ints(0))
    said = toy.said(
        heard,
        toy.projected(cached, SIZE, 2 * SIZE // heads, scale=2.0),
        toy.projected(toy.mean(conv, 0, 3), SIZE, scale=2.0),
        toy.projected(seen, SIZE, 1, scale=2.0),
        graph.op("Sin", toy.projected(time, SIZE, 1, scale=0.1)),
    )
    graph.gives(toy.spelled(said), "log_probs", "N", WENET_CHUNK, UNITS)
    rows = toy.projected(said, 2 * SIZE // heads)
    shown = graph.op(
        "Expand", graph.op("Unsqueeze", rows, graph.ints(0)), graph.ints(layers, heads, 1, 1)
    )
    after = toy.shifted(attention, shown, 2)
    graph.gives(after, "next_att_cache", layers, heads, left, 2 * SIZE // heads)
    last = graph.op("Unsqueeze", graph.op("Transpose", said, perm=[0, 2, 1]), graph.ints(0))
    both = graph.op("Expand", last, graph.ints(layers, 1, 1, 1))
    graph.gives(toy.shifted(conv, both, 3), "next_conv_cache", layers, 1, SIZE, kernel - 1)
    toy.save(
        path,
        **known,
        chunk_size=WENET_CHUNK,
        left_chunks=WENET_LEFT,
        head=heads,
        num_blocks=layers,
        output_size=SIZE,
        cnn_module_kernel=kernel,
        right_context=WENET_CONTEXT,
    )


def nemo(folder: Path, seed: int = 0, normalize_type: str = "per_feature") -> Path:
    """Write a folder of NeMo's for recordings, whose blank is the last unit, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    toy = Toy(seed)
    graph = toy.graph
    x = graph.takes("audio_signal", "N", MELS, "T")
    graph.takes("length", "N", elem_type=TensorProto.INT64)
    turned = _whole(toy, graph.op("Transpose", x, perm=[0, 2, 1]))
    if normalize_type:
        turned = graph.op("Sub", turned, scalar(graph, 8.0))
    said = toy.heard(turned)
    graph.gives(toy.spelled(said, UNITS - 1), "logprobs", "N", "S", UNITS)
    toy.save(
        folder / "model.onnx",
        model_type="EncDecCTCModelBPE",
        vocab_size=UNITS - 1,
        subsampling_factor=4,
        normalize_type=normalize_type,
    )
    write_tokens(folder)
    _, *lines = (folder / "tokens.txt").read_text().splitlines()
    symbols = [line.split()[0] for line in lines if not line.startswith("#")]
    numbered = enumerate([*symbols, "<blk>"])
    (folder / "tokens.txt").write_text("".join(f"{text} {unit}\n" for unit, text in numbered))
    return folder


def medasr(folder: Path, seed: int = 0) -> Path:
    """Write a folder of MedASR, which takes a mask, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    toy = Toy(seed)
    graph = toy.graph
    x = graph.takes("x", "N", "T", 128)
    mask = graph.takes("mask", "N", "T", elem_type=TensorProto.INT64)
    said = toy.heard(_whole(toy, x), mels=128)
    graph.gives(toy.spelled(said, is_normalised=False), "logits", "N", "S", UNITS)
    lens = graph.op("ReduceSum", mask, graph.ints(1), keepdims=0)
    _gives_lens(toy, lens, "logits_len")
    known = {"vocab_size": UNITS, "subsampling_factor": 4}
    toy.save(folder / "model.onnx", model_type="medasr_ctc", **known)
    write_tokens(folder)
    return folder


def dolphin(folder: Path, seed: int = 0) -> Path:
    """Write a folder of Dolphin's CTC, which has no `model_type`, and return it."""
    return _centred(folder, seed, ("mean", "invstd"), vocab_size=UNITS)


def fire_red(folder: Path, seed: int = 0) -> Path:
    """Write a folder of FireRedASR 2's CTC, and return it."""
    names = ("cmvn_mean", "cmvn_inv_stddev")
    return _centred(folder, seed, names, model_type="fire-red-asr-2-ctc")


def _centred(folder: Path, seed: int, names: tuple[str, str], **metadata: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    toy = Toy(seed)
    graph = toy.graph
    x = graph.takes("x", "N", "T", MELS)
    lens = graph.takes("x_len", "N", elem_type=TensorProto.INT64)
    said = toy.heard(graph.op("Sub", _whole(toy, x), scalar(graph, 8.0)))
    graph.gives(toy.spelled(said), "log_probs", "N", "S", UNITS)
    _gives_lens(toy, lens, "log_probs_len")
    random = np.random.default_rng(seed)
    spread = (random.normal(0, 1, MELS), random.uniform(0.2, 0.4, MELS))
    texts = (",".join(map(str, item)) for item in spread)
    toy.save(folder / "model.onnx", **metadata, **dict(zip(names, texts, strict=True)))
    write_tokens(folder)
    return folder


def telespeech(folder: Path, seed: int = 0) -> Path:
    """Write a folder of TeleSpeech, whose frames come first, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    toy = Toy(seed)
    graph = toy.graph
    x = graph.takes("feats", 1, "T", 40)
    said = toy.heard(graph.op("Sub", _whole(toy, x), scalar(graph, 8.0)), mels=40)
    logits = graph.op("Transpose", toy.spelled(said, is_normalised=False), perm=[1, 0, 2])
    graph.gives(logits, "logits", "S", 1, UNITS)
    toy.save(folder / "model.onnx", model_type="telespeech_ctc")
    write_tokens(folder)
    return folder


def omnilingual(folder: Path, seed: int = 0) -> Path:
    """Write a folder of Omnilingual ASR, whose blank is `<s>`, and return it."""
    waveform(folder, seed)
    path = folder / "model.onnx"
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"model_type": "omnilingual-asr", "vocab_size": str(UNITS)})
    onnx.save(model, path)
    tokens = folder / "tokens.txt"
    lines = tokens.read_text().splitlines()
    lines[:3] = ["<s> 0", "<pad> 1", "</s> 2"]
    tokens.write_text("\n".join(item for item in lines if not item.startswith("#")) + "\n")
    return folder


def nemo_live(folder: Path, seed: int = 0, normalize_type: str = "NA") -> Path:
    """Write a folder of NeMo's for live audio, and return it."""
    nemo(folder, seed, "")
    (folder / "model.onnx").unlink()
    toy = Toy(seed)
    graph = toy.graph
    layers, left, kernel, frames, window = 2, 12, 5, 8, 41
    x = graph.takes("audio_signal", "N", MELS, "T")
    lens = graph.takes("length", "M", elem_type=TensorProto.INT64)
    channel = graph.takes("cache_last_channel", "C", layers, left, SIZE)
    time = graph.takes("cache_last_time", "D", layers, SIZE, kernel)
    count = graph.takes("cache_last_channel_len", "E", elem_type=TensorProto.INT64)
    if normalize_type != "NA":
        x = graph.op("Sub", x, scalar(graph, 8.0))
    heard = toy.heard(graph.op("Transpose", x, perm=[0, 2, 1]), frames)
    counted = graph.op("Cast", graph.op("Unsqueeze", count, graph.ints(1)), to=TensorProto.FLOAT)
    said = toy.said(
        heard,
        toy.projected(toy.mean(channel, 1, 2), SIZE, scale=2.0),
        toy.projected(toy.mean(time, 1, 3), SIZE, scale=2.0),
        graph.op("Sin", toy.projected(counted, SIZE, 1, scale=0.1)),
    )
    graph.gives(toy.spelled(said, UNITS - 1), "logprobs", "N", frames, UNITS)
    graph.gives(lens, "encoded_lengths", "N", elem_type=TensorProto.INT64)
    rows = graph.op("Unsqueeze", said, graph.ints(1))
    shown = graph.op("Expand", rows, graph.ints(1, layers, 1, 1))
    graph.gives(toy.shifted(channel, shown, 2), "cache_last_channel_next", "N", layers, left, SIZE)
    turned = graph.op("Transpose", shown, perm=[0, 1, 3, 2])
    graph.gives(toy.shifted(time, turned, 3), "cache_last_time_next", "N", layers, SIZE, kernel)
    more = graph.op("Add", count, graph.ints(frames))
    graph.gives(more, "cache_last_channel_next_len", "N", elem_type=TensorProto.INT64)
    sizes = {"channel": (layers, left, SIZE), "time": (layers, SIZE, kernel)}
    toy.save(
        folder / "model.onnx",
        model_type="EncDecHybridRNNTCTCBPEModel",
        vocab_size=UNITS - 1,
        subsampling_factor=4,
        normalize_type=normalize_type,
        window_size=window,
        chunk_shift=4 * frames,
        **{
            f"cache_last_{name}_dim{place}": size
            for name, known in sizes.items()
            for place, size in enumerate(known, 1)
        },
    )
    return folder


def waveform(folder: Path, seed: int = 0) -> Path:
    """Write a folder of a model that hears the samples, as wav2vec2 does, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    toy = Toy(seed)
    graph = toy.graph
    x = graph.takes("x", "N", "S")
    whole = graph.op("Div", graph.op("Shape", x, start=1, end=2), graph.ints(320))
    cut = graph.op(
        "Slice", x, graph.ints(0), graph.op("Mul", whole, graph.ints(320)), graph.ints(1)
    )
    frames = graph.op("Reshape", cut, graph.ints(0, -1, 320))
    said = graph.op("Tanh", toy.projected(frames, SIZE, 320, scale=2.0))
    graph.gives(toy.spelled(said, is_normalised=False), "logits", "N", "T", UNITS)
    toy.save(folder / "model.onnx")
    write_tokens(folder)
    return folder


def _quieter(toy: Toy, x: str) -> str:
    """Return the features of 16-bit samples as those of samples in [-1, 1]."""
    return toy.graph.op("Sub", x, scalar(toy.graph, 2 * np.log(32_768.0)))


def _whole(toy: Toy, x: str) -> str:
    """Return features `[N, T, MELS]` of whole groups of four frames."""
    graph = toy.graph
    whole = graph.op("Div", graph.op("Shape", x, start=1, end=2), graph.ints(4))
    return graph.op("Slice", x, graph.ints(0), graph.op("Mul", whole, graph.ints(4)), graph.ints(1))


def _gives_lens(toy: Toy, lens: str, name: str) -> None:
    divided = toy.graph.op("Div", lens, toy.graph.ints(4))
    toy.graph.gives(divided, name, "N", elem_type=TensorProto.INT64)

"""Folders of CTC models as others export them, with random weights."""

from pathlib import Path

import numpy as np
from onnx import TensorProto
from transducer_toys import MELS, SIZE, SYMBOLS, TEXTS, UNITS, Toy, with_tokens, zipformer2

WENET_CHUNK, WENET_LEFT, WENET_CONTEXT = 16, 4, 6


def icefall(folder: Path, seed: int = 0) -> Path:
    """Write a folder of icefall's for recordings, and return it."""
    toy = Toy(seed)
    x = toy.takes("x", "N", "T", MELS)
    lens = toy.takes_ints("x_lens", "N")
    said = toy.heard(toy.whole(x))
    toy.gives(toy.spelled(said), "log_probs", "N", "S", UNITS)
    toy.gives_lens(lens, "log_probs_len")
    toy.save(folder / "ctc-epoch-1-avg-1.onnx", model_type="zipformer2_ctc")
    return with_tokens(folder)


def icefall_live(folder: Path, seed: int = 0) -> Path:
    """Write a folder of icefall's for live audio, and return it."""
    return zipformer2(folder, seed, "ctc-epoch-1-avg-1-chunk-16-left-128.onnx")


def wenet(folder: Path, seed: int = 0) -> Path:
    """Write a folder of WeNet's for recordings and live audio, and return it."""
    toy = Toy(seed)
    x = toy.takes("x", "N", "T", MELS)
    lens = toy.takes_ints("x_lens", "N")
    toy.gives(toy.spelled(toy.heard(_quieter(toy, toy.whole(x)))), "log_probs", "N", "S", UNITS)
    toy.gives_lens(lens, "log_probs_lens")
    known = {"model_type": "wenet_ctc", "subsampling_factor": 4, "vocab_size": UNITS}
    toy.save(folder / "model.onnx", **known)
    _wenet_live(folder / "model-streaming.onnx", seed, known)
    return with_tokens(folder, ["<blank>", *SYMBOLS[1:]])


def _wenet_live(path: Path, seed: int, known: dict[str, object]) -> None:
    layers, heads, kernel, left = 2, 4, 5, WENET_CHUNK * WENET_LEFT
    toy = Toy(seed)
    x = toy.takes("x", "N", "T", MELS)
    offset = toy.takes_ints("offset", 1)
    required = toy.takes_ints("required_cache_size", 1)
    attention = toy.takes("attn_cache", layers, heads, "C", 2 * SIZE // heads)
    conv = toy.takes("conv_cache", layers, 1, SIZE, kernel - 1)
    mask = toy.takes("attn_mask", "N", 1, "M", elem_type=TensorProto.BOOL)
    heard = toy.heard(_quieter(toy, x), WENET_CHUNK)
    # Of what the mask shows, and of the time.
    seen = toy.unsqueezed(toy.mean(toy.floats(mask), 1, 2), 1)
    cached = toy.unsqueezed(toy.mean(attention, 0, 1, 2), 0)
    said = toy.said(
        heard,
        toy.projected(cached, SIZE, 2 * SIZE // heads, scale=2.0),
        toy.remembered(conv, 0, 3),
        toy.projected(seen, SIZE, 1, scale=2.0),
        toy.timed(toy.op("Sub", offset, required), 0),
    )
    toy.gives(toy.spelled(said), "log_probs", "N", WENET_CHUNK, UNITS)
    rows = toy.projected(said, 2 * SIZE // heads)
    shown = toy.op("Expand", toy.unsqueezed(rows, 0), toy.ints(layers, heads, 1, 1))
    after = toy.shifted(attention, shown, 2)
    toy.gives(after, "next_att_cache", layers, heads, left, 2 * SIZE // heads)
    last = toy.unsqueezed(toy.transposed(said, 0, 2, 1), 0)
    both = toy.op("Expand", last, toy.ints(layers, 1, 1, 1))
    toy.gives(toy.shifted(conv, both, 3), "next_conv_cache", layers, 1, SIZE, kernel - 1)
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
    toy = Toy(seed)
    x = toy.takes("audio_signal", "N", MELS, "T")
    toy.takes_ints("length", "N")
    turned = toy.whole(toy.transposed(x, 0, 2, 1))
    if normalize_type:
        turned = toy.op("Sub", turned, toy.scalar(8.0))
    said = toy.heard(turned)
    toy.gives(toy.spelled(said, UNITS - 1), "logprobs", "N", "S", UNITS)
    toy.save(
        folder / "model.onnx",
        model_type="EncDecCTCModelBPE",
        vocab_size=UNITS - 1,
        subsampling_factor=4,
        normalize_type=normalize_type,
    )
    return with_tokens(folder, [*SYMBOLS[1:UNITS], "<blk>"])


def medasr(folder: Path, seed: int = 0) -> Path:
    """Write a folder of MedASR, which takes a mask, and return it."""
    toy = Toy(seed)
    x = toy.takes("x", "N", "T", 128)
    mask = toy.takes_ints("mask", "N", "T")
    said = toy.heard(toy.whole(x), mels=128)
    toy.gives(toy.spelled(said, is_normalised=False), "logits", "N", "S", UNITS)
    lens = toy.op("ReduceSum", mask, toy.ints(1), keepdims=0)
    toy.gives_lens(lens, "logits_len")
    known = {"vocab_size": UNITS, "subsampling_factor": 4}
    toy.save(folder / "model.onnx", model_type="medasr_ctc", **known)
    return with_tokens(folder)


def dolphin(folder: Path, seed: int = 0) -> Path:
    """Write a folder of Dolphin's CTC, which has no `model_type`, and return it."""
    return _centred(folder, seed, ("mean", "invstd"), vocab_size=UNITS)


def fire_red(folder: Path, seed: int = 0) -> Path:
    """Write a folder of FireRedASR 2's CTC, and return it."""
    names = ("cmvn_mean", "cmvn_inv_stddev")
    return _centred(folder, seed, names, model_type="fire-red-asr-2-ctc")


def _centred(folder: Path, seed: int, names: tuple[str, str], **metadata: object) -> Path:
    toy = Toy(seed)
    x = toy.takes("x", "N", "T", MELS)
    lens = toy.takes_ints("x_len", "N")
    said = toy.heard(toy.op("Sub", toy.whole(x), toy.scalar(8.0)))
    toy.gives(toy.spelled(said), "log_probs", "N", "S", UNITS)
    toy.gives_lens(lens, "log_probs_len")
    random = np.random.default_rng(seed)
    spread = (random.normal(0, 1, MELS), random.uniform(0.2, 0.4, MELS))
    texts = (",".join(map(str, item)) for item in spread)
    toy.save(folder / "model.onnx", **metadata, **dict(zip(names, texts, strict=True)))
    return with_tokens(folder)


def telespeech(folder: Path, seed: int = 0) -> Path:
    """Write a folder of TeleSpeech, whose frames come first, and return it."""
    toy = Toy(seed)
    x = toy.takes("feats", 1, "T", 40)
    said = toy.heard(toy.op("Sub", toy.whole(x), toy.scalar(8.0)), mels=40)
    logits = toy.transposed(toy.spelled(said, is_normalised=False), 1, 0, 2)
    toy.gives(logits, "logits", "S", 1, UNITS)
    toy.save(folder / "model.onnx", model_type="telespeech_ctc")
    return with_tokens(folder)


def omnilingual(folder: Path, seed: int = 0) -> Path:
    """Write a folder of Omnilingual ASR, whose blank is `<s>`, and return it."""
    waveform(folder, seed, model_type="omnilingual-asr", vocab_size=UNITS)
    return with_tokens(folder, ["<s>", "<pad>", "</s>", *TEXTS])


def nemo_live(folder: Path, seed: int = 0, normalize_type: str = "NA") -> Path:
    """Write a folder of NeMo's for live audio, and return it."""
    nemo(folder, seed, "")
    (folder / "model.onnx").unlink()
    toy = Toy(seed)
    layers, left, kernel, frames, window = 2, 12, 5, 8, 41
    x = toy.takes("audio_signal", "N", MELS, "T")
    lens = toy.takes_ints("length", "M")
    channel = toy.takes("cache_last_channel", "C", layers, left, SIZE)
    time = toy.takes("cache_last_time", "D", layers, SIZE, kernel)
    count = toy.takes_ints("cache_last_channel_len", "E")
    if normalize_type != "NA":
        x = toy.op("Sub", x, toy.scalar(8.0))
    heard = toy.heard(toy.transposed(x, 0, 2, 1), frames)
    said = toy.said(
        heard,
        toy.remembered(channel, 1, 2),
        toy.remembered(time, 1, 3),
        toy.timed(count),
    )
    toy.gives(toy.spelled(said, UNITS - 1), "logprobs", "N", frames, UNITS)
    toy.gives_ints(lens, "encoded_lengths", "N")
    rows = toy.unsqueezed(said, 1)
    shown = toy.op("Expand", rows, toy.ints(1, layers, 1, 1))
    toy.gives(toy.shifted(channel, shown, 2), "cache_last_channel_next", "N", layers, left, SIZE)
    turned = toy.transposed(shown, 0, 1, 3, 2)
    toy.gives(toy.shifted(time, turned, 3), "cache_last_time_next", "N", layers, SIZE, kernel)
    more = toy.op("Add", count, toy.ints(frames))
    toy.gives_ints(more, "cache_last_channel_next_len", "N")
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


def waveform(folder: Path, seed: int = 0, **metadata: object) -> Path:
    """Write a folder of a model that hears the samples, as wav2vec2 does, and return it."""
    toy = Toy(seed)
    x = toy.takes("x", "N", "S")
    frames = toy.op("Reshape", toy.whole(x, 320), toy.ints(0, -1, 320))
    said = toy.op("Tanh", toy.projected(frames, SIZE, 320, scale=2.0))
    toy.gives(toy.spelled(said, is_normalised=False), "logits", "N", "T", UNITS)
    toy.save(folder / "model.onnx", **metadata)
    return with_tokens(folder)


def _quieter(toy: Toy, x: str) -> str:
    """Return the features of 16-bit samples as those of samples in [-1, 1]."""
    return toy.op("Sub", x, toy.scalar(2 * np.log(32_768.0)))

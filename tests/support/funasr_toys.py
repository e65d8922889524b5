"""Folders of FunASR's models with random weights, as FunASR and as sherpa-onnx write them."""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto
from transducer_toys import Toy, scalar

from conch.component.graph import Graph

MELS, WINDOW, SHIFT = 80, 7, 6
WIDTH, SIZE = MELS * WINDOW, 32
_WORDS = ["hel@@", "lo", "good", "mor@@", "ning", "so", "it", "is", "ab@@", "out"]
_LETTERS = "今天气很好我们去公园玩吧他说不是这样的"
TOKENS = ["<blank>", "<s>", "</s>", *_WORDS, *_LETTERS, "<unk>"]
_SPECIAL = [0, 1, 2, len(TOKENS) - 1]


def _folder(path: Path, toy: Toy, tokens: list[str], **more: object) -> tuple[Path, Path]:
    """Write a folder of FunASR and one of sherpa-onnx, and return them."""
    means = toy.random.normal(-12, 1, WIDTH), toy.random.uniform(0.2, 0.3, WIDTH)
    texts = [[f"{value:.6f}" for value in values] for values in means]
    model = toy.graph.model("toy")
    original, converted = path / "funasr", path / "sherpa"
    for folder in (original, converted):
        folder.mkdir(parents=True)
    onnx.save(model, original / "model.onnx")
    parts = zip(("AddShift", "Rescale"), texts, strict=True)
    lines = [
        f"<{name}> {WIDTH} {WIDTH}\n<LearnRateCoef> 0 [ {' '.join(values)} ]\n"
        for name, values in parts
    ]
    splice = f"<Splice> {WIDTH} {WIDTH}\n[ 0 ]\n"
    (original / "am.mvn").write_text(f"<Nnet> \n{splice}{''.join(lines)}</Nnet> \n")
    (original / "config.yaml").write_text(
        "frontend_conf:\n    fs: 16000\n    window: hamming\n    n_mels: 80\n"
        "    frame_length: 25\n    frame_shift: 10\n    lfr_m: 7\n    lfr_n: 6\n    dither: 0.0\n"
        "model_conf:\n    predictor_bias: 1\nlang: zh-cn\n"
    )
    (original / "tokens.json").write_text(json.dumps(tokens), "utf-8")
    metadata = {
        "lfr_window_size": WINDOW,
        "lfr_window_shift": SHIFT,
        "neg_mean": ",".join(texts[0]),
        "inv_stddev": ",".join(texts[1]),
        "vocab_size": len(tokens),
        **more,
    }
    onnx.helper.set_model_props(model, {key: str(value) for key, value in metadata.items()})
    onnx.save(model, converted / "model.onnx")
    lines = [f"{text} {number}\n" for number, text in enumerate(tokens)]
    (converted / "tokens.txt").write_text("".join(lines), "utf-8")
    return original, converted


def paraformer(
    path: Path, seed: int = 0, *, says_times: bool = True, takes_hotwords: bool = False
) -> tuple[Path, Path]:
    """Write a Paraformer for FunASR and for sherpa-onnx, and return both folders.

    It fires where a running sum passes a whole number, and fails where it never does. With
    `takes_hotwords`, what is said depends on all phrases that are known.
    """
    toy = Toy(seed)
    graph = toy.graph
    speech = graph.takes("speech", "N", "T", WIDTH)
    graph.takes("speech_lengths", "N", elem_type=TensorProto.INT32)
    hidden = graph.op("Tanh", toy.projected(speech, SIZE, WIDTH, scale=2.0))
    known = graph.takes("bias_embed", "N", "H", SIZE) if takes_hotwords else ""
    alphas = graph.op("Sigmoid", toy.projected(hidden, 3, SIZE, scale=4.0))
    alphas = graph.op("Mul", alphas, scalar(graph, 0.14))
    alphas = graph.op("Reshape", alphas, graph.ints(-1))
    total = graph.op("Floor", graph.op("CumSum", alphas, graph.ints(0)))
    first = graph.array(np.zeros(1, np.float32))
    before = graph.op("Slice", total, graph.ints(0), graph.ints(-1), graph.ints(0))
    fires = graph.op("Sub", total, graph.op("Concat", first, before, axis=0))
    places = graph.op("Reshape", graph.op("NonZero", fires), graph.ints(-1))
    # As exported networks do, it fails without any.
    graph_fails = graph.op("Cast", graph.op("Gather", places, graph.ints(0)), to=TensorProto.FLOAT)
    frames = graph.op("Gather", hidden, graph.op("Div", places, graph.ints(3)), axis=1)
    if known:
        mean = graph.op("ReduceMean", known, graph.ints(1), keepdims=1)
        frames = graph.op("Add", frames, mean)
    silent = np.zeros(len(TOKENS), np.float32)
    silent[_SPECIAL] = -100
    logits = toy.projected(frames, len(TOKENS), SIZE, scale=6.0)
    logits = graph.op("Add", logits, graph.array(silent))
    logits = graph.op("Add", logits, graph.op("Mul", graph_fails, scalar(graph, 0.0)))
    end = np.full((1, 1, len(TOKENS)), -9.0, np.float32)
    end[..., 2] = 0
    logits = graph.op("Concat", logits, graph.array(end), axis=1)
    logits = graph.op("LogSoftmax", logits, axis=-1)
    count = graph.op("Cast", graph.op("Shape", logits, start=1, end=2), to=TensorProto.INT32)
    graph.gives(logits, "logits", "N", "L", len(TOKENS))
    graph.gives(count, "token_num", "N", elem_type=TensorProto.INT32)
    if says_times:
        peaks = graph.op("Concat", fires, graph.array(np.ones(1, np.float32)), axis=0)
        graph.gives(graph.op("Unsqueeze", alphas, graph.ints(0)), "us_alphas", "N", "A")
        graph.gives(graph.op("Unsqueeze", peaks, graph.ints(0)), "us_cif_peak", "N", "P")
    original, converted = _folder(path, toy, TOKENS)
    if takes_hotwords:
        reader = Graph()
        phrases = reader.takes("hotword", "H", 10, elem_type=TensorProto.INT32)
        values = toy.random.normal(0, 1, (len(TOKENS), SIZE)).astype(np.float32)
        read = reader.op(
            "CumSum", reader.op("Gather", reader.array(values), phrases), reader.ints(1)
        )
        reader.gives(reader.op("Transpose", read, perm=[1, 0, 2]), "hw_embed", 10, "H", SIZE)
        onnx.save(reader.model("toy"), original / "model_eb.onnx")
    return original, converted


_TAGS = (
    ["<|zh|>", "<|en|>", "<|yue|>", "<|ja|>", "<|ko|>", "<|nospeech|>"],
    ["<|HAPPY|>", "<|SAD|>", "<|NEUTRAL|>", "<|EMO_UNKNOWN|>"],
    ["<|Speech|>", "<|BGM|>", "<|Laughter|>"],
    ["<|withitn|>", "<|woitn|>"],
)
_PIECES = ["<unk>", "<s>", "</s>", "▁", *(f"▁{word}" for word in ("so", "it", "good", "he"))]
_PIECES += ["llo", "ing", "ness", ",", ".", *_LETTERS]
VOICE_TOKENS = [*_PIECES, *(tag for tags in _TAGS for tag in tags)]


def sense_voice(path: Path, seed: int = 0) -> tuple[Path, Path]:
    """Write a SenseVoice for FunASR and for sherpa-onnx, and return both folders.

    Its text depends on all of its inputs, and each of its first four frames is a tag of its kind.
    """
    toy = Toy(seed)
    graph = toy.graph
    speech = graph.takes("speech", "N", "T", WIDTH)
    lens = graph.takes("speech_lengths", "N", elem_type=TensorProto.INT32)
    language = graph.takes("language", "N", elem_type=TensorProto.INT32)
    form = graph.takes("textnorm", "N", elem_type=TensorProto.INT32)
    numbers = np.arange(16)[:, None] * 0.7 + np.arange(SIZE)
    known = graph.array(np.sin(numbers * numbers).astype(np.float32))
    asked = [
        graph.op("Unsqueeze", graph.op("Gather", known, item, axis=0), graph.ints(1))
        for item in (language, form)
    ]
    heard = toy.projected(speech, SIZE, WIDTH, scale=2.0)
    hidden = graph.op("Tanh", graph.op("Add", graph.op("Add", heard, asked[0]), asked[1]))
    mean = graph.op("ReduceMean", hidden, graph.ints(1), keepdims=1)
    size = len(VOICE_TOKENS)
    rows, first = [], len(_PIECES)
    for tags in _TAGS:
        bias = np.full(size, -50, np.float32)
        bias[first : first + len(tags)] = 0
        first += len(tags)
        tag = toy.projected(mean, size, SIZE, scale=9.0)
        rows.append(graph.op("Add", tag, graph.array(bias)))
    bias = np.zeros(size, np.float32)
    bias[0], bias[1:3], bias[len(_PIECES) :] = 2.0, -50, -50
    text = graph.op("Add", toy.projected(hidden, size, SIZE, scale=4.0), graph.array(bias))
    graph.gives(graph.op("Concat", *rows, text, axis=1), "ctc_logits", "N", "L", size)
    four = graph.array(np.array([4], np.int32))
    graph.gives(graph.op("Add", lens, four), "encoder_out_lens", "N", elem_type=TensorProto.INT32)
    ids = {"auto": 0, "zh": 3, "en": 4, "yue": 7, "ja": 11, "ko": 12}
    more = {f"lang_{key}": number for key, number in ids.items()}
    more |= {"with_itn": 14, "without_itn": 15, "normalize_samples": 0}
    return _folder(path, toy, VOICE_TOKENS, model_type="sense_voice_ctc", **more)


def pieces_of(tokens: list[str]) -> bytes:
    """Return a sentencepiece model with these pieces, and without anything else."""
    found = b""
    for text in (token.encode() for token in tokens):
        piece = b"\x0a" + bytes([len(text)]) + text + b"\x15\x00\x00\x80\xbf"
        found += b"\x0a" + bytes([len(piece)]) + piece
    return found


def online_paraformer(path: Path, seed: int = 0) -> tuple[Path, Path]:
    """Write an online Paraformer for FunASR and for sherpa-onnx, and return both folders.

    A unit depends on its frame, on the others of the chunk and on those before it.
    """
    toy = Toy(seed)
    graph = toy.graph
    speech = graph.takes("speech", "N", "T", WIDTH)
    lens = graph.takes("speech_lengths", "N", elem_type=TensorProto.INT32)
    heard = toy.projected(speech, SIZE, WIDTH, scale=0.4)
    hidden = graph.op("Tanh", heard)
    alphas = graph.op("Sigmoid", toy.projected(hidden, 1, SIZE, scale=4.0))
    alphas = graph.op("Mul", graph.op("Squeeze", alphas, graph.ints(2)), scalar(graph, 0.6))
    graph.gives(hidden, "enc", "N", "T", SIZE)
    graph.gives(lens, "enc_len", "N", elem_type=TensorProto.INT32)
    graph.gives(alphas, "alphas", "N", "T")
    reader, kernel = Toy(toy.random), 5
    decoder = reader.graph
    enc = decoder.takes("enc", "N", "T", SIZE)
    decoder.takes("enc_len", "N", elem_type=TensorProto.INT32)
    found = decoder.takes("acoustic_embeds", "N", "L", SIZE)
    decoder.takes("acoustic_embeds_len", "N", elem_type=TensorProto.INT32)
    caches = [decoder.takes(f"in_cache_{n}", "N", SIZE, kernel) for n in range(2)]
    context = decoder.op("ReduceMean", enc, decoder.ints(1), keepdims=1)
    last, shifted = decoder.op("Transpose", found, perm=[0, 2, 1]), []
    for cache in caches:
        memory = decoder.op("ReduceMean", cache, decoder.ints(2), keepdims=0)
        memory = reader.projected(memory, SIZE, SIZE, scale=1.0)
        context = decoder.op("Add", context, decoder.op("Unsqueeze", memory, decoder.ints(1)))
        both = decoder.op("Concat", cache, last, axis=2)
        shifted.append(
            decoder.op("Slice", both, decoder.ints(-kernel), decoder.ints(2**31), decoder.ints(2))
        )
    mixed = decoder.op("Tanh", decoder.op("Add", found, context))
    silent = np.zeros(len(TOKENS), np.float32)
    silent[_SPECIAL] = -100
    logits = reader.projected(mixed, len(TOKENS), SIZE, scale=8.0)
    logits = decoder.op("Add", logits, decoder.array(silent))
    decoder.gives(logits, "logits", "N", "L", len(TOKENS))
    best = decoder.op("ArgMax", logits, axis=2, keepdims=0)
    decoder.gives(best, "sample_ids", "N", "L", elem_type=TensorProto.INT64)
    for n, value in enumerate(shifted):
        decoder.gives(value, f"out_cache_{n}", "N", SIZE, kernel)
    more = {"encoder_output_size": SIZE, "decoder_num_blocks": 2, "decoder_kernel_size": kernel + 1}
    original, converted = _folder(path, toy, TOKENS, **more)
    for folder in (original, converted):
        onnx.save(decoder.model("toy"), folder / "decoder.onnx")
    (converted / "model.onnx").rename(converted / "encoder.onnx")
    return original, converted

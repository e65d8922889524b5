"""Folders of FunASR's models with random weights, as FunASR and as sherpa-onnx write them."""

import json
from pathlib import Path

import numpy as np
from onnx import TensorProto
from transducer_toys import Toy, with_tokens

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
    original, converted = path / "funasr", path / "sherpa"
    toy.save(original / "model.onnx")
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
    toy.save(
        converted / "model.onnx",
        lfr_window_size=WINDOW,
        lfr_window_shift=SHIFT,
        neg_mean=",".join(texts[0]),
        inv_stddev=",".join(texts[1]),
        vocab_size=len(tokens),
        **more,
    )
    return original, with_tokens(converted, tokens)


def paraformer(
    path: Path, seed: int = 0, *, says_times: bool = True, takes_hotwords: bool = False
) -> tuple[Path, Path]:
    """Write a Paraformer for FunASR and for sherpa-onnx, and return both folders.

    It fires where a running sum passes a whole number, and fails where it never does. With
    `takes_hotwords`, what is said depends on all phrases that are known.
    """
    toy = Toy(seed)
    speech = toy.takes("speech", "N", "T", WIDTH)
    toy.takes("speech_lengths", "N", elem_type=TensorProto.INT32)
    hidden = toy.op("Tanh", toy.projected(speech, SIZE, WIDTH, scale=2.0))
    known = toy.takes("bias_embed", "N", "H", SIZE) if takes_hotwords else ""
    alphas = toy.op("Sigmoid", toy.projected(hidden, 3, SIZE, scale=4.0))
    alphas = toy.op("Mul", alphas, toy.scalar(0.14))
    alphas = toy.op("Reshape", alphas, toy.ints(-1))
    total = toy.op("Floor", toy.op("CumSum", alphas, toy.ints(0)))
    first = toy.array(np.zeros(1, np.float32))
    before = toy.op("Slice", total, toy.ints(0), toy.ints(-1), toy.ints(0))
    fires = toy.op("Sub", total, toy.op("Concat", first, before, axis=0))
    places = toy.op("Reshape", toy.op("NonZero", fires), toy.ints(-1))
    # As exported networks do, it fails without any.
    graph_fails = toy.floats(toy.op("Gather", places, toy.ints(0)))
    frames = toy.op("Gather", hidden, toy.op("Div", places, toy.ints(3)), axis=1)
    if known:
        frames = toy.op("Add", frames, toy.mean(known, 1, keepdims=1))
    silent = np.zeros(len(TOKENS), np.float32)
    silent[_SPECIAL] = -100
    logits = toy.projected(frames, len(TOKENS), SIZE, scale=6.0)
    logits = toy.op("Add", logits, toy.array(silent))
    logits = toy.op("Add", logits, toy.op("Mul", graph_fails, toy.scalar(0.0)))
    end = np.full((1, 1, len(TOKENS)), -9.0, np.float32)
    end[..., 2] = 0
    logits = toy.op("Concat", logits, toy.array(end), axis=1)
    logits = toy.op("LogSoftmax", logits, axis=-1)
    count = toy.op("Cast", toy.op("Shape", logits, start=1, end=2), to=TensorProto.INT32)
    toy.gives(logits, "logits", "N", "L", len(TOKENS))
    toy.gives(count, "token_num", "N", elem_type=TensorProto.INT32)
    if says_times:
        peaks = toy.op("Concat", fires, toy.array(np.ones(1, np.float32)), axis=0)
        toy.gives(toy.unsqueezed(alphas, 0), "us_alphas", "N", "A")
        toy.gives(toy.unsqueezed(peaks, 0), "us_cif_peak", "N", "P")
    original, converted = _folder(path, toy, TOKENS)
    if takes_hotwords:
        reader = Toy(toy.random)
        phrases = reader.takes("hotword", "H", 10, elem_type=TensorProto.INT32)
        values = toy.random.normal(0, 1, (len(TOKENS), SIZE)).astype(np.float32)
        read = reader.op(
            "CumSum", reader.op("Gather", reader.array(values), phrases), reader.ints(1)
        )
        reader.gives(reader.transposed(read, 1, 0, 2), "hw_embed", 10, "H", SIZE)
        reader.save(original / "model_eb.onnx")
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
    speech = toy.takes("speech", "N", "T", WIDTH)
    lens = toy.takes("speech_lengths", "N", elem_type=TensorProto.INT32)
    language = toy.takes("language", "N", elem_type=TensorProto.INT32)
    form = toy.takes("textnorm", "N", elem_type=TensorProto.INT32)
    numbers = np.arange(16)[:, None] * 0.7 + np.arange(SIZE)
    known = toy.array(np.sin(numbers * numbers).astype(np.float32))
    asked = [toy.unsqueezed(toy.op("Gather", known, item, axis=0), 1) for item in (language, form)]
    heard = toy.projected(speech, SIZE, WIDTH, scale=2.0)
    hidden = toy.op("Tanh", toy.op("Add", toy.op("Add", heard, asked[0]), asked[1]))
    mean = toy.mean(hidden, 1, keepdims=1)
    size = len(VOICE_TOKENS)
    rows, first = [], len(_PIECES)
    for tags in _TAGS:
        bias = np.full(size, -50, np.float32)
        bias[first : first + len(tags)] = 0
        first += len(tags)
        tag = toy.projected(mean, size, SIZE, scale=9.0)
        rows.append(toy.op("Add", tag, toy.array(bias)))
    bias = np.zeros(size, np.float32)
    bias[0], bias[1:3], bias[len(_PIECES) :] = 2.0, -50, -50
    text = toy.op("Add", toy.projected(hidden, size, SIZE, scale=4.0), toy.array(bias))
    toy.gives(toy.op("Concat", *rows, text, axis=1), "ctc_logits", "N", "L", size)
    four = toy.array(np.array([4], np.int32))
    toy.gives(toy.op("Add", lens, four), "encoder_out_lens", "N", elem_type=TensorProto.INT32)
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
    speech = toy.takes("speech", "N", "T", WIDTH)
    lens = toy.takes("speech_lengths", "N", elem_type=TensorProto.INT32)
    heard = toy.projected(speech, SIZE, WIDTH, scale=0.4)
    hidden = toy.op("Tanh", heard)
    alphas = toy.op("Sigmoid", toy.projected(hidden, 1, SIZE, scale=4.0))
    alphas = toy.op("Mul", toy.op("Squeeze", alphas, toy.ints(2)), toy.scalar(0.6))
    toy.gives(hidden, "enc", "N", "T", SIZE)
    toy.gives(lens, "enc_len", "N", elem_type=TensorProto.INT32)
    toy.gives(alphas, "alphas", "N", "T")
    reader, kernel = Toy(toy.random), 5
    enc = reader.takes("enc", "N", "T", SIZE)
    reader.takes("enc_len", "N", elem_type=TensorProto.INT32)
    found = reader.takes("acoustic_embeds", "N", "L", SIZE)
    reader.takes("acoustic_embeds_len", "N", elem_type=TensorProto.INT32)
    caches = [reader.takes(f"in_cache_{n}", "N", SIZE, kernel) for n in range(2)]
    context = reader.mean(enc, 1, keepdims=1)
    last, shifted = reader.transposed(found, 0, 2, 1), []
    for cache in caches:
        memory = reader.remembered(cache, 2, scale=1.0)
        context = reader.op("Add", context, reader.unsqueezed(memory, 1))
        both = reader.op("Concat", cache, last, axis=2)
        shifted.append(
            reader.op("Slice", both, reader.ints(-kernel), reader.ints(2**31), reader.ints(2))
        )
    mixed = reader.op("Tanh", reader.op("Add", found, context))
    silent = np.zeros(len(TOKENS), np.float32)
    silent[_SPECIAL] = -100
    logits = reader.projected(mixed, len(TOKENS), SIZE, scale=8.0)
    logits = reader.op("Add", logits, reader.array(silent))
    reader.gives(logits, "logits", "N", "L", len(TOKENS))
    best = reader.op("ArgMax", logits, axis=2, keepdims=0)
    reader.gives_ints(best, "sample_ids", "N", "L")
    for n, value in enumerate(shifted):
        reader.gives(value, f"out_cache_{n}", "N", SIZE, kernel)
    more = {"encoder_output_size": SIZE, "decoder_num_blocks": 2, "decoder_kernel_size": kernel + 1}
    original, converted = _folder(path, toy, TOKENS, **more)
    for folder in (original, converted):
        reader.save(folder / "decoder.onnx")
    (converted / "model.onnx").rename(converted / "encoder.onnx")
    return original, converted

"""Folders of FunASR's models with random weights, as FunASR and as sherpa-onnx write them."""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from conch.component.graph import Graph

MELS, WINDOW, SHIFT = 80, 7, 6
WIDTH, SIZE = MELS * WINDOW, 32
_WORDS = ["hel@@", "lo", "good", "mor@@", "ning", "so", "it", "is", "ab@@", "out"]
_LETTERS = "今天气很好我们去公园玩吧他说不是这样的"
TOKENS = ["<blank>", "<s>", "</s>", *_WORDS, *_LETTERS, "<unk>"]
_SPECIAL = [0, 1, 2, len(TOKENS) - 1]


def _folder(
    path: Path, graph: Graph, random: np.random.Generator, tokens: list[str], **more: int
) -> tuple[Path, Path]:
    """Write a folder of FunASR and one of sherpa-onnx, and return them."""
    means = random.normal(-12, 1, WIDTH), random.uniform(0.2, 0.3, WIDTH)
    texts = [[f"{value:.6f}" for value in values] for values in means]
    model = graph.model("toy")
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


def paraformer(path: Path, seed: int = 0, *, says_times: bool = True) -> tuple[Path, Path]:
    """Write a Paraformer for FunASR and for sherpa-onnx, and return both folders.

    It fires where a running sum passes a whole number, and fails where it never does.
    """
    random, graph = np.random.default_rng(seed), Graph()

    def weight(rows: int, columns: int, scale: float) -> str:
        values = random.normal(0, scale / np.sqrt(rows), (rows, columns))
        return graph.array(values.astype(np.float32))

    def scalar(value: float) -> str:
        return graph.array(np.array(value, np.float32))

    speech = graph.takes("speech", "N", "T", WIDTH)
    graph.takes("speech_lengths", "N", kind=TensorProto.INT32)
    hidden = graph.op("Tanh", graph.op("MatMul", speech, weight(WIDTH, SIZE, 2.0)))
    alphas = graph.op("Sigmoid", graph.op("MatMul", hidden, weight(SIZE, 3, 4.0)))
    alphas = graph.op("Mul", alphas, scalar(0.14))
    alphas = graph.op("Reshape", alphas, graph.ints(-1))
    total = graph.op("Floor", graph.op("CumSum", alphas, graph.ints(0)))
    first = graph.array(np.zeros(1, np.float32))
    before = graph.op("Slice", total, graph.ints(0), graph.ints(-1), graph.ints(0))
    fires = graph.op("Sub", total, graph.op("Concat", first, before, axis=0))
    places = graph.op("Reshape", graph.op("NonZero", fires), graph.ints(-1))
    # As exported networks do, it fails without any.
    graph_fails = graph.op("Cast", graph.op("Gather", places, graph.ints(0)), to=TensorProto.FLOAT)
    frames = graph.op("Gather", hidden, graph.op("Div", places, graph.ints(3)), axis=1)
    silent = np.zeros(len(TOKENS), np.float32)
    silent[_SPECIAL] = -100
    logits = graph.op("MatMul", frames, weight(SIZE, len(TOKENS), 6.0))
    logits = graph.op("Add", logits, graph.array(silent))
    logits = graph.op("Add", logits, graph.op("Mul", graph_fails, scalar(0.0)))
    end = np.full((1, 1, len(TOKENS)), -9.0, np.float32)
    end[..., 2] = 0
    logits = graph.op("Concat", logits, graph.array(end), axis=1)
    logits = graph.op("LogSoftmax", logits, axis=-1)
    count = graph.op("Cast", graph.op("Shape", logits, start=1, end=2), to=TensorProto.INT32)
    graph.gives(logits, "logits", "N", "L", len(TOKENS))
    graph.gives(count, "token_num", "N", kind=TensorProto.INT32)
    if says_times:
        peaks = graph.op("Concat", fires, graph.array(np.ones(1, np.float32)), axis=0)
        graph.gives(graph.op("Unsqueeze", alphas, graph.ints(0)), "us_alphas", "N", "A")
        graph.gives(graph.op("Unsqueeze", peaks, graph.ints(0)), "us_cif_peak", "N", "P")
    return _folder(path, graph, random, TOKENS)

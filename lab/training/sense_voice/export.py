"""Write a model as the folder that FunASR exports, and as that which sherpa-onnx makes of it.

    python -m lab.training.sense_voice.export runs/sense-voice/final.pt --out sense-voice-en

The folders are sense-voice-en/funasr and sense-voice-en/sherpa.
"""

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor, nn

from lab.training.frozen import graphs
from lab.training.sense_voice.model import (
    LANGUAGES,
    NUM_TAGS,
    SHIFT,
    WINDOW,
    WITH_ITN,
    WITHOUT_ITN,
    SenseVoiceModel,
    load,
    tokens_of,
)
from lab.training.transducer.features import NUM_BINS

FUNASR = ["speech", "speech_lengths", "language", "textnorm", "ctc_logits", "encoder_out_lens"]
SHERPA = ["x", "x_length", "language", "text_norm", "logits", "logits_length"]
PIECES = "chn_jpn_yue_eng_ko_spectok.bpe.model"
"""The name that funasr-onnx looks for."""
_NORMAL, _UNKNOWN, _AS_WRITTEN = 1, 2, 4
_CONFIG = f"""\
frontend: WavFrontend
frontend_conf:
    fs: 16000
    window: hamming
    n_mels: {NUM_BINS}
    frame_length: 25
    frame_shift: 10
    lfr_m: {WINDOW}
    lfr_n: {SHIFT}
    dither: 0.0
"""


def main(arguments: list[str] | None = None) -> None:
    """Export as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--weights", choices=("fp32", "int8"), default="fp32")
    args = parser.parse_args(arguments)
    model, tokenizer = load(args.checkpoint)
    for folder in export(model, tokenizer, args.out):
        path = folder / "model.onnx"
        if args.weights == "int8":
            graphs.quantize(path)
        print(f"{folder} {path.stat().st_size / 1e6:.1f} MB")


def export(model: SenseVoiceModel, tokenizer: str, out: Path) -> tuple[Path, Path]:
    """Write a model with float32 weights, and return FunASR's folder and that of sherpa-onnx."""
    tokens = tokens_of(tokenizer)
    means = [
        [f"{value:.6f}" for value in item.tolist()] for item in (model.neg_mean, model.inv_stddev)
    ]
    funasr, sherpa = out / "funasr", out / "sherpa"
    metadata = {
        "model_type": "sense_voice_ctc",
        "version": 1,
        "comment": "the encoder of Conch's CTC model",
        "vocab_size": len(tokens),
        "lfr_window_size": WINDOW,
        "lfr_window_shift": SHIFT,
        "normalize_samples": 0,
        "neg_mean": ",".join(means[0]),
        "inv_stddev": ",".join(means[1]),
        "with_itn": WITH_ITN,
        "without_itn": WITHOUT_ITN,
        **{f"lang_{name}": number for name, number in LANGUAGES.items()},
    }
    described = {key: str(value) for key, value in metadata.items()}
    numbers = [torch.tensor(item, dtype=torch.int32) for item in ([9, 7], [0, 4], [14, 15])]
    inputs = [torch.randn(2, 9, WINDOW * NUM_BINS), *numbers]
    for folder, names, properties in ((funasr, FUNASR, {}), (sherpa, SHERPA, described)):
        folder.mkdir(parents=True, exist_ok=True)
        axes = {name: {0: "N"} for name in names}
        axes[names[0]][1], axes[names[-2]][1] = "T", "L"
        graphs.write(
            _Exported(model),
            dict(zip(names[:-2], inputs, strict=True)),
            folder / "model.onnx",
            names[-2:],
            axes,
            properties,
        )
    parts = zip(("AddShift", "Rescale"), means, strict=True)
    width = WINDOW * NUM_BINS
    lines = [f"<{k}> {width} {width}\n<LearnRateCoef> 0 [ {' '.join(v)} ]\n" for k, v in parts]
    splice = f"<Splice> {width} {width}\n[ 0 ]\n"
    (funasr / "am.mvn").write_text(f"<Nnet>\n{splice}{''.join(lines)}</Nnet>\n")
    (funasr / "config.yaml").write_text(_CONFIG)
    (funasr / "tokens.json").write_text(json.dumps(tokens, ensure_ascii=False, indent=0))
    (funasr / PIECES).write_bytes(pieces_model(tokens))
    lines = [f"{token} {number}\n" for number, token in enumerate(tokens)]
    (sherpa / "tokens.txt").write_text("".join(lines))
    return funasr, sherpa


class _Exported(nn.Module):
    """A model with lengths as FunASR's."""

    def __init__(self, model: SenseVoiceModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, x: Tensor, lens: Tensor, language: Tensor, text_norm: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.model(x, lens.long(), language, text_norm), lens + NUM_TAGS


def pieces_model(tokens: list[str]) -> bytes:
    """Return a model of sentencepiece that writes these units, and cuts no text.

    Its format: https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
    """
    found = b""
    for number, token in enumerate(tokens):
        kind = _NORMAL if number else _UNKNOWN
        kind = _AS_WRITTEN if token.startswith("<") and number else kind
        text = token.encode()
        piece = b"\x0a" + bytes([len(text)]) + text + b"\x15\0\0\0\0\x18" + bytes([kind])
        found += b"\x0a" + bytes([len(piece)]) + piece
    return found


if __name__ == "__main__":
    main()

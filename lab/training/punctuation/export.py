"""Write a checkpoint as ONNX: an embedding in int8, other weights in fp16, the words next to them.

    python -m lab.training.punctuation.export runs/punctuation/final.pt --out punctuation-en.onnx

`--comma` and the like are added to the logits of a mark, and `--end` is taken from that of no mark
after the last word of a text: what is best by F1 on texts that were not learned from.

Takes `features` int32 `[B, T, FEATURES]`, returns `logits` float32 `[B, T, marks + cases]`.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper
from torch import Tensor, nn

from conch.families.punctuation.model import FEATURES, MARKS, HashedVocabulary
from lab.arguments import script_parser
from lab.training.ctc.export import with_half_weights
from lab.training.punctuation.model import Punctuation

WEIGHED = ("comma", "period", "question", "end")
FLAGS = "--out FILE!  the graph\n" + "".join(f"--{name} X=0  see above\n" for name in WEIGHED)


class Int8Embedding(nn.Module):
    """An embedding whose rows are int8 with a scale each."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-8) / 127
        self.register_buffer("rows", (weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)

    def forward(self, ids: Tensor) -> Tensor:
        rows = nn.functional.embedding(ids, self.get_buffer("rows")).to(torch.float32)
        return rows * nn.functional.embedding(ids, self.get_buffer("scale"))


def main(arguments: list[str] | None = None) -> None:
    parser = script_parser(__doc__, FLAGS)
    parser.add_argument("checkpoint", type=Path)
    args = parser.parse_args(arguments)
    saved = torch.load(args.checkpoint, weights_only=False)
    model = Punctuation(saved["config"], HashedVocabulary(saved["words"]).size)
    model.load_state_dict(saved["state"])
    with torch.no_grad():
        added = torch.tensor([0.0, args.comma, args.period, args.question])
        model.output.bias[: len(MARKS)] += added
    args.out.parent.mkdir(parents=True, exist_ok=True)
    described = {"words": json.dumps(saved["words"]), "inside": json.dumps(saved["inside"])}
    export(model.eval(), args.out, {**described, "end": str(args.end)})
    size_mb, off = args.out.stat().st_size / 1e6, difference(model, args.out)
    print(f"{args.out}: {size_mb:.1f} MB, probabilities off by at most {off:.1e}")


def export(model: Punctuation, path: Path, described: Mapping[str, str]) -> None:
    """Write a network, and what else is to be known."""
    whole = model.embedding
    model.embedding = Int8Embedding(whole.weight.detach())  # type: ignore[assignment]
    torch.onnx.export(
        model,
        (torch.ones(2, 9, FEATURES, dtype=torch.int32),),
        str(path),
        input_names=["features"],
        output_names=["logits"],
        dynamic_axes={name: {0: "texts", 1: "words"} for name in ("features", "logits")},
        opset_version=17,
        dynamo=False,
    )
    model.embedding = whole
    proto = with_half_weights(onnx.load(path))
    helper.set_model_props(proto, {**described, "reach": str(model.config.reach)})
    onnx.save(proto, path)


def difference(model: Punctuation, path: Path) -> float:
    """Return the largest difference of probabilities from the network's, over random words."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    shape = (4, 60, FEATURES)
    size = model.embedding.num_embeddings
    features = np.random.default_rng(0).integers(1, size, shape, dtype=np.int32)
    with torch.inference_mode():
        expected = model(torch.from_numpy(features)).softmax(-1).numpy()
    probs = session.run(None, {"features": features})[0]
    probs = torch.from_numpy(probs).softmax(-1).numpy()
    return float(np.abs(probs - expected).max())


if __name__ == "__main__":
    main()

"""Write an exported graph as one that takes waveforms, which Triton's ONNX Runtime backend serves.

    python -m lab.training.ctc.waveform_graph src/conch/families/ctc/weights/ctc-en.onnx \
        --out ~/served/component_models/ctc_encoder/1/model.onnx

Full context only, products in float32. Features are made inside the graph, so that its tensors are
those of the component `ctc_encoder` (component_models/README.md), except one. Triton joins the rows
of a batch, which differ in length, and gets their ends in `waveform_shapes`. This is
its ragged batching; component_models/ctc_encoder/configs/onnxruntime.pbtxt asks for both.

The component answers an empty row, or one longer than 40 s, with an error. The graph checks
nothing: empty rows alone fail, and in a longer one positions repeat after 41 s.

Write into a copy of the repository: files in the checkout's go into a wheel.
"""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx.compose
import onnx.inliner
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from conch.component.features import (
    FRAME_SHIFT,
    HISTORY,
    N_FFT,
    STREAMING_FLOOR,
    mel_filters,
    window,
)
from conch.component.parameters import DeviceConfig
from conch.decoding.units import ENCODER_FRAME_SAMPLES
from conch.families.ctc.graphs import float_graph
from conch.families.ctc.onnx_model import Caches, CtcGraph
from lab.arguments import script_parser

_STEP_INPUTS = ("features", "lens", *Caches._fields)


class Front(nn.Module):
    """Waveforms to what the first and only step of an exported graph takes.

    `streaming_log_mel` as a convolution with the sines and cosines of its Fourier transform.
    """

    def __init__(self, stack: int, start: Caches) -> None:
        """Take the output frames' length in encoder frames, and the caches of one new stream."""
        super().__init__()
        self.stack = stack
        self.start = [torch.from_numpy(cache) for cache in start]
        n_mels = start.mel.shape[2]
        phases = 2 * np.pi / N_FFT * np.outer(np.arange(N_FFT // 2 + 1), np.arange(N_FFT))
        waves = np.concatenate([np.cos(phases), np.sin(phases)]) * window()
        self.waves = torch.from_numpy(waves[:, None].astype(np.float32))
        self.filters = torch.from_numpy(mel_filters(n_mels))

    def forward(self, waveform: Tensor, waveform_shapes: Tensor) -> tuple[Tensor, ...]:
        """Return log_probs_lens, features, lens and caches.

        `waveform` `[samples of all rows]` has one row after the other, `waveform_shapes` int32
        `[B, 1]` the samples of each.
        """
        samples = waveform_shapes[:, 0].long()
        frame = ENCODER_FRAME_SAMPLES * self.stack
        output_lens = (samples + (frame - 1)) // frame
        steps = torch.arange(HISTORY + output_lens.max() * frame) - HISTORY  # type: ignore[call-overload]
        ends = torch.cumsum(samples, 0)
        indices = (ends - samples)[:, None] + steps
        is_inside = (steps >= 0) & (steps < samples[:, None])
        rows = torch.where(is_inside, waveform[torch.where(is_inside, indices, 0)], 0.0)
        real, imaginary = F.conv1d(rows[:, None], self.waves, stride=FRAME_SHIFT).chunk(2, 1)
        mel = self.filters @ (real**2 + imaginary**2)
        features = (torch.log10(mel.clamp(min=STREAMING_FLOOR)) + 4.0) / 4.0
        caches = [cache.expand(samples.shape[0], *cache.shape[1:]) for cache in self.start]
        lens = output_lens * (2 * self.stack)
        return output_lens[:, None].int(), features.transpose(1, 2), lens, *caches


def main(arguments: list[str] | None = None) -> None:
    parser = script_parser(__doc__, "--out FILE!  the graph")
    parser.add_argument("model", type=Path, help="an .onnx file of lab.training.ctc.export")
    args = parser.parse_args(arguments)
    onnx.save(waveform_graph(args.model), args.out)
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.1f} MB")


def waveform_graph(model: Path) -> onnx.ModelProto:
    """Return the graph `waveform`, `waveform_shapes` to `log_probs`, `log_probs_lens`.

    It checks nothing: rows are to be of at least one sample and at most `MAX_SEGMENT_S`.
    """
    graph = CtcGraph(DeviceConfig(model=str(model)))
    # Older runtimes and TensorRT know products in float32 only, and no functions.
    step = onnx.inliner.inline_local_functions(float_graph(model))
    front = _exported(Front(graph.vocabulary.stack, graph.empty_caches(1, 0)))
    front.ir_version = step.ir_version
    return onnx.compose.merge_models(
        front,
        step,
        io_map=[(f"front_{name}", name) for name in _STEP_INPUTS],
        outputs=["log_probs", "log_probs_lens"],
    )


def _exported(front: Front) -> onnx.ModelProto:
    rows = torch.randn(3000), torch.tensor([[1000], [2000]], dtype=torch.int32)
    outputs = ["log_probs_lens", *(f"front_{name}" for name in _STEP_INPUTS)]
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        torch.onnx.export(
            front,
            rows,
            file.name,
            input_names=["waveform", "waveform_shapes"],
            output_names=outputs,
            dynamic_axes={
                "waveform": {0: "samples"},
                "waveform_shapes": {0: "batch"},
                **{name: {0: "batch"} for name in outputs},
                "front_features": {0: "batch", 1: "frames"},
            },
            opset_version=17,
            dynamo=False,
        )
        exported = onnx.load(file.name)
    # The exporter numbers names alike in every graph.
    return onnx.compose.add_prefix(exported, "front", rename_inputs=False, rename_outputs=False)


if __name__ == "__main__":
    main()

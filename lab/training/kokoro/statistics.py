"""Measure what the normalisations of Kokoro's vocoder see, and write it for the component.

python -m lab.training.kokoro.statistics --manifest speech/manifest.tsv --split dev --limit 12
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper
from onnx.utils import Extractor

from conch.bench.samples import Choice
from conch.cli.bench import settings_of
from conch.component import Array, DoubleArray, Row, bytes_array
from conch.component.onnx import open_network
from conch.families.hibari.front_end import FrontEnd, FrontEndConfig
from conch.families.kokoro import NAMES
from conch.families.kokoro.components import (
    AUDIO,
    KOKORO,
    LATENTS,
    STATISTICS,
    KokoroAcoustic,
    KokoroConfig,
    unpacked,
)
from lab.arguments import script_parser

VARIANCE, MEAN = "ReduceMean_2_output_0", "ReduceMean_output_0"
"""Ends of the names of both values of a normalisation."""


class Sums:
    """Means and variances of all frames so far, by the name of a value."""

    def __init__(self) -> None:
        self._frames = 0
        self._means: dict[str, DoubleArray] = {}
        self._squares: dict[str, DoubleArray] = {}

    def add(self, outputs: Mapping[str, Array], frames: int) -> None:
        """Add what a call has found: the mean of each channel, and its variance around that."""
        for name, value in outputs.items():
            if name.endswith(MEAN):
                mean = value.ravel().astype(np.float64)
                variance = outputs[name.replace(MEAN, VARIANCE)].ravel()
                self._means[name] = self._means.get(name, 0) + frames * mean
                self._squares[name] = self._squares.get(name, 0) + frames * (variance + mean**2)
        self._frames += frames

    def pooled(self, names: Sequence[str]) -> Array:
        """Return the means and variances of all frames under these names, float16 `[values]`."""
        pooled: dict[str, DoubleArray] = {}
        for name, total in self._means.items():
            pooled[name] = mean = total / self._frames
            pooled[name.replace(MEAN, VARIANCE)] = self._squares[name] / self._frames - mean**2
        values: Array = np.concatenate([pooled[name] for name in names]).astype(np.float16)
        return values


def measuring(source: Path) -> tuple[bytes, list[str]]:
    """Return the vocoder's graph with the means and variances of a call as its outputs."""
    model = Extractor(onnx.load(str(source))).extract_model([*LATENTS], [AUDIO])
    names = [node.output[0] for node in model.graph.node if node.op_type == "ReduceMean"]
    model.graph.output.extend(
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, None, 1]) for name in names
    )
    return model.SerializeToString(), names


def main() -> None:
    args = script_parser(__doc__, takes_manifest=True).parse_args()
    texts = [item.text for item in settings_of(Choice, args).utterances()]
    config = KokoroConfig(nice=0)
    source = KOKORO.source(config.model)
    content, names = measuring(source)
    vocoder = open_network("Kokoro", source, config.threads, content=content)
    front_end, acoustic = FrontEnd(FrontEndConfig(nice=0)), KokoroAcoustic(config)
    tokens = [front_end([Row({"text": bytes_array([text])})])[0]["tokens"] for text in texts]
    values, sizes = [], list[int]()
    for voice in NAMES:
        sums = Sums()
        for sounds in tokens:
            inputs = {"tokens": sounds, "speed": np.ones(1, np.float32)}
            latents = acoustic([Row(inputs, {"voice": voice})])[0]["latents"]
            outputs = vocoder.run(names, unpacked(latents))
            sums.add(dict(zip(names, outputs, strict=True)), len(latents))
            sizes = [value.size for value in outputs]
        values.append(sums.pooled(names))
        print(voice, flush=True)
    np.savez_compressed(STATISTICS, values=np.stack(values), names=names, sizes=sizes)


if __name__ == "__main__":
    main()

"""Log probabilities of a model, and greedy texts."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from conch.component import SAMPLE_RATE, FloatArray
from conch.component.parameters import DeviceConfig
from conch.decoding.units import Units, units_from_dict
from conch.families.ctc.onnx_model import CtcGraph
from lab.training.ctc.data import collated, features_of
from lab.training.ctc.model import CtcModel, CtcModelConfig
from lab.training.ctc.units import greedy_text

_NO_TARGET = np.zeros(0, np.int64)


class ExportedModel:
    """A graph that `lab.training.ctc.export` wrote, with the arguments of `CtcModel`.

    Chunks are steps with caches, as in serving.
    """

    def __init__(self, path: Path) -> None:
        self._graph = CtcGraph(DeviceConfig(model=str(path)))
        vocabulary = self._graph.vocabulary
        self.units = units_from_dict(json.loads(vocabulary.units))
        self.config = CtcModelConfig(
            vocab_size=len(vocabulary.texts), stack=vocabulary.stack, n_mels=self._graph.n_mels
        )
        self.positions = torch.zeros(1)

    def __call__(
        self, features: Tensor, lens: Tensor, chunk_frames: int = 0, left_frames: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Return log probabilities and their lengths, as `CtcModel.forward`."""
        size = 2 * chunk_frames or features.shape[1]
        caches = self._graph.empty_caches(len(lens), left_frames if chunk_frames else 0)
        chunks = []
        for start in range(0, features.shape[1], size):
            chunk = features[:, start : start + size].numpy()
            chunk_lens = (lens - start).clamp(0, chunk.shape[1]).numpy()
            log_probs, caches = self._graph.step(chunk, chunk_lens, caches)
            chunks.append(torch.from_numpy(log_probs))
        stack = 2 * self.config.stack
        return torch.cat(chunks, 1), (lens + stack - 1) // stack


@torch.inference_mode()
def log_probs_of(
    model: CtcModel | ExportedModel,
    waveforms: Sequence[FloatArray],
    *,
    chunk_frames: int = 0,
    left_frames: int = 0,
    batch_s: float = 60.0,
) -> list[FloatArray]:
    """Return float32 `[T, vocab_size]` of each waveform, float32 `[samples]` at 16 kHz.

    Chunks are as of `CtcModel.forward`. A batch has `batch_s` seconds, or one utterance.
    """
    multiple = 2 * (chunk_frames or model.config.stack)
    device = model.positions.device
    order = sorted(range(len(waveforms)), key=lambda index: len(waveforms[index]))
    by_index: dict[int, FloatArray] = {}
    while order:
        longest = len(waveforms[order[-1]]) / SAMPLE_RATE
        batch = [order.pop() for _ in range(min(len(order), max(1, int(batch_s / longest))))]
        items = [
            (features_of(waveforms[index], model.config.n_mels, 2 * model.config.stack), _NO_TARGET)
            for index in batch
        ]
        inputs = collated(items, multiple)
        log_probs, lens = model(
            inputs.features.to(device), inputs.lens.to(device), chunk_frames, left_frames
        )
        for row, index in enumerate(batch):
            by_index[index] = log_probs[row, : int(lens[row])].cpu().numpy()
    return [by_index[index] for index in range(len(waveforms))]


def greedy_texts(log_probs: Sequence[FloatArray], units: Units) -> list[str]:
    return [greedy_text(item.argmax(1).tolist(), units.vocab) for item in log_probs]

"""A streaming transducer whose encoder is that of the CTC model."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from conch.component.features import STREAMING_FLOOR
from lab.training.ctc.model import Cache, CtcModel, CtcModelConfig, seen_frames
from lab.training.transducer.features import NUM_BINS, with_previous

CONTEXT = 2
"""Units that the predictor sees."""
STACK = 2
"""Encoder frames of 20 ms per output frame: sherpa-onnx counts frames of 40 ms."""
_FLOOR = (torch.log10(torch.tensor(STREAMING_FLOOR)).item() + 4.0) / 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransducerConfig:
    """The sizes of a model."""

    vocab_size: int
    """Units with the blank, 0, and the unknown one."""
    encoder: CtcModelConfig
    chunk_frames: int = 32
    """Encoder frames of a chunk: 640 ms."""
    left_frames: int = 256
    """Encoder frames before a chunk that it sees: 5.1 s."""
    frozen_layers: int = 5
    """The first layers, which keep the CTC model's weights; their output is computed once."""
    joiner_size: int = 256


class Transducer(nn.Module):
    """Kaldi's filter banks to what a joiner makes log probabilities of units of."""

    def __init__(self, config: TransducerConfig) -> None:
        """Make a model with random weights."""
        super().__init__()
        self.config = config
        size = config.joiner_size
        self.front = nn.Linear(2 * NUM_BINS, NUM_BINS)
        self.encoder = CtcModel(config.encoder)
        self.encoder_out = nn.Linear(STACK * config.encoder.model_size, size)
        self.predictor = Predictor(config.vocab_size, size)
        self.joiner = Joiner(config.vocab_size, size)

    def mel(self, fbank: Tensor, previous: Tensor) -> Tensor:
        """Return log-mel features of filter banks `[B, F, 80]` and the frame before them."""
        mel: Tensor = self.front(with_previous(fbank, previous))
        return mel.clamp(min=_FLOOR)

    def frozen(self, fbank: Tensor, lens: Tensor) -> Tensor:
        """Return what the frozen layers make of whole utterances, float32 `[B, F / 2, D]`.

        Args:
            fbank: float32 `[B, F, 80]`, F a multiple of 4.
            lens: int64 `[B]`: of F, how many frames are the utterance's.
        """
        config = self.config
        mel = self.mel(fbank, fbank[:, :1])
        hidden, mask = self.encoder.embedded(mel, lens, config.chunk_frames, config.left_frames)
        for layer in self.encoder.layers[: config.frozen_layers]:
            hidden = layer(hidden, mask)
        return hidden

    def trained_layers(self, hidden: Tensor, lens: Tensor) -> Tensor:
        """Return the last layer's output of what `frozen` returned, float32 `[B, T, D]`.

        Args:
            hidden: float32 `[B, T, D]`.
            lens: int64 `[B]`: of T, how many frames are the utterance's.
        """
        config = self.config
        mask = seen_frames(hidden.shape[1], lens, config.chunk_frames, config.left_frames)
        for layer in self.encoder.layers[config.frozen_layers :]:
            hidden = layer(hidden, mask)
        return hidden

    def projected(self, hidden: Tensor) -> Tensor:
        """Return the output of the last layer's `[B, T, D]`, `[B, T / 2, joiner_size]`."""
        normed = self.encoder.norm(hidden)
        size = STACK * normed.shape[2]
        output: Tensor = self.encoder_out(normed.reshape(normed.shape[0], -1, size))
        return output

    def step(self, fbank: Tensor, previous: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Return the encoder's output of the next chunk of each stream, and what it leaves.

        Args:
            fbank: float32 `[B, 2 chunk_frames, 80]`.
            previous: float32 `[B, 1, 80]`: the last filter bank; not read at a stream's start.
            cache: of the last step, or the encoder's empty one.
        """
        starts = (cache.position == 0)[:, None, None]
        mel = self.mel(fbank, torch.where(starts, fbank[:, :1], previous))
        lens = torch.full_like(cache.position, fbank.shape[1])
        hidden, following = self.encoder.step_hidden(mel, lens, cache)
        return self.projected(hidden), following


class Predictor(nn.Module):
    """The last units to what the joiner adds to a frame."""

    def __init__(self, vocab_size: int, size: int) -> None:
        """Make a predictor with random weights."""
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, size)
        self.inner = nn.Linear(CONTEXT * size, size)
        self.output = nn.Linear(size, size)

    def forward(self, units: Tensor) -> Tensor:
        """Return float32 `[N, size]` of int64 `[N, CONTEXT]`."""
        output: Tensor = self.output(F.relu(self.inner(self.embedding(units).flatten(1))))
        return output


class Joiner(nn.Module):
    """A frame and the units before it to the scores of units."""

    def __init__(self, vocab_size: int, size: int) -> None:
        """Make a joiner with random weights."""
        super().__init__()
        self.output = nn.Linear(size, vocab_size)

    def forward(self, encoder_out: Tensor, decoder_out: Tensor) -> Tensor:
        """Return float32 `[…, vocab_size]` of two `[…, size]`."""
        scores: Tensor = self.output(torch.tanh(encoder_out + decoder_out))
        return scores


@torch.inference_mode()
def greedy_units(model: Transducer, encoder_out: Tensor, lens: Tensor) -> list[list[int]]:
    """Return the units that the best score of each frame writes, one a frame at most."""
    found: list[list[int]] = [[] for _ in lens]
    context = torch.zeros(len(lens), CONTEXT, dtype=torch.int64)
    for t in range(encoder_out.shape[1]):
        best = model.joiner(encoder_out[:, t], model.predictor(context)).argmax(1)
        wrote = (best > 1) & (t < lens)  # the unknown unit is as good as a blank
        following = torch.cat([context[:, 1:], best[:, None]], 1)
        context = torch.where(wrote[:, None], following, context)
        for row in wrote.nonzero()[:, 0].tolist():
            found[row].append(int(best[row]))
    return found


def save(path: Path, model: Transducer, tokenizer: str) -> None:
    """Write a model and its units."""
    content = {"model": model.state_dict(), "config": asdict(model.config), "tokenizer": tokenizer}
    partial = path.with_suffix(".partial")
    torch.save(content, partial)
    partial.replace(path)


def load(path: Path) -> tuple[Transducer, str]:
    """Return the model of a file of `save`, ready for inference, and its units."""
    content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    config = dict(content["config"])
    config["encoder"] = CtcModelConfig(**config["encoder"])
    model = Transducer(TransducerConfig(**config))
    model.load_state_dict(content["model"])
    return model.eval(), content["tokenizer"]

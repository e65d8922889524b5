"""The CTC model's encoder, whose first layers stay as they are, under what another family adds."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from conch.component.features import STREAMING_FLOOR
from conch.whole import made_whole
from lab.training.ctc.model import CtcModel, CtcModelConfig, seen_frames

FLOOR = (torch.log10(torch.tensor(STREAMING_FLOOR)).item() + 4.0) / 4.0
"""The least that the encoder reads for a feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig:
    """The sizes of an encoder."""

    vocab_size: int
    """Units with the blank, 0, and the unknown one."""
    encoder: CtcModelConfig
    chunk_frames: int = 32
    """Encoder frames of a chunk: 640 ms."""
    left_frames: int = 256
    """Encoder frames before a chunk that it sees: 5.1 s."""
    frozen_layers: int = 5
    """The first layers, which keep the CTC model's weights; their output is computed once."""
    stack: int = 2
    """Encoder frames of 20 ms per output frame: most families count frames of 40 ms."""


Model = TypeVar("Model", bound="FrozenEncoder")


class FrozenEncoder(nn.Module, ABC):
    """Features to frames; a family adds features, loss and a search."""

    def __init__(self, config: EncoderConfig, size: int) -> None:
        """Make an encoder with random weights, whose frames have `size` values."""
        super().__init__()
        self.config = config
        self.encoder = CtcModel(config.encoder)
        self.encoder_out = nn.Linear(config.stack * config.encoder.model_size, size)

    @property
    @abstractmethod
    def new_parts(self) -> list[nn.Module]:
        """What is learned but for the encoder's layers."""

    @abstractmethod
    def loss(self, encoder_out: Tensor, lens: Tensor, targets: list[list[int]]) -> Tensor:
        """Return the mean loss of a batch; see `projected`.

        Args:
            encoder_out: `[B, T, size]`.
            lens: int64 `[B]`: of T.
            targets: units of each utterance.
        """

    @abstractmethod
    def greedy(self, encoder_out: Tensor, lens: Tensor) -> list[list[int]]:
        """Return the units of the best path of each utterance; arguments of `loss`."""

    def frozen_layers(self, mel: Tensor, lens: Tensor, *, is_whole: bool = False) -> Tensor:
        """Return what the frozen layers make of whole utterances, float32 `[B, F / 2, D]`.

        Args:
            mel: float32 `[B, F, 80]` of the CTC model, F a multiple of 4.
            lens: int64 `[B]`: of F, how many frames are the utterance's.
            is_whole: whether a frame sees all others, and not only those of its chunk and before.
        """
        config = self.config
        chunk = 0 if is_whole else config.chunk_frames
        hidden, mask = self.encoder.embedded(mel, lens, chunk, config.left_frames)
        for layer in self.encoder.layers[: config.frozen_layers]:
            hidden = layer(hidden, mask)
        return hidden

    def trained_layers(self, hidden: Tensor, lens: Tensor, *, is_whole: bool = False) -> Tensor:
        """Return the last layer's output of what `frozen_layers` returned, float32 `[B, T, D]`.

        Args:
            hidden: float32 `[B, T, D]`.
            lens: int64 `[B]`: of T, how many frames are the utterance's.
            is_whole: see `frozen_layers`.
        """
        config = self.config
        chunk = 0 if is_whole else config.chunk_frames
        mask = seen_frames(hidden.shape[1], lens, chunk, config.left_frames)
        for layer in self.encoder.layers[config.frozen_layers :]:
            hidden = layer(hidden, mask)
        return hidden

    def projected(self, hidden: Tensor) -> Tensor:
        """Return the output of the last layer's `[B, T, D]`, `[B, T / stack, size]`."""
        normed = self.encoder.norm(hidden)
        size = self.config.stack * normed.shape[2]
        output: Tensor = self.encoder_out(normed.reshape(normed.shape[0], -1, size))
        return output

    def output_lens(self, lens: Tensor) -> Tensor:
        """Return how many output frames are of these numbers of encoder frames."""
        return (lens + self.config.stack - 1) // self.config.stack


def save(path: Path, model: FrozenEncoder, tokenizer: str) -> None:
    """Write a model and its units."""
    content = {"model": model.state_dict(), "config": asdict(model.config), "tokenizer": tokenizer}
    with made_whole(path) as made:
        torch.save(content, made)


def loaded(path: Path, made: Callable[[dict[str, Any]], Model]) -> tuple[Model, str]:
    """Return the model of a file of `save`, ready for inference, and its units.

    Args:
        path: The file.
        made: Makes a model of the fields of its configuration.
    """
    content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    config = dict(content["config"])
    config["encoder"] = CtcModelConfig(**config["encoder"])
    model = made(config)
    model.load_state_dict(content["model"])
    return model.eval(), content["tokenizer"]

"""A U2++ (https://arxiv.org/abs/2106.05642) whose encoder is that of the CTC model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.training.frozen.model import FLOOR, EncoderConfig, FrozenEncoder, loaded
from lab.training.transducer.model import Transducer
from lab.training.u2pp.features import NUM_BINS, TAPS, with_following

_CTC_WEIGHT = 0.3
_SMOOTHING = 0.1
REVERSE_WEIGHT = 0.3
_IGNORED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class U2ppConfig(EncoderConfig):
    """The sizes of a model; the last unit stands in front of a text and behind it."""

    output_size: int = 256
    num_heads: int = 4
    num_left_layers: int = 2
    """Of the decoder that reads from the left."""
    num_right_layers: int = 1


class U2pp(FrozenEncoder):
    """Kaldi's filter banks to log probabilities of CTC, and to scores of texts."""

    config: U2ppConfig

    def __init__(self, config: U2ppConfig) -> None:
        """Make a model with random weights."""
        super().__init__(config, config.output_size)
        self.front = nn.Linear(TAPS * NUM_BINS, NUM_BINS)
        self.ctc = nn.Linear(config.output_size, config.vocab_size)
        self.left = Reader(config, config.num_left_layers)
        self.right = Reader(config, config.num_right_layers)

    @property
    def edge(self) -> int:
        """The unit in front of a text and behind it."""
        return self.config.vocab_size - 1

    @property
    def new_parts(self) -> list[nn.Module]:
        """See `FrozenEncoder`."""
        return [self.encoder_out, self.ctc, self.left, self.right]

    def mel(self, fbank: Tensor) -> Tensor:
        """Return log-mel features `[B, F - 3, 80]` of filter banks `[B, F, 80]`."""
        mel: Tensor = self.front(with_following(fbank))
        return mel.clamp(min=FLOOR)

    def heard(self, fbank: Tensor, lens: Tensor, *, is_whole: bool) -> Tensor:
        """Return frames of whole utterances, float32 `[B, (F - 3) / 4, size]`.

        Args:
            fbank: float32 `[B, F, 80]`.
            lens: int64 `[B]`: of F, how many frames are the utterance's.
            is_whole: whether a frame sees all others, and not only those of its chunk and before.
        """
        mel = self.mel(fbank)
        mel = mel[:, : mel.shape[1] // 4 * 4]
        inner = (lens - TAPS + 1) // 4 * 2
        hidden = self.frozen_layers(mel, 2 * inner, is_whole=is_whole)
        return self.projected(self.trained_layers(hidden, inner, is_whole=is_whole))

    def log_probs(self, encoder_out: Tensor) -> Tensor:
        """Return those of CTC, float32 `[B, T, units]`."""
        return F.log_softmax(self.ctc(encoder_out).float(), -1)

    def loss(self, encoder_out: Tensor, lens: Tensor, targets: list[list[int]]) -> Tensor:
        """See `FrozenEncoder`: of a unit, by CTC and both readers."""
        num_units = torch.tensor([len(units) for units in targets])
        units = torch.tensor([unit for text in targets for unit in text])
        log_probs = self.log_probs(encoder_out).transpose(0, 1)
        ctc = F.ctc_loss(log_probs, units, lens, num_units, reduction="sum", zero_infinity=True)
        mask = (torch.arange(encoder_out.shape[1]) < lens[:, None])[:, None]
        by_reader = [
            self._read(reader, encoder_out, mask, [text[::step] for text in targets])
            for reader, step in ((self.left, 1), (self.right, -1))
        ]
        attention = (1 - REVERSE_WEIGHT) * by_reader[0] + REVERSE_WEIGHT * by_reader[1]
        return (_CTC_WEIGHT * ctc + (1 - _CTC_WEIGHT) * attention) / num_units.sum()

    def _read(
        self, reader: "Reader", encoder_out: Tensor, mask: Tensor, texts: Sequence[list[int]]
    ) -> Tensor:
        width = max(map(len, texts)) + 1
        before = torch.full((len(texts), width), self.edge)
        after = torch.full((len(texts), width), _IGNORED)
        for row, text in enumerate(texts):
            before[row, 1 : len(text) + 1] = after[row, : len(text)] = torch.tensor(text)
            after[row, len(text)] = self.edge
        lens = torch.tensor([len(text) + 1 for text in texts])
        scores = reader(before, lens, encoder_out, mask).float()
        return F.cross_entropy(
            scores.flatten(0, 1),
            after.flatten(),
            ignore_index=_IGNORED,
            label_smoothing=_SMOOTHING,
            reduction="sum",
        )

    def greedy(self, encoder_out: Tensor, lens: Tensor) -> list[list[int]]:
        """See `FrozenEncoder`."""
        best = self.ctc(encoder_out).argmax(-1)
        return [
            [unit for unit, _ in groupby(row[:count].tolist()) if unit]
            for row, count in zip(best, lens.tolist(), strict=True)
        ]


class Reader(nn.Module):
    """An attention decoder: units and frames to scores of the units behind."""

    def __init__(self, config: U2ppConfig, num_layers: int) -> None:
        """Make a reader with random weights."""
        super().__init__()
        size = config.output_size
        self.embedding = nn.Embedding(config.vocab_size, size)
        self.layers = nn.ModuleList(ReaderLayer(size, config.num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(size)
        self.output = nn.Linear(size, config.vocab_size)
        nn.init.normal_(self.embedding.weight, std=size**-0.5)

    def forward(self, units: Tensor, lens: Tensor, encoder_out: Tensor, mask: Tensor) -> Tensor:
        """Return scores, float32 `[N, L, units]`.

        Args:
            units: int64 `[N, L]`, the first that in front of a text.
            lens: int64 `[N]`: of L.
            encoder_out: float32 `[N, T, size]`.
            mask: bool `[N, 1, T]`: the frames that are there.
        """
        size = self.embedding.embedding_dim
        x = self.embedding(units) * math.sqrt(size) + _positions(units.shape[1], size)
        places = torch.arange(units.shape[1])
        before = (places <= places[:, None]) & (places < lens[:, None])[:, None]
        for layer in self.layers:
            x = layer(x, before[:, None], encoder_out, mask[:, None])
        scores: Tensor = self.output(self.norm(x))
        return scores


class ReaderLayer(nn.Module):
    """Attention to the units before, attention to the frames, and a feed-forward network."""

    def __init__(self, size: int, num_heads: int) -> None:
        """Make a layer with random weights."""
        super().__init__()
        self.num_heads = num_heads
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(3))
        self.units_in, self.units_out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.query, self.frames_in = nn.Linear(size, size), nn.Linear(size, 2 * size)
        self.frames_out = nn.Linear(size, size)
        self.forward_in, self.forward_out = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: Tensor, before: Tensor, frames: Tensor, mask: Tensor) -> Tensor:
        """Return the next `[N, L, size]`; the masks are true where something is seen."""
        of_units, of_frames, of_forward = self.norms
        query, key, value = self.units_in(of_units(x)).chunk(3, -1)
        x = x + self.units_out(self._attended(query, key, value, before))
        key, value = self.frames_in(frames).chunk(2, -1)
        x = x + self.frames_out(self._attended(self.query(of_frames(x)), key, value, mask))
        found: Tensor = x + self.forward_out(F.relu(self.forward_in(of_forward(x))))
        return found

    def _attended(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (
            item.view(item.shape[0], item.shape[1], self.num_heads, -1).transpose(1, 2)
            for item in (query, key, value)
        )
        return F.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2).flatten(2)


def _positions(count: int, size: int) -> Tensor:
    turns = torch.exp(torch.arange(0, size, 2) * (-math.log(10_000) / size))
    angles = torch.arange(count)[:, None] * turns
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def started(transducer: Transducer) -> U2pp:
    """Return a model with the encoder of a transducer, and readers with random weights."""
    old = transducer.config
    config = U2ppConfig(
        vocab_size=old.vocab_size + 1,
        encoder=old.encoder,
        chunk_frames=old.chunk_frames,
        left_frames=old.left_frames,
        frozen_layers=old.frozen_layers,
        output_size=old.joiner_size,
    )
    model = U2pp(config)
    model.encoder, model.encoder_out = transducer.encoder, transducer.encoder_out
    return model


def load(path: Path) -> tuple[U2pp, str]:
    """Return the model of a file of `save`, ready for inference, and its units."""
    return loaded(path, lambda config: U2pp(U2ppConfig(**config)))

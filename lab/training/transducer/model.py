"""A streaming transducer whose encoder is that of the CTC model."""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.training.ctc.model import Cache
from lab.training.frozen.model import FLOOR, EncoderConfig, FrozenEncoder, loaded
from lab.training.transducer.features import NUM_BINS, with_previous
from lab.training.transducer.loss import transducer_loss

CONTEXT = 2
"""Units that the predictor sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransducerConfig(EncoderConfig):
    """The sizes of a model."""

    joiner_size: int = 256


class Transducer(FrozenEncoder):
    """Kaldi's filter banks to what a joiner makes log probabilities of units of."""

    config: TransducerConfig

    def __init__(self, config: TransducerConfig) -> None:
        """Make a model with random weights."""
        super().__init__(config, config.joiner_size)
        size = config.joiner_size
        self.front = nn.Linear(2 * NUM_BINS, NUM_BINS)
        self.predictor = Predictor(config.vocab_size, size)
        self.joiner = Joiner(config.vocab_size, size)

    @property
    def new_parts(self) -> list[nn.Module]:
        """See `FrozenEncoder`."""
        return [self.encoder_out, self.predictor, self.joiner]

    def mel(self, fbank: Tensor, previous: Tensor) -> Tensor:
        """Return log-mel features of filter banks `[B, F, 80]` and the frame before them."""
        mel: Tensor = self.front(with_previous(fbank, previous))
        return mel.clamp(min=FLOOR)

    def frozen(self, fbank: Tensor, lens: Tensor) -> Tensor:
        """Return `frozen_layers` of filter banks, float32 `[B, F, 80]`, of `lens` frames."""
        return self.frozen_layers(self.mel(fbank, fbank[:, :1]), lens)

    def loss(self, encoder_out: Tensor, lens: Tensor, targets: list[list[int]]) -> Tensor:
        """See `FrozenEncoder`: the mean negative log likelihood of a unit."""
        width = max(map(len, targets)) + 1
        labels = torch.zeros(len(targets), width, dtype=torch.int64)
        for row, units in enumerate(targets):
            labels[row, : len(units)] = torch.tensor(units)
        before = F.pad(labels, (CONTEXT, 0))
        contexts = torch.stack([before[:, shift : shift + width] for shift in range(CONTEXT)], 2)
        decoder_out = self.predictor(contexts.flatten(0, 1)).view(len(targets), width, -1)
        scores = self.joiner(encoder_out[:, :, None], decoder_out[:, None])
        norm = scores.float().logsumexp(3)
        unit = scores.gather(3, labels[:, None, :, None].expand(-1, scores.shape[1], -1, 1))
        target_lens = torch.tensor([len(units) for units in targets])
        blank, unit = scores[..., 0].float() - norm, unit[..., 0].float() - norm
        losses = transducer_loss(blank, unit, lens, target_lens)
        return losses.sum() / target_lens.sum()

    def greedy(self, encoder_out: Tensor, lens: Tensor) -> list[list[int]]:
        """See `FrozenEncoder`; a frame writes one unit at most."""
        found: list[list[int]] = [[] for _ in lens]
        context = torch.zeros(len(lens), CONTEXT, dtype=torch.int64)
        for t in range(encoder_out.shape[1]):
            best = self.joiner(encoder_out[:, t], self.predictor(context)).argmax(1)
            wrote = (best > 1) & (t < lens)  # the unknown unit is as good as a blank
            following = torch.cat([context[:, 1:], best[:, None]], 1)
            context = torch.where(wrote[:, None], following, context)
            for row in wrote.nonzero()[:, 0].tolist():
                found[row].append(int(best[row]))
        return found

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
        units = units.clamp(min=0)  # sherpa-onnx starts with unit -1, which would be the last one
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


def load(path: Path) -> tuple[Transducer, str]:
    """Return the model of a file of `save`, ready for inference, and its units."""
    return loaded(path, lambda config: Transducer(TransducerConfig(**config)))

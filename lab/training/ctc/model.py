"""The CTC acoustic model: Whisper's encoder made to stream, and an output layer.

One set of weights serves full context and chunks of any length (U2, https://arxiv.org/abs/2012.05481).
What differs from Whisper (https://arxiv.org/abs/2212.04356): the convolutions see no future,
positions repeat instead of ending after 30 s, and attention may be limited to chunks.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

POSITIONS = 2048
"""Encoder frames after which positions repeat: 41 s. No frame may attend further than this."""
_TYPICAL_FRAMES = 500
"""Sinusoids too slow for one cycle in `POSITIONS` keep their mean over an utterance's 10 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcModelConfig:
    """The sizes of a model; the defaults are Whisper tiny's."""

    vocab_size: int
    """Units with the blank."""
    stack: int = 1
    """Encoder frames of one output frame."""
    n_mels: int = 80
    model_size: int = 384
    num_heads: int = 6
    num_layers: int = 4


class Cache(NamedTuple):
    """What a batch of streams keeps from one step to the next. All zeros is a stream's start."""

    mel: Tensor
    """float32 `[B, 2, n_mels]`: the last features."""
    conv: Tensor
    """float32 `[B, 1, D]`: the first convolution's last output."""
    keys: Tensor
    """float32 `[B, layers, heads, left_frames, D / heads]`: the last ones at the end."""
    values: Tensor
    """As keys."""
    position: Tensor
    """int64 `[B]`: encoder frames that the stream has had."""


class CtcModel(nn.Module):
    """Log-mel features to the log probabilities of units."""

    def __init__(self, config: CtcModelConfig) -> None:
        super().__init__()
        self.config = config
        size = config.model_size
        self.conv1 = nn.Conv1d(config.n_mels, size, 3)
        self.conv2 = nn.Conv1d(size, size, 3, stride=2)
        self.layers = nn.ModuleList(
            EncoderLayer(size, config.num_heads) for _ in range(config.num_layers)
        )
        self.norm = nn.LayerNorm(size)
        self.output = nn.Linear(size * config.stack, config.vocab_size)
        self.register_buffer("positions", periodic_positions(size), persistent=False)
        self.positions: Tensor

    def forward(
        self,
        features: Tensor,
        lens: Tensor,
        chunk_frames: int = 0,
        left_frames: int = 0,
        offsets: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return log probabilities `[B, F / 2 / stack, units]` of utterances, and their lengths.

        `features` `[B, F, n_mels]` are those of `streaming_log_mel`, of which `lens` `[B]` frames
        are the utterance's; F is a multiple of 2 `stack`. Chunks have `chunk_frames` encoder
        frames, or full context with 0, and see `left_frames` before them. `offsets` `[B]` are the
        positions of the first encoder frames. Padding changes nothing in the frames before it.
        """
        hidden, _ = self._convolved(
            F.pad(features.transpose(1, 2), (2, 0)), features.new_zeros(1, 1, 1)
        )
        steps = torch.arange(hidden.shape[1], device=features.device)
        indices = steps if offsets is None else steps + offsets[:, None]
        # In the type of the convolutions' output, so that under autocast no layer has to convert.
        hidden = hidden + self.positions[indices % POSITIONS].to(hidden.dtype)
        mask = seen_frames(hidden.shape[1], (lens + 1) // 2, chunk_frames, left_frames)
        for layer in self.layers:
            hidden = layer(hidden, mask)
        stack = self.config.stack
        return self._log_probs(hidden), ((lens + 1) // 2 + stack - 1) // stack

    def step(self, features: Tensor, lens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Return log probabilities of the next chunk of each stream, and what it leaves.

        Equals `forward` with chunks of this length and `left_frames` of the cache's. With a whole
        utterance for a chunk and an empty cache of no left frames, it is full context.
        Shapes are those of `forward`; a stream of fewer `lens` than F ends.
        """
        mel = torch.cat([cache.mel, features], 1)
        hidden, conv = self._convolved(mel.transpose(1, 2), cache.conv.transpose(1, 2))
        num_frames = hidden.shape[1]
        steps = torch.arange(num_frames, device=features.device)
        hidden = hidden + self.positions[(cache.position[:, None] + steps) % POSITIONS]
        left = cache.keys.shape[3]
        slots = torch.arange(-left, num_frames, device=features.device)
        seen = (slots >= -cache.position[:, None]) & (slots < (lens[:, None] + 1) // 2)
        mask = seen[:, None, None, :]
        keys, values = [], []
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, EncoderLayer)
            hidden, key, value = layer.step(
                hidden, mask, cache.keys[:, index], cache.values[:, index]
            )
            keys.append(key)
            values.append(value)
        return self._log_probs(hidden), Cache(
            mel=mel[:, -2:],
            conv=conv.transpose(1, 2),
            keys=torch.stack(keys, 1),
            values=torch.stack(values, 1),
            position=cache.position + num_frames,
        )

    def empty_cache(self, batch: int, left_frames: int) -> Cache:
        """Return the start of `batch` streams that see `left_frames` before each chunk."""
        config, device = self.config, self.positions.device
        head_size = config.model_size // config.num_heads
        heads = (batch, config.num_layers, config.num_heads, left_frames, head_size)
        return Cache(
            mel=torch.zeros(batch, 2, config.n_mels, device=device),
            conv=torch.zeros(batch, 1, config.model_size, device=device),
            keys=torch.zeros(heads, device=device),
            values=torch.zeros(heads, device=device),
            position=torch.zeros(batch, dtype=torch.int64, device=device),
        )

    def _convolved(self, mel: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """Convolve `[B, n_mels, 2 + F]`; `last` is the first one's output before that.

        The second convolution keeps Whisper's alignment, as its frame t ends with the features
        2 t and 2 t + 1; the first one's output comes 10 ms later than in Whisper.
        """
        first = F.gelu(self.conv1(mel))
        last = last.to(first.dtype).expand(first.shape[0], first.shape[1], 1)
        second = F.gelu(self.conv2(torch.cat([last, first], 2)))
        return second.transpose(1, 2), first[:, :, -1:]

    def _log_probs(self, hidden: Tensor) -> Tensor:
        hidden = self.norm(hidden)
        batch, stack = hidden.shape[0], self.config.stack
        stacked = hidden.reshape(batch, -1, stack * hidden.shape[2])
        return F.log_softmax(self.output(stacked).float(), -1)


class EncoderLayer(nn.Module):
    """One of Whisper's encoder layers: self-attention, then a feed-forward network."""

    def __init__(self, size: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.attention_norm = nn.LayerNorm(size)
        self.attention_in = nn.Linear(size, 3 * size)
        self.attention_out = nn.Linear(size, size)
        self.feed_forward_norm = nn.LayerNorm(size)
        self.feed_forward_in = nn.Linear(size, 4 * size)
        self.feed_forward_out = nn.Linear(4 * size, size)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Return the next hidden states `[B, T, D]`; the mask is true where a key is seen."""
        query, key, value = self._heads(hidden)
        return self._attended(hidden, F.scaled_dot_product_attention(query, key, value, mask))

    def step(
        self, hidden: Tensor, mask: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `forward`, after keys and values `[B, heads, left, D / heads]` of the past."""
        query, key, value = self._heads(hidden)
        left = keys.shape[2]
        key, value = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        attended = F.scaled_dot_product_attention(query, key, value, mask)
        start = key.shape[2] - left
        return self._attended(hidden, attended), key[:, :, start:], value[:, :, start:]

    def _heads(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, size = hidden.shape
        projected = self.attention_in(self.attention_norm(hidden))
        split = projected.view(batch, length, 3, self.num_heads, size // self.num_heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        return query, key, value

    def _attended(self, hidden: Tensor, attended: Tensor) -> Tensor:
        hidden = hidden + self.attention_out(attended.transpose(1, 2).flatten(2))
        inner = F.gelu(self.feed_forward_in(self.feed_forward_norm(hidden)))
        output: Tensor = hidden + self.feed_forward_out(inner)
        return output


def seen_frames(num_frames: int, lens: Tensor, chunk_frames: int, left_frames: int) -> Tensor:
    """Return which frames each of T frames attends to, bool, broadcast to `[B, 1, T, T]`.

    Of them, `lens` `[B]` are the utterance's; 0 `chunk_frames` are full context.
    """
    steps = torch.arange(num_frames, device=lens.device)
    mask = (steps < lens[:, None])[:, None, None, :]  # [B, 1, 1, T]
    if chunk_frames:
        starts = steps // chunk_frames * chunk_frames
        seen = (steps >= starts[:, None] - left_frames) & (steps < starts[:, None] + chunk_frames)
        # A padded frame may see itself: a softmax over nothing is not a number.
        mask = (mask & seen) | (steps == steps[:, None])
    return mask


def periodic_positions(size: int, period: int = POSITIONS) -> Tensor:
    """Return Whisper's sines, then its cosines, `[period, size]`, in whole cycles.

    Whisper's heads attend by position (to the frame before, to the 20 before, …), by products of
    sinusoids; rounding their frequencies keeps this, across the end of the period too.
    """
    half = size // 2
    slowing = math.log(10_000) / (half - 1)
    frequencies = torch.exp(-slowing * torch.arange(half, dtype=torch.float64))  # radians/frame
    cycles = torch.round(frequencies * period / (2 * math.pi))
    phases = torch.arange(period)[:, None] * cycles * (2 * math.pi / period)
    typical = torch.arange(_TYPICAL_FRAMES)[:, None] * frequencies
    still = cycles == 0
    sines = torch.where(still, typical.sin().mean(0), phases.sin())
    cosines = torch.where(still, typical.cos().mean(0), phases.cos())
    return torch.cat([sines, cosines], 1).float()

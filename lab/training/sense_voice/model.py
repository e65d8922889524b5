"""A CTC model of SenseVoice's shape, whose encoder is that of the CTC model that ships.

Four frames with what is asked lie before the frames of the audio, and come back as tags.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from conch.component.arrays import FloatArray
from conch.families.funasr.folder import FrontEnd
from conch.families.funasr.network import fbank_of, features_of
from lab.training.ctc.model import EncoderLayer, seen_frames
from lab.training.frozen.model import FLOOR, EncoderConfig, FrozenEncoder, loaded
from lab.training.transducer.features import NUM_BINS, fitted_front, with_previous
from lab.training.transducer.units import SPECIAL, pieces_of

WINDOW, SHIFT = 7, 6
"""Filter banks of 10 ms in a frame, and from one to the next."""
LANGUAGES = {"auto": 0, "zh": 3, "en": 4, "yue": 7, "ja": 11, "ko": 12, "nospeech": 13}
WITH_ITN, WITHOUT_ITN = 14, 15
_QUERIES = 16
_EVENT_AND_EMOTION = (1, 2)
TAGS = ("<|en|>", "<|NEUTRAL|>", "<|Speech|>", "<|withitn|>", "<|woitn|>")
NUM_TAGS = 4
"""Frames before the text."""
_SILENT = math.log(np.finfo(np.float32).eps * 32768**2)
"""Least value of a filter bank, as that of icefall's: below it Whisper's features stay the same."""


class SenseVoiceModel(FrozenEncoder):
    """FunASR's features to scores of units."""

    neg_mean: Tensor
    inv_stddev: Tensor

    def __init__(self, config: EncoderConfig) -> None:
        """Make a model with random weights; the units of the config are without the tags."""
        size = config.encoder.model_size
        super().__init__(replace(config, stack=SHIFT // 2), size)
        self.register_buffer("neg_mean", torch.zeros(WINDOW * NUM_BINS))
        self.register_buffer("inv_stddev", torch.ones(WINDOW * NUM_BINS))
        self.front = nn.Linear(2 * NUM_BINS, NUM_BINS)
        self.queries = nn.Embedding(_QUERIES, size)
        self.layer = EncoderLayer(size, config.encoder.num_heads)
        self.norm = nn.LayerNorm(size)
        self.output = nn.Linear(size, config.vocab_size + len(TAGS))

    @property
    def new_parts(self) -> list[nn.Module]:
        """See `FrozenEncoder`."""
        return [self.encoder_out, self.queries, self.layer, self.norm, self.output]

    def forward(self, x: Tensor, lens: Tensor, language: Tensor, text_norm: Tensor) -> Tensor:
        """Return the scores of units, float32 `[B, 4 + T, units]`.

        Args:
            x: float32 `[B, T, 560]`: normalised features.
            lens: int64 `[B]`: of T, how many frames are the utterance's.
            language: int `[B]`: of `LANGUAGES`.
            text_norm: int `[B]`: `WITH_ITN` or `WITHOUT_ITN`.
        """
        hidden = self.frozen_layers(self.mel(x), SHIFT * lens)
        hidden = self.trained_layers(hidden, self.config.stack * lens)
        return self.scores(self.projected(hidden), lens, language, text_norm)

    def mel(self, x: Tensor) -> Tensor:
        """Return what the encoder reads of features, float32 `[B, 6 T, 80]`, 10 ms late.

        The last six of the seven filter banks in a frame follow on those of the frame before.
        """
        stacked = (x / self.inv_stddev - self.neg_mean)[:, :, (WINDOW - SHIFT) * NUM_BINS :]
        fbank = stacked.reshape(x.shape[0], -1, NUM_BINS).clamp(min=_SILENT)
        mel: Tensor = self.front(with_previous(fbank, fbank[:, :1]))
        return mel.clamp(min=FLOOR)

    def trained_layers(self, hidden: Tensor, lens: Tensor, *, is_whole: bool = True) -> Tensor:
        """See `FrozenEncoder`; a frame sees all others."""
        return super().trained_layers(hidden, lens, is_whole=True)

    def scores(self, frames: Tensor, lens: Tensor, language: Tensor, text_norm: Tensor) -> Tensor:
        """Return the scores of what `projected` returned, `[B, T, D]`; see `forward`."""
        others = [torch.full_like(language, number) for number in _EVENT_AND_EMOTION]
        asked = self.queries(torch.stack([language, *others, text_norm], 1))
        frames = torch.cat([asked.to(frames.dtype), frames], 1)
        frames = self.layer(frames, seen_frames(frames.shape[1], NUM_TAGS + lens, 0, 0))
        scores: Tensor = self.output(self.norm(frames))
        return scores

    def loss(self, encoder_out: Tensor, lens: Tensor, targets: list[list[int]]) -> Tensor:
        """See `FrozenEncoder`: that of CTC for a unit, and that of the tags.

        Half of the utterances are asked for English, and half with digits and punctuation, which
        no text has.
        """
        english, written = torch.randint(0, 2, (2, len(targets)))
        scores = self.scores(
            encoder_out, lens, english * LANGUAGES["en"], WITHOUT_ITN - written
        ).float()
        log_probs, tags = scores.log_softmax(2), scores[:, :NUM_TAGS]
        target_lens = torch.tensor([len(units) for units in targets])
        units = torch.tensor([unit for item in targets for unit in item])
        text = log_probs[:, NUM_TAGS:].transpose(0, 1)
        text_loss = F.ctc_loss(text, units, lens, target_lens, reduction="sum", zero_infinity=True)
        wanted = self.config.vocab_size + torch.arange(NUM_TAGS).repeat(len(targets), 1)
        wanted[:, -1] += 1 - written
        return text_loss / target_lens.sum() + F.cross_entropy(tags.flatten(0, 1), wanted.flatten())

    def greedy(self, encoder_out: Tensor, lens: Tensor) -> list[list[int]]:
        """See `FrozenEncoder`."""
        asked = torch.zeros_like(lens)
        best = self.scores(encoder_out, lens, asked, asked + WITHOUT_ITN).argmax(2)
        rows = zip(best[:, NUM_TAGS:].tolist(), lens.tolist(), strict=True)
        paths = [[unit for unit, _ in groupby(row[:length])] for row, length in rows]
        return [[unit for unit in path if 1 < unit < self.config.vocab_size] for path in paths]

    def fit(self, waveforms: Iterable[FloatArray]) -> None:
        """Fit what becomes of the features before the encoder, and how they are normalised."""
        front_end = FrontEnd(
            num_mels=NUM_BINS, window=WINDOW, shift=SHIFT, neg_mean=(0.0,), inv_stddev=(1.0,)
        )
        waveforms = list(waveforms)

        def fbank(waveform: FloatArray) -> FloatArray:
            frames = fbank_of(front_end).whole(waveform)  # they start 10 ms later than icefall's
            found: FloatArray = np.concatenate([frames[:1], frames]).clip(min=_SILENT)
            return found

        self.front = fitted_front(waveforms, fbank)
        frames = np.concatenate([features_of(front_end, item) for item in waveforms])
        self.neg_mean.copy_(torch.from_numpy(-frames.mean(0)))
        self.inv_stddev.copy_(torch.from_numpy(1 / frames.std(0)))


def tokens_of(tokenizer: str) -> list[str]:
    """Return the name of each unit: the blank, pieces, tags."""
    return ["<unk>", "<s>", *pieces_of(tokenizer)[len(SPECIAL) :], *TAGS]


def load(path: Path) -> tuple[SenseVoiceModel, str]:
    """Return the model of a file of `save`, ready for inference, and its units."""
    return loaded(path, lambda config: SenseVoiceModel(EncoderConfig(**config)))

"""The network: words to the mark after each and the case of each.

Depthwise convolutions over words, as ConvNeXt has over pixels (Liu et al., 2022,
https://arxiv.org/abs/2201.03545). What stands further away than `Config.reach` changes nothing, so
windows that overlap by twice as much give what the whole text gives.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from conch.families.punctuation.model import FEATURES, MARKS, PADDING

CASES = 3


@dataclass(frozen=True, slots=True)
class Config:
    embedding: int = 128
    width: int = 192
    hidden: int = 384
    kernel: int = 5
    dilations: tuple[int, ...] = (1, 1, 2, 2, 4, 4)

    @property
    def reach(self) -> int:
        """Words on each side that a word's labels depend on."""
        return self.kernel // 2 * sum(self.dilations)


class Block(nn.Module):
    """A depthwise convolution and two products, around which the input is added."""

    def __init__(self, config: Config, dilation: int) -> None:
        super().__init__()
        padding = config.kernel // 2 * dilation
        self.conv = nn.Conv1d(
            config.width,
            config.width,
            config.kernel,
            padding=padding,
            dilation=dilation,
            groups=config.width,
        )
        self.norm = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, config.hidden)
        self.down = nn.Linear(config.hidden, config.width)

    def forward(self, x: Tensor, is_word: Tensor) -> Tensor:
        """Return float `[B, T, width]`; padding stays 0."""
        y = self.conv(x.transpose(1, 2)).transpose(1, 2)
        y = self.down(nn.functional.relu(self.up(self.norm(y))))
        added: Tensor = (x + y) * is_word
        return added


class Punctuation(nn.Module):
    """Features of words to logits."""

    def __init__(self, config: Config, size: int) -> None:
        """Make a network; `size` counts the ids of the vocabulary."""
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(size, config.embedding)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.input = nn.Linear(config.embedding, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.blocks = nn.ModuleList(Block(config, dilation) for dilation in config.dilations)
        self.output = nn.Linear(config.width, len(MARKS) + CASES)

    def forward(self, features: Tensor) -> Tensor:
        """Return float32 `[B, T, marks + cases]`: of the mark after each word, then of its case.

        `features` are int `[B, T, FEATURES]`; rows are padded with PADDING.
        """
        assert features.shape[-1] == FEATURES
        is_word = (features[:, :, :1] != PADDING).to(torch.float32)
        x = self.norm(self.input(self.embedding(features).sum(dim=2))) * is_word
        for block in self.blocks:
            x = block(x, is_word)
        logits: Tensor = self.output(x)
        return logits

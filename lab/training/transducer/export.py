"""Write a folder that sherpa-onnx serves: encoder, decoder, joiner and units.

    python -m lab.training.transducer.export runs/transducer/final.pt --out transducer-en

The encoder has the tensors and metadata of a streaming zipformer2. Its keys and values are those of
the CTC encoder's layers, values in two halves; `embed_states` carries the convolutions' state and
the last filter bank. The states that this encoder has no use for are as small as the metadata
allows, and pass through.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lab.training.ctc.model import Cache
from lab.training.frozen.graphs import quantize, write
from lab.training.transducer.features import NUM_BINS
from lab.training.transducer.model import CONTEXT, Transducer, load
from lab.training.transducer.units import write_units

FILES = ("encoder.onnx", "decoder.onnx", "joiner.onnx")
STATES = ("key", "nonlin_attn", "val1", "val2", "conv1", "conv2")
"""Of each layer, in zipformer2's order."""
_EMBED_SHAPE = (128, 3, 19)
_WIDTH = 4
"""`encoder_dims`, which fixes the states that pass through; the smallest that leaves none empty."""


class Kept(NamedTuple):
    """A state of a stream."""

    name: str
    shape: tuple[int, ...]
    """With 1 stream."""
    axis: int
    """Of the streams."""
    dtype: torch.dtype = torch.float32


def main(arguments: list[str] | None = None) -> None:
    """Export as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--weights", choices=("fp32", "int8"), default="int8")
    args = parser.parse_args(arguments)
    model, tokenizer = load(args.checkpoint)
    export(model, tokenizer, args.out)
    if args.weights == "int8":
        for name in FILES:
            quantize(args.out / name)
    print(args.out, *(f"{name} {(args.out / name).stat().st_size / 1e6:.1f} MB" for name in FILES))


def export(model: Transducer, tokenizer: str, folder: Path) -> None:
    """Write a model with float32 weights, and its units."""
    folder.mkdir(parents=True, exist_ok=True)
    write_units(tokenizer, folder)
    config, size = model.config, model.config.joiner_size
    states = states_of(model)
    fbank = torch.randn(2, 2 * config.chunk_frames, NUM_BINS)
    zeros = [
        torch.zeros([2 if i == s.axis else n for i, n in enumerate(s.shape)], dtype=s.dtype)
        for s in states
    ]
    names = [item.name for item in states]
    axes = {item.name: {item.axis: "N"} for item in states}
    axes |= {f"new_{name}": axis for name, axis in axes.items()}
    write(
        Step(model),
        {"x": fbank} | dict(zip(names, zeros, strict=True)),
        folder / "encoder.onnx",
        ["encoder_out", *(f"new_{name}" for name in names)],
        {"x": {0: "N"}, "encoder_out": {0: "N"}, **axes},
        metadata_of(model),
    )
    vocabulary = {"vocab_size": str(config.vocab_size), "context_size": str(CONTEXT)}
    write(
        model.predictor,
        {"y": torch.zeros(2, CONTEXT, dtype=torch.int64)},
        folder / "decoder.onnx",
        ["decoder_out"],
        {"y": {0: "N"}, "decoder_out": {0: "N"}},
        vocabulary,
    )
    write(
        model.joiner,
        {name: torch.zeros(2, size) for name in ("encoder_out", "decoder_out")},
        folder / "joiner.onnx",
        ["logit"],
        {name: {0: "N"} for name in ("encoder_out", "decoder_out", "logit")},
        {"joiner_dim": str(size)},
    )


def metadata_of(model: Transducer) -> dict[str, str]:
    """Return what sherpa-onnx's zipformer2 has to know of an encoder."""
    config, encoder = model.config, model.config.encoder
    head = encoder.model_size // encoder.num_heads
    return {
        "model_type": "zipformer2",
        "version": "1",
        "comment": "the encoder of Conch's CTC model",
        "T": str(2 * config.chunk_frames),
        "decode_chunk_len": str(2 * config.chunk_frames),
        "encoder_dims": str(_WIDTH),
        "query_head_dims": str(head),
        "value_head_dims": str(head // 2),
        "num_heads": str(encoder.num_heads),
        "num_encoder_layers": str(encoder.num_layers),
        "cnn_module_kernels": "2",
        "left_context_len": str(config.left_frames),
    }


def states_of(model: Transducer) -> list[Kept]:
    """Return the states of a stream, in zipformer2's order."""
    left, size = model.config.left_frames, model.config.encoder.model_size
    shapes: list[tuple[tuple[int, ...], int]] = [
        ((left, 1, size), 1),
        ((1, 1, left, 3 * _WIDTH // 4), 1),
        ((left, 1, size // 2), 1),
        ((left, 1, size // 2), 1),
        ((1, _WIDTH, 1), 0),
        ((1, _WIDTH, 1), 0),
    ]
    layers = [
        Kept(f"cached_{name}_{layer}", shape, axis)
        for layer in range(model.config.encoder.num_layers)
        for name, (shape, axis) in zip(STATES, shapes, strict=True)
    ]
    embed = Kept("embed_states", (1, *_EMBED_SHAPE), 0)
    return [*layers, embed, Kept("processed_lens", (1,), 0, torch.int64)]


class Step(nn.Module):
    """`Transducer.step` with zipformer2's states."""

    def __init__(self, model: Transducer) -> None:
        """Wrap a model."""
        super().__init__()
        self.model = model

    def forward(self, fbank: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        """Return the encoder's output and the next states."""
        *cached, embed, position = states
        encoder = self.model.config.encoder
        size, per_layer = encoder.model_size, len(STATES)
        layers = [cached[at : at + per_layer] for at in range(0, len(cached), per_layer)]
        widths = [2 * NUM_BINS, size, NUM_BINS, self._unused]
        mel, conv, previous, unused = torch.split(embed.flatten(1), widths, 1)
        encoder_out, following = self.model.step(
            fbank,
            previous[:, None],
            Cache(
                mel=mel.view(-1, 2, NUM_BINS),
                conv=conv[:, None],
                keys=torch.stack([self._heads(layer[0]) for layer in layers], 1),
                values=torch.stack([self._heads(torch.cat(layer[2:4], 2)) for layer in layers], 1),
                position=position,
            ),
        )
        found = [encoder_out]
        for index, (_, nonlin, _, _, conv1, conv2) in enumerate(layers):
            values = self._rows(following.values[:, index])
            first, second = values[:, :, : size // 2], values[:, :, size // 2 :]
            keys = self._rows(following.keys[:, index])
            found += [keys, nonlin + 0.0, first, second, conv1 + 0.0, conv2 + 0.0]
        next_embed = [following.mel.flatten(1), following.conv[:, 0], fbank[:, -1], unused]
        return (*found, torch.cat(next_embed, 1).view(-1, *_EMBED_SHAPE), following.position)

    @property
    def _unused(self) -> int:
        width, height, depth = _EMBED_SHAPE
        return width * height * depth - 3 * NUM_BINS - self.model.config.encoder.model_size

    def _heads(self, rows: Tensor) -> Tensor:
        """Return `[B, heads, left, D / heads]` of `[left, B, D]`."""
        heads = self.model.config.encoder.num_heads
        left, _, size = rows.shape
        return rows.view(left, -1, heads, size // heads).permute(1, 2, 0, 3)

    def _rows(self, heads: Tensor) -> Tensor:
        """Return `[left, B, D]` of `[B, heads, left, D / heads]`."""
        return heads.permute(2, 0, 1, 3).flatten(2)


if __name__ == "__main__":
    main()

"""Write the folders that the scripts of WeNet write, with the same tensors and metadata.

    python -m lab.training.u2pp.export runs/u2pp/final.pt --kind gpu --out u2pp-gpu

`gpu` is `export_onnx_gpu.py`, `gpu-live` the same with --streaming, `cpu` is `export_onnx_cpu.py`.
The caches carry the states of the CTC encoder. Its frames are shorter and wider than those of the
output, so that a layer takes several of `num_blocks`.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from lab.training.ctc.model import Cache
from lab.training.frozen.graphs import write
from lab.training.transducer.units import pieces_of
from lab.training.u2pp.features import NUM_BINS, TAPS
from lab.training.u2pp.model import REVERSE_WEIGHT, Reader, U2pp, load

KINDS = ("gpu", "gpu-live", "cpu")
BEAM_SIZE = 10
CTC_WEIGHT = 0.5
_HEADS = 8
_CONTEXT = 7
_SUBSAMPLING = 4
_STACK = 2
"""Encoder frames of one of the output: WeNet counts frames of 40 ms."""


def main(arguments: list[str] | None = None) -> None:
    """Export as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(arguments)
    export(*load(args.checkpoint), args.out, args.kind)


def export(model: U2pp, tokenizer: str, folder: Path, kind: str) -> None:
    """Write a folder of one of `KINDS`."""
    folder.mkdir(parents=True, exist_ok=True)
    {"gpu": _gpu, "gpu-live": _gpu_live, "cpu": _cpu}[kind](model, folder)
    pieces = ["<blank>", *pieces_of(tokenizer)[1:], "<sos/eos>"]
    lines = (f"{piece} {unit}\n" for unit, piece in enumerate(pieces))
    (folder / "units.txt").write_text("".join(lines))
    size, config = model.config.output_size, model.config
    training: dict[str, Any] = {
        "encoder": "conformer",
        "encoder_conf": {"output_size": size, "input_layer": "conv2d", **_sizes(model)},
        "decoder": "bitransformer",
        "decoder_conf": {
            "attention_heads": config.num_heads,
            "num_blocks": config.num_left_layers,
            "r_num_blocks": config.num_right_layers,
        },
        "dataset_conf": {
            "resample_conf": {"resample_rate": 16_000},
            "fbank_conf": {"num_mel_bins": NUM_BINS, "frame_shift": 10, "frame_length": 25},
        },
        "input_dim": NUM_BINS,
        "output_dim": config.vocab_size,
        "model_conf": {"ctc_weight": CTC_WEIGHT, "reverse_weight": REVERSE_WEIGHT},
    }
    (folder / "train.yaml").write_text(yaml.safe_dump(training))


def _sizes(model: U2pp) -> dict[str, int]:
    """Return those of the caches: their keys and values have as many as those of all layers."""
    config = model.config
    blocks = _STACK * config.encoder.model_size // config.output_size * config.encoder.num_layers
    return {"attention_heads": _HEADS, "num_blocks": blocks, "cnn_module_kernel": 2}


def _chunk(model: U2pp) -> tuple[int, int, int]:
    """Return the frames of a chunk and those before it that it sees, and its filter banks."""
    count, left = model.config.chunk_frames // _STACK, model.config.left_frames // _STACK
    return count, left, (count - 1) * _SUBSAMPLING + _CONTEXT


class Part(nn.Module):
    """A graph of an export."""

    def __init__(self, model: U2pp) -> None:
        """Take a model."""
        super().__init__()
        self.model = model


class Step(Part):
    """One chunk of streams, with WeNet's caches."""

    def step(
        self, chunk: Tensor, heard: Tensor, att_cache: Tensor, cnn_cache: Tensor, seen: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the frames of a chunk, and the next caches.

        Args:
            chunk: float32 `[B, F, 80]`.
            heard: int64 `[B]`: frames of output before the chunk.
            att_cache: float32 `[B, blocks, heads, left, width]`.
            cnn_cache: float32 `[B, blocks, size, 1]`.
            seen: bool `[B, left + F / 4]`.
        """
        mel = self.model.mel(chunk)
        mel = mel[:, : mel.shape[1] // _SUBSAMPLING * _SUBSAMPLING]
        size, batch = self.model.config.encoder.model_size, chunk.shape[0]
        flat = cnn_cache.flatten(1)
        widths = [2 * NUM_BINS, size, flat.shape[1] - 2 * NUM_BINS - size]
        last, conv, rest = torch.split(flat, widths, 1)
        keys, values = self._unpacked(att_cache).chunk(2, -1)
        cache = Cache(last.view(batch, 2, NUM_BINS), conv[:, None], keys, values, _STACK * heard)
        lens = torch.full_like(heard, mel.shape[1])
        hidden, new = self.model.encoder.step_hidden(
            mel, lens, cache, seen.repeat_interleave(_STACK, 1)
        )
        kept = torch.cat([new.mel.flatten(1), new.conv[:, 0], rest], 1).view(cnn_cache.shape)
        packed = self._packed(torch.cat([new.keys, new.values], -1), att_cache.shape[1])
        return self.model.projected(hidden), packed, kept

    def _unpacked(self, cache: Tensor) -> Tensor:
        """Return `[B, layers, heads, _STACK * left, 2 D / heads]` of WeNet's cache."""
        batch, blocks, _, left, width = cache.shape
        layers = self.model.config.encoder.num_layers
        found = cache.view(batch, layers, blocks // layers, _HEADS, left, width)
        heads = self.model.config.encoder.num_heads
        found = found.permute(0, 1, 4, 2, 3, 5).reshape(batch, layers, left * _STACK, heads, -1)
        return found.transpose(2, 3)

    def _packed(self, cache: Tensor, blocks: int) -> Tensor:
        """Return WeNet's cache; see `_unpacked`."""
        batch, layers, _, twice, _ = cache.shape
        found = cache.transpose(2, 3).reshape(
            batch, layers, twice // _STACK, blocks // layers, _HEADS, -1
        )
        found = found.permute(0, 1, 3, 4, 2, 5)
        return found.reshape(batch, blocks, _HEADS, twice // _STACK, -1)


class Recordings(Part):
    """The encoder of `export_onnx_gpu.py`."""

    def forward(self, speech: Tensor, speech_lengths: Tensor) -> tuple[Tensor, ...]:
        """Return frames, their lengths, log probabilities, and the best of them."""
        lens = speech_lengths.long()
        encoder_out = self.model.heard(speech, lens, is_whole=True)
        log_probs = self.model.log_probs(encoder_out)
        out_lens = ((lens - TAPS + 1) // _SUBSAMPLING).int()
        return (encoder_out, out_lens, log_probs, *log_probs.topk(BEAM_SIZE, 2))


class Live(Step):
    """The same for live audio."""

    def forward(
        self,
        chunk_xs: Tensor,
        chunk_lens: Tensor,
        offset: Tensor,
        att_cache: Tensor,
        cnn_cache: Tensor,
        cache_mask: Tensor,
    ) -> tuple[Tensor, ...]:
        """Return the best log probabilities, frames, lengths, and what a stream keeps."""
        count = self.model.config.chunk_frames // _STACK
        is_there = torch.arange(count) * _SUBSAMPLING + _CONTEXT <= chunk_lens[:, None]
        seen = torch.cat([cache_mask[:, 0], is_there.to(cache_mask.dtype)], 1)
        out, *caches = self.step(chunk_xs, offset[:, 0], att_cache, cnn_cache, seen > 0)
        best = self.model.log_probs(out).topk(BEAM_SIZE, 2)
        left = cache_mask.shape[2]
        mask = seen[:, None, seen.shape[1] - left :]
        return (*best, out, chunk_lens // _SUBSAMPLING, offset + count, *caches, mask)


class Ranking(Part):
    """The decoder of `export_onnx_gpu.py`: the best of some texts."""

    def forward(
        self,
        encoder_out: Tensor,
        encoder_out_lens: Tensor,
        hyps_pad_sos_eos: Tensor,
        hyps_lens_sos: Tensor,
        r_hyps_pad_sos_eos: Tensor,
        ctc_score: Tensor,
    ) -> Tensor:
        """Return the place of the best text of each recording, int64 `[B]`."""
        is_there = torch.arange(encoder_out.shape[1]) < encoder_out_lens[:, None]
        memory = encoder_out.repeat_interleave(BEAM_SIZE, 0)
        mask = is_there[:, None].repeat_interleave(BEAM_SIZE, 0)
        lens = hyps_lens_sos.flatten()

        def sums(reader: Reader, padded: Tensor) -> Tensor:
            units = padded.flatten(0, 1)
            log_probs = reader(units[:, :-1].clamp(min=0), lens, memory, mask).log_softmax(-1)
            is_text = torch.arange(log_probs.shape[1]) < lens[:, None]
            found = log_probs.gather(2, (units[:, 1:] * is_text)[:, :, None])[:, :, 0]
            total: Tensor = (found * is_text).sum(1).view(-1, BEAM_SIZE)
            return total

        left = sums(self.model.left, hyps_pad_sos_eos)
        right = sums(self.model.right, r_hyps_pad_sos_eos)
        score = (1 - REVERSE_WEIGHT) * left + REVERSE_WEIGHT * right
        return torch.argmax(score + CTC_WEIGHT * ctc_score, 1)


class Chunk(Step):
    """The encoder of `export_onnx_cpu.py`."""

    def forward(
        self,
        chunk: Tensor,
        offset: Tensor,
        required_cache_size: Tensor,
        att_cache: Tensor,
        cnn_cache: Tensor,
        att_mask: Tensor,
    ) -> tuple[Tensor, ...]:
        """Return frames and the next caches; `offset` begins with the size of the cache."""
        heard = (offset - required_cache_size).view(1)
        keys = att_cache.shape[2] + (chunk.shape[1] - TAPS + 1) // _SUBSAMPLING
        out, seen, kept = self.step(
            chunk, heard, att_cache[None], cnn_cache.transpose(0, 1), att_mask[:, 0, :keys]
        )
        return out, seen[0], kept.transpose(0, 1)


class Scores(Part):
    """The decoder of `export_onnx_cpu.py`."""

    def forward(self, hyps: Tensor, hyps_lens: Tensor, encoder_out: Tensor) -> tuple[Tensor, ...]:
        """Return log probabilities of both readers, float32 `[N, L, units]`."""
        memory = encoder_out.expand(hyps.shape[0], -1, -1)
        mask = torch.ones_like(memory[:, None, :, 0], dtype=torch.bool)
        places = hyps_lens[:, None] - 2 - torch.arange(hyps.shape[1] - 1)
        turned = hyps[:, 1:].gather(1, places.clamp(min=0))
        turned = torch.where(places >= 0, turned, self.model.edge)
        from_right = torch.cat([hyps[:, :1], turned], 1)
        readers = ((self.model.left, hyps), (self.model.right, from_right))
        return tuple(
            reader(units, hyps_lens, memory, mask).log_softmax(-1) for reader, units in readers
        )


class Ctc(Part):
    """The CTC of `export_onnx_cpu.py`."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Return log probabilities, float32 `[1, T, units]`."""
        return self.model.log_probs(hidden)


def _gpu(model: U2pp, folder: Path) -> None:
    speech = {
        "speech": torch.randn(2, 100, NUM_BINS),
        "speech_lengths": torch.tensor([100, 90]).int(),
    }
    of_frames = ["encoder_out", "ctc_log_probs", "beam_log_probs", "beam_log_probs_idx"]
    outputs = [of_frames[0], "encoder_out_lens", *of_frames[1:]]
    axes = {"speech": {0: "B", 1: "T"}, "speech_lengths": {0: "B"}, outputs[1]: {0: "B"}}
    axes |= {name: {0: "B", 1: "T_OUT"} for name in of_frames}
    write(Recordings(model), speech, folder / "encoder.onnx", outputs, axes, {})
    config = {"reverse_weight": REVERSE_WEIGHT, "ctc_weight": CTC_WEIGHT}
    _ranking(model, folder, config)


def _gpu_live(model: U2pp, folder: Path) -> None:
    size, blocks = model.config.output_size, _sizes(model)["num_blocks"]
    count, left, window = _chunk(model)
    inputs = {
        "chunk_xs": torch.randn(2, window, NUM_BINS),
        "chunk_lens": torch.full((2,), window, dtype=torch.int32),
        "offset": torch.tensor([[0], [count]]),
        "att_cache": torch.randn(2, blocks, _HEADS, left, 2 * size // _HEADS),
        "cnn_cache": torch.randn(2, blocks, size, 1),
        "cache_mask": torch.ones(2, 1, left),
    }
    outputs = ["log_probs", "log_probs_idx", "chunk_out", "chunk_out_lens", "r_offset"]
    outputs += ["r_att_cache", "r_cnn_cache", "r_cache_mask"]
    axes = {name: {0: "B"} for name in (*inputs, *outputs)}
    write(Live(model), inputs, folder / "encoder.onnx", outputs, axes, {})
    config = {
        "subsampling_rate": _SUBSAMPLING,
        "context": _CONTEXT,
        "decoding_chunk_size": count,
        "num_decoding_left_chunks": left // count,
        "feat_size": NUM_BINS,
        "decoding_window": window,
        "cnn_module_kernel_cache": 1,
        "return_ctc_logprobs": False,
    }
    _ranking(model, folder, config)


def _ranking(model: U2pp, folder: Path, config: dict[str, Any]) -> None:
    """Write `decoder.onnx` and `config.yaml` of an export for GPUs."""
    texts = torch.randint(2, model.edge, (2, BEAM_SIZE, 9))
    inputs = {
        "encoder_out": torch.randn(2, 20, model.config.output_size),
        "encoder_out_lens": torch.tensor([20, 15]).int(),
        "hyps_pad_sos_eos": texts,
        "hyps_lens_sos": torch.randint(3, 9, (2, BEAM_SIZE)).int(),
        "r_hyps_pad_sos_eos": texts,
        "ctc_score": torch.randn(2, BEAM_SIZE),
    }
    axes = {name: {0: "B"} for name in (*inputs, "best_index")}
    axes["encoder_out"][1] = "T"
    axes["hyps_pad_sos_eos"][2] = axes["r_hyps_pad_sos_eos"][2] = "T2"
    write(Ranking(model), inputs, folder / "decoder.onnx", ["best_index"], axes, {})
    config |= {"beam_size": BEAM_SIZE, "fp16": False}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def _cpu(model: U2pp, folder: Path) -> None:
    sizes, size = _sizes(model), model.config.output_size
    blocks = sizes["num_blocks"]
    count, left, window = _chunk(model)
    known = {
        "output_dir": folder.name,
        "batch": 1,
        "chunk_size": count,
        "left_chunks": left // count,
        "reverse_weight": REVERSE_WEIGHT,
        "output_size": size,
        "num_blocks": blocks,
        "cnn_module_kernel": sizes["cnn_module_kernel"],
        "head": _HEADS,
        "feature_size": NUM_BINS,
        "vocab_size": model.config.vocab_size,
        "decoding_window": window,
        "encoder": "conformer",
        "decoder": "bitransformer",
        "subsampling_rate": _SUBSAMPLING,
        "right_context": _CONTEXT - 1,
        "sos_symbol": model.edge,
        "eos_symbol": model.edge,
        "is_bidirectional_decoder": 1,
    }
    metadata = {key: str(value) for key, value in known.items()}
    inputs = {
        "chunk": torch.randn(1, window, NUM_BINS),
        "offset": torch.tensor(left),
        "required_cache_size": torch.tensor(left),
        "att_cache": torch.zeros(blocks, _HEADS, left, 2 * size // _HEADS),
        "cnn_cache": torch.zeros(blocks, 1, size, 1),
        "att_mask": torch.ones(1, 1, left + count, dtype=torch.bool),
    }
    axes = {"chunk": {1: "T"}, "att_cache": {2: "T_CACHE"}, "att_mask": {2: "T_ADD_T_CACHE"}}
    axes |= {"output": {1: "T"}, "r_att_cache": {2: "T_CACHE"}}
    outputs = ["output", "r_att_cache", "r_cnn_cache"]
    write(Chunk(model), inputs, folder / "encoder.onnx", outputs, axes, metadata)
    hidden = {"hidden": torch.randn(1, count, size)}
    axes = {name: {1: "T"} for name in ("hidden", "probs")}
    write(Ctc(model), hidden, folder / "ctc.onnx", ["probs"], axes, metadata)
    texts = {
        "hyps": torch.randint(2, model.edge, (3, 7)),
        "hyps_lens": torch.tensor([7, 5, 6]),
        "encoder_out": torch.randn(1, 20, size),
    }
    axes = {name: {0: "NBEST", 1: "L"} for name in ("hyps", "score", "r_score")}
    axes |= {"hyps_lens": {0: "NBEST"}, "encoder_out": {1: "T"}}
    write(Scores(model), texts, folder / "decoder.onnx", ["score", "r_score"], axes, metadata)


if __name__ == "__main__":
    main()

"""Small U2++ models with random weights, in the files that WeNet's two scripts of export write.

`U2pp` computes the same in PyTorch at once: all frames with a mask, all hypotheses one by one.
"""

import math
import warnings
from pathlib import Path
from typing import Any

import onnx
import torch
import yaml
from torch import Tensor, nn

MELS, SIZE, HEADS, LAYERS, KERNEL, UNITS = 80, 16, 2, 2, 5, 39
CHUNK, LEFT, BEAM, CONTEXT = 8, 2, 6, 7
CTC_WEIGHT, REVERSE_WEIGHT = 0.4, 0.3
EDGE = UNITS - 1
_CACHE, _WIDTH = CHUNK * LEFT, 2 * SIZE // HEADS
_SYLLABLES = ["ba", "do", "ki", "lu", "me", "no", "ra", "si", "tu", "ve", "za", "ing"]


def symbols() -> list[str]:
    pieces = [f"▁{text}" for text in _SYLLABLES] + _SYLLABLES + [f"▁{text}s" for text in _SYLLABLES]
    return ["<blank>", "<unk>", *pieces, "<sos/eos>"]


def positions(first: Tensor | int, count: int) -> Tensor:
    """Return `[..., count, SIZE]`."""
    places = torch.arange(count) + first
    turns = torch.exp(torch.arange(SIZE // 2) * (-math.log(100.0) / (SIZE // 2)))
    angles = places.unsqueeze(-1) * turns
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def attended(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Return what heads `[B, H, T, D]` see where the mask, `[B, 1 or T, keys]`, is not 0."""
    scores = query @ key.transpose(-1, -2) / math.sqrt(SIZE / HEADS)
    is_hidden = mask.unsqueeze(1) == 0
    weights = scores.masked_fill(is_hidden, -1e9).softmax(-1).masked_fill(is_hidden, 0.0)
    return (weights @ value).transpose(1, 2).flatten(2)


def heads(x: Tensor) -> Tensor:
    return x.view(*x.shape[:2], HEADS, SIZE // HEADS).transpose(1, 2)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, SIZE)
        self.conv = nn.Conv1d(SIZE, SIZE, KERNEL, groups=SIZE)

    def forward(
        self, x: Tensor, mask: Tensor, seen: Tensor, heard: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return frames `[B, T, SIZE]`, keys and values of all, and the end of the convolution."""
        query, key, value = (heads(item) for item in self.project(x).chunk(3, dim=-1))
        before, behind = seen.chunk(2, dim=-1)
        key, value = torch.cat([before, key], 2), torch.cat([behind, value], 2)
        x = x + self.out(attended(query, key, value, mask))
        padded = torch.cat([heard, x.transpose(1, 2)], 2)
        x = torch.tanh(x + self.conv(padded).transpose(1, 2))
        return x, torch.cat([key, value], -1), padded[:, :, 1 - KERNEL :]


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(UNITS, SIZE)
        self.self_project, self.project = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, SIZE)
        self.memory, self.out = nn.Linear(SIZE, 2 * SIZE), nn.Linear(SIZE, UNITS)

    def forward(self, hyps: Tensor, lens: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Return logits `[N, L, UNITS]` of the unit behind each of `hyps`, `[N, L]`."""
        count = hyps.shape[1]
        x = self.embed(hyps) + positions(0, count)
        is_seen = torch.arange(count).unsqueeze(0) < lens.unsqueeze(1)
        both = is_seen.unsqueeze(1) & torch.ones(count, count, dtype=torch.bool).tril()
        query, key, value = (heads(item) for item in self.self_project(x).chunk(3, dim=-1))
        x = x + attended(query, key, value, both)
        key, value = (heads(item) for item in self.memory(memory).chunk(2, dim=-1))
        x = torch.tanh(x + attended(heads(self.project(x)), key, value, mask))
        logits: Tensor = self.out(x)
        return logits


class U2pp(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.convs = nn.ModuleList([nn.Conv2d(1, SIZE, 3, 2), nn.Conv2d(SIZE, SIZE, 3, 2)])
            self.linear = nn.Linear(SIZE * 19, SIZE)
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
            self.units = nn.Linear(SIZE, UNITS)
            self.left, self.right = Reader(), Reader()
            for reader in (self.left, self.right):
                nn.init.normal_(reader.out.weight, std=1.0)
            nn.init.normal_(self.linear.weight, std=1.0)
            nn.init.normal_(self.units.weight, std=8.0)
        with torch.no_grad():
            self.units.bias[:] = 0.0
            self.units.bias[0] = 15.0
            self.units.bias[[1, EDGE]] = -100.0
        self.eval().requires_grad_(False)

    def embedded(self, x: Tensor) -> Tensor:
        """Return features `[B, T, MELS]` as `[B, (T - 3) / 4, SIZE]`."""
        x = ((x - 12.0) * 0.3).unsqueeze(1)
        for conv in self.convs:
            x = torch.tanh(2 * conv(x))
        found: Tensor = self.linear(x.transpose(1, 2).flatten(2))
        return found

    def log_probs(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.units(hidden)
        return logits.log_softmax(-1)

    def whole(self, x: Tensor, behind: int | None = None, first: int = 0) -> Tensor:
        """Return what is heard in a recording, `[T, MELS]`.

        With chunks, each sees so many `behind` it; `first` is the position of the first frame.
        """
        x = self.embedded(x[None])
        count = x.shape[1]
        x = x + positions(first, count)
        chunk = torch.arange(count) // CHUNK
        far = chunk[:, None] - chunk[None]
        mask = far > -count if behind is None else (far >= 0) & (far <= behind)
        for layer in self.layers:
            x, *_ = layer(x, mask[None], nothing(1, 0), x.new_zeros(1, SIZE, KERNEL - 1))
        return x[0]

    def score(self, hidden: Tensor, units: list[int]) -> float:
        """Return the score of one hypothesis by both readers."""
        found: list[float] = []
        for reader, text in ((self.left, units), (self.right, units[::-1])):
            hyps, lens = torch.tensor([[EDGE, *text]]), torch.tensor([len(text) + 1])
            logits = reader(hyps, lens, hidden[None], torch.ones(1, 1, len(hidden)))[0]
            rows = logits.log_softmax(-1)
            found.append(sum(rows[place, unit].item() for place, unit in enumerate([*text, EDGE])))
        return (1 - REVERSE_WEIGHT) * found[0] + REVERSE_WEIGHT * found[1]


def nothing(batch: int, frames: int) -> Tensor:
    return torch.zeros(batch, HEADS, frames, _WIDTH)


class Recordings(nn.Module):
    def __init__(self, model: U2pp) -> None:
        super().__init__()
        self.model = model

    def forward(self, speech: Tensor, speech_lengths: Tensor) -> tuple[Tensor, ...]:
        x = self.model.embedded(speech)
        count, batch = x.shape[1], x.shape[0]
        lens = (speech_lengths - CONTEXT) // 4 + 1
        mask = (torch.arange(count).unsqueeze(0) < lens.unsqueeze(1)).unsqueeze(1)
        x = x + positions(0, count)
        for layer in self.model.layers:
            seen = x.new_zeros(batch, HEADS, 0, _WIDTH)
            x, _, _ = layer(x, mask, seen, x.new_zeros(batch, SIZE, KERNEL - 1))
        log_probs = self.model.log_probs(x)
        best, units = log_probs.topk(BEAM, dim=2)
        return x, lens.int(), log_probs, best, units


class Live(nn.Module):
    def __init__(self, model: U2pp, has_all: bool) -> None:
        super().__init__()
        self.model, self.has_all = model, has_all

    def forward(
        self,
        chunk_xs: Tensor,
        chunk_lens: Tensor,
        offset: Tensor,
        att_cache: Tensor,
        cnn_cache: Tensor,
        cache_mask: Tensor,
    ) -> tuple[Tensor, ...]:
        x = self.model.embedded(chunk_xs)
        is_there = torch.arange(CHUNK).unsqueeze(0) * 4 + CONTEXT <= chunk_lens.unsqueeze(1)
        mask = torch.cat([cache_mask, is_there.unsqueeze(1).to(x.dtype)], 2)
        x = x + positions(offset, CHUNK)
        seen, heard = [], []
        for number, layer in enumerate(self.model.layers):
            x, one, other = layer(x, mask, att_cache[:, number], cnn_cache[:, number])
            seen.append(one[:, :, -_CACHE:])
            heard.append(other)
        log_probs = self.model.log_probs(x)
        of_units = (log_probs,) if self.has_all else log_probs.topk(BEAM, dim=2)
        return (
            *(*of_units, x, chunk_lens // 4, offset + CHUNK),
            *(torch.stack(seen, 1), torch.stack(heard, 1), mask[:, :, -_CACHE:]),
        )


class Ranking(nn.Module):
    def __init__(self, model: U2pp, reverse_weight: float) -> None:
        super().__init__()
        self.model, self.share = model, reverse_weight

    def forward(
        self,
        encoder_out: Tensor,
        encoder_out_lens: Tensor,
        hyps_pad_sos_eos: Tensor,
        hyps_lens_sos: Tensor,
        r_hyps_pad_sos_eos: Tensor,
        ctc_score: Tensor,
    ) -> Tensor:
        batch, frames, _ = encoder_out.shape
        memory = encoder_out.repeat(1, BEAM, 1).view(batch * BEAM, frames, SIZE)
        is_there = torch.arange(frames).unsqueeze(0) < encoder_out_lens.unsqueeze(1)
        mask = is_there.repeat(1, BEAM).view(batch * BEAM, 1, frames)
        lens = hyps_lens_sos.view(-1)

        def sums(reader: Reader, padded: Tensor) -> Tensor:
            hyps = padded.view(batch * BEAM, -1)
            log_probs: Tensor = reader(hyps[:, :-1], lens, memory, mask).log_softmax(-1)
            of_units = log_probs.gather(2, hyps[:, 1:].unsqueeze(2)).squeeze(2)
            is_text = torch.arange(of_units.shape[1]).unsqueeze(0) < lens.unsqueeze(1)
            return (of_units * is_text).sum(1).view(batch, BEAM)

        score = sums(self.model.left, hyps_pad_sos_eos)
        if self.share:
            score = (1 - self.share) * score + self.share * sums(
                self.model.right, r_hyps_pad_sos_eos
            )
        return torch.argmax(score + CTC_WEIGHT * ctc_score, dim=1)


class Chunk(nn.Module):
    """The encoder of the export for CPUs."""

    def __init__(self, model: U2pp, left: int) -> None:
        super().__init__()
        self.model, self.left = model, left

    def forward(
        self,
        chunk: Tensor,
        offset: Tensor,
        required_cache_size: Tensor,
        att_cache: Tensor,
        cnn_cache: Tensor,
        att_mask: Tensor,
    ) -> tuple[Tensor, ...]:
        x = self.model.embedded(chunk)
        count = x.shape[1]
        x = x + positions(offset, count)
        keys = att_cache.shape[2] + count
        mask = att_mask[:, :, :keys] if self.left > 0 else x.new_ones(1, 1, keys)
        seen, heard = [], []
        for number, layer in enumerate(self.model.layers):
            x, one, other = layer(x, mask, att_cache[number : number + 1], cnn_cache[number])
            seen.append(one[0, :, keys - required_cache_size :] if self.left > 0 else one[0])
            heard.append(other)
        return x, torch.stack(seen), torch.stack(heard)


class Ctc(nn.Module):
    def __init__(self, model: U2pp) -> None:
        super().__init__()
        self.model = model

    def forward(self, hidden: Tensor) -> Tensor:
        return self.model.log_probs(hidden)


class Scores(nn.Module):
    """The decoder of the export for CPUs."""

    def __init__(self, model: U2pp) -> None:
        super().__init__()
        self.model = model

    def forward(self, hyps: Tensor, hyps_lens: Tensor, encoder_out: Tensor) -> tuple[Tensor, ...]:
        count, most = hyps.shape
        memory = encoder_out.repeat(count, 1, 1)
        mask = torch.ones(count, 1, encoder_out.shape[1])
        place = (hyps_lens.unsqueeze(1) - 1) - torch.arange(most - 1).unsqueeze(0)
        is_text = place > 0
        turned = hyps.gather(1, place * is_text)
        turned = torch.where(is_text, turned, torch.full_like(turned, EDGE))
        turned = torch.cat([hyps[:, :1], turned], 1)
        found = (
            self.model.left(hyps, hyps_lens, memory, mask),
            self.model.right(turned, hyps_lens, memory, mask),
        )
        return tuple(item.log_softmax(-1) for item in found)


def export(module: nn.Module, path: Path, inputs: dict[str, Any], outputs: str, axes: Any) -> None:
    """Export as WeNet's scripts do, by the old exporter, which warns of itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            str(path),
            dynamo=False,
            opset_version=14,
            input_names=[*inputs],
            output_names=outputs.split(),
            dynamic_axes=axes,
        )


def gpu(
    folder: Path, model: U2pp, *, is_live: bool, has_all: bool = False, share: float = 0.3
) -> Path:
    """Write what `export_onnx_gpu.py` writes, and the units; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    config: dict[str, Any] = {"beam_size": BEAM, "fp16": False}
    if is_live:
        inputs = {
            "chunk_xs": torch.randn(3, 4 * CHUNK + 3, MELS),
            "chunk_lens": torch.full((3,), 4 * CHUNK + 3, dtype=torch.int32),
            "offset": torch.arange(3).unsqueeze(1),
            "att_cache": torch.randn(3, LAYERS, HEADS, _CACHE, _WIDTH),
            "cnn_cache": torch.randn(3, LAYERS, SIZE, KERNEL - 1),
            "cache_mask": torch.ones(3, 1, _CACHE),
        }
        outputs = "ctc_log_probs" if has_all else "log_probs log_probs_idx"
        outputs += " chunk_out chunk_out_lens r_offset r_att_cache r_cnn_cache r_cache_mask"
        axes = {name: {0: "B"} for name in (*inputs, *outputs.split())}
        export(Live(model, has_all), folder / "encoder.onnx", inputs, outputs, axes)
        config |= {"subsampling_rate": 4, "context": CONTEXT, "decoding_chunk_size": CHUNK}
        config |= {"num_decoding_left_chunks": LEFT, "decoding_window": 4 * CHUNK + 3}
    else:
        speech = {
            "speech": torch.randn(3, 60, MELS),
            "speech_lengths": torch.tensor([60, 50, 40], dtype=torch.int32),
        }
        outputs = "encoder_out encoder_out_lens ctc_log_probs beam_log_probs beam_log_probs_idx"
        axes = {"speech": {0: "B", 1: "T"}, "speech_lengths": {0: "B"}}
        axes |= {name: {0: "B", 1: "T_OUT"} for name in outputs.split()}
        axes["encoder_out_lens"] = {0: "B"}
        export(Recordings(model), folder / "encoder.onnx", speech, outputs, axes)
        config |= {"reverse_weight": share, "ctc_weight": CTC_WEIGHT}
    padded = torch.randint(2, EDGE, (3, BEAM, 9))
    ranked = {
        "encoder_out": torch.randn(3, 20, SIZE),
        "encoder_out_lens": torch.tensor([20, 15, 10], dtype=torch.int32),
        "hyps_pad_sos_eos": padded,
        "hyps_lens_sos": torch.randint(3, 9, (3, BEAM), dtype=torch.int32),
        "r_hyps_pad_sos_eos": padded,
        "ctc_score": torch.randn(3, BEAM),
    }
    axes = {name: {0: "B"} for name in (*ranked, "best_index")}
    axes["encoder_out"][1] = "T"
    axes["hyps_pad_sos_eos"][2] = axes["r_hyps_pad_sos_eos"][2] = "T2"
    export(Ranking(model, share), folder / "decoder.onnx", ranked, "best_index", axes)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return _with_units(folder)


def cpu(folder: Path, model: U2pp, chunk: int = CHUNK, left: int = LEFT) -> Path:
    """Write what `export_onnx_cpu.py` writes, and the units; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    cache = chunk * left if left > 0 else 0
    inputs = {
        "chunk": torch.randn(1, 4 * CHUNK + 3, MELS),
        "offset": torch.tensor(cache),
        "required_cache_size": torch.tensor(cache),
        "att_cache": torch.zeros(LAYERS, HEADS, cache, _WIDTH),
        "cnn_cache": torch.zeros(LAYERS, 1, SIZE, KERNEL - 1),
        "att_mask": torch.ones(1, 1, cache + CHUNK, dtype=torch.bool),
    }
    axes = {"chunk": {1: "T"}, "att_cache": {2: "T_CACHE"}, "att_mask": {2: "T_ADD_T_CACHE"}}
    axes |= {"output": {1: "T"}, "r_att_cache": {2: "T_CACHE"}}
    path = folder / "encoder.onnx"
    export(Chunk(model, left), path, inputs, "output r_att_cache r_cnn_cache", axes)
    written = onnx.load(path)
    known = {
        "batch": 1,
        "chunk_size": chunk,
        "left_chunks": left,
        "output_size": SIZE,
        "reverse_weight": REVERSE_WEIGHT,
        "num_blocks": LAYERS,
        "cnn_module_kernel": KERNEL,
        "head": HEADS,
        "feature_size": MELS,
        "vocab_size": UNITS,
        "subsampling_rate": 4,
        "right_context": CONTEXT - 1,
        "sos_symbol": EDGE,
        "eos_symbol": EDGE,
        "is_bidirectional_decoder": 1,
    }
    onnx.helper.set_model_props(written, {key: str(value) for key, value in known.items()})
    onnx.save(written, path)
    axes = {"hidden": {1: "T"}, "probs": {1: "T"}}
    hidden = {"hidden": torch.randn(1, CHUNK, SIZE)}
    export(Ctc(model), folder / "ctc.onnx", hidden, "probs", axes)
    hypotheses = {
        "hyps": torch.randint(2, EDGE, (3, 7)),
        "hyps_lens": torch.tensor([7, 5, 6]),
        "encoder_out": torch.randn(1, 20, SIZE),
    }
    axes = {"hyps": {0: "NBEST", 1: "L"}, "hyps_lens": {0: "NBEST"}, "encoder_out": {1: "T"}}
    axes |= {name: {0: "NBEST", 1: "L"} for name in ("score", "r_score")}
    export(Scores(model), folder / "decoder.onnx", hypotheses, "score r_score", axes)
    return _with_units(folder)


def _with_units(folder: Path) -> Path:
    lines = [f"{text} {unit}\n" for unit, text in enumerate(symbols())]
    (folder / "units.txt").write_text("".join(lines), "utf-8")
    return folder

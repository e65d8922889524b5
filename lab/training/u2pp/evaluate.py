"""Print word error rates of an exported folder by Conch, beside WeNet's own searches in PyTorch.

    git clone https://github.com/wenet-e2e/wenet clones/wenet
    python -m lab.training.u2pp.evaluate runs/u2pp/final.pt u2pp-gpu \
        --manifest speech/manifest.tsv --wenet clones/wenet

The frames for WeNet's searches are those of the checkpoint, by whole utterances at once. Each row
of Conch counts the texts that differ from WeNet's. Where the folder hears live audio, it gets that.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch
from torch import Tensor

from conch.component import Component, Outputs, Row
from conch.component.arrays import FloatArray
from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.search.graphs import DecoderConfig, LiveConfig, RecordingsConfig
from conch.families.wenet.declaration import FRAMES, RESCORE
from conch.families.wenet.decoder import WenetDecoder
from conch.families.wenet.encoder import WenetEncoder, WenetStreamingEncoder
from conch.families.wenet.folder import read_wenet
from lab.training.ctc.data import some_utterances
from lab.training.ctc.evaluate import Table
from lab.training.transducer.units import text_of
from lab.training.u2pp.export import BEAM_SIZE, CTC_WEIGHT, Scores
from lab.training.u2pp.features import fbank_of
from lab.training.u2pp.model import REVERSE_WEIGHT, U2pp, load
from lab.waveforms import waveform_of

_PIECE = 5_120
"""Samples of a piece of live audio."""
_TTL_S = 90.0


def main(arguments: list[str] | None = None) -> None:
    """Evaluate as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("checkpoint", type=Path)
    add("folder", type=Path, help="an export of the checkpoint")
    add("--manifest", type=Path, required=True)
    add("--wenet", type=Path, required=True, help="a clone of WeNet")
    add("--split", default="dev")
    add("--limit", type=int, help="utterances, evenly taken; all if left out")
    add("--beam", type=int, nargs="*", default=[16], help="beam_size of Conch; WeNet's is 10")
    args = parser.parse_args(arguments)
    model, tokenizer = load(args.checkpoint)
    utterances = some_utterances(args.manifest, args.split, args.limit)
    waveforms = [waveform_of(item.path) for item in utterances]
    table = Table([item.source for item in utterances], [item.text for item in utterances])
    print(table.head)

    is_live = read_wenet(args.folder).hears_live
    heard = [heard_of(model, waveform, is_whole=not is_live) for waveform in waveforms]
    found = [*map(Searches(model, args.wenet), heard)]
    expected = {
        name: [text_of(tokenizer, units[name]) for units in found]
        for name in ("greedy", "beam", "rescored")
    }
    for name, texts in expected.items():
        print(table.row(f"WeNet, {name}", texts), flush=True)

    name = str(args.folder)
    encoder: Component = WenetEncoder(RecordingsConfig(model=name))
    searcher = WenetDecoder(DecoderConfig(model=name))
    decoder: Component = searcher
    if is_live:
        encoder = WenetStreamingEncoder(LiveConfig(model=name))
        decoder = StreamingDecoder(searcher, _TTL_S)
    frames = [
        [replace(row, inputs=only(encoder, row)) for row in rows_of(waveform, stream, is_live)]
        for stream, waveform in enumerate(waveforms, 1)
    ]
    asked: list[tuple[str, dict[str, Any]]] = [("greedy", {"beam_size": 1})]
    for size in args.beam:
        asked += [("beam", {"beam_size": size}), ("rescored", {"beam_size": size, RESCORE: True})]
    for search, parameters in asked:
        texts = []
        for rows in frames:
            for row in rows:
                last = only(decoder, replace(row, parameters=parameters))
            texts.append(last["hypotheses"][0].decode())
        differ = sum(a != b for a, b in zip(texts, expected[search], strict=True))
        how = f"Conch, {search} ({parameters['beam_size']}): {differ} differ"
        print(table.row(how, texts), flush=True)
    print(f"log probabilities differ by {most_different(model, heard, frames):.1e} at most")


@torch.inference_mode()
def heard_of(model: U2pp, waveform: FloatArray, *, is_whole: bool) -> Tensor:
    """Return the frames of a waveform by PyTorch, float32 `[1, T, size]`."""
    fbank = torch.from_numpy(fbank_of(waveform))[None]
    return model.heard(fbank, torch.tensor([fbank.shape[1]]), is_whole=is_whole)


class Searches:
    """The searches of WeNet, over the frames of a recording."""

    ignore_id = -1

    def __init__(self, model: U2pp, clone: Path) -> None:
        """Load WeNet's module of searches, without what else it would import."""
        for name in ("whisper", "whisper.tokenizer", "torchaudio", "torchaudio.functional"):
            sys.modules[name] = MagicMock()
        package = ModuleType("wenet")
        package.__path__ = [str(clone / "wenet")]
        sys.modules["wenet"] = package
        self._search = importlib.import_module("wenet.models.transformer.search")
        self._model, self._scores = model, Scores(model)

    @torch.inference_mode()
    def __call__(self, heard: Tensor) -> dict[str, list[int]]:
        """Return the units of the best path, of the prefix beam search, and by attention."""
        log_probs, lens = self._model.log_probs(heard), torch.tensor([heard.shape[1]])
        (greedy,) = self._search.ctc_greedy_search(log_probs, lens)
        nbest = self._search.ctc_prefix_beam_search(log_probs, lens, BEAM_SIZE)
        (rescored,) = self._search.attention_rescoring(
            self, nbest, heard, lens, CTC_WEIGHT, REVERSE_WEIGHT
        )
        found = {"greedy": greedy, "beam": nbest[0], "rescored": rescored}
        return {name: list(result.tokens) for name, result in found.items()}

    def sos_symbol(self) -> int:
        """Return the unit in front of a text; WeNet asks its models."""
        return self._model.edge

    eos_symbol = sos_symbol

    def forward_attention_decoder(
        self, hyps: Tensor, lens: Tensor, encoder_out: Tensor, reverse_weight: float
    ) -> tuple[Tensor, ...]:
        """Return log probabilities of both readers; WeNet asks its models."""
        return tuple(self._scores(hyps, lens, encoder_out))


def rows_of(waveform: FloatArray, stream: int, is_live: bool) -> list[Row]:
    """Return a waveform as an encoder gets it: in pieces if it is live."""
    size = _PIECE if is_live else len(waveform)
    return [
        Row(
            inputs={"waveform": waveform[start : start + size]},
            stream_id=stream,
            starts=start == 0,
            ends=start + size >= len(waveform),
        )
        for start in range(0, len(waveform), size)
    ]


def only(component: Component, row: Row) -> Outputs:
    """Return the outputs of one row."""
    (found,) = component([row])
    assert not isinstance(found, Exception), found
    return found


def most_different(model: U2pp, heard: Sequence[Tensor], frames: Sequence[Sequence[Row]]) -> float:
    """Return the largest difference of the ten best log probabilities of frames."""
    found = []
    for item, rows in zip(heard, frames, strict=True):
        with torch.inference_mode():
            best = model.log_probs(item)[0].topk(BEAM_SIZE, 1)
        # A piece without a frame has no width.
        pieces = [row.inputs[FRAMES] for row in rows if len(row.inputs[FRAMES])]
        others = np.take_along_axis(np.concatenate(pieces), best.indices.numpy(), 1)
        found.append(np.abs(others - best.values.numpy()).max())
    return float(max(found))


if __name__ == "__main__":
    main()

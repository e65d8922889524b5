"""Conch's components of a folder, in this process and without a server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from conch.component import FloatArray, Outputs, Row
from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.ctc.decoder import CtcDecoder, CtcDecoderConfig, CtcStreamingDecoderConfig
from conch.families.ctc.encoder import (
    CtcEncoder,
    CtcEncoderConfig,
    CtcStreamingEncoderConfig,
    streaming_encoder,
)
from conch.families.funasr.online import (
    OnlineDecoderConfig,
    OnlineEncoder,
    OnlineParaformerComponent,
    UnitSearcher,
)
from conch.families.funasr.paraformer import ParaformerComponent
from conch.families.funasr.sense_voice import SenseVoiceComponent
from conch.families.search.graphs import DecoderConfig, FolderConfig, LiveConfig, RecordingsConfig
from conch.families.transducer import decoder as transducer
from conch.families.transducer.networks import TransducerEncoder, TransducerStreamingEncoder


def _live(searcher: Callable[[Any], Any]) -> Callable[[Any], StreamingDecoder[Any]]:
    return lambda config: StreamingDecoder(searcher(config), config.stream_ttl_s)


_Parts = Mapping[str, Sequence[tuple[Any, Any]]]
"""Components and their parameters, in the order of a request, by the kind of folder."""
_OF_RECORDINGS: _Parts = {
    "transducer": (
        (TransducerEncoder, RecordingsConfig),
        (transducer.TransducerDecoder, transducer.TransducerDecoderConfig),
    ),
    "ctc": ((CtcEncoder, CtcEncoderConfig), (CtcDecoder, CtcDecoderConfig)),
    "sensevoice": ((SenseVoiceComponent, FolderConfig),),
    "paraformer": ((ParaformerComponent, DecoderConfig),),
    "paraformer_online": ((OnlineParaformerComponent, DecoderConfig),),
}
_LIVE: _Parts = {
    "transducer": (
        (TransducerStreamingEncoder, LiveConfig),
        (_live(transducer.TransducerDecoder), transducer.TransducerStreamingDecoderConfig),
    ),
    "ctc": (
        (streaming_encoder, CtcStreamingEncoderConfig),
        (_live(CtcDecoder), CtcStreamingDecoderConfig),
    ),
    "paraformer_online": (
        (OnlineEncoder, LiveConfig),
        (_live(UnitSearcher), OnlineDecoderConfig),
    ),
}
MODELS = tuple(_OF_RECORDINGS)
_TOGETHER = 8
"""Recordings of a batch, or streams side by side."""


def recorded(
    model: str,
    folder: Path,
    waveforms: Sequence[FloatArray],
    beam_sizes: Sequence[int] = (1,),
    language: str = "auto",
) -> dict[int, list[Outputs]]:
    """Return what is found in recordings, float32 `[samples]`, for each beam size."""
    parts = _opened(_OF_RECORDINGS[model], folder)
    return _answers(parts, waveforms, max(map(len, waveforms)), beam_sizes, language)


def live(
    model: str,
    folder: Path,
    waveforms: Sequence[FloatArray],
    step: int,
    beam_sizes: Sequence[int] = (1,),
    language: str = "auto",
) -> dict[int, list[Outputs]]:
    """Return the last answers of streams that send `step` samples at a time, as `recorded`."""
    parts = _opened(_LIVE[model], folder)
    results = _answers(parts, waveforms, step, beam_sizes, language)
    for part in parts:
        part.close()
    return results


def _answers(
    parts: Sequence[Any],
    waveforms: Sequence[FloatArray],
    step: int,
    beam_sizes: Sequence[int],
    language: str,
) -> dict[int, list[Outputs]]:
    results: dict[int, list[Outputs]] = {beam_size: [] for beam_size in beam_sizes}
    for first in range(0, len(waveforms), _TOGETHER):
        some = waveforms[first : first + _TOGETHER]
        last: dict[tuple[int, int | str], Outputs] = {}
        for start in range(0, max(map(len, some)), step):
            rows = [
                Row(
                    {"waveform": item[start : start + step]},
                    {"is_over": start + step >= len(item), "language": language},
                    stream_id=number,
                    starts=start == 0,
                    ends=start + step >= len(item),
                )
                for number, item in enumerate(some, 1)
                if start < len(item)
            ]
            for beam_size, answers in _answered(parts, rows, beam_sizes).items():
                for row, answer in zip(rows, answers, strict=True):
                    last[beam_size, row.stream_id] = answer
        for beam_size, outputs in results.items():
            outputs += [last[beam_size, number] for number in range(1, len(some) + 1)]
    return results


def text_of(outputs: Outputs) -> str:
    return str(outputs["hypotheses"][0].decode())


def words_of(outputs: Outputs, name: str) -> FloatArray:
    """Return `word_starts` or another tensor of words, for those of the best text."""
    counts = outputs.get("num_words", np.array([len(outputs[name])]))
    return np.asarray(outputs[name][: counts[0]])


def _opened(parts: Sequence[tuple[Any, Any]], folder: Path) -> list[Any]:
    opened = []
    for component, config in parts:
        values: dict[str, Any] = {"model": str(folder)}
        if any(item.name == "intra_threads" for item in fields(config)):
            values["intra_threads"] = 1
        opened.append(component(config(**values)))
    return opened


def _answered(
    components: Sequence[Any], rows: Sequence[Row], beam_sizes: Sequence[int]
) -> dict[int, list[Outputs]]:
    """Return the answers of the last component, which has its own streams for each beam size."""
    *before, last = components
    for component in before:
        rows = [
            replace(row, inputs=answer)
            for row, answer in zip(rows, _checked(component(rows)), strict=True)
        ]
    results = {}
    for beam_size in beam_sizes:
        requests = [
            replace(
                row,
                parameters={**row.parameters, "beam_size": beam_size},
                stream_id=f"{row.stream_id} by {beam_size}",
            )
            for row in rows
        ]
        results[beam_size] = _checked(last(requests))
    return results


def _checked(answers: Sequence[Outputs | Exception]) -> list[Outputs]:
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return [answer for answer in answers if not isinstance(answer, Exception)]

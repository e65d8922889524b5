"""Made turns, spoken to a real server in real time: when does it end them?"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conch.bench.load import closed_loop
from conch.client import AsyncClient
from conch.component import SAMPLE_RATE
from conch.wire.errors import BenchError
from conch.wire.result import Segment
from lab.endpoints.made_turns import MadeTurn
from lab.pacing import paced

CHUNK_S = 0.1
PAD_S = 0.35
"""Audio that an utterance keeps behind its last word, and a frame of the VAD."""


@dataclass(frozen=True, slots=True)
class ServedFigures:
    options: Mapping[str, Any]
    turns: int
    cuts: float
    """Share of the turns that were cut in mid-sentence."""
    median_s: float
    """Delay from the last word to the answer with the end of the turn."""
    mean_s: float


@dataclass(frozen=True, slots=True)
class _Spoken:
    is_cut: bool
    delay_s: float


async def spoken(
    url: str, turns: Sequence[MadeTurn], options: Mapping[str, Any], streams: int
) -> ServedFigures:
    """Speak turns to a server, `streams` at a time, and return what it did."""
    async with AsyncClient(url) as client:

        async def send(index: int) -> _Spoken:
            return await _speak(client, turns[index], options)

        load = await closed_loop(send, len(turns), streams)
    outcomes = sorted(load.outcomes, key=lambda item: item.index)
    answers = [item.answer for item in outcomes if item.answer is not None]
    if len(answers) < len(turns):
        raise BenchError(next(item.error for item in outcomes if item.error))
    return ServedFigures(
        options,
        len(turns),
        sum(item.is_cut for item in answers) / len(turns),
        float(np.median([item.delay_s for item in answers])),
        float(np.mean([item.delay_s for item in answers])),
    )


async def _speak(client: AsyncClient, turn: MadeTurn, options: Mapping[str, Any]) -> _Spoken:
    begun, last = time.perf_counter(), turn.pauses[-1].start / SAMPLE_RATE
    ended: dict[int, Segment] = {}
    delay_s = (len(turn.waveform) / SAMPLE_RATE) - last
    async with client.live(**options) as stream:
        async for chunk in paced(turn.waveform, SAMPLE_RATE, CHUNK_S, begun):
            answer = await stream.send(chunk)
            ended |= {item.index: item for item in answer.segments}
            if any(item.end > last for item in ended.values()):
                delay_s = min(delay_s, time.perf_counter() - begun - last)
        final = await stream.finish()
    ends = [item.end for item in final.segments if item.endpoint == "silence"]
    starts = [item.start / SAMPLE_RATE for item in turn.pauses if item.position == "inside"]
    is_cut = any(start <= end < start + PAD_S for start in starts for end in ends)
    return _Spoken(is_cut, delay_s)

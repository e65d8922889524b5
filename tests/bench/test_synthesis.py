"""Whether a player runs dry, and the table."""

import asyncio
from typing import Any, cast

import numpy as np
import pytest

from conch.bench.figures import latency_ms
from conch.bench.header import header
from conch.bench.synthesis import (
    SynthesisReport,
    SynthesisRun,
    joined_to,
    markdown,
    speak,
    start_differences,
)
from conch.client import AsyncClient, Speech
from conch.wire.result import Word
from conch.wire.synthesis import Spoken, SpokenWord


class Client:
    """Sends pieces of some seconds, each after a pause on a clock that stands still otherwise."""

    def __init__(self, *pieces: tuple[float, float]) -> None:
        self.pieces = pieces

    async def synthesize_stream(self, text: str, **options: Any):
        audio_s = 0.0
        for pause_s, seconds in self.pieces:
            await asyncio.sleep(pause_s)
            audio_s += seconds
            yield Speech(np.zeros(1, np.float32), b"", Spoken(audio_s, 24_000, "hibari"))


def test_a_piece_that_comes_after_the_sound_before_it_is_late() -> None:
    async def listened(*pieces: tuple[float, float]) -> float:
        return (await speak(cast(AsyncClient, Client(*pieces)), "Hi.", {})).late_s

    assert asyncio.run(listened((0, 100.0), (0, 1.0))) == 0
    assert asyncio.run(listened((0, 0.0), (0.01, 1.0))) >= 0.01


def test_texts_are_joined_to_a_length() -> None:
    assert joined_to(["one", "two", "three", "four"], 7) == ["one two", "three four"]
    assert joined_to(["one", "two"], 0) == ["one", "two"]


def test_starts_of_words_that_both_have_are_compared() -> None:
    spoken = [SpokenWord(text, start, start + 0.1) for text, start in (("One", 0.0), ("2", 1.0))]
    spoken.append(SpokenWord("«It's,", 2.0, 2.5))
    recognised = [
        Word("one,", 0.1, 0.2, 1.0),
        Word("two", 1.1, 1.2, 1.0),
        Word("it's", 2.3, 2.5, 1.0),
    ]
    assert start_differences(spoken, recognised) == pytest.approx([0.1, 0.3])


def test_the_table_has_a_row_for_each_run() -> None:
    run = SynthesisRun(
        load="closed loop, 8",
        texts=20,
        errors=1,
        first_audio_ms=latency_ms([0.1, 0.2]),
        behind=3,
        audio_s=100.0,
        rtfx=45.2,
        cpu_share=0.018,
        wer=0.02,
        word_times_ms=12.34,
    )
    report = SynthesisReport(header=header("synthesis", run).with_triton("2.51.0"), runs=[run])
    row = markdown(report).splitlines()[2]
    assert row == "| closed loop, 8 | 150.0 | 199.0 | 3 of 20 | 45.2 | 0.0180 | 2.00 | 12.3 | 1 |"

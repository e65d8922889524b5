"""Chunks of a sentence, by brute force."""

import pytest

from conch.families import voices
from conch.synthesis.speaking import Growth, VocoderChunk

HIBARI = voices()["hibari"]


@pytest.mark.parametrize("frames", [*range(1, 120), 500, 1201])
@pytest.mark.parametrize("first", [1, 4, 16])
def test_chunks_cover_every_frame_once_with_their_context(frames: int, first: int) -> None:
    before, after = 3, 5
    growth = Growth(first, 60, 3)
    chunks = list(growth.chunks(frames, before, after))
    assert [frame for item in chunks for frame in range(item.start, item.end)] == [*range(frames)]
    for item in chunks:
        wanted = {
            near
            for frame in range(item.start, item.end)
            for near in range(frame - before, frame + after + 1)
            if 0 <= near < frames
        }
        assert {*range(item.first, item.last)} == wanted
        assert item.end - item.start <= 90
    lengths = [item.end - item.start for item in chunks]
    assert lengths[0] <= max(first * 3 // 2, 1)
    assert growth.frames <= 60


def test_the_first_chunk_is_short_and_the_next_sentence_goes_on_growing() -> None:
    growth = Growth.of(HIBARI)
    assert next(growth.chunks(1000, 28, 29)) == VocoderChunk(0, 16, 0, 45)
    lengths = [item.end - item.start for item in Growth.of(HIBARI).chunks(1000, 0, 0)]
    assert lengths == [16, 48, 144, 240, 240, 312]
    growth = Growth.of(HIBARI)
    for _ in growth.chunks(64, 0, 0):
        pass
    assert [item.end - item.start for item in growth.chunks(300, 0, 0)] == [144, 156]

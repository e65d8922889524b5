"""Live chunks: flags, ids, sessions, rates and lengths in any order."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from lab.chaos.answers import Answer
from lab.chaos.doors.target import Target
from lab.chaos.doors.triton_grpc import message, unary
from lab.chaos.drawn import HUGE, TEXTS, options, samples

IDS = (1, 2, 3, "one", "two")
"""Few, so that scripts take each other's streams."""


@dataclass(frozen=True, slots=True)
class ChunkScript:
    chunks: Sequence[bytes]

    async def send(self, target: Target) -> list[Answer]:
        return [await unary(target, chunk) for chunk in self.chunks]


@st.composite
def chunk_scripts(draw: st.DrawFn) -> ChunkScript:
    """Return one to four chunks; about half of the scripts begin and end a stream."""
    stream_id = draw(st.sampled_from(IDS))
    count = draw(st.integers(1, 4))
    chosen = draw(options())
    chunks = []
    for number in range(count):
        starts = draw(st.sampled_from([number == 0] * 5 + [number != 0]))
        ends = draw(st.sampled_from([number == count - 1] * 5 + [number != count - 1]))
        sequence: dict[str, Any] = {"sequence_id": stream_id, "sequence_start": starts}
        sequence |= {"sequence_end": ends}
        if draw(st.integers(0, 4)) == 0:
            sequence["session"] = draw(st.sampled_from(["a", "b", 5, ""]))
        if draw(st.integers(0, 9)) == 0:
            sequence["sequence_id"] = draw(st.sampled_from([*HUGE[:4], -5, *TEXTS[:4]]))
        sent_options = chosen if starts or draw(st.integers(0, 9)) == 0 else {}
        request = message("speech", draw(_tensors()), {**sent_options, **sequence})
        chunks.append(request.SerializeToString(deterministic=True))
    return ChunkScript(chunks)


@st.composite
def _tensors(draw: st.DrawFn) -> dict[str, tuple[str, list[int], bytes]]:
    data = draw(samples())
    if draw(st.booleans()):
        tensors = {"WAV": ("FP32", [1, len(data)], struct.pack(f"<{len(data)}f", *data))}
    else:
        whole = [int(max(-1, min(value, 1)) * 32_767) if value == value else 0 for value in data]
        tensors = {"PCM16": ("INT16", [1, len(data)], struct.pack(f"<{len(data)}h", *whole))}
    if draw(st.integers(0, 2)) == 0:
        length = draw(st.sampled_from([0, len(data), len(data) + 1, -1, 2**31 - 1]))
        tensors["WAV_LENS"] = ("INT32", [1, 1], struct.pack("<i", length))
    if draw(st.integers(0, 2)) == 0:
        rate = draw(st.sampled_from([16_000, 8_000, 44_100, 4_000, 192_000, 3_999, 0, -1]))
        tensors["SAMPLE_RATE"] = ("INT32", [1, 1], struct.pack("<i", rate))
    return tensors

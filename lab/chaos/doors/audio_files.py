"""Files: whole, cut, flipped, joined and mere bytes, to Triton and to the gateway."""

import random
import struct
from dataclasses import dataclass

from hypothesis import strategies as st

from lab.chaos.answers import Answer
from lab.chaos.doors.target import Target, transcribed
from lab.chaos.doors.triton_grpc import message, unary
from lab.chaos.speech import FFMPEG, LIBSNDFILE, files

MEDIA = ("audio/wav", "audio/mpeg", "application/octet-stream", "text/html", "x")


HEAD_BYTES = 400
"""Of a file: where most numbers of its header are."""
NUMBERS = (0, 1, 7, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1)


@dataclass(frozen=True, slots=True)
class Damage:
    container: str
    """Name of a file of `lab.chaos.speech`, `noise`, or `text`."""
    cut: float = 1.0
    """What is left of it."""
    flips: int = 0
    """Bits that are turned, at random places."""
    number: int = 0
    """Seed of all that is random."""
    head: str = ""
    """Name of a file whose first 64 bytes are put in place of its own."""
    swaps: int = 0
    """Times that two blocks change places."""
    forged: int = 0
    """Numbers of four bytes that are written into its header."""
    joined: str = ""
    """Name of a file that follows."""

    def data(self) -> bytes:
        rng = random.Random(self.number)
        if self.container == "noise":
            whole = rng.randbytes(4_000)
        elif self.container == "text":
            whole = b"#EXTM3U\nconcat:/etc/passwd\n" * 50
        else:
            whole = files()[self.container]
        if self.head:
            whole = files()[self.head][:64] + whole[64:]
        damaged = bytearray(whole[: round(len(whole) * self.cut)])
        for _ in range(self.flips if damaged else 0):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        for _ in range(self.forged):
            at = rng.randrange(min(HEAD_BYTES, len(damaged) + 1))
            order = rng.choice("<>")
            damaged[at : at + 4] = struct.pack(f"{order}I", rng.choice(NUMBERS))
        for _ in range(self.swaps):
            size = rng.randrange(len(damaged) // 2 + 1)
            one, other = rng.randrange(size + 1), len(damaged) - size
            first, last = damaged[one : one + size], damaged[other:]
            damaged[one : one + size], damaged[other:] = last, first
        return bytes(damaged) + (files()[self.joined] if self.joined else b"")


@dataclass(frozen=True, slots=True)
class FileCall:
    """A file through Triton's gRPC, or through the gateway's form."""

    file: Damage
    is_for_gateway: bool
    media: str = "audio/wav"

    async def send(self, target: Target) -> list[Answer]:
        data = self.file.data()
        if self.is_for_gateway:
            return [await transcribed(target, data, self.media)]
        element = struct.pack("<I", len(data)) + data
        request = message("speech", {"AUDIO": ("BYTES", [1, 1], element)}, {})
        return [await unary(target, request.SerializeToString())]


def damages() -> st.SearchStrategy[Damage]:
    containers = (*LIBSNDFILE, *FFMPEG)
    few = st.one_of(st.just(0), st.integers(1, 4))
    return st.builds(
        Damage,
        container=st.sampled_from([*containers, *containers, "noise", "text"]),
        cut=st.one_of(st.just(1.0), st.floats(0, 1)),
        flips=st.one_of(st.just(0), st.integers(0, 200)),
        number=st.integers(0, 2**32),
        head=st.sampled_from(["", "", "", *containers]),
        swaps=few,
        forged=few,
        joined=st.sampled_from(["", "", "", *containers]),
    )


def file_calls() -> st.SearchStrategy[FileCall]:
    return st.builds(
        FileCall, file=damages(), is_for_gateway=st.booleans(), media=st.sampled_from(MEDIA)
    )

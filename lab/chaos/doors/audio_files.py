"""Files: whole, cut, flipped, joined and mere bytes, to Triton and to the gateway."""

import random
import struct
from dataclasses import dataclass

import aiohttp
from hypothesis import strategies as st

from lab.chaos.answers import Answer
from lab.chaos.doors.target import Target, answered, post
from lab.chaos.doors.triton_grpc import message, unary
from lab.chaos.speech import FFMPEG, LIBSNDFILE, files

MEDIA = ("audio/wav", "audio/mpeg", "application/octet-stream", "text/html", "x")


@dataclass(frozen=True, slots=True)
class Damage:
    """A file and what is done to it."""

    container: str
    """Name of a file of `lab.chaos.speech`, `noise`, or `text`."""
    cut: float = 1.0
    """What is left of it."""
    flips: int = 0
    """Bits that are turned, at random places."""
    number: int = 0
    """Seed of these places, and of the noise."""
    head: str = ""
    """Name of a file whose first 64 bytes are put in place of its own."""

    def data(self) -> bytes:
        """Return the damaged file."""
        places = random.Random(self.number)
        if self.container == "noise":
            whole = places.randbytes(4_000)
        elif self.container == "text":
            whole = b"#EXTM3U\nconcat:/etc/passwd\n" * 50
        else:
            whole = files()[self.container]
        if self.head:
            whole = files()[self.head][:64] + whole[64:]
        found = bytearray(whole[: round(len(whole) * self.cut)])
        for _ in range(self.flips if found else 0):
            found[places.randrange(len(found))] ^= 1 << places.randrange(8)
        return bytes(found)


@dataclass(frozen=True, slots=True)
class FileCall:
    """A file through Triton's gRPC, or through the gateway's form."""

    file: Damage
    is_for_gateway: bool
    media: str = "audio/wav"

    async def send(self, target: Target) -> list[Answer]:
        """Send the file."""
        data = self.file.data()
        if self.is_for_gateway:
            form = aiohttp.FormData()
            form.add_field("file", data, filename="talk", content_type=self.media)
            url = target.gateway("/v1/audio/transcriptions")
            return [await answered(post(target, url, form, is_gateway=True))]
        element = struct.pack("<I", len(data)) + data
        request = message("speech", {"AUDIO": ("BYTES", [1, 1], element)}, {})
        return [await unary(target, request.SerializeToString())]


def file_calls() -> st.SearchStrategy[FileCall]:
    """Return damaged files of every container."""
    containers = (*LIBSNDFILE, *FFMPEG)
    damage = st.builds(
        Damage,
        container=st.sampled_from([*containers, *containers, "noise", "text"]),
        cut=st.one_of(st.just(1.0), st.floats(0, 1)),
        flips=st.one_of(st.just(0), st.integers(0, 200)),
        number=st.integers(0, 2**32),
        head=st.sampled_from(["", "", "", *containers]),
    )
    return st.builds(
        FileCall, file=damage, is_for_gateway=st.booleans(), media=st.sampled_from(MEDIA)
    )

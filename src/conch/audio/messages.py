"""Messages between a process that decodes and the one that reads from it.

A message is a code of one byte, a length, and that many bytes. Nothing is unpickled: bytes of a
stranger may have taken the decoder over.
"""

import json
import os
import struct
from typing import Any

HEAD = struct.Struct("<cI")
ASK = struct.Struct("<QI")
"""An offset, and how many bytes from there."""

JOB = b"J"
"""To the decoder: a JSON object, the arguments of `conch.audio.intake.DecoderProcess`."""
BYTES = b"B"
"""To the decoder: the bytes that it requested; none at the end of the source."""
WANTED = b"W"
FORM = b"F"
"""From the decoder: a JSON object, the fields of `conch.audio.intake.SampleFormat`."""
SAMPLES = b"S"
DONE = b"D"
"""From the decoder: a JSON list of warnings; the audio has ended."""
ERROR = b"E"
BUSY = b"O"
"""From the process that starts decoders: it could not start one."""
MAX_PAYLOAD = 64 * 2**20


def code_and_size(head: bytes) -> tuple[bytes, int]:
    """Return the code of a message and the bytes of its payload; raise an EOFError if too many."""
    code, size = HEAD.unpack(head)
    if size > MAX_PAYLOAD:
        raise EOFError
    return code, size


class SocketEnd:
    """One end of a socket, as a descriptor: it is closed when it is no longer used."""

    _descriptor = -1

    def __init__(self, descriptor: int) -> None:
        """Take over a blocking end."""
        self._descriptor = descriptor

    def send(self, code: bytes, payload: bytes | bytearray = b"") -> None:
        """Send a message; raise an OSError if the other end is gone."""
        parts: list[memoryview] = [memoryview(HEAD.pack(code, len(payload))), memoryview(payload)]
        while parts:
            sent = os.writev(self._descriptor, parts)
            while parts and sent >= len(parts[0]):
                sent -= len(parts.pop(0))
            if parts:
                parts[0] = parts[0][sent:]

    def send_json(self, code: bytes, value: Any) -> None:
        self.send(code, json.dumps(value).encode())

    def receive(self) -> tuple[bytes, bytes]:
        """Return code and payload of the next message, or raise an EOFError or OSError."""
        code, size = code_and_size(self._exactly(HEAD.size))
        return code, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        view, have = memoryview(data), 0
        while have < size:
            got = os.readv(self._descriptor, [view[have:]])
            if not got:
                raise EOFError
            have += got
        return bytes(data)

    def take(self) -> int:
        """Return the descriptor, which the caller takes over."""
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def close(self) -> None:
        if (descriptor := self.take()) >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

"""Messages between a process that decodes and the one that reads from it.

A message is a code of one byte, a length, and that many bytes. Nothing is unpickled: bytes of a
stranger may have taken the decoder over.
"""

import json
import socket
import struct
from typing import Any

HEAD = struct.Struct("<cI")
ASK = struct.Struct("<QI")
"""An offset, and how many bytes from there."""

JOB = b"J"
"""To the decoder: a JSON object, the arguments of `conch.audio.intake.decoder_at_work`."""
BYTES = b"B"
"""To the decoder: the bytes that it requested; none at the end of the source."""
WANTED = b"W"
"""From the decoder: it waits for bytes, see ASK."""
FORM = b"F"
"""From the decoder: a JSON object, the fields of `conch.audio.intake.SampleFormat`."""
SAMPLES = b"S"
DONE = b"D"
"""From the decoder: a JSON list of warnings; the audio has ended."""
ERROR = b"E"
"""From the decoder: why the audio cannot be decoded."""
BUSY = b"O"
"""From the process that starts decoders: it could not start one."""
MAX_PAYLOAD = 64 * 2**20
"""Longest payload that is read."""


def code_and_size(head: bytes) -> tuple[bytes, int]:
    """Return the code of a message and the bytes of its payload; raise an EOFError if too many."""
    code, size = HEAD.unpack(head)
    if size > MAX_PAYLOAD:
        raise EOFError
    return code, size


class SocketEnd:
    """One end of a connection, which is closed when it is no longer used."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end

    def send(self, code: bytes, payload: bytes | bytearray = b"") -> None:
        """Send a message; raise an OSError if the other end is gone."""
        self.socket.sendall(HEAD.pack(code, len(payload)))
        self.socket.sendall(payload)

    def send_json(self, code: bytes, value: Any) -> None:
        self.send(code, json.dumps(value).encode())

    def receive(self) -> tuple[bytes, bytes]:
        """Return code and payload of the next message, or raise an EOFError or OSError."""
        code, size = code_and_size(self._exactly(HEAD.size))
        return code, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            got = self.socket.recv_into(view)
            if not got:
                raise EOFError
            view = view[got:]
        return bytes(data)

    def taken(self) -> "SocketEnd":
        """Return the same end, which closing this one leaves open."""
        return SocketEnd(socket.socket(fileno=self.socket.detach()))

    def close(self) -> None:
        self.socket.close()

    def __del__(self) -> None:
        self.close()

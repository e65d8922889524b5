"""Send frames between two processes of one server, over a local socket.

A frame is a header as JSON, with its length in four bytes before it, and the tensors that it lists.
Tensors of bytes have the length of each element in the header.
"""

import json
import logging
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import numpy as np

from conch.component import Array

logger = logging.getLogger(__name__)

Header = Mapping[str, Any]
"""What a frame says, as JSON."""
Received = Callable[[Header, Mapping[str, Array]], None]

_LENGTH = struct.Struct(">I")


class Channel:
    """Both directions of a connection. Frames of one direction keep their order."""

    def __init__(
        self, connection: socket.socket, received: Received, closed: Callable[[], None]
    ) -> None:
        """Take a connection; nothing is read before `start`.

        Args:
            connection: A connected stream socket.
            received: Takes each frame, on the channel's reading thread.
            closed: Is called once, on this thread, when no frame can follow.
        """
        self._socket, self._received, self._closed = connection, received, closed
        self._frames: SimpleQueue[list[bytes | memoryview] | None] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="channel-read", daemon=True)
        self._writer = threading.Thread(target=self._write, name="channel-write", daemon=True)

    def start(self) -> None:
        """Start to read and write."""
        self._writer.start()
        self._reader.start()

    def send(self, header: Header, tensors: Mapping[str, Array] | None = None) -> None:
        """Send a frame, without waiting. A frame to a peer that has gone is dropped."""
        self._frames.put(encoded(header, tensors or {}))

    def close(self) -> None:
        """End the connection. Frames that are not sent yet are dropped."""
        with suppress(OSError):  # the peer was faster
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._reader is not threading.current_thread():
            self._reader.join()

    def _write(self) -> None:
        try:
            while (frame := self._frames.get()) is not None:
                for part in frame:
                    self._socket.sendall(part)
        except OSError:
            logger.debug("the peer of a channel has gone")

    def _read(self) -> None:
        try:
            while (prefix := self._bytes(_LENGTH.size)) is not None:
                header = json.loads(self._bytes(*_LENGTH.unpack(prefix)) or b"{}")
                tensors = {spec["name"]: self._tensor(spec) for spec in header.pop("tensors")}
                self._received(header, tensors)
        except (OSError, EOFError):
            logger.debug("the peer of a channel has gone in the middle of a frame")
        finally:
            with suppress(OSError):  # wakes the writer
                self._socket.shutdown(socket.SHUT_RDWR)
            self._frames.put(None)
            self._writer.join()
            self._socket.close()
            self._closed()

    def _tensor(self, spec: Mapping[str, Any]) -> Array:
        if "lengths" in spec:
            array = np.empty(len(spec["lengths"]), dtype=np.object_)
            array[:] = [self._expected(length) for length in spec["lengths"]]
        else:
            # A copy that may be written to, as a tensor of Triton may.
            array = np.frombuffer(bytearray(self._expected(spec["bytes"])), spec["dtype"])
        return array.reshape(spec["shape"])

    def _expected(self, length: int) -> bytes:
        found = self._bytes(length)
        if found is None:
            raise EOFError
        return found

    def _bytes(self, length: int) -> bytes | None:
        """Return the next bytes; None at the end of the connection.

        Raises:
            EOFError: the connection has ended after some of them.
        """
        parts: list[bytes] = []
        left = length
        while left:
            part = self._socket.recv(left, socket.MSG_WAITALL)
            if not part:
                if parts:
                    raise EOFError
                return None
            parts.append(part)
            left -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def encoded(header: Header, tensors: Mapping[str, Array]) -> list[bytes | memoryview]:
    """Return a frame in parts; the content of tensors is not copied.

    Args:
        header: What the frame says.
        tensors: Arrays by name: numbers, or objects of type bytes.
    """
    specs, parts = [], []
    for name, array in tensors.items():
        spec: dict[str, Any] = {"name": name, "shape": array.shape}
        if array.dtype == np.object_:
            items = array.ravel().tolist()
            spec["lengths"] = [len(item) for item in items]
            parts += items
        else:
            spec |= {"dtype": array.dtype.str, "bytes": array.nbytes}
            parts.append(np.ascontiguousarray(array).data.cast("B"))
        specs.append(spec)
    text = json.dumps({**header, "tensors": specs}).encode()
    return [_LENGTH.pack(len(text)), text, *(part for part in parts if len(part))]
